// Groups whose one query sees the group's members, all heads reading the same member row z_t:
//   a_t = softmax_t(z_t . m_h),   pooled_h = sum_t drop_t a_t z_t,   kept_h = sum_t drop_t a_t.
// A group's members are cut in pieces of fixed length, merged in their order.
#pragma once
#include "rows.h"

namespace {

struct Members {
  const int64_t* ids;        // rows of the members, group by group
  const int64_t* first;      // [groups + 1] pieces of each group
  const int64_t *from, *to;  // [pieces] its members
  const int64_t* group;      // [pieces]
  int64_t groups, pieces;
};

// The state of a piece, per head: top, total, kept, sum [width].
template <class T>
void pool_forward(T* pooled, T* kept, T* lse, T* states, const T* z, const T* queries, const Members& members,
                  int64_t first_query, int64_t heads, int64_t width, const Drop& drop, int64_t threads) {
  const int64_t size = width + 3;
  blocks(threads, members.pieces, [&](int64_t piece) {
    T* state = states + piece * heads * size;
    const int64_t group = members.group[piece];
    for (int64_t h = 0; h < heads; ++h) {
      T* s = state + h * size;
      s[0] = -std::numeric_limits<T>::infinity();
      clear(s + 1, size - 1);
    }
    for (int64_t i = members.from[piece]; i < members.to[piece]; ++i) {
      const T* x = z + members.ids[i] * width;
      for (int64_t h = 0; h < heads; ++h) {
        T* s = state + h * size;
        const T score = dot(x, queries + (group * heads + h) * width, width);
        if (!(score <= s[0])) {
          const T fade = exponential_of<T>(s[0] - score);
          for (int64_t c = 1; c < size; ++c) s[c] *= fade;
          s[0] = score;
        }
        const T weight = exponential_of<T>(score - s[0]);
        const T factor = weight * drop.keep<T>(drop.row(first_query + group, heads, h), members.ids[i]);
        s[1] += weight, s[2] += factor;
        add(s + 3, factor, x, width);
      }
    }
  });
  blocks(threads, members.groups, [&](int64_t group) {
    for (int64_t h = 0; h < heads; ++h) {
      T *sum = pooled + (group * heads + h) * width, top = -std::numeric_limits<T>::infinity(), total = 0, factor = 0;
      clear(sum, width);
      for (int64_t piece = members.first[group]; piece < members.first[group + 1]; ++piece) {
        const T other = states[(piece * heads + h) * size];
        top = other > top || other != other ? other : top;
      }
      for (int64_t piece = members.first[group]; piece < members.first[group + 1]; ++piece) {
        const T* s = states + (piece * heads + h) * size;
        const T fade = exponential_of<T>(s[0] - top);
        total += fade * s[1], factor += fade * s[2];
        add(sum, fade, s + 3, width);
      }
      const T share = total == 0 ? T(0) : T(1) / total;
      for (int64_t c = 0; c < width; ++c) sum[c] *= share;
      kept[group * heads + h] = factor * share;
      lse[group * heads + h] = total == 0 ? T(0) : top + std::log(total);
    }
  });
}

// grad_z += what flows to the members; partial is [pieces, heads, width].
template <class T>
void pool_backward(T* grad_z, T* grad_queries, T* partial, const T* grad_pooled, const T* grad_kept, const T* pooled,
                   const T* kept, const T* lse, const T* z, const T* queries, const Members& members,
                   int64_t first_query, int64_t heads, int64_t width, const Drop& drop, int64_t threads) {
  blocks(threads, members.pieces, [&](int64_t piece) {
    const int64_t group = members.group[piece];
    T* sums = partial + piece * heads * width;
    clear(sums, heads * width);
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = group * heads + h;
      const T *query = queries + at * width, *grad = grad_pooled + at * width;
      const T delta = dot(grad, pooled + at * width, width) + grad_kept[at] * kept[at];
      const uint32_t row = drop.row(first_query + group, heads, h);
      for (int64_t i = members.from[piece]; i < members.to[piece]; ++i) {
        const T* x = z + members.ids[i] * width;
        const T weight = exponential_of<T>(dot(x, query, width) - lse[at]), keep = drop.keep<T>(row, members.ids[i]);
        const T by_score = weight * ((dot(grad, x, width) + grad_kept[at]) * keep - delta), by_sum = weight * keep;
        T* to = grad_z + members.ids[i] * width;
        T* sum = sums + h * width;
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          to[c] += by_sum * grad[c] + by_score * query[c];
          sum[c] += by_score * x[c];
        }
      }
    }
  });
  blocks(threads, members.groups, [&](int64_t group) {
    T* to = grad_queries + group * heads * width;
    clear(to, heads * width);
    for (int64_t piece = members.first[group]; piece < members.first[group + 1]; ++piece)
      add(to, T(1), partial + piece * heads * width, heads * width);
  });
}

}  // namespace
