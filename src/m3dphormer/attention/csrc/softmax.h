// The online softmax of a row, tile by tile. With m the largest score so far, per head:
//   l = sum_j e^(s_j - m),   acc = sum_j drop_j e^(s_j - m) v_j,
// both rescaled by e^(m_old - m_new) when a tile brings a larger score; then
//   out = acc / l,   lse = m + log l.
#pragma once
#include "exp.h"
#include "hash.h"
#include "pass.h"

namespace {

// The state of a row: acc [H, d_h], m [H], l [H].
template <class T, int D, int H> struct Softmax {
  const Problem& p;
  T *acc, *top, *total;

  INLINE Softmax(const Problem& p, void* state)
      : p(p), acc(static_cast<T*>(state)), top(acc + heads() * width()), total(top + heads()) {}

  INLINE int64_t heads() const { return H ? H : p.heads; }
  INLINE int64_t width() const { return D ? D * Lanes<T>::W : p.width_v; }
  static size_t bytes(const Problem& p) { return (p.width_v + 2 * kTile) * p.heads * sizeof(T); }  // a tile has many rows

  // Scores s [n, H], to be scaled, become weights in s and dropped weights in w; m and l of the tile's rows follow.
  INLINE void weigh(T* s, T* w, T scale, const Tile& tile, T* tops, uint32_t* words) {
    constexpr int W = Lanes<T>::W;
    const int64_t size = tile.n * heads();
    int i = 0;
    for (const Segment& at : tile) {
      T* high = top + i++ * 2 * heads();
      if (tile.opens)
        for (int64_t h = 0; h < heads(); ++h) high[h] = -std::numeric_limits<T>::infinity(), high[heads() + h] = 0;
      else
        for (int64_t h = 0; h < heads(); ++h) tops[h] = high[h];
      raise_over<T, H>(high, s, scale, at, heads());
      if (!tile.opens) fade(tops);
      repeat<T, H>(tops, high, at, heads());
    }
    if (p.dropout) entry_words<H>(words, p, tile);
    for (int64_t c = 0; c < size; c += W) {
      const Vec<T> weight = exponential<T>(load(s + c) * scale - load(tops + c));
      store(s + c, weight);
      if (p.dropout) store(w + c, weight * kept<T>(p, load_hash<T>(words + c)));
    }
    i = 0;
    for (const Segment& at : tile) add_over<T, H>(total + i++ * 2 * heads(), s, at, heads());
  }

  // A larger m has come: what was summed under the smaller one shrinks.
  INLINE void fade(const T* before) {
    for (int64_t h = 0; h < heads(); ++h) {
      if (top[h] == before[h]) continue;
      const T factor = exponential_of<T>(before[h] - top[h]);
      total[h] *= factor;
      for (int64_t c = h * width(); c < (h + 1) * width(); ++c) acc[c] *= factor;
    }
  }

  // Row i of the tile is done: acc becomes its output, and its lse is written.
  INLINE void close(int64_t row, int i) const {
    T* lse = static_cast<T*>(p.lse) + row * heads();
    const T *high = top + i * 2 * heads(), *sums = total + i * 2 * heads();
    for (int64_t h = 0; h < heads(); ++h) {
      const bool empty = sums[h] == 0;
      const T share = empty ? T(0) : T(1) / sums[h];
      for (int64_t c = h * width(); c < (h + 1) * width(); ++c) acc[c] *= share;
      lse[h] = empty ? T(0) : high[h] + std::log(sums[h]);
    }
  }

  void merge(const Softmax& other) {
    for (int64_t h = 0; h < heads(); ++h) {
      const T most = top[h] > other.top[h] ? top[h] : other.top[h];
      const T mine = exponential_of<T>(top[h] - most), theirs = exponential_of<T>(other.top[h] - most);
      for (int64_t c = h * width(); c < (h + 1) * width(); ++c) acc[c] = acc[c] * mine + other.acc[c] * theirs;
      total[h] = total[h] * mine + other.total[h] * theirs;
      top[h] = most;
    }
  }
};

// delta[h] = grad_out[h] . out[h] of one row, the mean of its weights' gradients.
template <class T, int D, int H> INLINE void row_deltas(T* delta, const T* grad_out, const T* out, const Problem& p) {
  constexpr int W = Lanes<T>::W;
  const int64_t heads = H ? H : p.heads, width = D ? D * W : p.width_v;
  for (int64_t h = 0; h < heads; ++h) {
    const T *x = out + h * width, *y = grad_out + h * width;
    Vec<T> part = {};
    int64_t c = 0;
    for (; c + W <= width; c += W) part += load(x + c) * load(y + c);
    T total = sum<T>(part);
    for (; c < width; ++c) total += x[c] * y[c];
    delta[h] = total;
  }
}

}  // namespace
