// Dropout as a hash (attention/dropout.py says it in Python, word for word):
//   row(u, h) = mix((u H + h) ^ step),  entry(u, v, h) = mix(row(u, h) + v * golden),
// in 32-bit arithmetic; the entry is kept where entry >= threshold.
#pragma once
#include "problem.h"
#include "vector.h"

namespace {

constexpr uint32_t kGolden = 0x9E3779B9u;

template <class U> INLINE U mix(U word) {
  word = (word ^ (word >> 16)) * 0x7FEB352Du;
  word = (word ^ (word >> 15)) * 0x846CA68Bu;
  return word ^ (word >> 16);
}

INLINE uint32_t row_hash(const Problem& p, int64_t query, int64_t head) {
  return mix<uint32_t>((uint32_t(query) * uint32_t(p.heads) + uint32_t(head)) ^ p.step);
}

// Factor 0 or 1 / (1 - p) of W entries.
template <class T> INLINE Vec<T> kept(const Problem& p, Hash<T> rows, Hash<T> keys) {
  const Hash<T> entry = mix<Hash<T>>(rows + keys);
  const auto keep = __builtin_convertvector(entry >= p.threshold, Int<T>);
  return keep ? all<T>(T(p.keep_scale)) : Vec<T>{};
}

}  // namespace
