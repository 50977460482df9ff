// Linear maps of a tall matrix x [rows, width], several at once, and their gradients:
//   forward        out_i = x W_i^T + b_i                  for the first limit_i rows
//   to the rows    grad_x = sum_i g_i W_i                 g_i is the gradient of out_i
//   to the maps    grad_W_i = g_i^T x, grad_b_i = sum of g_i's rows
// The small matrix is packed into panels of two vectors' width, row after row. A tile of kTall rows by a panel
// is held in registers while it is summed; a block of rows stays in the second cache for all maps.
#pragma once
#include "rows.h"

namespace {

constexpr int kTall = M3D_BYTES == 64 ? 14 : 6;  // rows of a tile: with two vectors each they fill the registers
constexpr int64_t kBlock = 8 * kTall;            // rows
constexpr int64_t kChunk = 128;                  // rows of x that are packed at once for g^T x

template <class T> struct Maps {
  T *const *weights, *const *biases, *const *sides;  // W_i [n_i, width], b_i or null, and out_i or g_i [limit_i, n_i]
  const int64_t *outputs, *limits;                   // n_i, and how many rows a map reads
  int64_t count;
};

// Sums of a tile, R rows of V vectors.
template <class T, int R, int V> struct Sums {
  static constexpr int W = Lanes<T>::W;
  Vec<T> at[R][V];

  INLINE explicit Sums(const Vec<T> (&start)[V]) {
    for (int i = 0; i < R; ++i)
      for (int v = 0; v < V; ++v) at[i][v] = start[v];
  }

  // Adds n columns of a times as many rows of a panel; a's numbers lie a row and a column apart as told.
  template <class Row, class Column> INLINE void fold(const T* a, Row row, Column column, const T* panel, int64_t n) {
    for (int64_t k = 0; k < n; ++k, a += column, panel += V * W) {
      Vec<T> y[V];
      for (int v = 0; v < V; ++v) y[v] = load(panel + v * W);
      for (int i = 0; i < R; ++i) {
        const Vec<T> x = all<T>(a[i * row]);
        for (int v = 0; v < V; ++v) at[i][v] += x * y[v];
      }
    }
  }

  // To rows that lie `stride` apart and end after `n` columns.
  template <bool add> INLINE void put(T* to, int64_t stride, int64_t n) const {
    for (int i = 0; i < R; ++i, to += stride) {
      if (n >= V * W) {
        for (int v = 0; v < V; ++v) store(to + v * W, add ? load(to + v * W) + at[i][v] : at[i][v]);
      } else {
        T row[V * W];
        for (int v = 0; v < V; ++v) store(row + v * W, at[i][v]);
        for (int64_t c = 0; c < n; ++c) to[c] = add ? to[c] + row[c] : row[c];
      }
    }
  }
};

// Calls body(first, R) for runs of rows from begin to end: whole tiles, then smaller ones.
template <class Body> INLINE void tiles(int64_t begin, int64_t end, const Body& body) {
  for (; begin + kTall <= end; begin += kTall) body(begin, Fixed<kTall>());
  for (; begin + 4 <= end; begin += 4) body(begin, Fixed<4>());
  for (; begin < end; ++begin) body(begin, Fixed<1>());
}

// Calls body(first column, V) for the panels of a matrix with n columns.
template <class T, class Body> INLINE void panels(int64_t n, const Body& body) {
  constexpr int W = Lanes<T>::W;
  for (int64_t c = 0; c < n; c += 2 * W) n - c > W ? body(c, Fixed<2>()) : body(c, Fixed<1>());
}

template <class T> INLINE int64_t packed_size(int64_t rows, int64_t columns) {
  constexpr int W = Lanes<T>::W;
  return rows * ((columns + W - 1) / W * W);
}

// A matrix [rows, columns], its numbers a row and a column apart as told, into panels.
template <class T> void pack(T* to, const T* from, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  constexpr int W = Lanes<T>::W;
  panels<T>(columns, [&](int64_t first, auto V) M3D_HERE {
    const int64_t width = V * W, n = columns - first < width ? columns - first : width;
    T* panel = to + first * rows;
    for (int64_t r = 0; r < rows; ++r) {
      const T* x = from + r * row + first * column;
      if (column == 1) std::memcpy(panel + r * width, x, n * sizeof(T));
      else
        for (int64_t c = 0; c < n; ++c) panel[r * width + c] = x[c * column];
      for (int64_t c = n; c < width; ++c) panel[r * width + c] = 0;
    }
  });
}

// Where each map's packed weights begin; the last number is the size of all.
template <class T, class Size> int64_t offsets(int64_t* at, int64_t count, const Size& size) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) at[i] = total, total += size(i);
  return total;
}

template <class T> void map_forward(const T* x, const Maps<T>& maps, int64_t rows, int64_t width, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  Scratch<int64_t> at(maps.count);
  Scratch<T> packed(offsets<T>(at.at, maps.count, [&](int64_t i) { return packed_size<T>(width, maps.outputs[i]); }));
  blocks(threads, maps.count, [&](int64_t i) {
    pack(packed.at + at.at[i], maps.weights[i], width, maps.outputs[i], 1, width);
  });
  with_width(width, [&](auto known) {
    blocks(threads, (rows + kBlock - 1) / kBlock, [&](int64_t block) {
      for (int64_t i = 0; i < maps.count; ++i) {
        const int64_t begin = block * kBlock, limit = maps.limits[i], n = maps.outputs[i];
        const int64_t end = limit < begin + kBlock ? limit : begin + kBlock;
        panels<T>(n, [&](int64_t column, auto V) M3D_HERE {
          const T *panel = packed.at + at.at[i] + column * width, *bias = maps.biases[i];
          T padded[2 * W] = {};
          for (int64_t c = 0; bias && c < V * W && column + c < n; ++c) padded[c] = bias[column + c];
          Vec<T> start[V];
          for (int v = 0; v < V; ++v) start[v] = load(padded + v * W);
          tiles(begin, end, [&](int64_t row, auto R) M3D_HERE {
            Sums<T, R, V> sums(start);
            sums.fold(x + row * known, known, Fixed<1>(), panel, known);
            sums.template put<false>(maps.sides[i] + row * n + column, n, n - column);
          });
        });
      }
    });
  });
}

template <class T> void map_rows(T* grad_x, const Maps<T>& maps, int64_t rows, int64_t width, int64_t threads) {
  Scratch<int64_t> at(maps.count);
  Scratch<T> packed(offsets<T>(at.at, maps.count, [&](int64_t i) { return packed_size<T>(maps.outputs[i], width); }));
  blocks(threads, maps.count, [&](int64_t i) {
    pack(packed.at + at.at[i], maps.weights[i], maps.outputs[i], width, width, 1);
  });
  blocks(threads, (rows + kBlock - 1) / kBlock, [&](int64_t block) {
    const int64_t last = rows < (block + 1) * kBlock ? rows : (block + 1) * kBlock;
    for (int64_t begin = block * kBlock, end; begin < last; begin = end) {
      end = last;  // no map ends in between
      for (int64_t i = 0; i < maps.count; ++i)
        if (maps.limits[i] > begin && maps.limits[i] < end) end = maps.limits[i];
      panels<T>(width, [&](int64_t column, auto V) M3D_HERE {
        tiles(begin, end, [&](int64_t row, auto R) M3D_HERE {
          Sums<T, R, V> sums({});
          for (int64_t i = 0; i < maps.count; ++i) {
            if (maps.limits[i] <= row) continue;
            const int64_t n = maps.outputs[i];
            const T *g = maps.sides[i] + row * n, *panel = packed.at + at.at[i] + column * n;
            if (n == width) with_width(n, [&](auto known) M3D_HERE { sums.fold(g, known, Fixed<1>(), panel, known); });
            else sums.fold(g, n, Fixed<1>(), panel, n);
          }
          sums.template put<false>(grad_x + row * width + column, width, width - column);
        });
      });
    }
  });
}

// Gradients of a map from a run of rows: grad_W [n, width], then grad_b [n].
template <class T>
INLINE void add_map(T* sums, const T* g, int64_t n, const T* packed, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row) add(sums + n * width, T(1), g + row * n, n);
  panels<T>(width, [&](int64_t column, auto V) M3D_HERE {
    tiles(0, n, [&](int64_t first, auto R) M3D_HERE {
      Sums<T, R, V> tile({});
      tile.fold(g + first, Fixed<1>(), n, packed + column * rows, rows);
      tile.template put<true>(sums + first * width + column, width, width - column);
    });
  });
}

// The gradients of all maps, one behind the other, in `grads`; partial is [spans, size of grads].
template <class T>
void map_weights(T* grads, T* partial, const T* x, const Maps<T>& maps, int64_t spans, int64_t rows, int64_t width,
                 int64_t threads) {
  Scratch<int64_t> at(maps.count);
  const int64_t size = offsets<T>(at.at, maps.count, [&](int64_t i) { return maps.outputs[i] * (width + 1); });
  const int64_t chunks = (rows + kChunk - 1) / kChunk;
  blocks(threads, spans, [&](int64_t span) {
    T* sums = partial + span * size;
    clear(sums, size);
    Scratch<T> packed(packed_size<T>(kChunk, width));
    for (int64_t chunk = chunks * span / spans; chunk < chunks * (span + 1) / spans; ++chunk) {
      const int64_t begin = chunk * kChunk, end = rows < begin + kChunk ? rows : begin + kChunk;
      for (int64_t i = 0, have = -1; i < maps.count; ++i) {
        const int64_t n = (maps.limits[i] < end ? maps.limits[i] : end) - begin;
        if (n <= 0) continue;
        if (n != have) pack(packed.at, x + begin * width, have = n, width, width, 1);
        add_map(sums + at.at[i], maps.sides[i] + begin * maps.outputs[i], maps.outputs[i], packed.at, n, width);
      }
    }
  });
  constexpr int64_t kRun = 4096;
  blocks(threads, (size + kRun - 1) / kRun, [&](int64_t run) {
    const int64_t from = run * kRun, n = size - from < kRun ? size - from : kRun;
    clear(grads + from, n);
    for (int64_t span = 0; span < spans; ++span) add(grads + from, T(1), partial + span * size + from, n);
  });
}

}  // namespace
