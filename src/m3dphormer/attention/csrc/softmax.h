// The online softmax of a row, tile by tile. With m the largest score so far, per head:
//   l = sum_j e^(s_j - m),   acc = sum_j drop_j e^(s_j - m) v_j,
// both rescaled by e^(m_old - m_new) when a tile brings a larger score; then
//   out = acc / l,   lse = m + log l.
#pragma once
#include "exp.h"
#include "hash.h"
#include "tile.h"

namespace {

// The state of a row: m [H], l [H], acc [H, d_h].
template <class T> struct Softmax {
  T *top, *total, *acc;

  INLINE Softmax(const Problem& p, void* state)
      : top(static_cast<T*>(state)), total(top + p.heads), acc(total + p.heads) {}

  INLINE void clear(const Problem& p) {
    for (int64_t h = 0; h < p.heads; ++h) top[h] = -std::numeric_limits<T>::infinity(), total[h] = 0;
    for (int64_t c = 0; c < p.heads * p.width_v; ++c) acc[c] = 0;
  }

  static size_t bytes(const Problem& p) { return (2 + p.width_v) * p.heads * sizeof(T); }
};

template <class T> INLINE void scale_by(T* x, T factor, int64_t n) {
  for (int64_t c = 0; c < n; ++c) x[c] *= factor;
}

INLINE void key_hashes(uint32_t* hashes, const int64_t* keys, int n) {
  for (int j = 0; j < n; ++j) hashes[j] = uint32_t(keys[j]) * kGolden;
}

// Scores s [H, kTile], to be scaled, become the weights of the tile, and the row's state follows the new maximum.
template <class T>
INLINE void weigh(const Problem& p, Softmax<T>& row, T* s, T scale, const int64_t* keys, int n, const uint32_t* rows) {
  constexpr int W = Lanes<T>::W;
  uint32_t hashes[kTile];
  if (p.dropout) key_hashes(hashes, keys, n);
  for (int64_t h = 0; h < p.heads; ++h) {
    T* x = s + h * kTile;
    Vec<T> high = all<T>(row.top[h]);
    for (int j = 0; j < n; j += W) {
      const Vec<T> here = lane<T>() < n - j ? load(x + j) * scale : all<T>(-std::numeric_limits<T>::infinity());
      store(x + j, here);
      high = larger<T>(here, high);
    }
    const T top = largest<T>(high), before = row.top[h];
    if (top != before && row.total[h] != 0) {
      const T fade = exponential_of<T>(before - top);
      row.total[h] *= fade;
      scale_by(row.acc + h * p.width_v, fade, p.width_v);
    }
    row.top[h] = top;
    Vec<T> total = {};
    for (int j = 0; j < n; j += W) {
      Vec<T> weight = exponential<T>(load(x + j) - top);
      weight = lane<T>() < n - j ? weight : Vec<T>{};  // -inf less -inf is no weight
      total += weight;
      if (p.dropout) weight *= kept<T>(p, rows[h] - Hash<T>{}, load_hash<T>(hashes + j));
      store(x + j, weight);
    }
    row.total[h] += sum<T>(total);
  }
}

template <class T> void merge_softmax(const Problem& p, void* into, const void* from) {
  Softmax<T> x(p, into), y(p, const_cast<void*>(from));
  for (int64_t h = 0; h < p.heads; ++h) {
    const T top = x.top[h] > y.top[h] ? x.top[h] : y.top[h];
    const T fade_x = exponential_of<T>(x.top[h] - top), fade_y = exponential_of<T>(y.top[h] - top);
    for (int64_t c = h * p.width_v; c < (h + 1) * p.width_v; ++c) x.acc[c] = x.acc[c] * fade_x + y.acc[c] * fade_y;
    x.total[h] = x.total[h] * fade_x + y.total[h] * fade_y;
    x.top[h] = top;
  }
}

template <class T> void finish_softmax(const Problem& p, int64_t row, void* state) {
  Softmax<T> x(p, state);
  T* out = static_cast<T*>(p.out) + row * p.heads * p.width_v;
  T* lse = static_cast<T*>(p.lse) + row * p.heads;
  for (int64_t h = 0; h < p.heads; ++h) {
    const bool empty = x.total[h] == 0;
    const T share = empty ? T(0) : T(1) / x.total[h];
    for (int64_t c = h * p.width_v; c < (h + 1) * p.width_v; ++c) out[c] = x.acc[c] * share;
    lse[h] = empty ? T(0) : x.top[h] + std::log(x.total[h]);
  }
}

// delta[h] = grad_out[h] . out[h] of one row, the mean of its weights' gradients.
template <class T> INLINE void row_deltas(T* delta, const T* grad_out, const T* out, const Problem& p) {
  constexpr int W = Lanes<T>::W;
  for (int64_t h = 0; h < p.heads; ++h) {
    const T *x = out + h * p.width_v, *y = grad_out + h * p.width_v;
    Vec<T> part = {};
    int64_t c = 0;
    for (; c + W <= p.width_v; c += W) part += load(x + c) * load(y + c);
    T total = sum<T>(part);
    for (; c < p.width_v; ++c) total += x[c] * y[c];
    delta[h] = total;
  }
}

template <class T> void deltas(const Problem& p, int64_t row, int64_t end) {
  const T *out = static_cast<const T*>(p.out), *grad = static_cast<const T*>(p.grad_out);
  for (; row < end; ++row) {
    const int64_t at = row * p.heads * p.width_v;
    row_deltas<T>(static_cast<T*>(p.delta) + row * p.heads, grad + at, out + at, p);
  }
}

}  // namespace
