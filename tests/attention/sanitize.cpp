// Runs every kernel on many random masks, edge cases among them. Built with AddressSanitizer and
// UndefinedBehaviorSanitizer by test_sanitize.py; a clean exit is the test. Tensors and index are
// separate allocations of exact size, so that any step outside is seen.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "problem.h"

extern "C" {
int m3d_best_isa();
int m3d_dot_forward(const Problem*);
int m3d_dot_backward(const Problem*);
int m3d_additive_forward(const Problem*);
int m3d_additive_backward(const Problem*);
}

namespace {

std::mt19937 generator(1);

int64_t draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(generator); }

struct Csr {
  std::vector<int64_t> indptr, indices;
};

Csr random_csr(int64_t rows, int64_t degree, bool hub) {
  Csr csr;
  csr.indptr.push_back(0);
  for (int64_t u = 0; u < rows; ++u) {
    const bool all = hub && u == rows / 2;
    for (int64_t v = 0; v < rows; ++v)
      if (all || draw(0, rows) < (u % 5 ? degree : 0)) csr.indices.push_back(v);
    csr.indptr.push_back(int64_t(csr.indices.size()));
  }
  csr.indices.shrink_to_fit();
  return csr;
}

Csr transpose(const Csr& csr, int64_t rows) {
  std::vector<std::vector<int64_t>> columns(rows);
  for (int64_t u = 0; u < rows; ++u)
    for (int64_t e = csr.indptr[u]; e < csr.indptr[u + 1]; ++e) columns[csr.indices[e]].push_back(u);
  Csr out;
  out.indptr.push_back(0);
  for (const auto& column : columns) {
    out.indices.insert(out.indices.end(), column.begin(), column.end());
    out.indptr.push_back(int64_t(out.indices.size()));
  }
  out.indices.shrink_to_fit();
  return out;
}

template <class T> std::unique_ptr<T[]> tensor(int64_t size, double spread) {
  std::unique_ptr<T[]> x(new T[size]);
  std::normal_distribution<double> normal(0, spread);
  for (int64_t i = 0; i < size; ++i) x[i] = T(normal(generator));
  return x;
}

template <class T> bool finite(const T* x, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    if (!std::isfinite(x[i])) return false;
  return true;
}

template <class T> int trial(int64_t rows, int64_t heads, int64_t width_k, int64_t width_v, const Csr& csr, int isa) {
  const Csr back = transpose(csr, rows);
  const int64_t k_size = rows * heads * width_k, v_size = rows * heads * width_v, size = rows * heads;
  const double spread = draw(0, 3) ? 1.0 : 100.0;
  auto q = tensor<T>(k_size, spread), k = tensor<T>(k_size, spread), v = tensor<T>(v_size, 1);
  auto a = tensor<T>(size, spread), b = tensor<T>(size, spread), grad = tensor<T>(v_size, 1);
  std::unique_ptr<T[]> out(new T[v_size]), lse(new T[size]), delta(new T[size]);
  std::unique_ptr<T[]> gq(new T[k_size]), gk(new T[k_size]), gv(new T[v_size]), ga(new T[size]), gb(new T[size]);
  Problem p{};
  p.rows = rows, p.entries = int64_t(csr.indices.size()), p.heads = heads, p.width_k = width_k, p.width_v = width_v;
  p.indptr = csr.indptr.data(), p.indices = csr.indices.data();
  p.t_indptr = back.indptr.data(), p.t_indices = back.indices.data();
  p.q = q.get(), p.k = k.get(), p.v = v.get(), p.out = out.get(), p.lse = lse.get();
  p.grad_out = grad.get(), p.delta = delta.get(), p.grad_q = gq.get(), p.grad_k = gk.get(), p.grad_v = gv.get();
  p.scale = 1 / std::sqrt(double(width_k)), p.slope = 0.2;
  p.dropout = uint32_t(draw(0, 1)), p.step = 12345u, p.threshold = 1u << 30, p.keep_scale = 4.0 / 3.0;
  p.threads = int32_t(draw(1, 3)), p.isa = isa, p.float64 = sizeof(T) == 8;
  if (m3d_dot_forward(&p) || m3d_dot_backward(&p)) return 1;
  if (!finite(out.get(), v_size) || !finite(gq.get(), k_size) || !finite(gk.get(), k_size)) return 2;
  p.q = p.k = nullptr, p.width_k = 0, p.a = a.get(), p.b = b.get(), p.grad_a = ga.get(), p.grad_b = gb.get();
  if (m3d_additive_forward(&p) || m3d_additive_backward(&p)) return 3;
  if (!finite(out.get(), v_size) || !finite(ga.get(), size) || !finite(gb.get(), size)) return 4;
  std::vector<int64_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), generator);
  p.order = order.data();
  if (m3d_additive_forward(&p) || m3d_additive_backward(&p)) return 6;
  p.order = nullptr;
  Csr bad = csr;
  if (bad.indices.empty()) return 0;
  bad.indices[draw(0, int64_t(bad.indices.size()) - 1)] = draw(0, 1) ? rows : -1;
  p.indices = p.t_indices = bad.indices.data(), p.t_indptr = bad.indptr.data();
  if (m3d_additive_forward(&p) != kOutOfRange || m3d_additive_backward(&p) != kOutOfRange) return 5;
  p.indices = csr.indices.data(), p.order = order.data(), order[draw(0, rows - 1)] = draw(0, 1) ? rows : -1;
  return m3d_additive_forward(&p) == kOutOfRange ? 0 : 7;
}

}  // namespace

int main() {
  const int64_t widths[] = {1, 2, 3, 4, 7, 8, 16, 31, 32, 33, 64, 128};
  for (int round = 0; round < 300; ++round) {
    const int64_t rows = draw(0, 9) ? draw(1, 60) : draw(0, 2), heads = draw(1, 5);
    const int64_t width = widths[draw(0, 11)], other = draw(0, 3) ? width : widths[draw(0, 11)];
    const Csr csr = random_csr(rows, draw(0, 12), rows > 0 && draw(0, 1));
    const int isa = int(draw(1, m3d_best_isa()));
    const int failed = draw(0, 1) ? trial<float>(rows, heads, width, other, csr, isa) : trial<double>(rows, heads, width, other, csr, isa);
    if (failed) return std::printf("round %d failed with %d\n", round, failed), 1;
  }
  const Csr huge = random_csr(5000, 2, true);  // a row that is cut into pieces
  for (int isa = 1; isa <= m3d_best_isa(); ++isa)
    if (trial<float>(5000, 2, 16, 16, huge, isa)) return 1;
  std::puts("clean");
  return 0;
}
