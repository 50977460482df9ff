// Linear maps of a tall matrix x [rows, width], several at once, and their gradients:
//   forward        out_i = x W_i^T + b_i                  for the first limit_i rows
//   to the rows    grad_x = sum_i g_i W_i                 g_i is the gradient of out_i
//   to the maps    grad_W_i = g_i^T x, grad_b_i = sum of g_i's rows
// One matrix is packed into panels of two vectors' width, row after row. A tile of up to kTall rows by a panel
// is held in registers while it is summed, and what the next block will read is asked for meanwhile; a block of
// rows stays in the second cache for all maps. Narrow maps share panels and tiles.
#pragma once
#include "rows.h"

namespace {

constexpr int kTall = M3D_BYTES == 64 ? 14 : 6;  // rows of a tile: with two vectors each they fill the registers
constexpr int64_t kBlock = 8 * kTall;            // rows
constexpr int64_t kChunk = 256;                  // rows of x that are packed at once for g^T x

template <class T> struct Maps {
  T *const *weights, *const *biases, *const *sides;  // W_i [n_i, width], b_i or null, and out_i or g_i [limit_i, n_i]
  const int64_t *outputs, *limits;                   // n_i, and how many rows a map reads
  int64_t count;

  int64_t total() const {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += outputs[i];
    return sum;
  }
  // Up to `end`, or to where the first map ends after `begin`.
  int64_t same(int64_t begin, int64_t end) const {
    for (int64_t i = 0; i < count; ++i)
      if (limits[i] > begin && limits[i] < end) end = limits[i];
    return end;
  }
};

// Asks for n numbers in a number of steps, one after the other; past the end of a matrix it does no harm.
template <class T> struct Ahead {
  const T* at;
  int64_t step;
  INLINE Ahead(const T* from, int64_t n, int64_t steps) : at(from), step((n + steps) / (steps + 1)) {}
  INLINE void operator()() {
    __builtin_prefetch(at, 0, 2);
    at += step;
  }
};

// Sums of a tile, R rows of V vectors.
template <class T, int R, int V> struct Sums {
  static constexpr int W = Lanes<T>::W;
  Vec<T> at[R][V];

  INLINE explicit Sums(const Vec<T> (&start)[V]) {
    for (int i = 0; i < R; ++i)
      for (int v = 0; v < V; ++v) at[i][v] = start[v];
  }

  // Adds n columns of a times as many rows of a panel; a's numbers lie a row and a column apart as told. In each
  // step it calls `expect`: asked for at once, what comes from memory would keep the loads of the tile waiting.
  template <class Row, class Column, class Expect>
  INLINE void fold(const T* a, Row row, Column column, const T* panel, int64_t n, Expect expect) {
    for (int64_t k = 0; k < n; ++k, a += column, panel += V * W) {
      Vec<T> y[V];
      for (int v = 0; v < V; ++v) y[v] = load(panel + v * W);
      expect();
      for (int i = 0; i < R; ++i) {
        const Vec<T> x = all<T>(a[i * row]);
        for (int v = 0; v < V; ++v) at[i][v] += x * y[v];
      }
    }
  }

  // To rows that begin where `to` tells and end after `n` columns.
  template <bool add, class To> INLINE void put(const To& to, int64_t n) const {
#pragma GCC unroll 16  // a loop that stays one would keep the sums in memory
    for (int i = 0; i < R; ++i) {
      T* row = to(i);
      if (n >= V * W) {
        for (int v = 0; v < V; ++v) store(row + v * W, add ? load(row + v * W) + at[i][v] : at[i][v]);
      } else {
        T all[V * W];
        for (int v = 0; v < V; ++v) store(all + v * W, at[i][v]);
        for (int64_t c = 0; c < n; ++c) row[c] = add ? row[c] + all[c] : all[c];
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

// Calls body(R) with a height up to R as a constant.
template <int R = kTall, class Body> INLINE void with_height(int64_t height, const Body& body) {
  if constexpr (R > 1) {
    if (height < R) return with_height<R - 1>(height, body);
  }
  body(Fixed<R>());
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

// A matrix [rows, columns] into panels.
template <class T> void pack(T* to, const T* from, int64_t rows, int64_t columns) {
  constexpr int W = Lanes<T>::W;
  for (int64_t r = 0; r < rows; ++r, from += columns)
    panels<T>(columns, [&](int64_t first, auto V) M3D_HERE {
      T* row = to + first * rows + r * V * W;
      if (columns - first >= V * W)
        for (int v = 0; v < V; ++v) store(row + v * W, load(from + first + v * W));
      else
        for (int64_t c = 0; c < V * W; ++c) row[c] = first + c < columns ? from[first + c] : 0;
    });
}

// Where each map's packed weights begin; the last number is the size of all.
template <class T, class Size> int64_t offsets(int64_t* at, int64_t count, const Size& size) {
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) at[i] = total, total += size(i);
  return total;
}

struct Column {
  int64_t map, at;
};

// The columns of all maps: first those that fill panels of one map (returns how many), then the others.
template <class T> int64_t arrange(Column* to, const Maps<T>& maps) {
  constexpr int64_t wide = 2 * Lanes<T>::W;
  Column* next = to;
  for (int64_t i = 0; i < maps.count; ++i)
    for (int64_t c = 0; c < maps.outputs[i] / wide * wide; ++c) *next++ = {i, c};
  const int64_t whole = next - to;
  for (int64_t i = 0; i < maps.count; ++i)
    for (int64_t c = maps.outputs[i] / wide * wide; c < maps.outputs[i]; ++c) *next++ = {i, c};
  return whole;
}

template <class T> void map_forward(const T* x, const Maps<T>& maps, int64_t rows, int64_t width, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  const int64_t total = maps.total();
  Scratch<Column> columns(total);
  const int64_t whole = arrange(columns.at, maps);
  Scratch<T> packed(packed_size<T>(width, total)), biases(packed_size<T>(1, total));
  blocks(threads, (total + 2 * W - 1) / (2 * W), [&](int64_t panel) {
    const int64_t first = panel * 2 * W, left = total - first, pitch = left > W ? 2 * W : W;
    for (int64_t c = 0; c < pitch; ++c) {
      const Column column = columns.at[first + (c < left ? c : 0)];
      const T *weights = maps.weights[column.map] + column.at * width, *bias = maps.biases[column.map];
      for (int64_t k = 0; k < width; ++k) packed.at[first * width + k * pitch + c] = c < left ? weights[k] : 0;
      biases.at[first + c] = c < left && bias ? bias[column.at] : 0;
    }
  });
  blocks(threads, (rows + kBlock - 1) / kBlock, [&](int64_t block) {
    panels<T>(total, [&](int64_t first, auto V) M3D_HERE {
      const int64_t begin = block * kBlock, n = total - first < V * W ? total - first : V * W;
      const Column* column = columns.at + first;
      int64_t end = 0;
      for (int64_t c = 0; c < n; ++c) end = end < maps.limits[column[c].map] ? maps.limits[column[c].map] : end;
      if (begin + kBlock < end) end = begin + kBlock;
      Vec<T> start[V];
      for (int v = 0; v < V; ++v) start[v] = load(biases.at + first + v * W);
      tiles(begin, end, [&](int64_t row, auto R) M3D_HERE {
        Sums<T, R, V> sums(start);
        const T* next = x + (row + kBlock) * width + R * width * first / total;
        sums.fold(x + row * width, width, Fixed<1>(), packed.at + first * width, width,
                  Ahead<T>(next, R * width * V * W / total, width));
        if (first < whole) {
          const int64_t stride = maps.outputs[column->map];
          T* to = maps.sides[column->map] + row * stride + column->at;
          return sums.template put<false>([&](int64_t i) M3D_HERE { return to + i * stride; }, n);
        }
        T all[R * V * W];
        sums.template put<false>([&](int64_t i) M3D_HERE { return all + i * V * W; }, V * W);
        for (int64_t c = 0; c < n; ++c) {
          const int64_t map = column[c].map, stride = maps.outputs[map], left = maps.limits[map] - row;
          T* to = maps.sides[map] + row * stride + column[c].at;
          for (int64_t i = 0; i < R && i < left; ++i) to[i * stride] = all[i * V * W + c];
        }
      });
    });
  });
}

template <class T> void map_rows(T* grad_x, const Maps<T>& maps, int64_t rows, int64_t width, int64_t threads) {
  constexpr int W = Lanes<T>::W;
  Scratch<int64_t> at(maps.count);
  Scratch<T> packed(offsets<T>(at.at, maps.count, [&](int64_t i) { return packed_size<T>(maps.outputs[i], width); }));
  blocks(threads, maps.count, [&](int64_t i) {
    pack(packed.at + at.at[i], maps.weights[i], maps.outputs[i], width);
  });
  blocks(threads, (rows + kBlock - 1) / kBlock, [&](int64_t block) {
    const int64_t last = rows < (block + 1) * kBlock ? rows : (block + 1) * kBlock;
    for (int64_t begin = block * kBlock, end; begin < last; begin = end) {
      end = maps.same(begin, last);
      panels<T>(width, [&](int64_t column, auto V) M3D_HERE {
        tiles(begin, end, [&](int64_t row, auto R) M3D_HERE {
          Sums<T, R, V> sums({});
          for (int64_t i = 0; i < maps.count; ++i) {
            if (maps.limits[i] <= row) continue;
            const int64_t n = maps.outputs[i];
            const T *g = maps.sides[i] + row * n, *panel = packed.at + at.at[i] + column * n;
            const T* next = g + kBlock * n + R * n * column / width;
            sums.fold(g, n, Fixed<1>(), panel, n, Ahead<T>(next, R * n * V * W / width, n));
          }
          T* to = grad_x + row * width + column;
          sums.template put<false>([&](int64_t i) M3D_HERE { return to + i * width; }, width - column);
        });
      });
    }
  });
}

// to += the sum of a's rows, which lie `stride` apart
template <class T> INLINE void add_rows(T* to, const T* a, int64_t rows, int64_t stride, int64_t n) {
  constexpr int W = Lanes<T>::W;
  int64_t c = 0;
  const auto run = [&](auto V) M3D_HERE {
    for (; c + V * W <= n; c += V * W) {
      Vec<T> sums[V] = {};
      for (int64_t row = 0; row < rows; ++row)
        for (int v = 0; v < V; ++v) sums[v] += load(a + row * stride + c + v * W);
      for (int v = 0; v < V; ++v) store(to + c + v * W, load(to + c + v * W) + sums[v]);
    }
  };
  run(Fixed<8>()), run(Fixed<1>());
  for (int64_t row = 0; c < n && row < rows; ++row) add(to + c, T(1), a + row * stride + c, n - c);
}

// Sums of g^T x over a span of rows, chunk by chunk.
template <class T> struct Span {
  T* sums;  // as the gradients of map_weights
  const T* x;
  const Maps<T>& maps;
  const int64_t* at;  // a map's first output among all
  int64_t total, width;
  Scratch<T> packed, tile;  // rows of x; columns of narrow maps, side by side

  Span(T* sums, const T* x, const Maps<T>& maps, const int64_t* at, int64_t total, int64_t width)
      : sums(sums), x(x), maps(maps), at(at), total(total), width(width), packed(packed_size<T>(kChunk, width)),
        tile(kChunk * kTall) {
    clear(sums, total * (width + 1));
  }

  // R columns of g, of the outputs `of`, with n rows of x from `begin`; `next` is g a chunk later.
  template <int64_t R>
  INLINE void fold(const T* g, int64_t stride, const int64_t* of, Fixed<R>, const T* next, int64_t begin, int64_t n) {
    constexpr int W = Lanes<T>::W;
    const int64_t steps = n * ((width + 2 * W - 1) / (2 * W));
    Ahead<T> ahead(next, kChunk * R, steps);
    Ahead<T> rows(x + (begin + kChunk) * width + kChunk * width * *of / total, kChunk * width * R / total, steps);
    panels<T>(width, [&](int64_t column, auto V) M3D_HERE {
      Sums<T, R, V> tile({});
      tile.fold(g, Fixed<1>(), stride, packed.at + column * n, n, [&]() M3D_HERE { ahead(), rows(); });
      tile.template put<true>([&](int64_t i) M3D_HERE { return sums + of[i] * width + column; }, width - column);
    });
  }

  // Rows from begin to end, where no map ends in between.
  void add_chunk(int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    int64_t of[kTall], have = 0;
    pack(packed.at, x + begin * width, n, width);
    for (int64_t i = 0; i < maps.count; ++i) {
      const int64_t wide = maps.outputs[i], parts = (wide + kTall - 1) / kTall;
      if (maps.limits[i] <= begin) continue;
      const T* g = maps.sides[i] + begin * wide;
      add_rows(sums + total * width + at[i], g, n, wide, wide);
      for (int64_t part = 0; wide >= kTall && part < parts; ++part) {  // of even height: low tiles wait for their sums
        const int64_t first = wide * part / parts;
        with_height(wide * (part + 1) / parts - first, [&](auto R) {
          for (int c = 0; c < R; ++c) of[c] = at[i] + first + c;
          fold(g + first, wide, of, R, g + kChunk * (wide + first), begin, n);
        });
      }
    }
    for (int64_t i = 0; i < maps.count; ++i) {
      const int64_t wide = maps.outputs[i];
      if (maps.limits[i] <= begin || wide >= kTall) continue;
      for (int64_t c = 0; c < wide; ++c) {
        for (int64_t row = 0; row < n; ++row) tile.at[row * kTall + have] = maps.sides[i][(begin + row) * wide + c];
        of[have++] = at[i] + c;
        if (have == kTall) fold_narrow(of, have, begin, n), have = 0;
      }
    }
    if (have) fold_narrow(of, have, begin, n);
  }

  void fold_narrow(const int64_t* of, int64_t have, int64_t begin, int64_t n) {
    with_height(have, [&](auto R) { fold(tile.at, kTall, of, R, tile.at, begin, n); });
  }
};

// The gradients of all weights [total, width], then of all biases [total]; partial is [spans, size of grads].
template <class T>
void map_weights(T* grads, T* partial, const T* x, const Maps<T>& maps, int64_t spans, int64_t rows, int64_t width,
                 int64_t threads) {
  Scratch<int64_t> at(maps.count);
  const int64_t total = offsets<T>(at.at, maps.count, [&](int64_t i) { return maps.outputs[i]; });
  const int64_t size = total * (width + 1), chunks = (rows + kChunk - 1) / kChunk;
  blocks(threads, spans, [&](int64_t number) {
    Span<T> span(partial + number * size, x, maps, at.at, total, width);
    const int64_t to = chunks * (number + 1) / spans * kChunk, last = to < rows ? to : rows;
    for (int64_t begin = chunks * number / spans * kChunk, end; begin < last; begin = end) {
      end = begin / kChunk * kChunk + kChunk;
      end = maps.same(begin, end < last ? end : last);
      span.add_chunk(begin, end);
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
