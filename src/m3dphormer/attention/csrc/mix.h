// The end of a layer in one pass:  out = drop(relu(sum_i gate_i x_i)) + residual,  or, where it is `bare`, the sum
// itself with the residual. Experts answer for some rows only: x_i is given in pieces, each a run of rows. A piece
// may be a blend: its row's head h is sum_c w_h,c v_c,h of a few values, and is never written down.
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kMixRows = 64, kMixColumns = 128;

// Calls body(first, n) for runs of a row's columns; of a width that is known, n is a constant.
template <int64_t N, class Body> INLINE void columns(Fixed<N>, const Body& body) {
  constexpr int64_t n = N < kMixColumns ? N : kMixColumns;
  static_assert(N % n == 0, "runs of one length");
  for (int64_t from = 0; from < N; from += n) body(from, Fixed<n>());
}
template <class Body> INLINE void columns(int64_t width, const Body& body) {
  for (int64_t from = 0; from < width; from += kMixColumns)
    body(from, width - from < kMixColumns ? width - from : kMixColumns);
}

template <class T> struct Pieces {
  T* const* x;              // where each piece begins; of a blend the values [keys, width]
  T* const* weights;        // of a blend [rows, heads, keys], else null
  const int64_t* from;      // its first row
  const int64_t* to;        // past its last row
  const int64_t* expert;    // whose gate it takes
  const int64_t* keys;      // of a blend
  int64_t count, heads, wide;  // columns of a head
  INLINE bool covers(int64_t i, int64_t row) const { return row >= from[i] && row < to[i]; }
  INLINE T* at(int64_t i, int64_t row, int64_t width) const { return x[i] + (row - from[i]) * width; }
  INLINE int64_t first_weight(int64_t i, int64_t row) const { return (row - from[i]) * heads * keys[i]; }
  // Calls body(head, begin, end) for the columns of each head among n from `from` on.
  template <class Body> INLINE void each_head(int64_t width, int64_t from, int64_t n, const Body& body) const {
    if (!from && n == width) {
      for (int64_t h = 0; h < heads; ++h) body(h, h * wide, (h + 1) * wide);
      return;
    }
    for (int64_t h = from / wide; h * wide < from + n; ++h) {
      const int64_t begin = h * wide < from ? from : h * wide, end = (h + 1) * wide;
      body(h, begin, end < from + n ? end : from + n);
    }
  }
};

// into += factor sum_c w_c v_c, for n columns of values that lie `width` apart
template <class T>
INLINE void add_blend(T* into, T factor, const T* w, const T* v, int64_t keys, int64_t width, int64_t n) {
  constexpr int W = Lanes<T>::W;
  int64_t j = 0;
  const auto run = [&](auto V) M3D_HERE {
    for (; j + V * W <= n; j += V * W) {
      Vec<T> sums[V] = {};
      for (int64_t c = 0; c < keys; ++c)
        for (int i = 0; i < V; ++i) sums[i] += w[c] * load(v + c * width + j + i * W);
      for (int i = 0; i < V; ++i) store(into + j + i * W, load(into + j + i * W) + factor * sums[i]);
    }
  };
  run(Fixed<4>()), run(Fixed<2>()), run(Fixed<1>());
  for (; j < n; ++j) {
    T sum = 0;
    for (int64_t c = 0; c < keys; ++c) sum += w[c] * v[c * width + j];
    into[j] += factor * sum;
  }
}

// by_weight_c += gate g . v_c and sums_c += gate w_c g for K values; returns g . sum_c w_c v_c.
template <int K, class T>
INLINE T some_backward(T* by_weight, T* sums, T gate, const T* w, const T* v, const T* g, int64_t width, int64_t n) {
  constexpr int W = Lanes<T>::W;
  Vec<T> dots[4] = {};
  T inner[4], along = 0;
  int64_t j = 0;
  for (; j + W <= n; j += W) {
    const Vec<T> grad = load(g + j);
    for (int k = 0; k < K; ++k) {
      dots[k] += grad * load(v + k * width + j);
      store(sums + k * width + j, load(sums + k * width + j) + gate * w[k] * grad);
    }
  }
  sum4(inner, dots[0], dots[1], dots[2], dots[3]);
  for (; j < n; ++j)
    for (int k = 0; k < K; ++k) {
      inner[k] += g[j] * v[k * width + j];
      sums[k * width + j] += gate * w[k] * g[j];
    }
  for (int k = 0; k < K; ++k) by_weight[k] += gate * inner[k], along += w[k] * inner[k];
  return along;
}

template <class T>
INLINE T blend_backward(T* by_weight, T* sums, T gate, const T* w, const T* v, const T* g, int64_t keys, int64_t width,
                        int64_t n) {
  T along = 0;
  int64_t c = 0;
  const auto run = [&](auto K) M3D_HERE {
    for (; c + K <= keys; c += K)
      along += some_backward<K>(by_weight + c, sums + c * width, gate, w + c, v + c * width, g, width, n);
  };
  run(Fixed<4>()), run(Fixed<3>()), run(Fixed<2>()), run(Fixed<1>());
  return along;
}

// sum_i gate_i x_i of some columns of a row
template <class T, class N>
INLINE void gated_sum(T* sum, const Pieces<T>& pieces, const T* gates, int64_t row, int64_t width, int64_t from, N n) {
  clear(sum, n);
  for (int64_t i = 0; i < pieces.count; ++i) {
    if (!pieces.covers(i, row)) continue;
    const T gate = gates[pieces.expert[i]];
    if (!pieces.weights[i]) {
      add(sum, gate, pieces.at(i, row, width) + from, n);
      continue;
    }
    const int64_t keys = pieces.keys[i];
    const T* w = pieces.weights[i] + pieces.first_weight(i, row);
    pieces.each_head(width, from, n, [&](int64_t h, int64_t begin, int64_t end) M3D_HERE {
      add_blend(sum + begin - from, gate, w + h * keys, pieces.x[i] + begin, keys, width, end - begin);
    });
  }
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
                 int64_t experts, int64_t bare, const Drop& drop, int64_t threads) {
  blocks(threads, (rows + kMixRows - 1) / kMixRows, [&](int64_t block) {
    T sum[kMixColumns];
    for (int64_t row = block * kMixRows; row < rows && row < (block + 1) * kMixRows; ++row) {
      const uint32_t hash = drop.row(row, 1, 0);
      columns(width, [&](int64_t from, auto n) M3D_HERE {
        gated_sum(sum, pieces, gates + row * experts, row, width, from, n);
        if (!bare) {
#pragma omp simd
          for (int64_t c = 0; c < n; ++c) sum[c] = sum[c] < T(0) ? T(0) : sum[c];
          drop_columns(sum, drop, hash, from, n);
        }
        const T* other = residual + row * width + from;
        T* to = out + row * width + from;
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) to[c] = sum[c] + other[c];
      });
    }
  });
}

// What flows back to the pieces: to the rows of one, or to the weights and values of a blend. The values' gradients
// are summed by blocks of `height` rows, partial[i] [blocks, keys, width].
template <class T, class Width>
void mix_backward(const T* grad, const T* gates, T* grad_gates, const Pieces<T>& pieces, const Pieces<T>& grads,
                  T* const* partial, int64_t height, int64_t rows, Width width, int64_t experts, int64_t bare,
                  const Drop& drop, int64_t threads) {
  const int64_t count = (rows + height - 1) / height;
  blocks(threads, count, [&](int64_t block) {
    T sum[kMixColumns], inner[kMixColumns];
    for (int64_t i = 0; i < pieces.count; ++i)
      if (pieces.weights[i]) clear(partial[i] + block * pieces.keys[i] * width, pieces.keys[i] * width);
    for (int64_t row = block * height; row < rows && row < (block + 1) * height; ++row) {
      const uint32_t hash = drop.row(row, 1, 0);
      clear(grad_gates + row * experts, experts);
      columns(width, [&](int64_t from, auto n) M3D_HERE {
        const T* outer = grad + row * width + from;
        if (bare) {
          for (int64_t c = 0; c < n; ++c) inner[c] = outer[c];
        } else {
          gated_sum(sum, pieces, gates + row * experts, row, width, from, n);
#pragma omp simd
          for (int64_t c = 0; c < n; ++c) inner[c] = sum[c] > T(0) ? outer[c] : T(0);
          drop_columns(inner, drop, hash, from, n);
        }
        for (int64_t i = 0; i < pieces.count; ++i) {
          if (!pieces.covers(i, row)) continue;
          const int64_t expert = pieces.expert[i], keys = pieces.keys[i];
          const T gate = gates[row * experts + expert];
          T& by_gate = grad_gates[row * experts + expert];
          if (!pieces.weights[i]) {
            T* to = grads.at(i, row, width) + from;
#pragma omp simd
            for (int64_t c = 0; c < n; ++c) to[c] = gate * inner[c];
            by_gate += dot(inner, pieces.at(i, row, width) + from, n);
            continue;
          }
          const int64_t first = pieces.first_weight(i, row);
          T *to = grads.weights[i] + first, *sums = partial[i] + block * keys * width;
          if (!from) clear(to, pieces.heads * keys);
          pieces.each_head(width, from, n, [&](int64_t h, int64_t begin, int64_t end) M3D_HERE {
            by_gate += blend_backward(to + h * keys, sums + begin, gate, pieces.weights[i] + first + h * keys,
                                      pieces.x[i] + begin, inner + begin - from, keys, width, end - begin);
          });
        }
      });
    }
  });
  for (int64_t i = 0; i < pieces.count; ++i) {
    if (!pieces.weights[i]) continue;
    const int64_t size = pieces.keys[i] * width;
    clear(grads.x[i], size);
    for (int64_t block = 0; block < count; ++block) add(grads.x[i], T(1), partial[i] + block * size, size);
  }
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
