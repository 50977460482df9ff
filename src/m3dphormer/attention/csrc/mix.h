// The end of a layer in one pass:  out = drop(relu(sum_i gate_i x_i)) + residual.
// Experts answer for some rows only: x_i is given in pieces, each a run of rows.
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kMixRows = 64, kMixColumns = 128;

template <class T> struct Pieces {
  T* const* x;              // where each piece begins
  const int64_t* from;      // its first row
  const int64_t* to;        // past its last row
  const int64_t* expert;    // whose gate it takes
  int64_t count;
  INLINE bool covers(int64_t i, int64_t row) const { return row >= from[i] && row < to[i]; }
  INLINE T* at(int64_t i, int64_t row, int64_t width) const { return x[i] + (row - from[i]) * width; }
};

// sum_i gate_i x_i of some columns of a row
template <class T, class N>
INLINE void gated_sum(T* sum, const Pieces<T>& pieces, const T* gates, int64_t row, int64_t width, int64_t from, N n) {
  clear(sum, n);
  for (int64_t i = 0; i < pieces.count; ++i)
    if (pieces.covers(i, row)) add(sum, gates[pieces.expert[i]], pieces.at(i, row, width) + from, n);
}

// x becomes 0 where (row, column) is dropped, else x / (1 - p).
template <class T, class N> INLINE void drop_columns(T* x, const Drop& drop, uint32_t row, int64_t from, N n) {
  if (!drop.active) return;
  const T scale = T(drop.scale);
  const uint32_t threshold = uint32_t(drop.threshold), first = row + uint32_t(from) * kGolden;
#pragma omp simd
  for (int32_t c = 0; c < int32_t(int64_t(n)); ++c)
    x[c] = mix<uint32_t>(first + uint32_t(c) * kGolden) >= threshold ? x[c] * scale : T(0);
}

template <class T, class Width>
void mix_forward(T* out, const T* residual, const T* gates, const Pieces<T>& pieces, int64_t rows, Width width,
                 int64_t experts, const Drop& drop, int64_t threads) {
  blocks(threads, (rows + kMixRows - 1) / kMixRows, [&](int64_t block) {
    T sum[kMixColumns];
    for (int64_t row = block * kMixRows; row < rows && row < (block + 1) * kMixRows; ++row) {
      const uint32_t hash = drop.row(row, 1, 0);
      for (int64_t from = 0; from < width; from += kMixColumns) {
        const int64_t n = width - from < kMixColumns ? width - from : kMixColumns;
        gated_sum(sum, pieces, gates + row * experts, row, width, from, n);
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) sum[c] = sum[c] < T(0) ? T(0) : sum[c];
        drop_columns(sum, drop, hash, from, n);
        const T* other = residual + row * width + from;
        T* to = out + row * width + from;
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) to[c] = sum[c] + other[c];
      }
    }
  });
}

template <class T, class Width>
void mix_backward(const T* grad, const T* gates, T* grad_gates, const Pieces<T>& pieces, const Pieces<T>& grads,
                  int64_t rows, Width width, int64_t experts, const Drop& drop, int64_t threads) {
  blocks(threads, (rows + kMixRows - 1) / kMixRows, [&](int64_t block) {
    T sum[kMixColumns], inner[kMixColumns];
    for (int64_t row = block * kMixRows; row < rows && row < (block + 1) * kMixRows; ++row) {
      const uint32_t hash = drop.row(row, 1, 0);
      clear(grad_gates + row * experts, experts);
      for (int64_t from = 0; from < width; from += kMixColumns) {
        const int64_t n = width - from < kMixColumns ? width - from : kMixColumns;
        gated_sum(sum, pieces, gates + row * experts, row, width, from, n);
        const T* outer = grad + row * width + from;
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) inner[c] = sum[c] > T(0) ? outer[c] : T(0);
        drop_columns(inner, drop, hash, from, n);
        for (int64_t i = 0; i < pieces.count; ++i) {
          if (!pieces.covers(i, row)) continue;
          const int64_t expert = pieces.expert[i];
          const T gate = gates[row * experts + expert];
          T* to = grads.at(i, row, width) + from;
#pragma omp simd
          for (int64_t c = 0; c < n; ++c) to[c] = gate * inner[c];
          grad_gates[row * experts + expert] += dot(inner, pieces.at(i, row, width) + from, n);
        }
      }
    }
  });
}

// The factors 0 or 1 / (1 - p) themselves, for the plain form.
template <class T> void keep_rows(T* out, int64_t rows, int64_t width, const Drop& drop, int64_t threads) {
  blocks(threads, (rows + kMixRows - 1) / kMixRows, [&](int64_t block) {
    for (int64_t row = block * kMixRows; row < rows && row < (block + 1) * kMixRows; ++row) {
      for (int64_t c = 0; c < width; ++c) out[row * width + c] = T(1);
      drop_columns(out + row * width, drop, drop.row(row, 1, 0), 0, width);
    }
  });
}

}  // namespace
