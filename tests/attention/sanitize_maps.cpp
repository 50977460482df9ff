// The products of csrc/product.h on buffers of exactly their size, for every instruction set of this machine.
// Prints "clean" and ends with 0 where every result is right; the sanitizers end it where a byte outside is touched.
#include "sanitize.h"

#define DECLARE(set)                                                                                                \
  extern "C" void m3d_map_forward_f32_##set(const float*, float* const*, float* const*, float* const*,               \
                                            const int64_t*, const int64_t*, int64_t, int64_t, int64_t, int64_t);    \
  extern "C" void m3d_map_rows_f32_##set(float*, float* const*, float* const*, const int64_t*, const int64_t*,       \
                                         int64_t, int64_t, int64_t, int64_t);                                       \
  extern "C" void m3d_map_weights_f32_##set(float*, float*, const float*, float* const*, const int64_t*,             \
                                            const int64_t*, int64_t, int64_t, int64_t, int64_t, int64_t);

using Forward = void (*)(const float*, float* const*, float* const*, float* const*, const int64_t*, const int64_t*,
                         int64_t, int64_t, int64_t, int64_t);
using Rows = void (*)(float*, float* const*, float* const*, const int64_t*, const int64_t*, int64_t, int64_t, int64_t,
                      int64_t);
using Weights = void (*)(float*, float*, const float*, float* const*, const int64_t*, const int64_t*, int64_t, int64_t,
                         int64_t, int64_t, int64_t);

struct Set {
  Forward forward;
  Rows rows;
  Weights weights;
};

DECLARE(baseline)
#if defined(M3D_X86)
DECLARE(avx2)
DECLARE(avx512)
#endif

#define SET(name) {m3d_map_forward_f32_##name, m3d_map_rows_f32_##name, m3d_map_weights_f32_##name}

static const Set kSets[] = {
    SET(baseline),
#if defined(M3D_X86)
    SET(avx2),
    SET(avx512),
#endif
};

static bool near(float one, double other) { return std::fabs(one - other) < 1e-2 + 1e-3 * std::fabs(other); }

static bool right(const Set& set, int64_t rows, int64_t width, const std::vector<int64_t>& outputs,
                  const std::vector<int64_t>& limits, int64_t threads) {
  const int64_t count = int64_t(outputs.size()), spans = 3;
  Numbers x = random(rows * width), grad(rows * width);
  std::vector<Numbers> weights, biases, outs, grads;
  int64_t size = 0;
  for (int64_t i = 0; i < count; ++i) {
    weights.push_back(random(outputs[i] * width)), biases.push_back(random(outputs[i]));
    outs.emplace_back(limits[i] * outputs[i]), grads.push_back(random(limits[i] * outputs[i]));
    size += outputs[i] * (width + 1);
  }
  std::vector<float*> w, b, o, g;
  for (int64_t i = 0; i < count; ++i) {
    w.push_back(weights[i].data()), b.push_back(i % 2 ? nullptr : biases[i].data());
    o.push_back(outs[i].data()), g.push_back(grads[i].data());
  }
  Numbers by_map(size), partial(spans * size);
  const int64_t *n = outputs.data(), *limit = limits.data();
  set.forward(x.data(), w.data(), b.data(), o.data(), n, limit, count, rows, width, threads);
  set.rows(grad.data(), w.data(), g.data(), n, limit, count, rows, width, threads);
  set.weights(by_map.data(), partial.data(), x.data(), g.data(), n, limit, count, spans, rows, width, threads);
  bool good = true;
  std::vector<double> sums(rows * width, 0.0);
  const float *at = by_map.data(), *bias_at = at + size / (width + 1) * width;
  for (int64_t i = 0; i < count; ++i) {
    std::vector<double> by_weight(n[i] * width, 0.0), by_bias(n[i], 0.0);
    for (int64_t r = 0; r < limit[i]; ++r)
      for (int64_t c = 0; c < n[i]; ++c) {
        double total = b[i] ? b[i][c] : 0.0;
        const double outer = g[i][r * n[i] + c];
        by_bias[c] += outer;
        for (int64_t k = 0; k < width; ++k) {
          total += double(x[r * width + k]) * w[i][c * width + k];
          sums[r * width + k] += outer * w[i][c * width + k];
          by_weight[c * width + k] += outer * x[r * width + k];
        }
        good = good && near(o[i][r * n[i] + c], total);
      }
    for (double sum : by_weight) good = good && near(*at++, sum);
    for (double sum : by_bias) good = good && near(*bias_at++, sum);
  }
  for (int64_t c = 0; c < rows * width; ++c) good = good && near(grad[c], sums[c]);
  return good;
}

int main() {
  for (int isa = 0; isa < m3d_best_isa(); ++isa)
    for (int64_t width : {1, 7, 16, 33, 64})
      for (int64_t rows : {1, 5, 13, 130, 300})
        for (int64_t threads : {1, 2}) {
          const std::vector<int64_t> outputs = {1, 17, 32, 40}, limits = {rows, rows, (rows + 1) / 2, 1};
          const std::vector<int64_t> narrow = {2, 4, 12, 5}, some = {(rows + 1) / 2, rows, 1, rows};
          if (!right(kSets[isa], rows, width, outputs, limits, threads)) return std::printf("wrong\n"), 1;
          if (!right(kSets[isa], rows, width, narrow, some, threads)) return std::printf("wrong\n"), 1;
        }
  std::printf("clean\n");
  return 0;
}
