// Vectors of the width this file is compiled for, by the compilers' vector extension, so that one
// source serves SSE2, AVX2, AVX-512 and NEON.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#ifndef M3D_BYTES
#define M3D_BYTES 16
#endif

#define INLINE inline __attribute__((always_inline))

namespace {

template <class T> struct Lanes;

template <> struct Lanes<float> {
  static constexpr int W = M3D_BYTES / 4;
  typedef float V __attribute__((vector_size(M3D_BYTES)));
  typedef float Loose __attribute__((vector_size(M3D_BYTES), aligned(4), may_alias));
  typedef int32_t I __attribute__((vector_size(M3D_BYTES)));
  typedef uint32_t Bits __attribute__((vector_size(M3D_BYTES)));
  typedef uint32_t Hash __attribute__((vector_size(M3D_BYTES)));
  typedef uint32_t LooseHash __attribute__((vector_size(M3D_BYTES), aligned(4), may_alias));
};

template <> struct Lanes<double> {
  static constexpr int W = M3D_BYTES / 8;
  typedef double V __attribute__((vector_size(M3D_BYTES)));
  typedef double Loose __attribute__((vector_size(M3D_BYTES), aligned(8), may_alias));
  typedef int64_t I __attribute__((vector_size(M3D_BYTES)));
  typedef uint64_t Bits __attribute__((vector_size(M3D_BYTES)));
  typedef uint32_t Hash __attribute__((vector_size(M3D_BYTES / 2)));
  typedef uint32_t LooseHash __attribute__((vector_size(M3D_BYTES / 2), aligned(4), may_alias));
};

template <class T> using Vec = typename Lanes<T>::V;
template <class T> using Int = typename Lanes<T>::I;
template <class T> using Hash = typename Lanes<T>::Hash;

template <class T> INLINE Vec<T> load(const T* p) {
  return *reinterpret_cast<const typename Lanes<T>::Loose*>(p);
}
template <class T> INLINE void store(T* p, Vec<T> x) {
  *reinterpret_cast<typename Lanes<T>::Loose*>(p) = x;
}
template <class T> INLINE Hash<T> load_hash(const uint32_t* p) {
  return *reinterpret_cast<const typename Lanes<T>::LooseHash*>(p);
}
template <class T> INLINE Vec<T> all(T x) { return x - Vec<T>{}; }

// 0, 1, 2, ...: which lane is which.
template <class T> INLINE Int<T> lane() {
  Int<T> id;
  for (int i = 0; i < Lanes<T>::W; ++i) id[i] = i;
  return id;
}

template <class T> INLINE Vec<T> larger(Vec<T> x, Vec<T> y) { return x > y ? x : y; }

// Reductions halve the vector until one number is left.
template <class T, int N> struct Halves {
  typedef T V __attribute__((vector_size(N * sizeof(T))));
  typedef T H __attribute__((vector_size(N / 2 * sizeof(T))));
  static INLINE void split(V x, H* low, H* high) {
    std::memcpy(low, &x, sizeof *low);
    std::memcpy(high, reinterpret_cast<const char*>(&x) + sizeof *low, sizeof *high);
  }
  static INLINE T sum(V x) {
    H low, high;
    split(x, &low, &high);
    return Halves<T, N / 2>::sum(low + high);
  }
  static INLINE T largest(V x) {
    H low, high;
    split(x, &low, &high);
    return Halves<T, N / 2>::largest(low > high ? low : high);
  }
};

template <class T> struct Halves<T, 2> {
  typedef T V __attribute__((vector_size(2 * sizeof(T))));
  static INLINE T sum(V x) { return x[0] + x[1]; }
  static INLINE T largest(V x) { return x[0] > x[1] ? x[0] : x[1]; }
};

template <class T> INLINE T sum(Vec<T> x) { return Halves<T, Lanes<T>::W>::sum(x); }
template <class T> INLINE T largest(Vec<T> x) { return Halves<T, Lanes<T>::W>::largest(x); }

// out[0..3] = the sums of four vectors.
INLINE void sum4(double* out, Vec<double> a, Vec<double> b, Vec<double> c, Vec<double> d) {
  out[0] = sum<double>(a), out[1] = sum<double>(b), out[2] = sum<double>(c), out[3] = sum<double>(d);
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define M3D_SHUFFLE 1
#endif
#endif

#if defined(M3D_SHUFFLE)
typedef float Quad __attribute__((vector_size(16)));
typedef float LooseQuad __attribute__((vector_size(16), aligned(4), may_alias));

template <int i, int j, int k, int l> INLINE Vec<float> pick(Vec<float> x, Vec<float> y) {
  // Indices 0-3 name x, 4-7 name y, in every quarter.
#define AT(index, quarter) ((index < 4 ? index : index - 4 + M3D_BYTES / 4) + 4 * quarter)
#define QUARTER(quarter) AT(i, quarter), AT(j, quarter), AT(k, quarter), AT(l, quarter)
#if M3D_BYTES == 16
  return __builtin_shufflevector(x, y, QUARTER(0));
#elif M3D_BYTES == 32
  return __builtin_shufflevector(x, y, QUARTER(0), QUARTER(1));
#else
  return __builtin_shufflevector(x, y, QUARTER(0), QUARTER(1), QUARTER(2), QUARTER(3));
#endif
#undef QUARTER
#undef AT
}

// Transpose and add inside each quarter of four floats, then add the quarters.
INLINE void sum4(float* out, Vec<float> a, Vec<float> b, Vec<float> c, Vec<float> d) {
  Vec<float> ab = pick<0, 4, 1, 5>(a, b) + pick<2, 6, 3, 7>(a, b);  // a02 b02 a13 b13
  Vec<float> cd = pick<0, 4, 1, 5>(c, d) + pick<2, 6, 3, 7>(c, d);
  Vec<float> all = pick<0, 1, 4, 5>(ab, cd) + pick<2, 3, 6, 7>(ab, cd);  // a b c d
#if M3D_BYTES == 16
  Quad quad = all;
#elif M3D_BYTES == 32
  Quad quad = __builtin_shufflevector(all, all, 0, 1, 2, 3) + __builtin_shufflevector(all, all, 4, 5, 6, 7);
#else
  typedef float Half __attribute__((vector_size(32)));
  Half half = __builtin_shufflevector(all, all, 0, 1, 2, 3, 4, 5, 6, 7) +
              __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15);
  Quad quad = __builtin_shufflevector(half, half, 0, 1, 2, 3) + __builtin_shufflevector(half, half, 4, 5, 6, 7);
#endif
  *reinterpret_cast<LooseQuad*>(out) = quad;
}

// out[i * stride + j] = row_j[i] for i, j in 0..3.
INLINE void transpose4(float* out, int64_t stride, const float* a, const float* b, const float* c, const float* d) {
  const auto quad = [](const float* p) -> Quad { return *reinterpret_cast<const LooseQuad*>(p); };
  const Quad x = quad(a), y = quad(b), z = quad(c), w = quad(d);
  const Quad xy = __builtin_shufflevector(x, y, 0, 4, 1, 5), zw = __builtin_shufflevector(z, w, 0, 4, 1, 5);
  const Quad xy2 = __builtin_shufflevector(x, y, 2, 6, 3, 7), zw2 = __builtin_shufflevector(z, w, 2, 6, 3, 7);
  *reinterpret_cast<LooseQuad*>(out) = __builtin_shufflevector(xy, zw, 0, 1, 4, 5);
  *reinterpret_cast<LooseQuad*>(out + stride) = __builtin_shufflevector(xy, zw, 2, 3, 6, 7);
  *reinterpret_cast<LooseQuad*>(out + 2 * stride) = __builtin_shufflevector(xy2, zw2, 0, 1, 4, 5);
  *reinterpret_cast<LooseQuad*>(out + 3 * stride) = __builtin_shufflevector(xy2, zw2, 2, 3, 6, 7);
}
#else
INLINE void sum4(float* out, Vec<float> a, Vec<float> b, Vec<float> c, Vec<float> d) {
  out[0] = sum<float>(a), out[1] = sum<float>(b), out[2] = sum<float>(c), out[3] = sum<float>(d);
}
#endif

}  // namespace
