// The products of csrc/sparse.h on buffers of exactly their size, for every instruction set of this machine.
// Prints "clean" and ends with 0 where every result is right; the sanitizers end it where a byte outside is touched.
#include "sanitize.h"

#define LISTS                                                                                                   \
  const int64_t *, const int32_t *, const float *, const int64_t *, const int32_t *, const int32_t *, int64_t, \
      int64_t, int64_t
#define DECLARE(set)                                                                                             \
  extern "C" void m3d_pick_forward_f32_##set(float*, const float*, const float*, LISTS, int64_t, int64_t);      \
  extern "C" void m3d_pick_weights_f32_##set(float*, float*, const float*, LISTS, int64_t, int64_t);

struct Set {
  void (*forward)(float*, const float*, const float*, LISTS, int64_t, int64_t);
  void (*weights)(float*, float*, const float*, LISTS, int64_t, int64_t);
};

DECLARE(baseline)
#if defined(M3D_X86)
DECLARE(avx2)
DECLARE(avx512)
#endif

#define SET(name) {m3d_pick_forward_f32_##name, m3d_pick_weights_f32_##name}

static const Set kSets[] = {
    SET(baseline),
#if defined(M3D_X86)
    SET(avx2),
    SET(avx512),
#endif
};

static bool near(float one, double other) { return std::fabs(one - other) < 1e-2 + 1e-3 * std::fabs(other); }

static bool right(const Set& set, int64_t rows, int64_t features, int64_t outputs, int64_t block, int64_t threads) {
  Numbers x = random(rows * features), value;
  for (float& number : x) number = std::fabs(number) < 1.3f ? 0.f : number;
  std::vector<int64_t> first = {0}, run = {0};
  std::vector<int32_t> column, row, place, at(rows * features);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t f = 0; f < features; ++f)
      if (x[r * features + f] != 0) {
        at[r * features + f] = int32_t(value.size());
        value.push_back(x[r * features + f]), column.push_back(int32_t(f));
      }
    first.push_back(int64_t(value.size()));
  }
  for (int64_t start = 0; start < rows; start += block)
    for (int64_t f = 0; f < features; ++f) {
      for (int64_t r = start; r < rows && r < start + block; ++r)
        if (x[r * features + f] != 0)
          row.push_back(int32_t(r - start)), place.push_back(int32_t(at[r * features + f] - first[start]));
      run.push_back(int64_t(row.size()));
    }
  const Numbers weight = random(outputs * features), bias = random(outputs), grad = random(rows * outputs);
  Numbers out(rows * outputs), by_weight(outputs * features), by_bias(outputs);
  set.forward(out.data(), weight.data(), bias.data(), first.data(), column.data(), value.data(), run.data(),
              row.data(), place.data(), block, rows, features, outputs, threads);
  set.weights(by_weight.data(), by_bias.data(), grad.data(), first.data(), column.data(), value.data(), run.data(),
              row.data(), place.data(), block, rows, features, outputs, threads);
  bool good = true;
  for (int64_t c = 0; c < outputs; ++c) {
    std::vector<double> of_weight(features, 0.0);
    double of_bias = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double outer = grad[r * outputs + c];
      double total = bias[c];
      of_bias += outer;
      for (int64_t f = 0; f < features; ++f) {
        total += double(x[r * features + f]) * weight[c * features + f];
        of_weight[f] += outer * x[r * features + f];
      }
      good = good && near(out[r * outputs + c], total);
    }
    good = good && near(by_bias[c], of_bias);
    for (int64_t f = 0; f < features; ++f) good = good && near(by_weight[c * features + f], of_weight[f]);
  }
  return good;
}

int main() {
  for (int isa = 0; isa < m3d_best_isa(); ++isa)
    for (int64_t features : {1, 16, 37})
      for (int64_t outputs : {1, 7, 16, 33, 64, 141})
        for (int64_t rows : {1, 5, 130})
          for (int64_t threads : {1, 2})
            if (!right(kSets[isa], rows, features, outputs, rows < 50 ? rows : 50, threads))
              return std::printf("wrong\n"), 1;
  std::printf("clean\n");
  return 0;
}
