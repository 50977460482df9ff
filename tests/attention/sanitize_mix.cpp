// The passes of csrc/few.h, mix.h and take.h on buffers of exactly their size, for every instruction set of this machine.
// Prints "clean" and ends with 0 where every result is right; the sanitizers end it where a byte outside is touched.
#include "sanitize.h"

#define DROP int64_t, int64_t, int64_t, double, const int64_t *
#define PIECES float *const *, float *const *, const int64_t *, const int64_t *, const int64_t *, const int64_t *, int64_t, int64_t
#define PASSES(X)                                                                                                  \
  X(few_forward, (float*, const float*, int64_t, int64_t, int64_t, int64_t, DROP, int64_t))                         \
  X(few_backward, (float*, const float*, const float*, int64_t, int64_t, int64_t, int64_t, DROP, int64_t))          \
  X(mix_forward, (float*, const float*, const float*, PIECES, int64_t, int64_t, int64_t, int64_t, DROP, int64_t))   \
  X(mix_backward, (const float*, const float*, float*, PIECES, float* const*, float* const*, float* const*, int64_t, \
                   int64_t, int64_t, int64_t, int64_t, DROP, int64_t))                                              \
  X(take_rows, (float*, const float*, const int64_t*, int64_t, int64_t, int64_t))                                   \
  X(spread_rows, (float*, const float*, const int64_t*, int64_t, int64_t, int64_t, int64_t))                        \
  X(give_rows, (float*, const float*, const int64_t*, int64_t, int64_t, int64_t))

#define BASELINE(pass, given) extern "C" void m3d_##pass##_f32_baseline given;
#define AVX2(pass, given) extern "C" void m3d_##pass##_f32_avx2 given;
#define AVX512(pass, given) extern "C" void m3d_##pass##_f32_avx512 given;
#define MEMBER(pass, given) void(*pass) given;
#define NAME_BASELINE(pass, given) m3d_##pass##_f32_baseline,
#define NAME_AVX2(pass, given) m3d_##pass##_f32_avx2,
#define NAME_AVX512(pass, given) m3d_##pass##_f32_avx512,

struct Set {
  PASSES(MEMBER)
};

PASSES(BASELINE)
#if defined(M3D_X86)
PASSES(AVX2)
PASSES(AVX512)
#endif

static const Set kSets[] = {
    {PASSES(NAME_BASELINE)},
#if defined(M3D_X86)
    {PASSES(NAME_AVX2)},
    {PASSES(NAME_AVX512)},
#endif
};

static bool near(float one, double other) { return std::fabs(one - other) < 1e-3 + 1e-3 * std::fabs(other); }

// A piece of rows from row 1 on and a blend from row 0 on, with nothing dropped.
static bool mixes(const Set& set, int64_t rows, int64_t heads, int64_t wide, int64_t keys, int64_t bare, int64_t threads) {
  const int64_t width = heads * wide, height = rows < 4 ? rows : rows / 2 + 1, blocks = (rows + height - 1) / height;
  const Numbers scores = random(rows * heads * keys), residual = random(rows * width), gates = random(rows * 2);
  const Numbers grad = random(rows * width);
  Numbers plain = random((rows - 1) * width + 1), values = random(keys * width), weights(scores.size());
  plain.resize((rows - 1) * width);
  set.few_forward(weights.data(), scores.data(), rows, heads, keys, rows, 0, 0, 0, 1.0, nullptr, threads);
  Numbers out(rows * width), by_gates(rows * 2), by_plain(plain.size()), by_values(values.size()), by_weights(weights.size());
  Numbers by_scores(scores.size()), partial(blocks * keys * width);
  float *const x[] = {plain.data(), values.data()}, *const w[] = {nullptr, weights.data()};
  float *const by_x[] = {by_plain.data(), by_values.data()}, *const by_w[] = {nullptr, by_weights.data()};
  float* const partials[] = {nullptr, partial.data()};
  const int64_t from[] = {1, 0}, to[] = {rows, rows}, expert[] = {0, 1}, count[] = {0, keys};
  set.mix_forward(out.data(), residual.data(), gates.data(), x, w, from, to, expert, count, 2, heads, rows, width, 2, bare,
                  0, 0, 0, 1.0, nullptr, threads);
  set.mix_backward(grad.data(), gates.data(), by_gates.data(), x, w, from, to, expert, count, 2, heads, by_x, by_w,
                   partials, height, rows, width, 2, bare, 0, 0, 0, 1.0, nullptr, threads);
  set.few_backward(by_scores.data(), by_weights.data(), scores.data(), rows, heads, keys, rows, 0, 0, 0, 1.0, nullptr,
                   threads);
  bool good = true;
  std::vector<double> of_values(values.size(), 0.0);
  for (int64_t r = 0; r < rows; ++r) {
    double of_gate = 0;
    std::vector<double> of_weights(heads * keys, 0.0);
    for (int64_t c = 0; c < width; ++c) {
      const float* weight = &weights[(r * heads + c / wide) * keys];
      double blend = 0;
      for (int64_t k = 0; k < keys; ++k) blend += double(weight[k]) * values[k * width + c];
      const double sum = gates[r * 2 + 1] * blend + (r ? double(gates[r * 2]) * plain[(r - 1) * width + c] : 0);
      good = good && near(out[r * width + c], (bare || sum > 0 ? sum : 0) + residual[r * width + c]);
      const double inner = bare || sum > 0 ? grad[r * width + c] : 0;
      of_gate += inner * blend;
      for (int64_t k = 0; k < keys; ++k) {
        of_weights[c / wide * keys + k] += gates[r * 2 + 1] * inner * values[k * width + c];
        of_values[k * width + c] += gates[r * 2 + 1] * inner * weight[k];
      }
    }
    good = good && near(by_gates[r * 2 + 1], of_gate);
    for (int64_t i = 0; i < heads * keys; ++i) good = good && near(by_weights[r * heads * keys + i], of_weights[i]);
  }
  for (size_t i = 0; i < values.size(); ++i) good = good && near(by_values[i], of_values[i]);
  return good;
}

static bool takes(const Set& set, int64_t rows, int64_t width, int64_t threads) {
  std::vector<int64_t> chosen;
  for (int64_t r = rows % 2; r < rows; r += 2) chosen.push_back(r);
  if (chosen.empty()) chosen.push_back(0);
  const int64_t count = int64_t(chosen.size());
  const Numbers x = random(rows * width);
  Numbers part(count * width), spread(rows * width, 7.f), given(x);
  set.take_rows(part.data(), x.data(), chosen.data(), count, width, threads);
  set.spread_rows(spread.data(), part.data(), chosen.data(), count, rows, width, threads);
  set.give_rows(given.data(), part.data(), chosen.data(), count, width, threads);
  bool good = true;
  for (int64_t i = 0; i < rows * width; ++i) good = good && near(spread[i] + x[i], given[i]);
  for (int64_t i = 0; i < count * width; ++i) good = good && part[i] == x[chosen[i / width] * width + i % width];
  return good;
}

int main() {
  for (int isa = 0; isa < m3d_best_isa(); ++isa)
    for (int64_t rows : {1, 5, 37})
      for (int64_t wide : {1, 5, 16, 50})
        for (int64_t heads : {1, 3, 4})
          for (int64_t threads : {1, 2}) {
            bool good = takes(kSets[isa], rows, wide * heads, threads);
            for (int64_t keys : {1, 2, 3, 7})
              for (int64_t bare : {0, 1}) good = good && mixes(kSets[isa], rows, heads, wide, keys, bare, threads);
            if (!good) return std::printf("wrong\n"), 1;
          }
  std::printf("clean\n");
  return 0;
}
