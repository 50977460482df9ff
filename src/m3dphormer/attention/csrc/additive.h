// Additive (GAT) attention: z_uv = a_u + b_v, s_uv = LeakyReLU(z_uv), P and Z as in dot.h.
//   forward   out_u = sum_v Z_uv P_uv v_v
//   backward  with g_uv = grad_out_u . v_v and delta_u = grad_out_u . out_u,
//             dz_uv = P_uv (Z_uv g_uv - delta_u) LeakyReLU'(z_uv)
//             grad_v_v = sum_u Z_uv P_uv grad_out_u,  grad_b_v = sum_u dz_uv,  grad_a_u = sum_v dz_uv
// One walk over the transpose's rows gives all three: dz of the rows at work is spilled, and added to
// grad_a in the order of the walk (see walk.cpp), so that no [m, H] tensor is held.
#pragma once
#include "softmax.h"

namespace {

template <class T> INLINE Vec<T> leaky(Vec<T> z, T slope) { return z > 0 ? z : z * slope; }

template <class T, int D> struct Additive {
  static void forward(const Problem& given, int64_t u, int64_t begin, int64_t end, void* state, void* workspace, void*) {
    const Problem p = given;  // a copy: no store can change it, so its fields stay in registers
    constexpr int W = Lanes<T>::W;
    Softmax<T> row(p, state);
    row.clear(p);
    T* s = static_cast<T*>(workspace);
    uint32_t* hashes = reinterpret_cast<uint32_t*>(s + p.heads * kTile);
    if (p.dropout)
      for (int64_t h = 0; h < p.heads; ++h) hashes[h] = row_hash(p, u, h);
    const T *a = static_cast<const T*>(p.a) + u * p.heads, *v = static_cast<const T*>(p.v);
    for (int64_t e = begin; e < end; e += kTile) {
      const int n = int(end - e < kTile ? end - e : kTile);
      const int64_t* keys = p.indices + e;
      gather(s, static_cast<const T*>(p.b), keys, n, p.heads);
      for (int64_t h = 0; h < p.heads; ++h)
        for (int j = 0; j < n; j += W) {
          T* x = s + h * kTile + j;
          store(x, leaky<T>(load(x) + a[h], T(p.slope)));
        }
      weigh(p, row, s, T(1), keys, n, hashes);
      accumulate<T, D>(row.acc, s, v, keys, n, p.heads, p.width_v,
                       behind(p, v, keys, e, n, p.heads * p.width_v));
    }
  }

  // One key v against the queries that see it: grad_v_v, grad_b_v, and dz [entries, H] into spill.
  static void backward(const Problem& given, int64_t v, int64_t begin, int64_t end, void* state, void* workspace, void* spill) {
    const Problem p = given;  // a copy: no store can change it, so its fields stay in registers
    constexpr int W = Lanes<T>::W;
    T *grad_v = static_cast<T*>(state), *grad_b = grad_v + p.heads * p.width_v;
    for (int64_t c = 0; c < p.heads * (p.width_v + 1); ++c) grad_v[c] = 0;
    T *g = static_cast<T*>(workspace), *z = g + p.heads * kTile, *lse = z + p.heads * kTile, *delta = lse + p.heads * kTile;
    T* dz = static_cast<T*>(spill);
    uint32_t query[kTile];
    const T* grad_out = static_cast<const T*>(p.grad_out);
    const T* value = static_cast<const T*>(p.v) + v * p.heads * p.width_v;
    const T *b = static_cast<const T*>(p.b) + v * p.heads, slope = T(p.slope);
    const Hash<T> key = uint32_t(v) * kGolden - Hash<T>{};
    for (int64_t e = begin; e < end; e += kBackTile, dz += kBackTile * p.heads) {
      const int n = int(end - e < kBackTile ? end - e : kBackTile);
      const int64_t* ids = p.t_indices + e;
      scores<T, D>(g, value, grad_out, ids, n, p.heads, p.width_v, {});
      gather(z, static_cast<const T*>(p.a), ids, n, p.heads);
      gather(lse, static_cast<const T*>(p.lse), ids, n, p.heads);
      gather(delta, static_cast<const T*>(p.delta), ids, n, p.heads);
      for (int j = 0; j < n; ++j) query[j] = uint32_t(ids[j]) * uint32_t(p.heads);
      for (int64_t h = 0; h < p.heads; ++h) {
        Vec<T> total = {};
        for (int j = 0; j < n; j += W) {
          const int64_t at = h * kTile + j;
          const Vec<T> pre = load(z + at) + b[h];
          const Vec<T> weight = exponential<T>(leaky<T>(pre, slope) - load(lse + at));
          Vec<T> dropped = weight, grad = load(g + at);
          if (p.dropout) {
            const Hash<T> rows = mix<Hash<T>>((load_hash<T>(query + j) + uint32_t(h)) ^ p.step);
            const Vec<T> factor = kept<T>(p, rows, key);
            dropped *= factor, grad *= factor;
          }
          store(g + at, dropped);
          const Vec<T> score = weight * (grad - load(delta + at));
          const Vec<T> through = pre > 0 ? score : score * slope;
          store(z + at, through);
          total += lane<T>() < n - j ? through : Vec<T>{};
        }
        grad_b[h] += sum<T>(total);
      }
      accumulate<T, D>(grad_v, g, grad_out, ids, n, p.heads, p.width_v,
                       behind(p, grad_out, ids, e, n, p.heads * p.width_v));
      scatter(dz, z, n, p.heads);
    }
  }

  // Spilled dz of the transpose's entries begin..end, added to their queries.
  static void retire(const Problem& given, int64_t begin, int64_t end, const void* spill) {
    const Problem p = given;
    const T* dz = static_cast<const T*>(spill);
    T* grad_a = static_cast<T*>(p.grad_a);
    for (int64_t e = begin; e < end; ++e, dz += p.heads)
      add_heads(grad_a + p.t_indices[e] * p.heads, dz, p.heads);
  }

  static void finish_backward(const Problem& p, int64_t v, void* state) {
    const int64_t size = p.heads * p.width_v;
    std::memcpy(static_cast<T*>(p.grad_v) + v * size, state, size * sizeof(T));
    std::memcpy(static_cast<T*>(p.grad_b) + v * p.heads, static_cast<T*>(state) + size, p.heads * sizeof(T));
  }

  static void merge_backward(const Problem& p, void* into, const void* from) {
    add(static_cast<T*>(into), static_cast<const T*>(from), p.heads * (p.width_v + 1));
  }
};

}  // namespace
