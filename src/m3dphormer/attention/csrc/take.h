// Some rows of a matrix, none twice, and their gradients back to where they came from.
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kTakenRows = 256;

template <class Body> void each_taken(int64_t count, int64_t threads, const Body& body) {
  blocks(threads, (count + kTakenRows - 1) / kTakenRows, [&](int64_t block) {
    const int64_t end = count < (block + 1) * kTakenRows ? count : (block + 1) * kTakenRows;
    for (int64_t i = block * kTakenRows; i < end; ++i) body(i);
  });
}

// out_i = x_rows[i]
template <class T, class Width>
void take_rows(T* out, const T* x, const int64_t* rows, int64_t count, Width width, int64_t threads) {
  each_taken(count, threads, [&](int64_t i) {
    const T* from = x + rows[i] * width;
    T* to = out + i * width;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) to[c] = from[c];
  });
}

// to_rows[i] = grad_i, 0 in all other of the `total` rows; rows are sorted
template <class T, class Width>
void spread_rows(T* to, const T* grad, const int64_t* rows, int64_t count, int64_t total, Width width, int64_t threads) {
  each_taken(count, threads, [&](int64_t i) {
    for (int64_t row = i ? rows[i - 1] + 1 : 0; row < rows[i]; ++row) clear(to + row * width, width);
    for (int64_t row = rows[i] + 1; i + 1 == count && row < total; ++row) clear(to + row * width, width);
    T* own = to + rows[i] * width;
    const T* from = grad + i * width;
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) own[c] = from[c];
  });
}

// into_rows[i] += grad_i
template <class T, class Width>
void give_rows(T* into, const T* grad, const int64_t* rows, int64_t count, Width width, int64_t threads) {
  each_taken(count, threads, [&](int64_t i) { add(into + rows[i] * width, T(1), grad + i * width, width); });
}

}  // namespace
