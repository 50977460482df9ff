// Dropout as a hash (attention/dropout.py says it in Python, word for word):
//   row(u, h) = mix((u H + h) ^ step),  entry(u, v, h) = mix(row(u, h) + v * golden),
// in 32-bit arithmetic; the entry is kept where entry >= threshold.
#pragma once
#include "tile.h"

namespace {

constexpr uint32_t kGolden = 0x9E3779B9u;

template <class U> INLINE U mix(U word) {
  word = (word ^ (word >> 16)) * 0x7FEB352Du;
  word = (word ^ (word >> 15)) * 0x846CA68Bu;
  return word ^ (word >> 16);
}

// What one query is hashed from, [H].
template <int H> INLINE auto query_word(int64_t query, uint32_t step) {
  typename Pair<uint32_t, H>::V heads;
  for (int h = 0; h < H; ++h) heads[h] = uint32_t(h);
  return (heads + uint32_t(query) * uint32_t(H)) ^ step;
}

// What a tile's entries are hashed from, [n, H], where the rows are queries.
template <int H> INLINE void entry_words(uint32_t* out, const Problem& p, const Tile& tile) {
  for (const Segment& at : tile) {
    if constexpr (H > 1) {
      const auto row = mix(query_word<H>(at.row, p.step));
      for (int64_t j = at.begin; j < at.end; ++j) {
        const auto entry = row + uint32_t(tile.idx[j]) * kGolden;
        std::memcpy(out + j * H, &entry, sizeof entry);
      }
    } else {
      const int64_t heads = H ? H : p.heads;
      for (int64_t h = 0; h < heads; ++h) {
        const uint32_t row = mix((uint32_t(at.row) * uint32_t(heads) + uint32_t(h)) ^ p.step);
        for (int64_t j = at.begin; j < at.end; ++j) out[j * heads + h] = row + uint32_t(tile.idx[j]) * kGolden;
      }
    }
  }
}

// What the queries of a tile's entries are hashed from, [n, H], where the rows are keys; and the keys' part.
template <int H> INLINE void query_words(uint32_t* out, uint32_t* keys, const Problem& p, const Tile& tile) {
  const int64_t heads = H ? H : p.heads;
  for (int64_t j = 0; j < tile.n; ++j) {
    if constexpr (H > 1) {
      const auto query = query_word<H>(tile.idx[j], p.step);
      std::memcpy(out + j * H, &query, sizeof query);
    } else {
      const uint32_t query = uint32_t(tile.idx[j]) * uint32_t(heads);
      for (int64_t h = 0; h < heads; ++h) out[j * heads + h] = (query + uint32_t(h)) ^ p.step;
    }
  }
  for (const Segment& at : tile)
    for (int64_t c = at.begin * heads; c < at.end * heads; ++c) keys[c] = uint32_t(at.row) * kGolden;
}

// Factor 0 or 1 / (1 - p) of W entries.
template <class T> INLINE Vec<T> kept(const Problem& p, Hash<T> entries) {
  const auto keep = __builtin_convertvector(mix<Hash<T>>(entries) >= p.threshold, Int<T>);
  return keep ? all<T>(T(p.keep_scale)) : Vec<T>{};
}

}  // namespace
