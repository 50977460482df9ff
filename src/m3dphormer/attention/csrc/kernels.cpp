// The kernels of one instruction set. Compiled once for each, with M3D_BYTES the width of its
// vectors and M3D_KERNELS the name under which dispatch.cpp finds them. Everything else here has
// internal linkage and uses no standard containers: the linker must not let code that was compiled
// for AVX-512 serve the baseline.
#include "additive.h"
#include "dot.h"

namespace {

template <class T, int D> Kernels table(const Problem& p) {
  const size_t tile = p.heads * kTile * sizeof(T), hashes = p.heads * sizeof(uint32_t);
  const size_t k = p.heads * p.width_k * sizeof(T), v = p.heads * p.width_v * sizeof(T), b = p.heads * sizeof(T);
  using F = Dot<T, D>;
  using A = Additive<T, D>;
  Kernels all;
  all.dot_forward = {Softmax<T>::bytes(p), tile + hashes, F::forward, merge_softmax<T>, finish_softmax<T>};
  all.dot_queries = {k + b, 2 * tile, F::queries, F::merge_queries, F::finish_queries};
  all.dot_keys = {k + v, 4 * tile, F::keys, F::merge_keys, F::finish_keys};
  all.additive_forward = {Softmax<T>::bytes(p), tile + hashes, A::forward, merge_softmax<T>, finish_softmax<T>};
  all.additive_backward = {v + b, 4 * tile, A::backward, A::merge_backward, A::finish_backward};
  all.deltas = deltas<T>;
  all.retire = A::retire;
  return all;
}

template <class T> Kernels of_width(const Problem& p) {
  constexpr int W = Lanes<T>::W;
  const bool same = p.width_k == p.width_v || p.k == nullptr;
  if (same && p.width_v == W) return table<T, 1>(p);
  if (same && p.width_v == 2 * W) return table<T, 2>(p);
  if (same && p.width_v == 4 * W) return table<T, 4>(p);
  if (same && p.width_v == 8 * W) return table<T, 8>(p);
  return table<T, 0>(p);
}

}  // namespace

void M3D_KERNELS(const Problem& p, Kernels* kernels) {
  *kernels = p.float64 ? of_width<double>(p) : of_width<float>(p);
}
