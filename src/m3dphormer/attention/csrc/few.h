// Every row sees the same few keys, whose scores are given: s [rows, heads, keys], v [keys, heads, width].
//   out_h = sum_c drop_c softmax_c(s_h) v_c,h
#pragma once
#include "rows.h"

namespace {

// weights[c] = softmax_c, and room for a vector behind the last
template <class T> INLINE void softmax(T* weights, const T* scores, int64_t keys) {
  constexpr int W = Lanes<T>::W;
  T top = scores[0], total = 0;
  for (int64_t c = 0; c < keys; ++c) top = scores[c] > top ? scores[c] : top;
  for (int64_t c = 0; c < keys; ++c) weights[c] = scores[c] - top;
  for (int64_t c = keys; c % W; ++c) weights[c] = 0;
  for (int64_t c = 0; c < keys; c += W) store(weights + c, exponential<T>(load(weights + c)));
  for (int64_t c = 0; c < keys; ++c) total += weights[c];
  const T share = T(1) / total;
  for (int64_t c = 0; c < keys; ++c) weights[c] *= share;
}

template <class T>
void few_forward(T* out, const T* scores, const T* v, int64_t rows, int64_t heads, int64_t keys, int64_t width,
                 int64_t first_key, const Drop& drop, int64_t threads) {
  constexpr int64_t kRows = 64;
  blocks(threads, (rows + kRows - 1) / kRows, [&](int64_t block) {
    Scratch<T> weights(keys);
    for (int64_t row = block * kRows; row < rows && row < (block + 1) * kRows; ++row)
      for (int64_t h = 0; h < heads; ++h) {
        T* to = out + (row * heads + h) * width;
        const uint32_t hash = drop.row(row, heads, h);
        softmax(weights.at, scores + (row * heads + h) * keys, keys);
        clear(to, width);
        for (int64_t c = 0; c < keys; ++c) {
          const T weight = weights.at[c] * drop.keep<T>(hash, first_key + c);
          add(to, weight, v + (c * heads + h) * width, width);
        }
      }
  });
}

// partial is [blocks, keys, heads, width], for blocks of `step` rows.
template <class T>
void few_backward(T* grad_scores, T* grad_v, T* partial, const T* grad, const T* scores, const T* v, int64_t rows,
                  int64_t heads, int64_t keys, int64_t width, int64_t first_key, int64_t step, const Drop& drop,
                  int64_t threads) {
  const int64_t count = (rows + step - 1) / step, size = keys * heads * width;
  blocks(threads, count, [&](int64_t block) {
    Scratch<T> weights(keys), inner(keys);
    T* sums = partial + block * size;
    clear(sums, size);
    for (int64_t row = block * step; row < rows && row < (block + 1) * step; ++row)
      for (int64_t h = 0; h < heads; ++h) {
        const T* g = grad + (row * heads + h) * width;
        const uint32_t hash = drop.row(row, heads, h);
        softmax(weights.at, scores + (row * heads + h) * keys, keys);
        T delta = 0;
        for (int64_t c = 0; c < keys; ++c) {
          const T keep = drop.keep<T>(hash, first_key + c);
          const int64_t at = (c * heads + h) * width;
          inner.at[c] = keep * dot(g, v + at, width);
          delta += weights.at[c] * inner.at[c];
          add(sums + at, weights.at[c] * keep, g, width);
        }
        T* to = grad_scores + (row * heads + h) * keys;
        for (int64_t c = 0; c < keys; ++c) to[c] = weights.at[c] * (inner.at[c] - delta);
      }
  });
  clear(grad_v, size);
  for (int64_t block = 0; block < count; ++block) add(grad_v, T(1), partial + block * size, size);
}

}  // namespace
