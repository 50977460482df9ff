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
  // Calls body with the ids of at most `size` members at a time, and those of the members after them.
  template <class Body> INLINE void tiles(int64_t piece, int64_t size, const Body& body) const {
    const int64_t end = to[piece];
    for (int64_t at = from[piece]; at < end; at += size) {
      const int64_t n = end - at < size ? end - at : size;
      body(ids + at, n, ids + (at + 2 * size <= to[pieces - 1] ? at + size : at));
    }
  }
};

// Scores, later weights, of a tile of members for one head.
template <class T> struct PoolTile {
  T weight[kMembers], keep[kMembers];
  T along[kMembers];  // backward: gradient . member, later the gradient of the score

  // weight holds scores and becomes e^(score - top)
  INLINE void weigh(int64_t n, T top) {
    for (int64_t i = n; i % Lanes<T>::W; ++i) weight[i] = 0;
    exponentials(weight, n, T(1), top);
  }
};

// The state of a piece, per head: top, total, kept, sum [width].
template <class T, class Width>
void pool_forward(T* pooled, T* kept, T* lse, T* states, const T* z, const T* queries, const Members& members,
                  int64_t first_query, int64_t heads, Width width, const Drop& drop, int64_t threads) {
  const int64_t size = width + 3;
  blocks(threads, members.pieces, [&](int64_t piece) {
    T* state = states + piece * heads * size;
    const int64_t group = members.group[piece];
    for (int64_t h = 0; h < heads; ++h) {
      T* s = state + h * size;
      s[0] = -std::numeric_limits<T>::infinity();
      clear(s + 1, size - 1);
    }
    Scratch<PoolTile<T>> tiles(heads);
    members.tiles(piece, kMembers, [&](const int64_t* ids, int64_t n, const int64_t* later) {
      for (int64_t i = 0; i < n; ++i) {
        expect(z + later[i] * width, width);
        for (int64_t h = 0; h < heads; ++h)
          tiles.at[h].weight[i] = dot(z + ids[i] * width, queries + (group * heads + h) * width, width);
      }
      for (int64_t h = 0; h < heads; ++h) {
        PoolTile<T>& tile = tiles.at[h];
        T *s = state + h * size, top = tile.weight[0];
        for (int64_t i = 1; i < n; ++i) top = tile.weight[i] <= top ? top : tile.weight[i];
        raise(s, top, size);
        tile.weigh(n, s[0]);
        keep_keys(tile.keep, drop, drop.row(first_query + group, heads, h), ids, n);
        for (int64_t i = 0; i < n; ++i) s[1] += tile.weight[i], s[2] += tile.weight[i] *= tile.keep[i];
      }
      for (int64_t i = 0; i < n; ++i)
        for (int64_t h = 0; h < heads; ++h)
          add(state + h * size + 3, tiles.at[h].weight[i], z + ids[i] * width, width);
    });
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
template <class T, class Width>
void pool_backward(T* grad_z, T* grad_queries, T* partial, const T* grad_pooled, const T* grad_kept, const T* pooled,
                   const T* kept, const T* lse, const T* z, const T* queries, const Members& members,
                   int64_t first_query, int64_t heads, Width width, const Drop& drop, int64_t threads) {
  blocks(threads, members.pieces, [&](int64_t piece) {
    const int64_t group = members.group[piece];
    const T *query = queries + group * heads * width, *grad = grad_pooled + group * heads * width;
    T* sums = partial + piece * heads * width;
    clear(sums, heads * width);
    Scratch<PoolTile<T>> tiles(heads);
    members.tiles(piece, kMembers, [&](const int64_t* ids, int64_t n, const int64_t* later) {
      for (int64_t i = 0; i < n; ++i) {
        const int64_t next = later[i] * width;
        expect(z + next, width), expect(grad_z + next, width);
        for (int64_t h = 0; h < heads; ++h) {
          const T* x = z + ids[i] * width;
          tiles.at[h].weight[i] = dot(x, query + h * width, width);
          tiles.at[h].along[i] = dot(x, grad + h * width, width);
        }
      }
      for (int64_t h = 0; h < heads; ++h) {
        PoolTile<T>& tile = tiles.at[h];
        const int64_t at = group * heads + h;
        const T delta = dot(grad + h * width, pooled + at * width, width) + grad_kept[at] * kept[at];
        tile.weigh(n, lse[at]);
        keep_keys(tile.keep, drop, drop.row(first_query + group, heads, h), ids, n);
        for (int64_t i = 0; i < n; ++i) {
          tile.along[i] = tile.weight[i] * ((tile.along[i] + grad_kept[at]) * tile.keep[i] - delta);
          tile.weight[i] *= tile.keep[i];
        }
      }
      for (int64_t i = 0; i < n; ++i)
        for (int64_t h = 0; h < heads; ++h) {
          const T by_sum = tiles.at[h].weight[i], by_score = tiles.at[h].along[i];
          const T *x = z + ids[i] * width, *m = query + h * width, *g = grad + h * width;
          T *to = grad_z + ids[i] * width, *sum = sums + h * width;
#pragma omp simd
          for (int64_t c = 0; c < width; ++c) {
            to[c] += by_sum * g[c] + by_score * m[c];
            sum[c] += by_score * x[c];
          }
        }
    });
  });
  blocks(threads, members.groups, [&](int64_t group) {
    T* to = grad_queries + group * heads * width;
    clear(to, heads * width);
    for (int64_t piece = members.first[group]; piece < members.first[group + 1]; ++piece)
      add(to, T(1), partial + piece * heads * width, heads * width);
  });
}

}  // namespace
