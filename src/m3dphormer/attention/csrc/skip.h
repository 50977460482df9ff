// The input's activation in one pass:  out = drop(z + relu(z)).
#pragma once
#include "mix.h"

namespace {

template <class T> void skip_forward(T* out, const T* z, int64_t rows, int64_t width, const Drop& drop, int64_t threads) {
  blocks(threads, (rows + kMixRows - 1) / kMixRows, [&](int64_t block) {
    for (int64_t row = block * kMixRows; row < rows && row < (block + 1) * kMixRows; ++row) {
      const T* x = z + row * width;
      T* to = out + row * width;
      for (int64_t c = 0; c < width; ++c) to[c] = x[c] > T(0) ? 2 * x[c] : x[c];
      drop_columns(to, drop, drop.row(row, 1, 0), 0, width);
    }
  });
}

// The sign of z is that of out, save where it was dropped.
template <class T>
void skip_backward(T* grad_z, const T* grad, const T* out, int64_t rows, int64_t width, const Drop& drop, int64_t threads) {
  blocks(threads, (rows + kMixRows - 1) / kMixRows, [&](int64_t block) {
    for (int64_t row = block * kMixRows; row < rows && row < (block + 1) * kMixRows; ++row) {
      const T *g = grad + row * width, *y = out + row * width;
      T* to = grad_z + row * width;
      for (int64_t c = 0; c < width; ++c) to[c] = y[c] > T(0) ? 2 * g[c] : g[c];
      drop_columns(to, drop, drop.row(row, 1, 0), 0, width);
    }
  });
}

}  // namespace
