// Vectors of the width this file is compiled for, by the compilers' vector extension, so that one
// source serves SSE2, AVX2, AVX-512 and NEON.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#if defined(M3D_X86)
#include <immintrin.h>
#endif

#ifndef M3D_BYTES
#define M3D_BYTES 16
#endif

#define INLINE inline __attribute__((always_inline))
#define M3D_HERE __attribute__((always_inline))  // of a lambda

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
// A store past the caches, for what is not read again soon; p must be aligned to the vector.
template <class T> INLINE void stream(T* p, Vec<T> x) {
#if defined(M3D_X86) && M3D_BYTES == 64
  _mm512_stream_si512(reinterpret_cast<__m512i*>(p), reinterpret_cast<__m512i>(x));
#elif defined(M3D_X86) && M3D_BYTES == 32
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(x));
#elif defined(M3D_X86)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), reinterpret_cast<__m128i>(x));
#else
  store(p, x);
#endif
}

// Stores past the caches are seen by other threads after this.
INLINE void end_streams() {
#if defined(M3D_X86)
  _mm_sfence();
#endif
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

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define M3D_SHUFFLE 1
#endif
#endif

// N lanes as two halves.
template <class T, int N> struct Pair {
  typedef T V __attribute__((vector_size(N * sizeof(T))));
  typedef T Half __attribute__((vector_size(N / 2 * sizeof(T))));
#if defined(M3D_SHUFFLE)
  template <int... I> using Numbers = std::integer_sequence<int, I...>;
  template <int... I> static INLINE Half low(V x, Numbers<I...>) { return __builtin_shufflevector(x, x, I...); }
  template <int... I> static INLINE Half high(V x, Numbers<I...>) { return __builtin_shufflevector(x, x, I + N / 2 ...); }
  template <int... I> static INLINE V twice(Half x, Numbers<I...>) { return __builtin_shufflevector(x, x, I...); }
  static INLINE Half low(V x) { return low(x, std::make_integer_sequence<int, N / 2>()); }
  static INLINE Half high(V x) { return high(x, std::make_integer_sequence<int, N / 2>()); }
  static INLINE V twice(Half x) { return twice(x, std::make_integer_sequence<int, N>()); }
#else
  static INLINE Half low(V x) {
    Half half;
    return std::memcpy(&half, &x, sizeof half), half;
  }
  static INLINE Half high(V x) {
    Half half;
    return std::memcpy(&half, reinterpret_cast<const char*>(&x) + sizeof half, sizeof half), half;
  }
  static INLINE V twice(Half x) {
    V both;
    std::memcpy(&both, &x, sizeof x), std::memcpy(reinterpret_cast<char*>(&both) + sizeof x, &x, sizeof x);
    return both;
  }
#endif
};

// Reductions halve the vector of N lanes until H are left: lane h gets all lanes h, h + H, h + 2 H, ...
// Filling doubles H numbers until there are N: number h gets into all these lanes.
template <class T, int N, int H> struct Halves {
  using P = Pair<T, N>;
  typedef T V __attribute__((vector_size(N * sizeof(T))));
  static INLINE void sum(V x, T* out) { Halves<T, N / 2, H>::sum(P::low(x) + P::high(x), out); }
  static INLINE void largest(V x, T* out) {
    const auto low = P::low(x), high = P::high(x);
    Halves<T, N / 2, H>::largest(low > high ? low : high, out);
  }
  static INLINE V fill(const T* from) { return P::twice(Halves<T, N / 2, H>::fill(from)); }
};

template <class T, int H> struct Halves<T, H, H> {
  typedef T V __attribute__((vector_size(H * sizeof(T))));
  static INLINE void sum(V x, T* out) { std::memcpy(out, &x, sizeof x); }
  static INLINE void largest(V x, T* out) { std::memcpy(out, &x, sizeof x); }
  static INLINE V fill(const T* from) {
    V x;
    return std::memcpy(&x, from, sizeof x), x;
  }
};

template <class T> struct Halves<T, 2, 1> {
  typedef T V __attribute__((vector_size(2 * sizeof(T))));
  static INLINE void sum(V x, T* out) { *out = x[0] + x[1]; }
  static INLINE void largest(V x, T* out) { *out = x[0] > x[1] ? x[0] : x[1]; }
  static INLINE V fill(const T* from) { return *from - V{}; }
};

template <class T> INLINE T sum(Vec<T> x) {
  T total;
  Halves<T, Lanes<T>::W, 1>::sum(x, &total);
  return total;
}

// out[0..3] = the sums of four vectors.
INLINE void sum4(double* out, Vec<double> a, Vec<double> b, Vec<double> c, Vec<double> d) {
  out[0] = sum<double>(a), out[1] = sum<double>(b), out[2] = sum<double>(c), out[3] = sum<double>(d);
}

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

#else
INLINE void sum4(float* out, Vec<float> a, Vec<float> b, Vec<float> c, Vec<float> d) {
  out[0] = sum<float>(a), out[1] = sum<float>(b), out[2] = sum<float>(c), out[3] = sum<float>(d);
}
#endif

}  // namespace
