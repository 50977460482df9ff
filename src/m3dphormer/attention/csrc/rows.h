// What the passes of structure.cpp share: blocks of rows on several threads, dropout, short loops.
// Blocks depend on the sizes alone, and what they sum is merged in their order: the bits do not depend
// on the number of threads.
#pragma once
#include <cstdint>
#include <cstdlib>

#include "exp.h"
#include "fork.h"
#include "hash.h"

namespace {

template <class Body> void blocks(int64_t threads, int64_t count, const Body& body) {
#pragma omp parallel for num_threads(int(threads)) if (threads > 1 && !m3d_forked()) schedule(static)
  for (int64_t block = 0; block < count; ++block) body(block);
}

// A width that the compiler knows: short loops over it are unrolled into whole vectors.
template <int64_t N> struct Fixed {
  constexpr operator int64_t() const { return N; }
};

// Calls body with the width, as a constant where it is a common one.
template <class Body> void with_width(int64_t width, const Body& body) {
  switch (width) {
    case 16: return body(Fixed<16>());
    case 32: return body(Fixed<32>());
    case 64: return body(Fixed<64>());
    case 128: return body(Fixed<128>());
    case 256: return body(Fixed<256>());
    default: return body(width);
  }
}

// Memory of one block, for numbers that are not worth a tensor.
template <class T> struct Scratch {
  T* at;
  explicit Scratch(int64_t count) : at(static_cast<T*>(std::aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64))) {}
  ~Scratch() { std::free(at); }
  Scratch(const Scratch&) = delete;
};

// Dropout of a call (attention/dropout.py): the factor of entry (query, key, head).
struct Drop {
  int64_t active, step, threshold;
  double scale;
  const int64_t* names;  // of the rows, where they are some of a larger state; null: their numbers
  INLINE uint32_t name(int64_t row) const { return uint32_t(names ? names[row] : row); }
  // What a query's head is hashed from.
  INLINE uint32_t word(int64_t query, int64_t heads, int64_t head) const {
    return (name(query) * uint32_t(heads) + uint32_t(head)) ^ uint32_t(step);
  }
  INLINE uint32_t row(int64_t query, int64_t heads, int64_t head) const {
    return mix<uint32_t>(word(query, heads, head));
  }
  template <class T> INLINE T keep(uint32_t row, int64_t key) const {
    if (!active) return T(1);
    return mix<uint32_t>(row + name(key) * kGolden) >= uint32_t(threshold) ? T(scale) : T(0);
  }
  // The same for W entries, each hashed from its word.
  template <class T> INLINE Vec<T> keep(Hash<T> words) const {
    if (!active) return all<T>(T(1));
    const auto kept = __builtin_convertvector(mix<Hash<T>>(words) >= uint32_t(threshold), Int<T>);
    return kept ? all<T>(T(scale)) : Vec<T>{};
  }
};

constexpr int64_t kMembers = 16;  // of a tile

// What a tile of members keeps of queries (or keys) when all of them meet the same key (or query).
template <class T>
INLINE void keep_members(T* of_rows, T* of_centre, T* by_centre, const Drop& drop, const int64_t* ids, int64_t n,
                         int64_t centre, int64_t heads, int64_t head) {
  const T scale = T(drop.scale);
  const uint32_t threshold = uint32_t(drop.threshold), row = drop.row(centre, heads, head);
  const uint32_t meets = drop.name(centre) * kGolden;
  uint32_t names[kMembers];
  for (int64_t i = 0; i < n; ++i) names[i] = drop.name(ids[i]);
#pragma omp simd
  for (int32_t i = 0; i < int32_t(n); ++i) {
    const uint32_t own = mix<uint32_t>((names[i] * uint32_t(heads) + uint32_t(head)) ^ uint32_t(drop.step));
    const uint32_t key = names[i] * kGolden;
    of_rows[i] = mix<uint32_t>(own + key) >= threshold ? scale : T(0);
    of_centre[i] = mix<uint32_t>(own + meets) >= threshold ? scale : T(0);
    by_centre[i] = mix<uint32_t>(row + key) >= threshold ? scale : T(0);
  }
}

// What a query keeps of a tile of keys.
template <class T> INLINE void keep_keys(T* keep, const Drop& drop, uint32_t row, const int64_t* ids, int64_t n) {
  const T scale = drop.active ? T(drop.scale) : T(1);
  const uint32_t threshold = drop.active ? uint32_t(drop.threshold) : 0;
  uint32_t names[kMembers];
  for (int64_t i = 0; i < n; ++i) names[i] = drop.name(ids[i]);
#pragma omp simd
  for (int32_t i = 0; i < int32_t(n); ++i)
    keep[i] = mix<uint32_t>(row + names[i] * kGolden) >= threshold ? scale : T(0);
}

template <class T, class N> INLINE T dot(const T* x, const T* y, N n) {
  constexpr int W = Lanes<T>::W;
  Vec<T> sums = {};
  int64_t c = 0;
  for (; c + W <= n; c += W) sums += load(x + c) * load(y + c);
  T total = sum<T>(sums);
  for (; c < n; ++c) total += x[c] * y[c];
  return total;
}

// x = e^(factor (x - shift)), for whole vectors: x must have room up to the next
template <class T> INLINE void exponentials(T* x, int64_t n, T factor, T shift) {
  for (int64_t c = 0; c < n; c += Lanes<T>::W) store(x + c, exponential<T>(factor * (load(x + c) - shift)));
}

// into += factor * x
template <class T, class N> INLINE void add(T* into, T factor, const T* x, N n) {
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) into[c] += factor * x[c];
}

template <class T, class N> INLINE void clear(T* x, N n) {
  for (int64_t c = 0; c < n; ++c) x[c] = 0;
}

// Rows are scattered over memory: ask for one a tile ahead, as far as the second cache.
template <class T> INLINE void expect(const T* row, int64_t n) {
  for (int64_t c = 0; c < n; c += 64 / int64_t(sizeof(T))) __builtin_prefetch(row + c, 0, 2);
}

// Let a running softmax, s = top, total, sums, follow a larger maximum.
template <class T> INLINE void raise(T* s, T top, int64_t size) {
  if (top <= s[0]) return;
  const T fade = exponential_of<T>(s[0] - top);
  for (int64_t c = 1; c < size; ++c) s[c] *= fade;
  s[0] = top;
}

}  // namespace
