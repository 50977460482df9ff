// Additive (GAT) attention: z_uv = a_u + b_v, s_uv = LeakyReLU(z_uv), P and Z as in dot.h.
//   forward   out_u = sum_v Z_uv P_uv v_v
//   backward  with g_uv = grad_out_u . v_v and delta_u = grad_out_u . out_u,
//             dz_uv = P_uv (Z_uv g_uv - delta_u) LeakyReLU'(z_uv)
//             grad_v_v = sum_u Z_uv P_uv grad_out_u,  grad_b_v = sum_u dz_uv,  grad_a_u = sum_v dz_uv
// One walk over the transpose's rows gives all three: dz of the rows at work is spilled, and added to
// grad_a in a fixed order (see walk.cpp), so that no [m, H] tensor is held.
#pragma once
#include "softmax.h"

namespace {

template <class T> INLINE Vec<T> leaky(Vec<T> z, T slope) { return z > 0 ? z : z * slope; }

template <class T, int D, int H> struct AdditiveForward : Kernel<T, D, H> {
  using K = Kernel<T, D, H>;
  using Row = Softmax<T, D, H>;
  static constexpr bool transposed = false;
  static constexpr int tile = kTile;
  static size_t state(const Problem& p) { return Row::bytes(p); }
  static size_t spill(const Problem&) { return 0; }

  const Table<T, D, H> v;

  INLINE AdditiveForward(const Problem& p, void* workspace) : K(p, workspace), v(K::table(p.v, p.width_v)) {}

  INLINE void fetch(int64_t) const {}

  INLINE void run(const Tile& tile, void* state, char*) const {
    const Problem& p = this->p;
    const int64_t heads = this->heads();
    Row row(p, state);
    T *s = this->numbers(0), *w = p.dropout ? this->numbers(1) : s, *a = this->numbers(2);
    gather<T, H>(s, static_cast<const T*>(p.b), tile, heads);
    for (const Segment& at : tile) repeat<T, H>(a, static_cast<const T*>(p.a) + at.row * heads, at, heads);
    for (int64_t c = 0; c < tile.n * heads; c += Lanes<T>::W)
      store(s + c, leaky<T>(load(s + c) + load(a + c), T(p.slope)));
    row.weigh(s, w, T(1), tile, a, this->hashes(0));
    for (int i = 0; i < tile.count; ++i) {
      accumulate(row.acc, w, v, tile, tile.segment[i]);
      if (tile.closes) finish_row(row, tile.segment[i].row, i);
    }
  }

  INLINE void finish_row(const Row& row, int64_t u, int i) const {
    row.close(u, i);
    this->put(this->p.out, u, row.acc, v);
  }

  INLINE void finish(int64_t u, void* state) const { finish_row(Row(this->p, state), u, 0); }
  static void merge(const Problem& p, void* into, void* from) { Row(p, into).merge(Row(p, from)); }
};

// Rows are keys: grad_v, grad_b, and dz [entries, H] into spill.
template <class T, int D, int H> struct AdditiveBackward : Kernel<T, D, H> {
  using K = Kernel<T, D, H>;
  static constexpr bool transposed = true;
  static constexpr int tile = kBackTile;
  static size_t state(const Problem& p) { return p.heads * (p.width_v + 1) * sizeof(T); }
  static size_t spill(const Problem& p) { return p.heads * sizeof(T); }

  const Table<T, D, H> v, grad_out;

  INLINE AdditiveBackward(const Problem& p, void* workspace)
      : K(p, workspace), v(K::table(p.v, p.width_v)), grad_out(K::table(p.grad_out, p.width_v)) {}

  INLINE void fetch(int64_t key) const { v.fetch(key); }

  INLINE void run(const Tile& tile, void* state, char* spill) const {
    constexpr int W = Lanes<T>::W;
    const Problem& p = this->p;
    const int64_t heads = this->heads();
    T *grad_v = static_cast<T*>(state), *grad_b = grad_v + v.stride();
    T *z = this->numbers(0), *g = this->numbers(1), *lse = this->numbers(2), *delta = this->numbers(3);
    const T slope = T(p.slope);
    scores(g, v, grad_out, tile);
    gather<T, H>(z, static_cast<const T*>(p.a), tile, heads);
    gather<T, H>(lse, static_cast<const T*>(p.lse), tile, heads);
    for (const Segment& at : tile) repeat<T, H>(delta, static_cast<const T*>(p.b) + at.row * heads, at, heads);
    for (int64_t c = 0; c < tile.n * heads; c += W) store(z + c, load(z + c) + load(delta + c));
    gather<T, H>(delta, static_cast<const T*>(p.delta), tile, heads);
    if (p.dropout) query_words<H>(this->hashes(0), this->hashes(1), p, tile);
    for (int64_t c = 0; c < tile.n * heads; c += W) {
      const Vec<T> pre = load(z + c);
      const Vec<T> weight = exponential<T>(leaky<T>(pre, slope) - load(lse + c));
      Vec<T> dropped = weight, grad = load(g + c);
      if (p.dropout) {
        const Vec<T> factor = kept<T>(p, mix<Hash<T>>(load_hash<T>(this->hashes(0) + c)) + load_hash<T>(this->hashes(1) + c));
        dropped *= factor, grad *= factor;
      }
      store(g + c, dropped);
      const Vec<T> score = weight * (grad - load(delta + c));
      store(z + c, pre > 0 ? score : score * slope);
    }
    std::memcpy(spill, z, tile.n * heads * sizeof(T));
    for (const Segment& at : tile) {
      for (int64_t h = 0; tile.opens && h < heads; ++h) grad_b[h] = 0;
      add_over<T, H>(grad_b, z, at, heads);
      accumulate(grad_v, g, grad_out, tile, at);
      if (tile.closes) finish(at.row, state);
    }
  }

  INLINE void finish(int64_t key, void* state) const {
    const T* from = static_cast<T*>(state);
    const int64_t heads = this->heads();
    this->put(this->p.grad_v, key, from, v);
    std::memcpy(static_cast<T*>(this->p.grad_b) + key * heads, from + v.stride(), heads * sizeof(T));
  }

  static void merge(const Problem& p, void* into, void* from) {
    add(static_cast<T*>(into), static_cast<T*>(from), p.heads * (p.width_v + 1));
  }
};

// Spilled dz of the transpose's entries begin..end, added to their queries' sums.
template <class T, int H> void retire(const Problem& p, int64_t begin, int64_t end, const void* spill, void* sums) {
  const int64_t heads = H ? H : p.heads;
  const T* dz = static_cast<const T*>(spill);
  for (int64_t e = begin; e < end; ++e, dz += heads) {
    T* into = static_cast<T*>(sums) + p.t_indices[e] * heads;
    if constexpr (H > 1) {
      const auto sum = Halves<T, H, H>::fill(into) + Halves<T, H, H>::fill(dz);
      std::memcpy(into, &sum, sizeof sum);
    } else {
      add(into, dz, heads);
    }
  }
}

template <class T> void join(const Problem& p, const void* sums) {
  add(static_cast<T*>(p.grad_a), static_cast<const T*>(sums), p.rows * p.heads);
}

// delta of the rows first..last, for the walk to come.
template <class T, int D, int H> void deltas(const Problem& p, int64_t first, int64_t last) {
  const int64_t size = p.heads * p.width_v;
  const T *out = static_cast<const T*>(p.out), *grad = static_cast<const T*>(p.grad_out);
  for (int64_t row = first; row < last; ++row)
    row_deltas<T, D, H>(static_cast<T*>(p.delta) + row * p.heads, grad + row * size, out + row * size, p);
}

}  // namespace
