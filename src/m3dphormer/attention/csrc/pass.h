// What the kernels share: their view of the problem, scratch memory, and the loop over rows. A kernel takes
// a tile at a time and finishes the rows that close in it; a long row's sums are kept in a state from tile to
// tile, and the states of its pieces merge.
#pragma once
#include "tile.h"

namespace {

template <class T, int D, int H> struct Kernel {
  const Problem p;  // a copy: no store can change it, so its fields stay in registers
  T* const tiles;
  uint32_t* const words;
  const bool large;  // whether a result is too large to wait in the caches for its reader

  INLINE Kernel(const Problem& given, void* workspace)
      : p(given), tiles(static_cast<T*>(workspace)), words(reinterpret_cast<uint32_t*>(numbers(kTiles))),
        large(p.rows * p.heads * p.width_v * int64_t(sizeof(T)) > kLarge) {}

  // Row `row` of a result, H * d_h numbers.
  INLINE void put(void* into, int64_t row, const T* from, Table<T, D, H> like) const {
    T* to = static_cast<T*>(into) + row * like.stride();
    if constexpr (H > 0) {
      if (large && reinterpret_cast<uintptr_t>(to) % M3D_BYTES == 0) {
        for (int c = 0; c < H * D; ++c) stream(to + c * Lanes<T>::W, load(from + c * Lanes<T>::W));
        return;
      }
    }
    std::memcpy(to, from, like.stride() * sizeof(T));
  }

  // Scratch for a tile: numbers [n, H], and words for its hashes.
  INLINE T* numbers(int i) const { return tiles + i * tile_size<T>(heads()); }
  INLINE uint32_t* hashes(int i) const { return words + i * tile_size<T>(heads()); }

  INLINE int64_t heads() const { return H ? H : p.heads; }
  INLINE Table<T, D, H> table(const void* data, int64_t width) const { return {static_cast<const T*>(data), p.heads, width}; }

  static size_t workspace(const Problem& p) { return tile_size<T>(p.heads) * (kTiles * sizeof(T) + 2 * sizeof(uint32_t)); }
  static constexpr int kTiles = 4;
  static constexpr int64_t kLarge = 4 << 20;
};

constexpr int64_t kFetch = 16;  // rows to come whose own numbers are asked for

// Entries begin..end of one row, tile by tile; the state holds its sums.
template <class K>
INLINE void fold_long(const K& kernel, Tile& tile, const int64_t* indices, int64_t row, int64_t begin, int64_t end,
                      bool whole, void* state, char* spill) {
  for (int64_t e = begin; e < end; e += K::tile) {
    const int n = int(end - e < K::tile ? end - e : K::tile);
    tile.idx = indices + e, tile.n = n, tile.count = 1;
    tile.opens = e == begin, tile.closes = whole && e + n == end;
    tile.segment[0] = {row, 0, n};
    kernel.run(tile, state, spill + (e - begin) * K::spill(kernel.p));
  }
}

// Whole rows, those that are longer than a piece left out.
template <class K>
void fold_rows(const Problem& p, int64_t first, int64_t last, int64_t longest, void* state, void* workspace, char* spill) {
  const K kernel(p, workspace);
  const int64_t* indptr = K::transposed ? p.t_indptr : p.indptr;
  const int64_t* indices = K::transposed ? p.t_indices : p.indices;
  const auto row_at = [&p](int64_t place) { return p.order ? p.order[place] : place; };
  // Rows lie where `order` says, so that no prefetcher of the machine foresees them. Inline by force: gcc
  // takes a function that only prefetches for one without effect.
  const auto fetch = [&](int64_t place) __attribute__((always_inline)) {
    if (place + kFetch >= p.rows) return;
    const int64_t row = row_at(place + kFetch);
    if (uint64_t(row) < uint64_t(p.rows)) kernel.fetch(row);  // its unit may not have been checked yet
  };
  Tile tile;
  for (int64_t at = first; at < last;) {
    const int64_t begin = indptr[at], end = indptr[at + 1];
    if (end - begin > K::tile) {
      fetch(at);
      if (end - begin <= longest) {
        fold_long(kernel, tile, indices, row_at(at), begin, end, true, state, spill);
        spill += (end - begin) * K::spill(p);
      }
      ++at;
      continue;
    }
    tile.idx = indices + begin, tile.count = 0, tile.opens = tile.closes = true;
    for (; at < last && tile.count < K::tile && indptr[at + 1] - begin <= K::tile; ++at) {
      fetch(at);
      tile.segment[tile.count++] = {row_at(at), int(indptr[at] - begin), int(indptr[at + 1] - begin)};
    }
    tile.n = tile.segment[tile.count - 1].end;
    kernel.run(tile, state, spill);
    spill += tile.n * K::spill(p);
  }
  end_streams();
}

template <class K>
void fold_piece(const Problem& p, int64_t row, int64_t begin, int64_t end, void* state, void* workspace, char* spill) {
  Tile tile;
  fold_long(K(p, workspace), tile, K::transposed ? p.t_indices : p.indices, row, begin, end, false, state, spill);
}

template <class K> void finish(const Problem& p, int64_t row, void* state, void* workspace) { K(p, workspace).finish(row, state); }

template <class K> Pass pass(const Problem& p) {
  return {K::state(p), K::workspace(p), K::spill(p), K::transposed, fold_rows<K>, fold_piece<K>, K::merge, finish<K>};
}

}  // namespace
