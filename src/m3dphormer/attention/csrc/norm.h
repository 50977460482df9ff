// RMSNorm of rows:  z = h r w + b  with  r = 1 / sqrt(mean(h^2) + eps).
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kNormRows = 512;

template <class T, class Width>
void norm_forward(T* z, T* inverse, const T* h, const T* weight, const T* bias, int64_t rows, Width width, double eps,
                  int64_t threads) {
  blocks(threads, (rows + kNormRows - 1) / kNormRows, [&](int64_t block) {
    for (int64_t row = block * kNormRows; row < rows && row < (block + 1) * kNormRows; ++row) {
      const T* x = h + row * width;
      const T r = T(1) / std::sqrt(dot(x, x, width) / T(int64_t(width)) + T(eps));
      T* to = z + row * width;
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) to[c] = x[c] * r * weight[c];
      if (bias) add(to, T(1), bias, width);
      inverse[row] = r;
    }
  });
}

// grad_h = what flows through the norm, added to what is there unless `fresh`; grad_weight and grad_bias side by side in grad_affine [2, width],
// partial sums of blocks in partial [blocks, 2, width].
template <class T, class Width>
void norm_backward(T* grad_h, T* grad_affine, T* partial, const T* grad, const T* h, const T* inverse, const T* weight,
                   int64_t rows, Width width, int64_t fresh, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  const int64_t count = (rows + kNormRows - 1) / kNormRows;
  blocks(threads, count, [&](int64_t block) {
    T *by_weight = partial + block * 2 * width, *by_bias = by_weight + width;
    clear(by_weight, 2 * width);
    for (int64_t row = block * kNormRows; row < rows && row < (block + 1) * kNormRows; ++row) {
      const T *x = h + row * width, *g = grad + row * width;
      const T r = inverse[row];
      T inner = 0;
      int64_t at = 0;
      Vec<T> sums = {};
      for (; at + W <= width; at += W) sums += load(x + at) * load(weight + at) * load(g + at);
      for (; at < width; ++at) inner += x[at] * weight[at] * g[at];
      const T along = (inner + sum<T>(sums)) * r * r * r / T(int64_t(width));
      T* to = grad_h + row * width;
      if (fresh) clear(to, width);
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) {
        to[c] += r * weight[c] * g[c] - along * x[c];
        by_weight[c] += x[c] * r * g[c];
        by_bias[c] += g[c];
      }
    }
  });
  clear(grad_affine, 2 * width);
  for (int64_t block = 0; block < count; ++block) add(grad_affine, T(1), partial + block * 2 * width, 2 * width);
}

}  // namespace
