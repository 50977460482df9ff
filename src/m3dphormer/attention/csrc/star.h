// A centre and its members, both ways in one pass over the members (the mask c4). A member u of centre p has
// two keys, itself and p: the weight of itself is sigmoid(q_u . (k_u - k_p)). A centre sees its members, and
// itself where `loops`. Members are cut in pieces of fixed length, merged in their order.
#pragma once
#include "pool.h"

namespace {

struct Star {
  Members members;
  int64_t first_centre;  // row of the first centre
  int64_t loops, heads;
  double scale;
};

// Scores and weights of a tile of members for one head.
template <class T> struct StarTile {
  T own[kMembers];          // weight that a member gives itself; 1 - own goes to its centre
  T seen[kMembers];         // score of the member for the centre, later its weight
  T keep_own[kMembers];     // dropout of member -> itself,
  T keep_centre[kMembers];  // of member -> centre,
  T keep_seen[kMembers];    // of centre -> member
  T along_own[kMembers], along_centre[kMembers], along_seen[kMembers];  // backward: gradient . value

  // Scores of four members from i on, whose heads begin at u; p: where their centre's head begins.
  template <class Width>
  INLINE void score(int64_t i, const int64_t* u, const T* q, const T* k, int64_t p, Width width) {
    constexpr int W = Lanes<T>::W;
    Vec<T> owns[4] = {}, seens[4] = {};
    int64_t c = 0;
    for (; c + W <= width; c += W)
      for (int r = 0; r < 4; ++r) {
        const Vec<T> key = load(k + u[r] + c);
        owns[r] += load(q + u[r] + c) * (key - load(k + p + c));
        seens[r] += load(q + p + c) * key;
      }
    sum4(own + i, owns[0], owns[1], owns[2], owns[3]);
    sum4(seen + i, seens[0], seens[1], seens[2], seens[3]);
    for (; c < width; ++c)
      for (int r = 0; r < 4; ++r) {
        own[i + r] += q[u[r] + c] * (k[u[r] + c] - k[p + c]);
        seen[i + r] += q[p + c] * k[u[r] + c];
      }
  }

  // The same of gradient . value.
  template <class Width>
  INLINE void along(int64_t i, const int64_t* u, const T* grad, const T* v, int64_t p, Width width) {
    constexpr int W = Lanes<T>::W;
    Vec<T> owns[4] = {}, centres[4] = {}, seens[4] = {};
    int64_t c = 0;
    for (; c + W <= width; c += W)
      for (int r = 0; r < 4; ++r) {
        const Vec<T> g = load(grad + u[r] + c), value = load(v + u[r] + c);
        owns[r] += g * value;
        centres[r] += g * load(v + p + c);
        seens[r] += load(grad + p + c) * value;
      }
    sum4(along_own + i, owns[0], owns[1], owns[2], owns[3]);
    sum4(along_centre + i, centres[0], centres[1], centres[2], centres[3]);
    sum4(along_seen + i, seens[0], seens[1], seens[2], seens[3]);
    for (; c < width; ++c)
      for (int r = 0; r < 4; ++r) {
        along_own[i + r] += grad[u[r] + c] * v[u[r] + c];
        along_centre[i + r] += grad[u[r] + c] * v[p + c];
        along_seen[i + r] += grad[p + c] * v[u[r] + c];
      }
  }

  INLINE void drop(const Drop& drop, const int64_t* ids, int64_t n, int64_t centre, int64_t heads, int64_t head) {
    if (drop.active) return keep_members(keep_own, keep_centre, keep_seen, drop, ids, n, centre, heads, head);
    for (int64_t i = 0; i < n; ++i) keep_own[i] = keep_centre[i] = keep_seen[i] = T(1);
  }

  // own holds q . (k - k_p) and becomes sigmoid(scale own)
  INLINE void sigmoid(int64_t n, T scale) {
    for (int64_t i = n; i % Lanes<T>::W; ++i) own[i] = 0;
    exponentials(own, n, -scale, T(0));
    for (int64_t i = 0; i < n; ++i) own[i] = T(1) / (T(1) + own[i]);
  }

  // seen holds scores and becomes e^(scale seen - top)
  INLINE void weigh(int64_t n, T scale, T top) {
    for (int64_t i = n; i % Lanes<T>::W; ++i) seen[i] = 0;
    exponentials(seen, n, scale, top / scale);
  }
};

template <class T, class Width>
void star_forward(T* out, T* lse, T* states, const T* q, const T* k, const T* v, const Star& star, Width width,
                  const Drop& drop, int64_t threads) {
  const int64_t heads = star.heads, d = heads * width, size = width + 2;
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
    const T* vp = v + centre * d;
    begin(state);
    Scratch<StarTile<T>> tiles(heads);
    members.tiles(piece, kMembers, [&](const int64_t* ids, int64_t n, const int64_t* later) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t next = later[i] * d;
        expect(q + next, d), expect(k + next, d), expect(v + next, d), expect(out + next, d);
      }
      for (int64_t i = 0; i < n; i += 4) {
        int64_t u[4];
        for (int r = 0; r < 4; ++r) u[r] = ids[i + r < n ? i + r : n - 1] * d;
        for (int64_t h = 0, p = centre * d; h < heads; ++h, p += width) {
          tiles.at[h].score(i, u, q, k, p, width);
          for (int r = 0; r < 4; ++r) u[r] += width;
        }
      }
      for (int64_t h = 0; h < heads; ++h) {
        StarTile<T>& tile = tiles.at[h];
        T *s = state + h * size, top = tile.seen[0];
        for (int64_t i = 1; i < n; ++i) top = tile.seen[i] > top ? tile.seen[i] : top;
        raise(s, scale * top, size);
        tile.drop(drop, ids, n, centre, heads, h);
        tile.sigmoid(n, scale);
        tile.weigh(n, scale, s[0]);
      }
      for (int64_t i = 0; i < n; ++i)
        for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
          const StarTile<T>& tile = tiles.at[h];
          const T *vu = v + ids[i] * d + at, own = tile.own[i];
          const T by_own = own * tile.keep_own[i], by_centre = (T(1) - own) * tile.keep_centre[i];
          const T weight = tile.seen[i] * tile.keep_seen[i];
          T *to = out + ids[i] * d + at, *s = state + h * size;
          s[1] += tile.seen[i];
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) {
            to[c] = by_own * vu[c] + by_centre * vp[at + c];
            s[2 + c] += weight * vu[c];
          }
        }
    });
  });
  blocks(threads, members.groups, [&](int64_t group) {
    const int64_t centre = star.first_centre + group;
    Scratch<T> own(heads * size);
    begin(own.at);
    for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
      T* s = own.at + h * size;
      if (star.loops) {
        s[0] = scale * dot(q + centre * d + at, k + centre * d + at, width);
        s[1] = T(1);
        add(s + 2, drop.keep<T>(drop.row(centre, heads, h), centre), v + centre * d + at, width);
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
template <class T, class Width>
void star_backward(T* grad_q, T* grad_k, T* grad_v, T* partial, const T* grad, const T* out, const T* lse, const T* q,
                   const T* k, const T* v, const Star& star, Width width, const Drop& drop, int64_t threads) {
  const int64_t heads = star.heads, d = heads * width;
  const T scale = T(star.scale);
  const Members& members = star.members;
  blocks(threads, members.pieces, [&](int64_t piece) {
    const int64_t group = members.group[piece], centre = star.first_centre + group;
    const T *qp = q + centre * d, *kp = k + centre * d, *gp = grad + centre * d;
    T *sum_q = partial + piece * 3 * d, *sum_k = sum_q + d, *sum_v = sum_k + d;
    clear(sum_q, 3 * d);
    Scratch<StarTile<T>> tiles(heads);
    members.tiles(piece, kMembers, [&](const int64_t* ids, int64_t n, const int64_t* later) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t next = later[i] * d;
        expect(q + next, d), expect(k + next, d), expect(v + next, d), expect(grad + next, d);
        expect(grad_q + next, d), expect(grad_k + next, d), expect(grad_v + next, d);
      }
      for (int64_t i = 0; i < n; i += 4) {
        int64_t u[4];
        for (int r = 0; r < 4; ++r) u[r] = ids[i + r < n ? i + r : n - 1] * d;
        for (int64_t h = 0, p = centre * d; h < heads; ++h, p += width) {
          tiles.at[h].score(i, u, q, k, p, width);
          tiles.at[h].along(i, u, grad, v, p, width);
          for (int r = 0; r < 4; ++r) u[r] += width;
        }
      }
      for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
        StarTile<T>& tile = tiles.at[h];
        const T delta = dot(gp + at, out + centre * d + at, width);
        tile.drop(drop, ids, n, centre, heads, h);
        tile.sigmoid(n, scale);
        tile.weigh(n, scale, lse[group * heads + h]);
        for (int64_t i = 0; i < n; ++i) tile.along_seen[i] = tile.along_seen[i] * tile.keep_seen[i] - delta;
      }
      for (int64_t i = 0; i < n; ++i)
        for (int64_t h = 0, at = 0; h < heads; ++h, at += width) {
          const StarTile<T>& tile = tiles.at[h];
          const int64_t u = ids[i] * d + at;
          const T *qu = q + u, *ku = k + u, *gu = grad + u, own = tile.own[i], weight = tile.seen[i];
          const T by_own = own * tile.keep_own[i], by_centre = (T(1) - own) * tile.keep_centre[i];
          const T by_weight = tile.along_own[i] * tile.keep_own[i] - tile.along_centre[i] * tile.keep_centre[i];
          const T ds = by_weight * own * (T(1) - own) * scale;
          const T dt = weight * tile.along_seen[i] * scale, by_seen = weight * tile.keep_seen[i];
          T *to_q = grad_q + u, *to_k = grad_k + u, *to_v = grad_v + u;
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) {
            to_q[c] = ds * (ku[c] - kp[at + c]);
            to_k[c] = ds * qu[c] + dt * qp[at + c];
            to_v[c] = by_own * gu[c] + by_seen * gp[at + c];
            sum_q[at + c] += dt * ku[c];
            sum_k[at + c] -= ds * qu[c];
            sum_v[at + c] += by_centre * gu[c];
          }
        }
    });
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
