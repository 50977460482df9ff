// A linear map of a tall matrix x [rows, features] that is mostly zeros, and its gradients:
//   forward       out = x W^T + b
//   to the map    grad_W = g^T x, grad_b = sum of g's rows          g is the gradient of out
// Either is a sum of picked rows of a table, each times a non-zero of x: of W^T for a row of x, of g for a feature.
// A strip of a table's columns is summed in registers. For g, the non-zeros are listed a second time, by block of
// rows: what a feature picks of a block is a run, and the block is copied to where it stays in a near cache while all
// features pick from it.
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kPickRows = 64;  // rows of x that a thread takes at once
constexpr int64_t kTurned = 16;    // features that are transposed at once

template <class T> struct Picks {
  const int64_t* first;   // where the non-zeros of each row of x begin, and the end
  const int32_t* column;  // the feature of each; the forward pass alone reads it
  const T* value;
  const int64_t* run;    // [blocks, features], and the end: where in `row` and `place` each run begins
  const int32_t* row;    // the row in its block of each
  const int32_t* place;  // which number of `value` it is, from the first of its block on
  int64_t block;         // rows of a block
  int64_t rows, features;
};

// Adds n rows of a table, `stride` apart, each times its factor.
template <class T, int V, class Factor>
INLINE void pick(Vec<T> (&sums)[V], const T* table, int64_t stride, const int32_t* row, int64_t n,
                 const Factor& factor) {
  constexpr int W = Lanes<T>::W;
  for (int64_t i = 0; i < n; ++i) {
    const T* from = table + row[i] * stride;
    const Vec<T> x = all<T>(factor(i));
    for (int v = 0; v < V; ++v) sums[v] += x * load(from + v * W);
  }
}

// Calls body(first column, V) for the strips of a table with n columns, a whole number of vectors.
template <class T, class Body> INLINE void strips(int64_t n, const Body& body) {
  constexpr int W = Lanes<T>::W;
  int64_t c = 0;
  for (; c + 8 * W <= n; c += 8 * W) body(c, Fixed<8>());
  for (; c + 4 * W <= n; c += 4 * W) body(c, Fixed<4>());
  for (; c + 2 * W <= n; c += 2 * W) body(c, Fixed<2>());
  for (; c < n; c += W) body(c, Fixed<1>());
}

template <class T> INLINE int64_t whole_vectors(int64_t n) {
  constexpr int W = Lanes<T>::W;
  return (n + W - 1) / W * W;
}

// W^T [features, padded outputs], strip after strip.
template <class T>
void turn_weights(T* to, const T* weight, int64_t outputs, int64_t features, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  blocks(threads, (features + kTurned - 1) / kTurned, [&](int64_t group) {
    const int64_t begin = group * kTurned, n = features - begin < kTurned ? features - begin : kTurned;
    strips<T>(whole_vectors<T>(outputs), [&](int64_t first, auto V) M3D_HERE {
      T* strip = to + first * features + begin * V * W;
      for (int64_t c = 0; c < V * W; ++c)
        for (int64_t f = 0; f < n; ++f)
          strip[f * V * W + c] = first + c < outputs ? weight[(first + c) * features + begin + f] : T(0);
    });
  });
}

template <class T>
void pick_forward(T* out, const Picks<T>& x, const T* weight, const T* bias, int64_t outputs, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  const int64_t padded = whole_vectors<T>(outputs);
  Scratch<T> turned(x.features * padded), start(padded);
  turn_weights(turned.at, weight, outputs, x.features, threads);
  for (int64_t c = 0; c < padded; ++c) start.at[c] = bias && c < outputs ? bias[c] : T(0);
  strips<T>(padded, [&](int64_t first, auto V) {
    blocks(threads, (x.rows + kPickRows - 1) / kPickRows, [&](int64_t block) {
      for (int64_t row = block * kPickRows; row < x.rows && row < (block + 1) * kPickRows; ++row) {
        Vec<T> sums[V];
        for (int v = 0; v < V; ++v) sums[v] = load(start.at + first + v * W);
        const int64_t from = x.first[row];
        const T* value = x.value + from;
        pick<T>(sums, turned.at + first * x.features, V * W, x.column + from, x.first[row + 1] - from,
                [&](int64_t i) M3D_HERE { return value[i]; });
        T* to = out + row * outputs + first;
        if (outputs - first >= V * W) {
          for (int v = 0; v < V; ++v) store(to + v * W, sums[v]);
        } else {
          T last[V * W];
          for (int v = 0; v < V; ++v) store(last + v * W, sums[v]);
          std::memcpy(to, last, (outputs - first) * sizeof(T));
        }
      }
    });
  });
}

// A strip of a block of g, closely packed and padded with zeros; its rows are added to `sums`.
template <class T, int V>
INLINE void take_block(T* to, Vec<T> (&sums)[V], const T* g, int64_t rows, int64_t outputs, int64_t first) {
  constexpr int W = Lanes<T>::W;
  const int64_t n = outputs - first < V * W ? outputs - first : V * W;
  Vec<T> block[V] = {};
  for (int64_t row = 0; row < rows; ++row, to += V * W) {
    const T* from = g + row * outputs + first;
    if (n == V * W) {
      for (int v = 0; v < V; ++v) store(to + v * W, load(from + v * W));
    } else {
      std::memcpy(to, from, n * sizeof(T));
      clear(to + n, V * W - n);
    }
    for (int v = 0; v < V; ++v) block[v] += load(to + v * W);
  }
  for (int v = 0; v < V; ++v) sums[v] += block[v];
}

// A thread takes every threads-th group of features and all rows: no sum depends on how many threads there are.
template <class T>
void pick_weights(T* by_weight, T* by_bias, const Picks<T>& x, const T* g, int64_t outputs, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  const int64_t groups = (x.features + kTurned - 1) / kTurned;
  Scratch<T> sums(x.features * whole_vectors<T>(outputs));
  blocks(threads, threads, [&](int64_t thread) {
    Scratch<T> taken(x.block * 8 * W);
    strips<T>(whole_vectors<T>(outputs), [&](int64_t first, auto V) M3D_HERE {
      constexpr int64_t width = V * W;
      T* strip = sums.at + first * x.features;
      Vec<T> of_rows[V] = {};
      const auto own = [&](const auto& body) M3D_HERE {
        for (int64_t group = thread; group < groups; group += threads) {
          const int64_t begin = group * kTurned;
          body(begin, x.features < begin + kTurned ? x.features : begin + kTurned);
        }
      };
      own([&](int64_t begin, int64_t end) M3D_HERE { clear(strip + begin * width, (end - begin) * width); });
      for (int64_t block = 0; block * x.block < x.rows; ++block) {
        const int64_t start = block * x.block, rows = x.rows - start < x.block ? x.rows - start : x.block;
        const int64_t* run = x.run + block * x.features;
        const T* value = x.value + x.first[start];
        take_block<T>(taken.at, of_rows, g + start * outputs, rows, outputs, first);
        own([&](int64_t begin, int64_t end) M3D_HERE {
          for (int64_t f = begin; f < end; ++f) {
            Vec<T> total[V] = {};
            const int32_t* place = x.place + run[f];
            pick<T>(total, taken.at, width, x.row + run[f], run[f + 1] - run[f],
                    [&](int64_t i) M3D_HERE { return value[place[i]]; });
            T* at = strip + f * width;
            for (int v = 0; v < V; ++v) store(at + v * W, load(at + v * W) + total[v]);
          }
        });
      }
      const int64_t n = outputs - first < width ? outputs - first : width;
      own([&](int64_t begin, int64_t end) M3D_HERE {
        for (int64_t c = 0; c < n; ++c)
          for (int64_t f = begin; f < end; ++f) by_weight[(first + c) * x.features + f] = strip[f * width + c];
      });
      if (!thread) std::memcpy(by_bias + first, of_rows, n * sizeof(T));
    });
  });
}

}  // namespace
