// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln(2) / 2, e^r by its Taylor series.
// Within 2 ulp; exactly 0 below the smallest normal number; NaN stays NaN.
#pragma once
#include "vector.h"

namespace {

template <class T> struct ExpTable;

template <> struct ExpTable<float> {
  static constexpr float low = -86.5f, high = 88.0f;
  static constexpr float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves n in the low bits
  static constexpr float ln2_high = 0.693145751953125f, ln2_low = 1.42860682030941723e-6f;
  static constexpr int mantissa = 23, terms = 7;
};

template <> struct ExpTable<double> {
  static constexpr double low = -707.0, high = 709.0;
  static constexpr double round = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr double ln2_high = 0.693147180369123816490, ln2_low = 1.90821492927058770002e-10;
  static constexpr int mantissa = 52, terms = 13;
};

template <class T> INLINE Vec<T> exponential(Vec<T> x) {
  using E = ExpTable<T>;
  using Bits = typename Lanes<T>::Bits;
  const Vec<T> low = all<T>(E::low), high = all<T>(E::high);
  const Int<T> vanishes = x < low;
  x = vanishes ? low : x;
  x = x > high ? high : x;
  const Vec<T> shifted = x * T(1.44269504088896340736) + E::round;
  const Vec<T> n = shifted - E::round;
  const Vec<T> r = (x - n * E::ln2_high) - n * E::ln2_low;
  T inverse_factorial[E::terms + 1] = {T(1)};
  for (int i = 1; i <= E::terms; ++i) inverse_factorial[i] = inverse_factorial[i - 1] / T(i);
  Vec<T> series = all<T>(inverse_factorial[E::terms]);
  for (int i = E::terms - 1; i >= 0; --i) series = series * r + inverse_factorial[i];
  const Bits power = reinterpret_cast<Bits>(shifted) << E::mantissa;
  const Vec<T> value = reinterpret_cast<Vec<T>>(reinterpret_cast<Bits>(series) + power);
  return vanishes ? Vec<T>{} : value;
}

template <class T> INLINE T exponential_of(T x) { return exponential<T>(all<T>(x))[0]; }

}  // namespace
