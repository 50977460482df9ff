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

// What a tile's entries are hashed from, [n, H], where the rows are queries. rows is scratch, [H].
template <int H> INLINE void entry_words(uint32_t* out, uint32_t* rows, const Problem& p, const Tile& tile) {
  const int64_t heads = H ? H : p.heads;
  for (const Segment& at : tile) {
    const uint32_t query = uint32_t(at.row) * uint32_t(heads);
    for (int64_t h = 0; h < heads; ++h) rows[h] = mix<uint32_t>((query + uint32_t(h)) ^ p.step);
    for (int j = at.begin; j < at.end; ++j) {
      const uint32_t key = uint32_t(tile.idx[j]) * kGolden;
      for (int64_t h = 0; h < heads; ++h) out[j * heads + h] = rows[h] + key;
    }
  }
}

// What the queries of a tile's entries are hashed from, [n, H], where the rows are keys; and the keys' part.
template <int H> INLINE void query_words(uint32_t* out, uint32_t* keys, const Problem& p, const Tile& tile) {
  const int64_t heads = H ? H : p.heads;
  for (const Segment& at : tile)
    for (int j = at.begin; j < at.end; ++j) {
      const uint32_t query = uint32_t(tile.idx[j]) * uint32_t(heads), key = uint32_t(at.row) * kGolden;
      for (int64_t h = 0; h < heads; ++h) out[j * heads + h] = (query + uint32_t(h)) ^ p.step, keys[j * heads + h] = key;
    }
}

// Factor 0 or 1 / (1 - p) of W entries.
template <class T> INLINE Vec<T> kept(const Problem& p, Hash<T> entries) {
  const auto keep = __builtin_convertvector(mix<Hash<T>>(entries) >= p.threshold, Int<T>);
  return keep ? all<T>(T(p.keep_scale)) : Vec<T>{};
}

}  // namespace
