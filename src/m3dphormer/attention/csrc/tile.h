// A tile is a run of CSR entries: those of several short rows, or a stretch of one long row. Its numbers lie
// entry by entry, x[j, h], as the rows of [T, H] tensors do. Two products carry all the traffic:
//   scores:      s[j, h] = x[h] . Y[idx[j], h]           (one row against the rows of its entries)
//   accumulate:  acc[h] += sum_j w[j, h] Y[idx[j], h]    (the rows of its entries, weighed)
// for all heads at once, so that a node's row of H * d_h numbers is read in one piece.
// The template's H is the number of heads and D is d_h in vectors; both 0 mean any.
#pragma once
#include "problem.h"
#include "vector.h"

namespace {

constexpr int kTile = 32;
constexpr int kBackTile = 16;  // backward reads a tile's rows twice: they must stay in the first cache

// One row's entries of a tile.
struct Segment {
  int64_t row;
  int begin, end;
};

struct Tile {
  const int64_t* idx;  // the keys, or in the transpose the queries, of its entries
  int n, count;
  bool opens, closes;  // whether its rows begin here, and end here
  Segment segment[kTile];

  const Segment* begin() const { return segment; }
  const Segment* end() const { return segment + count; }
};

// Numbers in a tile's buffer: loops over its lanes run to the end of the last vector.
template <class T> INLINE int64_t tile_size(int64_t heads) { return heads * kTile + Lanes<T>::W; }

// A tensor [T, H, d_h] whose rows are gathered.
template <class T, int D, int H> struct Table {
  const T* data;
  int64_t any_heads, any_width;

  INLINE int64_t heads() const { return H ? H : any_heads; }
  INLINE int64_t width() const { return D ? D * Lanes<T>::W : any_width; }
  INLINE int64_t stride() const { return heads() * width(); }
  INLINE const T* row(int64_t at) const { return data + at * stride(); }
  INLINE void fetch(int64_t at) const {
    const char* bytes = reinterpret_cast<const char*>(row(at));
    for (int64_t i = 0; i < stride() * int64_t(sizeof(T)); i += 64) __builtin_prefetch(bytes + i, 0, 2);
  }
};

template <class T, int D, int H>
INLINE void scores_of(T* s, const T* x, Table<T, D, H> Y, const int64_t* idx, int n) {
  constexpr int W = Lanes<T>::W;
  if constexpr (H > 0) {
    constexpr int E = H < 4 ? 4 / H : 1;  // entries whose sums across lanes are taken together
    Vec<T> mine[H * D];
    for (int c = 0; c < H * D; ++c) mine[c] = load(x + c * W);
    for (int j = 0; j < n; j += E) {
      const T* row[E];
      for (int i = 0; i < E; ++i) row[i] = Y.row(idx[j + i < n ? j + i : n - 1]);
      for (int at = 0; at < E * H; at += 4) {
        Vec<T> part[4];
        for (int i = 0; i < 4; ++i) {
          const int h = (at + i) % H;
          const T* theirs = row[(at + i) / H] + h * D * W;
          part[i] = mine[h * D] * load(theirs);
          for (int c = 1; c < D; ++c) part[i] += mine[h * D + c] * load(theirs + c * W);
        }
        sum4(s + j * H + at, part[0], part[1], part[2], part[3]);
      }
    }
  } else {
    const int64_t heads = Y.heads(), width = Y.width();
    for (int j = 0; j < n; ++j) {
      for (int64_t h = 0; h < heads; ++h) {
        const T *mine = x + h * width, *theirs = Y.row(idx[j]) + h * width;
        Vec<T> part = {};
        int64_t c = 0;
        for (; c + W <= width; c += W) part += load(mine + c) * load(theirs + c);
        T total = sum<T>(part);
        for (; c < width; ++c) total += mine[c] * theirs[c];
        s[j * heads + h] = total;
      }
    }
  }
}

// s[j, h] = X[row of j, h] . Y[idx[j], h]
template <class T, int D, int H>
INLINE void scores(T* s, Table<T, D, H> X, Table<T, D, H> Y, const Tile& tile) {
  for (const Segment& at : tile)
    scores_of(s + at.begin * Y.heads(), X.row(at.row), Y, tile.idx + at.begin, at.end - at.begin);
}

// G heads from h on, their sums held in registers.
template <class T, int D, int H, int G>
INLINE void accumulate_heads(T* acc, bool fresh, const T* w, Table<T, D, H> Y, const int64_t* idx, int n, int h) {
  constexpr int W = Lanes<T>::W;
  Vec<T> held[G * D];
  for (int c = 0; c < G * D; ++c) held[c] = fresh ? Vec<T>{} : load(acc + (h * D + c) * W);
  for (int j = 0; j < n; ++j) {
    const T* row = Y.row(idx[j]) + h * D * W;
    for (int g = 0; g < G; ++g) {
      const Vec<T> weight = all<T>(w[j * H + h + g]);
      for (int c = 0; c < D; ++c) held[g * D + c] += weight * load(row + (g * D + c) * W);
    }
  }
  for (int c = 0; c < G * D; ++c) store(acc + (h * D + c) * W, held[c]);
}

// One segment's part; the sums begin afresh where its row does.
template <class T, int D, int H>
INLINE void accumulate(T* acc, const T* tile_w, Table<T, D, H> Y, const Tile& tile, const Segment& at) {
  constexpr int W = Lanes<T>::W;
  const T* w = tile_w + at.begin * Y.heads();
  const int64_t* idx = tile.idx + at.begin;
  const int n = at.end - at.begin;
  if constexpr (H > 0) {
    constexpr int room = M3D_BYTES == 64 ? 16 : 8, G = D >= room ? 1 : H * D <= room ? H : room / D;
    for (int h = 0; h < H; h += G) accumulate_heads<T, D, H, G>(acc, tile.opens, w, Y, idx, n, h);
  } else {
    const int64_t heads = Y.heads(), width = Y.width();
    for (int64_t c = 0; tile.opens && c < Y.stride(); ++c) acc[c] = 0;
    for (int j = 0; j < n; ++j) {
      for (int64_t h = 0; h < heads; ++h) {
        const T weight = w[j * heads + h], *theirs = Y.row(idx[j]) + h * width;
        T* mine = acc + h * width;
        int64_t c = 0;
        for (; c + W <= width; c += W) store(mine + c, load(mine + c) + all<T>(weight) * load(theirs + c));
        for (; c < width; ++c) mine[c] += weight * theirs[c];
      }
    }
  }
}

// out[j, h] = Y[idx[j], h] for Y of [T, H].
template <class T, int H> INLINE void gather(T* out, const T* Y, const Tile& tile, int64_t any_heads) {
  const int64_t heads = H ? H : any_heads;
  for (int64_t j = 0; j < tile.n; ++j) std::memcpy(out + j * heads, Y + tile.idx[j] * heads, heads * sizeof(T));
}

// out[j, h] = Y[h], along a segment; what is written past its end belongs to segments to come.
template <class T, int H> INLINE void repeat(T* out, const T* Y, const Segment& at, int64_t any_heads) {
  if constexpr (H > 0) {
    const Vec<T> row = Halves<T, Lanes<T>::W, H>::fill(Y);
    for (int64_t c = at.begin * H; c < at.end * H; c += Lanes<T>::W) store(out + c, row);
  } else {
    for (int64_t j = at.begin; j < at.end; ++j)
      for (int64_t h = 0; h < any_heads; ++h) out[j * any_heads + h] = Y[h];
  }
}

// into[h] += sum_j x[j, h], over a segment.
template <class T, int H> INLINE void add_over(T* into, const T* x, const Segment& at, int64_t any_heads) {
  if constexpr (H > 0) {
    const int size = at.end * H;
    Vec<T> total = {};
    for (int c = at.begin * H; c < size; c += Lanes<T>::W) total += lane<T>() < size - c ? load(x + c) : Vec<T>{};
    T sums[H];
    Halves<T, Lanes<T>::W, H>::sum(total, sums);
    for (int h = 0; h < H; ++h) into[h] += sums[h];
  } else {
    for (int j = at.begin; j < at.end; ++j)
      for (int64_t h = 0; h < any_heads; ++h) into[h] += x[j * any_heads + h];
  }
}

// into[h] = sum_j x[j, h], over a segment.
template <class T, int H> INLINE void sum_over(T* into, const T* x, const Segment& at, int64_t any_heads) {
  for (int64_t h = 0; h < (H ? H : any_heads); ++h) into[h] = 0;
  add_over<T, H>(into, x, at, any_heads);
}

// into[h] = max(into[h], scale max_j x[j, h]), over a segment, for scale > 0; a NaN is passed over.
template <class T, int H> INLINE void raise_over(T* into, const T* x, T scale, const Segment& at, int64_t any_heads) {
  if constexpr (H > 0) {
    const int size = at.end * H;
    Vec<T> high = all<T>(-std::numeric_limits<T>::infinity());
    for (int c = at.begin * H; c < size; c += Lanes<T>::W) {
      const Vec<T> here = load(x + c);
      high = (lane<T>() < size - c) & (here > high) ? here : high;
    }
    T tops[H];
    Halves<T, Lanes<T>::W, H>::largest(high, tops);
    for (int h = 0; h < H; ++h) into[h] = tops[h] * scale > into[h] ? tops[h] * scale : into[h];
  } else {
    for (int j = at.begin; j < at.end; ++j)
      for (int64_t h = 0; h < any_heads; ++h) {
        const T here = x[j * any_heads + h] * scale;
        into[h] = here > into[h] ? here : into[h];
      }
  }
}

template <class T> INLINE void add(T* into, const T* from, int64_t n) {
  for (int64_t c = 0; c < n; ++c) into[c] += from[c];
}

}  // namespace
