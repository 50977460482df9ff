// A tile is up to kTile entries of one CSR row. Two products carry all the traffic:
//   scores:      s[h, j] = x[h] . Y[idx[j], h]          (one row against the tile's rows)
//   accumulate:  acc[h] += sum_j w[h, j] Y[idx[j], h]    (the tile's rows, weighed)
// for all heads at once, so that a node's row of H * d_h numbers is read in one piece.
// D is d_h in vectors where that is a whole, known number; 0 means any d_h.
#pragma once
#include "problem.h"
#include "vector.h"

namespace {

constexpr int kTile = 32;
constexpr int kBackTile = 16;  // backward reads a tile's rows twice: they must stay in the first cache

// Rows to bring into the cache while a tile is at work: with its entry j, row idx[j] of Y. Rows
// behind the tile are the next tile's, or the next row's.
template <class T> struct Ahead {
  const T* Y;
  const int64_t* idx;
  int64_t n, stride;

  INLINE void fetch(int j) const {
    if (j >= n) return;
    const char* row = reinterpret_cast<const char*>(Y + idx[j] * stride);
    for (int64_t byte = 0; byte < stride * int64_t(sizeof(T)); byte += 64) __builtin_prefetch(row + byte);
  }
};

// As many rows behind a tile of n entries at e as it has itself, where the mask goes on so far.
template <class T>
INLINE Ahead<T> behind(const Problem& p, const T* Y, const int64_t* idx, int64_t e, int n, int64_t stride) {
  const int64_t left = p.entries - e - n;
  return {Y, idx + n, left < n ? left : n, stride};
}

// Entries j to j + R of scores; the R dot products of a head are summed across lanes together.
template <class T, int D, int R>
INLINE void scores_of(T* s, const T* x, const T* Y, const int64_t* idx, int64_t heads, int64_t width) {
  constexpr int W = Lanes<T>::W;
  const int64_t whole = D ? D : width / W;
  const T* row[R];
  for (int i = 0; i < R; ++i) row[i] = Y + idx[i] * heads * width;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t at = h * width;
    Vec<T> part[4] = {};
    for (int64_t c = 0; c < whole; ++c) {
      const Vec<T> mine = load(x + at + c * W);
      for (int i = 0; i < R; ++i) part[i] += mine * load(row[i] + at + c * W);
    }
    T* out = s + h * kTile;
    sum4(out, part[0], part[1], part[2], part[3]);
    if (D == 0)
      for (int64_t c = whole * W; c < width; ++c)
        for (int i = 0; i < R; ++i) out[i] += x[at + c] * row[i][at + c];
  }
}

template <class T, int D>
INLINE void scores(T* s, const T* x, const T* Y, const int64_t* idx, int n, int64_t heads, int64_t width,
                   Ahead<T> ahead) {
  int j = 0;
  for (; j + 4 <= n; j += 4) {
    for (int i = 0; i < 4; ++i) ahead.fetch(j + i);
    scores_of<T, D, 4>(s + j, x, Y, idx + j, heads, width);
  }
  for (int i = j; i < n; ++i) ahead.fetch(i);
  if (n - j == 1) scores_of<T, D, 1>(s + j, x, Y, idx + j, heads, width);
  if (n - j == 2) scores_of<T, D, 2>(s + j, x, Y, idx + j, heads, width);
  if (n - j == 3) scores_of<T, D, 3>(s + j, x, Y, idx + j, heads, width);
}

// G heads from h on, their sums held in registers.
template <class T, int D, int G>
INLINE void accumulate_heads(T* acc, const T* w, const T* Y, const int64_t* idx, int n, int64_t stride, int64_t h,
                             Ahead<T> ahead) {
  constexpr int W = Lanes<T>::W;
  Vec<T> held[G * D];
  for (int c = 0; c < G * D; ++c) held[c] = load(acc + h * D * W + c * W);
  for (int j = 0; j < n; ++j) {
    const T* row = Y + idx[j] * stride + h * D * W;
    ahead.fetch(j);
    for (int g = 0; g < G; ++g) {
      const Vec<T> weight = all<T>(w[(h + g) * kTile + j]);
      for (int c = 0; c < D; ++c) held[g * D + c] += weight * load(row + (g * D + c) * W);
    }
  }
  for (int c = 0; c < G * D; ++c) store(acc + h * D * W + c * W, held[c]);
}

template <class T, int D>
INLINE void accumulate(T* acc, const T* w, const T* Y, const int64_t* idx, int n, int64_t heads, int64_t width,
                       Ahead<T> ahead) {
  constexpr int W = Lanes<T>::W;
  const int64_t stride = heads * width;
  if constexpr (D > 0) {
    constexpr int G = D >= 8 ? 1 : 8 / D;
    int64_t h = 0;
    for (; h + G <= heads; h += G, ahead.n = 0) accumulate_heads<T, D, G>(acc, w, Y, idx, n, stride, h, ahead);
    for (; h < heads; ++h, ahead.n = 0) accumulate_heads<T, D, 1>(acc, w, Y, idx, n, stride, h, ahead);
  } else {
      for (int j = 0; j < n; ++j) {
      const T* row = Y + idx[j] * stride;
      ahead.fetch(j);
      for (int64_t h = 0; h < heads; ++h) {
        const T weight = w[h * kTile + j];
        const int64_t at = h * width;
        int64_t c = 0;
        for (; c + W <= width; c += W) store(acc + at + c, load(acc + at + c) + all<T>(weight) * load(row + at + c));
        for (; c < width; ++c) acc[at + c] += weight * row[at + c];
      }
    }
  }
}

// out[h, j] = Y[idx[j], h] for Y of [T, H].
template <class T>
INLINE void gather(T* out, const T* Y, const int64_t* idx, int n, int64_t heads) {
#if defined(M3D_SHUFFLE)
  if constexpr (sizeof(T) == 4) {
    if (heads % 4 == 0) {
      for (int j = 0; j < n; j += 4) {
        const T* row[4];
        for (int i = 0; i < 4; ++i) row[i] = Y + idx[j + i < n ? j + i : n - 1] * heads;
        for (int64_t h = 0; h < heads; h += 4) transpose4(out + h * kTile + j, kTile, row[0] + h, row[1] + h, row[2] + h, row[3] + h);
      }
      return;
    }
  }
#endif
  for (int j = 0; j < n; ++j)
    for (int64_t h = 0; h < heads; ++h) out[h * kTile + j] = Y[idx[j] * heads + h];
}

// out[j, h] = x[h, j].
template <class T> INLINE void scatter(T* out, const T* x, int n, int64_t heads) {
  int j = 0;
#if defined(M3D_SHUFFLE)
  if constexpr (sizeof(T) == 4)
    for (; heads % 4 == 0 && j + 4 <= n; j += 4)
      for (int64_t h = 0; h < heads; h += 4) {
        const T* row = x + h * kTile + j;
        transpose4(out + j * heads + h, heads, row, row + kTile, row + 2 * kTile, row + 3 * kTile);
      }
#endif
  for (; j < n; ++j)
    for (int64_t h = 0; h < heads; ++h) out[j * heads + h] = x[h * kTile + j];
}

// The few numbers that a node has one of a head.
template <class T> INLINE void add_heads(T* into, const T* from, int64_t heads) {
  typedef T Four __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T)), may_alias));
  int64_t h = 0;
  for (; h + 4 <= heads; h += 4) *reinterpret_cast<Four*>(into + h) += *reinterpret_cast<const Four*>(from + h);
  for (; h < heads; ++h) into[h] += from[h];
}

template <class T> INLINE void add(T* into, const T* from, int64_t n) {
  for (int64_t c = 0; c < n; ++c) into[c] += from[c];
}

}  // namespace
