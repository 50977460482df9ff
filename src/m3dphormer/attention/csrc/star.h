// A centre and its members, both ways in one pass over the members (the mask c4). A member u of centre p has
// two keys, itself and p: the weight of itself is sigmoid(q_u . (k_u - k_p)). A centre sees its members, and
// itself where `loops`. Members are cut in pieces of fixed length, merged in their order.
#pragma once
#include "pool.h"

namespace {

struct Star {
  Members members;
  int64_t first_centre;  // row of the first centre
  int64_t loops, heads, width;
  double scale;
};

template <class T> INLINE T difference(const T* q, const T* k, const T* other, int64_t n) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < n; ++c) sum += q[c] * (k[c] - other[c]);
  return sum;
}

// Fold a key into the softmax of a centre's head: s = top, total, sum [width].
template <class T> INLINE void fold(T* s, T score, T keep, const T* v, int64_t width) {
  if (!(score <= s[0])) {
    const T fade = exponential_of<T>(s[0] - score);
    for (int64_t c = 1; c < width + 2; ++c) s[c] *= fade;
    s[0] = score;
  }
  const T weight = exponential_of<T>(score - s[0]);
  s[1] += weight;
  add(s + 2, weight * keep, v, width);
}

template <class T>
void star_forward(T* out, T* lse, T* states, const T* q, const T* k, const T* v, const Star& star, const Drop& drop,
                  int64_t threads) {
  const int64_t heads = star.heads, width = star.width, d = heads * width, size = width + 2;
  const T scale = T(star.scale);
  const Members& members = star.members;
  const auto begin = [&](T* state) {
    for (int64_t h = 0; h < heads; ++h) {
      state[h * size] = -std::numeric_limits<T>::infinity();
      clear(state + h * size + 1, size - 1);
    }
  };
  blocks(threads, members.pieces, [&](int64_t piece) {
    T* state = states + piece * heads * size;
    const int64_t centre = star.first_centre + members.group[piece];
    const T *qp = q + centre * d, *kp = k + centre * d, *vp = v + centre * d;
    begin(state);
    for (int64_t i = members.from[piece]; i < members.to[piece]; ++i) {
      const int64_t u = members.ids[i];
      const T *qu = q + u * d, *ku = k + u * d, *vu = v + u * d;
      for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
        const T own = T(1) / (T(1) + exponential_of<T>(-scale * difference(qu + at, ku + at, kp + at, width)));
        const uint32_t row = drop.row(u, heads, h);
        const T by_own = own * drop.keep<T>(row, u), by_centre = (T(1) - own) * drop.keep<T>(row, centre);
        T* to = out + u * d + at;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) to[c] = by_own * vu[at + c] + by_centre * vp[at + c];
        const T keep = drop.keep<T>(drop.row(centre, heads, h), u);
        fold(state + h * size, scale * dot(qp + at, ku + at, width), keep, vu + at, width);
      }
    }
  });
  blocks(threads, members.groups, [&](int64_t group) {
    const int64_t centre = star.first_centre + group;
    Scratch<T> own(heads * size);
    begin(own.at);
    for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
      T* s = own.at + h * size;
      if (star.loops) {
        const T keep = drop.keep<T>(drop.row(centre, heads, h), centre);
        fold(s, scale * dot(q + centre * d + at, k + centre * d + at, width), keep, v + centre * d + at, width);
      }
      for (int64_t piece = members.first[group]; piece < members.first[group + 1]; ++piece) {
        const T* other = states + (piece * heads + h) * size;
        const T top = s[0] > other[0] ? s[0] : other[0];
        const T mine = exponential_of<T>(s[0] - top), theirs = exponential_of<T>(other[0] - top);
        for (int64_t c = 1; c < size; ++c) s[c] = mine * s[c] + theirs * other[c];
        s[0] = top;
      }
      const T share = s[1] == 0 ? T(0) : T(1) / s[1];
      for (int64_t c = 0; c < width; ++c) out[centre * d + at + c] = s[2 + c] * share;
      lse[group * heads + h] = s[1] == 0 ? T(0) : s[0] + std::log(s[1]);
    }
  });
}

// partial is [pieces, 3, heads * width]: a piece's share of its centre's gradients of q, k and v.
template <class T>
void star_backward(T* grad_q, T* grad_k, T* grad_v, T* partial, const T* grad, const T* out, const T* lse, const T* q,
                   const T* k, const T* v, const Star& star, const Drop& drop, int64_t threads) {
  const int64_t heads = star.heads, width = star.width, d = heads * width;
  const T scale = T(star.scale);
  const Members& members = star.members;
  blocks(threads, members.pieces, [&](int64_t piece) {
    const int64_t group = members.group[piece], centre = star.first_centre + group;
    const T *qp = q + centre * d, *kp = k + centre * d, *vp = v + centre * d, *gp = grad + centre * d;
    T *sum_q = partial + piece * 3 * d, *sum_k = sum_q + d, *sum_v = sum_k + d;
    clear(sum_q, 3 * d);
    for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
      const T delta = dot(gp + at, out + centre * d + at, width), log_sum = lse[group * heads + h];
      const uint32_t centre_row = drop.row(centre, heads, h);
      for (int64_t i = members.from[piece]; i < members.to[piece]; ++i) {
        const int64_t u = members.ids[i];
        const T *qu = q + u * d + at, *ku = k + u * d + at, *vu = v + u * d + at, *gu = grad + u * d + at;
        T score = 0, along_own = 0, along_centre = 0, seen = 0, along = 0;
#pragma omp simd reduction(+ : score, along_own, along_centre, seen, along)
        for (int64_t c = 0; c < width; ++c) {
          score += qu[c] * (ku[c] - kp[at + c]);
          along_own += gu[c] * vu[c];
          along_centre += gu[c] * vp[at + c];
          seen += qp[at + c] * ku[c];
          along += gp[at + c] * vu[c];
        }
        const T own = T(1) / (T(1) + exponential_of<T>(-scale * score));
        const uint32_t row = drop.row(u, heads, h);
        const T keep_own = drop.keep<T>(row, u), keep_centre = drop.keep<T>(row, centre);
        const T ds = (along_own * keep_own - along_centre * keep_centre) * own * (T(1) - own) * scale;
        const T by_own = own * keep_own, by_centre = (T(1) - own) * keep_centre;
        const T weight = exponential_of<T>(scale * seen - log_sum), keep = drop.keep<T>(centre_row, u);
        const T dt = weight * (along * keep - delta) * scale, by_member = weight * keep;
        T *to_q = grad_q + u * d + at, *to_k = grad_k + u * d + at, *to_v = grad_v + u * d + at;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          to_q[c] = ds * (ku[c] - kp[at + c]);
          to_k[c] = ds * qu[c] + dt * qp[at + c];
          to_v[c] = by_own * gu[c] + by_member * gp[at + c];
          sum_q[at + c] += dt * ku[c];
          sum_k[at + c] -= ds * qu[c];
          sum_v[at + c] += by_centre * gu[c];
        }
      }
    }
  });
  blocks(threads, members.groups, [&](int64_t group) {
    const int64_t centre = star.first_centre + group, first = centre * d;
    T *to_q = grad_q + first, *to_k = grad_k + first, *to_v = grad_v + first;
    clear(to_q, d), clear(to_k, d), clear(to_v, d);
    for (int64_t piece = members.first[group]; piece < members.first[group + 1]; ++piece) {
      const T* sums = partial + piece * 3 * d;
      add(to_q, T(1), sums, d), add(to_k, T(1), sums + d, d), add(to_v, T(1), sums + 2 * d, d);
    }
    for (int64_t h = 0, at = first; star.loops && h < heads; ++h, at += width) {
      const T weight = exponential_of<T>(scale * dot(q + at, k + at, width) - lse[group * heads + h]);
      const T keep = drop.keep<T>(drop.row(centre, heads, h), centre);
      const T delta = dot(grad + at, out + at, width);
      const T dt = weight * (dot(grad + at, v + at, width) * keep - delta) * scale;
      const int64_t inside = at - first;
      add(to_q + inside, dt, k + at, width);
      add(to_k + inside, dt, q + at, width);
      add(to_v + inside, weight * keep, grad + at, width);
    }
  });
}

}  // namespace
