// Dot-product attention: s_uv = scale q_u . k_v, P = softmax over the row's keys, Z the dropout factor.
//   forward   out_u = sum_v Z_uv P_uv v_v
//   backward  with g_uv = grad_out_u . v_v and delta_u = grad_out_u . out_u,
//             dS_uv = P_uv (Z_uv g_uv - delta_u) scale
//             grad_q_u = sum_v dS_uv k_v                            a walk over the mask's rows
//             grad_k_v = sum_u dS_uv q_u,
//             grad_v_v = sum_u Z_uv P_uv grad_out_u                 a walk over the transpose's rows
// P is recomputed from the row's lse, Z from its hash; neither is ever stored.
#pragma once
#include "softmax.h"

namespace {

template <class T, int D> struct Dot {
  static void forward(const Problem& given, int64_t u, int64_t begin, int64_t end, void* state, void* workspace, void*) {
    const Problem p = given;  // a copy: no store can change it, so its fields stay in registers
    Softmax<T> row(p, state);
    row.clear(p);
    T* s = static_cast<T*>(workspace);
    uint32_t* hashes = reinterpret_cast<uint32_t*>(s + p.heads * kTile);
    if (p.dropout)
      for (int64_t h = 0; h < p.heads; ++h) hashes[h] = row_hash(p, u, h);
    const int64_t stride_k = p.heads * p.width_k, stride_v = p.heads * p.width_v;
    const T *q = static_cast<const T*>(p.q) + u * stride_k, *k = static_cast<const T*>(p.k), *v = static_cast<const T*>(p.v);
    const T scale = T(p.scale);
    for (int64_t e = begin; e < end; e += kTile) {
      const int n = int(end - e < kTile ? end - e : kTile);
      const int64_t* keys = p.indices + e;
      scores<T, D>(s, q, k, keys, n, p.heads, p.width_k, {v, keys, n, stride_v});
      weigh(p, row, s, scale, keys, n, hashes);
      accumulate<T, D>(row.acc, s, v, keys, n, p.heads, p.width_v, behind(p, k, keys, e, n, stride_k));
    }
  }

  // One row u against its keys: grad_q_u, and delta_u for the walk to come.
  static void queries(const Problem& given, int64_t u, int64_t begin, int64_t end, void* state, void* workspace, void*) {
    const Problem p = given;  // a copy: no store can change it, so its fields stay in registers
    constexpr int W = Lanes<T>::W;
    T* grad_q = static_cast<T*>(state);
    for (int64_t c = 0; c < p.heads * p.width_k; ++c) grad_q[c] = 0;
    T *s = static_cast<T*>(workspace), *g = s + p.heads * kTile;
    uint32_t hashes[kTile];
    const int64_t stride_k = p.heads * p.width_k, stride_v = p.heads * p.width_v;
    const T *q = static_cast<const T*>(p.q) + u * stride_k, *k = static_cast<const T*>(p.k), *v = static_cast<const T*>(p.v);
    const T* grad_out = static_cast<const T*>(p.grad_out) + u * stride_v;
    const T *lse = static_cast<const T*>(p.lse) + u * p.heads, *out = static_cast<const T*>(p.out) + u * stride_v;
    T* delta = grad_q + stride_k;
    row_deltas<T>(delta, grad_out, out, p);
    const T scale = T(p.scale);
    for (int64_t e = begin; e < end; e += kBackTile) {
      const int n = int(end - e < kBackTile ? end - e : kBackTile);
      const int64_t* keys = p.indices + e;
      scores<T, D>(s, q, k, keys, n, p.heads, p.width_k, {});
      scores<T, D>(g, grad_out, v, keys, n, p.heads, p.width_v, behind(p, v, keys, e, n, stride_v));
      if (p.dropout) key_hashes(hashes, keys, n);
      for (int64_t h = 0; h < p.heads; ++h) {
        const uint32_t hash = row_hash(p, u, h);
        for (int j = 0; j < n; j += W) {
          const int64_t at = h * kTile + j;
          const Vec<T> weight = exponential<T>(load(s + at) * scale - lse[h]);
          Vec<T> grad = load(g + at);
          if (p.dropout) grad *= kept<T>(p, hash - Hash<T>{}, load_hash<T>(hashes + j));
          store(s + at, weight * (grad - delta[h]) * scale);
        }
      }
      accumulate<T, D>(grad_q, s, k, keys, n, p.heads, p.width_k, behind(p, k, keys, e, n, stride_k));
    }
  }

  // One key v against the queries that see it: grad_k_v and grad_v_v.
  static void keys(const Problem& given, int64_t v, int64_t begin, int64_t end, void* state, void* workspace, void*) {
    const Problem p = given;  // a copy: no store can change it, so its fields stay in registers
    constexpr int W = Lanes<T>::W;
    T *grad_k = static_cast<T*>(state), *grad_v = grad_k + p.heads * p.width_k;
    for (int64_t c = 0; c < p.heads * (p.width_k + p.width_v); ++c) grad_k[c] = 0;
    T *s = static_cast<T*>(workspace), *g = s + p.heads * kTile, *lse = g + p.heads * kTile, *delta = lse + p.heads * kTile;
    uint32_t query[kTile];
    const T *q = static_cast<const T*>(p.q), *grad_out = static_cast<const T*>(p.grad_out);
    const int64_t stride_k = p.heads * p.width_k, stride_v = p.heads * p.width_v;
    const T *k = static_cast<const T*>(p.k) + v * stride_k, *value = static_cast<const T*>(p.v) + v * stride_v;
    const T scale = T(p.scale);
    const Hash<T> key = uint32_t(v) * kGolden - Hash<T>{};
    for (int64_t e = begin; e < end; e += kBackTile) {
      const int n = int(end - e < kBackTile ? end - e : kBackTile);
      const int64_t* ids = p.t_indices + e;
      scores<T, D>(s, k, q, ids, n, p.heads, p.width_k, {});
      scores<T, D>(g, value, grad_out, ids, n, p.heads, p.width_v, {});
      gather(lse, static_cast<const T*>(p.lse), ids, n, p.heads);
      gather(delta, static_cast<const T*>(p.delta), ids, n, p.heads);
      for (int j = 0; j < n; ++j) query[j] = uint32_t(ids[j]) * uint32_t(p.heads);
      for (int64_t h = 0; h < p.heads; ++h)
        for (int j = 0; j < n; j += W) {
          const int64_t at = h * kTile + j;
          const Vec<T> weight = exponential<T>(load(s + at) * scale - load(lse + at));
          Vec<T> dropped = weight, grad = load(g + at);
          if (p.dropout) {
            const Hash<T> rows = mix<Hash<T>>((load_hash<T>(query + j) + uint32_t(h)) ^ p.step);
            const Vec<T> factor = kept<T>(p, rows, key);
            dropped *= factor, grad *= factor;
          }
          store(g + at, dropped);
          store(s + at, weight * (grad - load(delta + at)) * scale);
        }
      accumulate<T, D>(grad_v, g, grad_out, ids, n, p.heads, p.width_v, behind(p, grad_out, ids, e, n, stride_v));
      accumulate<T, D>(grad_k, s, q, ids, n, p.heads, p.width_k, behind(p, q, ids, e, n, stride_k));
    }
  }

  static void finish_queries(const Problem& p, int64_t u, void* state) {
    const int64_t size = p.heads * p.width_k;
    std::memcpy(static_cast<T*>(p.grad_q) + u * size, state, size * sizeof(T));
    std::memcpy(static_cast<T*>(p.delta) + u * p.heads, static_cast<T*>(state) + size, p.heads * sizeof(T));
  }

  static void finish_keys(const Problem& p, int64_t v, void* state) {
    const int64_t size = p.heads * p.width_k, size_v = p.heads * p.width_v;
    std::memcpy(static_cast<T*>(p.grad_k) + v * size, state, size * sizeof(T));
    std::memcpy(static_cast<T*>(p.grad_v) + v * size_v, static_cast<T*>(state) + size, size_v * sizeof(T));
  }

  static void merge_queries(const Problem& p, void* into, const void* from) {
    add(static_cast<T*>(into), static_cast<const T*>(from), p.heads * p.width_k);
  }

  static void merge_keys(const Problem& p, void* into, const void* from) {
    add(static_cast<T*>(into), static_cast<const T*>(from), p.heads * (p.width_k + p.width_v));
  }
};

}  // namespace
