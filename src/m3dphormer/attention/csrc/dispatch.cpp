// The C interface, and the choice of the instruction set at run time.
#include <cstring>

#include "walk.h"

void m3d_kernels_baseline(const Problem&, Kernels*);
#ifdef M3D_X86
void m3d_kernels_avx2(const Problem&, Kernels*);
void m3d_kernels_avx512(const Problem&, Kernels*);
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int m3d_best_isa();

namespace {

// Vectors wider than d_h, or that d_h is no multiple of, would leave the fast path.
bool fits(const Problem& p, int64_t bytes) {
  return p.width_v * (p.float64 ? 8 : 4) % bytes == 0;
}

Kernels choose(const Problem& p) {
  Kernels kernels;
#ifdef M3D_X86
  const int best = m3d_best_isa();
  const int isa = p.isa && p.isa < best ? p.isa : best;
  if (isa >= 3 && fits(p, 64)) return m3d_kernels_avx512(p, &kernels), kernels;
  if (isa >= 2 && (fits(p, 32) || !fits(p, 16))) return m3d_kernels_avx2(p, &kernels), kernels;
#endif
  m3d_kernels_baseline(p, &kernels);
  return kernels;
}

}  // namespace

EXPORT int m3d_best_isa() {
#ifdef M3D_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    return 3;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 2;
#endif
  return 1;
}

// Lets the caller see that both sides agree on the layout of Problem.
EXPORT int64_t m3d_problem_size() { return int64_t(sizeof(Problem)); }

EXPORT int m3d_dot_forward(const Problem* p) { return walk(*p, choose(*p).dot_forward); }

EXPORT int m3d_dot_backward(const Problem* p) {
  const Kernels kernels = choose(*p);
  const int failed = walk(*p, kernels.dot_queries);
  return failed ? failed : walk(*p, kernels.dot_keys);
}

EXPORT int m3d_additive_forward(const Problem* p) { return walk(*p, choose(*p).additive_forward); }

EXPORT int m3d_additive_backward(const Problem* p) {
  const Kernels kernels = choose(*p);
  walk_rows(*p, kernels.deltas);
  std::memset(p->grad_a, 0, p->rows * kernels.additive_backward.spill);
  return walk(*p, kernels.additive_backward, &kernels.grad_a);
}
