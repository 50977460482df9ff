// Every row sees the same few keys, whose scores are given: s [rows, heads, keys], v [keys, heads, width].
//   out_h = sum_c drop_c softmax_c(s_h) v_c,h
// A row's head is a column of a tile, so that softmax and dropout run over whole vectors of rows.
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kFewRows = 16;  // of a tile

struct Few {
  int64_t rows, heads, keys, width, first_key;
};

// Weights of some rows, [keys, size]: after the softmax, and after dropout as well.
template <class T> struct FewTile {
  const Few& few;
  int64_t size;  // rows x heads, in whole vectors
  Scratch<T> memory;
  T *weights, *kept, *inner;
  Scratch<uint32_t> hashed;
  uint32_t* words;  // what each column is hashed from

  explicit FewTile(const Few& few)
      : few(few), size((kFewRows * few.heads + Lanes<T>::W - 1) / Lanes<T>::W * Lanes<T>::W),
        memory(3 * few.keys * size), weights(memory.at), kept(weights + few.keys * size), inner(kept + few.keys * size),
        hashed(size), words(hashed.at) {}

  // For n columns, of which the first is row * heads + head.
  INLINE void weigh(const T* scores, int64_t first, int64_t n, const Drop& drop) {
    constexpr int W = Lanes<T>::W;
    const int64_t keys = few.keys;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < keys; ++c) weights[c * size + i] = scores[(first + i) * keys + c];
    for (int64_t i = n; i % W; ++i)
      for (int64_t c = 0; c < keys; ++c) weights[c * size + i] = 0;
    for (int64_t i = 0, row = first / few.heads; drop.active && i < n; ++row)
      for (int64_t h = 0; h < few.heads; ++h) words[i++] = drop.word(row, few.heads, h);
    for (int64_t at = 0; at < n; at += W) {
      Vec<T> top = load(weights + at), total = {};
      for (int64_t c = 1; c < keys; ++c) top = larger<T>(load(weights + c * size + at), top);
      for (int64_t c = 0; c < keys; ++c) {
        const Vec<T> weight = exponential<T>(load(weights + c * size + at) - top);
        store(weights + c * size + at, weight);
        total += weight;
      }
      const Vec<T> share = T(1) / total;
      const Hash<T> row = mix<Hash<T>>(load_hash<T>(words + at));
      for (int64_t c = 0; c < keys; ++c) {
        const Vec<T> weight = load(weights + c * size + at) * share;
        store(weights + c * size + at, weight);
        store(kept + c * size + at, weight * drop.keep<T>(row + drop.name(few.first_key + c) * kGolden));
      }
    }
  }

  // out = sum_c kept_c v_c of one head, for R rows from the column on; to: where the first row's head begins.
  template <int R> INLINE void sum(T* to, const T* v, int64_t column, int64_t head) const {
    constexpr int W = Lanes<T>::W;
    const int64_t heads = few.heads, width = few.width, d = heads * width;
    const T *first = v + head * width, *weight = kept + column;
    int64_t j = 0;
    for (; j + W <= width; j += W) {
      Vec<T> sums[R] = {};
      for (int64_t c = 0; c < few.keys; ++c) {
        const Vec<T> value = load(first + c * d + j);
        for (int r = 0; r < R; ++r) sums[r] += weight[c * size + r * heads] * value;
      }
      for (int r = 0; r < R; ++r) store(to + r * d + j, sums[r]);
    }
    for (; j < width; ++j)
      for (int r = 0; r < R; ++r) {
        T total = 0;
        for (int64_t c = 0; c < few.keys; ++c) total += weight[c * size + r * heads] * first[c * d + j];
        to[r * d + j] = total;
      }
  }

  // inner_c = g . v_c of one head, for four rows from the column on.
  INLINE void dots(const T* g, const T* v, int64_t column, int64_t head) {
    constexpr int W = Lanes<T>::W;
    const int64_t heads = few.heads, width = few.width, d = heads * width;
    for (int64_t c = 0; c < few.keys; ++c) {
      const T* value = v + c * d + head * width;
      Vec<T> sums[4] = {};
      T four[4];
      int64_t j = 0;
      for (; j + W <= width; j += W)
        for (int r = 0; r < 4; ++r) sums[r] += load(g + r * d + j) * load(value + j);
      sum4(four, sums[0], sums[1], sums[2], sums[3]);
      for (; j < width; ++j)
        for (int r = 0; r < 4; ++r) four[r] += g[r * d + j] * value[j];
      for (int r = 0; r < 4; ++r) inner[c * size + column + r * heads] = four[r];
    }
  }

  // inner becomes the gradient of the scores.
  INLINE void through_softmax(int64_t n) {
    constexpr int W = Lanes<T>::W;
    for (int64_t at = 0; at < n; at += W) {
      Vec<T> delta = {};
      for (int64_t c = 0; c < few.keys; ++c) delta += load(kept + c * size + at) * load(inner + c * size + at);
      for (int64_t c = 0; c < few.keys; ++c) {
        const int64_t i = c * size + at;
        store(inner + i, load(kept + i) * load(inner + i) - load(weights + i) * delta);
      }
    }
  }

  // Adds kept_c g to the gradients of K values from key on; g: the tile's rows.
  template <int K> INLINE void add_values(T* sums, const T* g, int64_t key, int64_t head, int64_t rows) const {
    constexpr int W = Lanes<T>::W;
    const int64_t heads = few.heads, width = few.width, d = heads * width;
    const T *weight = kept + key * size + head, *from = g + head * width;
    T* to = sums + key * d + head * width;
    int64_t j = 0;
    for (; j + W <= width; j += W) {
      Vec<T> total[K];
      for (int k = 0; k < K; ++k) total[k] = load(to + k * d + j);
      for (int64_t row = 0; row < rows; ++row)
        for (int k = 0; k < K; ++k) total[k] += weight[k * size + row * heads] * load(from + row * d + j);
      for (int k = 0; k < K; ++k) store(to + k * d + j, total[k]);
    }
    for (; j < width; ++j)
      for (int64_t row = 0; row < rows; ++row)
        for (int k = 0; k < K; ++k) to[k * d + j] += weight[k * size + row * heads] * from[row * d + j];
  }
};

template <class T>
void few_forward(T* out, const T* scores, const T* v, const Few& few, const Drop& drop, int64_t threads) {
  const int64_t heads = few.heads, width = few.width;
  blocks(threads, (few.rows + kFewRows - 1) / kFewRows, [&](int64_t block) {
    const int64_t row = block * kFewRows, rows = few.rows - row < kFewRows ? few.rows - row : kFewRows;
    FewTile<T> tile(few);
    tile.weigh(scores, row * heads, rows * heads, drop);
    for (int64_t i = 0; i < rows;) {
      const int64_t step = i + 4 <= rows ? 4 : 1;
      for (int64_t h = 0; h < heads; ++h) {
        T* to = out + ((row + i) * heads + h) * width;
        step == 4 ? tile.template sum<4>(to, v, i * heads + h, h) : tile.template sum<1>(to, v, i * heads + h, h);
      }
      i += step;
    }
  });
}

// partial is [blocks, keys, heads, width], for blocks of `step` rows.
template <class T>
void few_backward(T* grad_scores, T* grad_v, T* partial, const T* grad, const T* scores, const T* v, const Few& few,
                  int64_t step, const Drop& drop, int64_t threads) {
  const int64_t heads = few.heads, width = few.width, keys = few.keys, d = heads * width, size = keys * d;
  const int64_t count = (few.rows + step - 1) / step;
  blocks(threads, count, [&](int64_t block) {
    T* sums = partial + block * size;
    clear(sums, size);
    FewTile<T> tile(few);
    const int64_t end = few.rows < (block + 1) * step ? few.rows : (block + 1) * step;
    for (int64_t row = block * step; row < end; row += kFewRows) {
      const int64_t rows = end - row < kFewRows ? end - row : kFewRows;
      const T* g = grad + row * d;
      tile.weigh(scores, row * heads, rows * heads, drop);
      for (int64_t h = 0; h < heads; ++h) {
        int64_t i = 0, c = 0;
        for (; i + 4 <= rows; i += 4) tile.dots(g + i * d + h * width, v, i * heads + h, h);
        for (; i < rows; ++i)
          for (int64_t key = 0; key < keys; ++key)
            tile.inner[key * tile.size + i * heads + h] = dot(g + i * d + h * width, v + key * d + h * width, width);
        for (; c + 4 <= keys; c += 4) tile.template add_values<4>(sums, g, c, h, rows);
        for (; c + 3 <= keys; c += 3) tile.template add_values<3>(sums, g, c, h, rows);
        for (; c < keys; ++c) tile.template add_values<1>(sums, g, c, h, rows);
      }
      tile.through_softmax(rows * heads);
      T* to = grad_scores + row * heads * keys;
      for (int64_t i = 0; i < rows * heads; ++i)
        for (int64_t c = 0; c < keys; ++c) to[i * keys + c] = tile.inner[c * tile.size + i];
    }
  });
  clear(grad_v, size);
  for (int64_t block = 0; block < count; ++block) add(grad_v, T(1), partial + block * size, size);
}

}  // namespace
