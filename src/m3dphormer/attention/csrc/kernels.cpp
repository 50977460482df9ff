// The kernels of one instruction set. Compiled once for each, with M3D_BYTES the width of its
// vectors and M3D_KERNELS the name under which dispatch.cpp finds them. Everything else here has
// internal linkage and uses no standard containers: the linker must not let code that was compiled
// for AVX-512 serve the baseline.
#include "additive.h"
#include "dot.h"

namespace {

template <class T, int D, int H> Kernels table(const Problem& p) {
  return {pass<DotForward<T, D, H>>(p),       pass<DotQueries<T, D, H>>(p),       pass<DotKeys<T, D, H>>(p),
          pass<AdditiveForward<T, D, H>>(p), pass<AdditiveBackward<T, D, H>>(p), deltas<T, D, H>,
          {retire<T, H>, join<T>}};
}

// The shapes that have kernels of their own: 1, 2, 4 or 8 heads of a few vectors, up to 256 numbers, in float32.
template <int D, int H> bool chosen(const Problem& p, Kernels* kernels) {
  constexpr int W = Lanes<float>::W;
  if constexpr (D * H * W <= 256 && H <= W) {
    if (p.heads != H || p.width_v != D * W || (p.k && p.width_k != D * W)) return false;
    *kernels = table<float, D, H>(p);
    return true;
  }
  return false;
}

template <int D> bool chosen(const Problem& p, Kernels* kernels) {
  return chosen<D, 1>(p, kernels) || chosen<D, 2>(p, kernels) || chosen<D, 4>(p, kernels) || chosen<D, 8>(p, kernels);
}

void choose(const Problem& p, Kernels* kernels) {
  if (p.float64) *kernels = table<double, 0, 0>(p);
#if M3D_BYTES == 64
  else if (chosen<1>(p, kernels) || chosen<2>(p, kernels) || chosen<4>(p, kernels)) return;
#elif M3D_BYTES == 32
  else if (chosen<2>(p, kernels) || chosen<4>(p, kernels) || chosen<8>(p, kernels)) return;
#else
  else if (chosen<4>(p, kernels) || chosen<8>(p, kernels)) return;
#endif
  else *kernels = table<float, 0, 0>(p);
}

}  // namespace

void M3D_KERNELS(const Problem& p, Kernels* kernels) { choose(p, kernels); }
