// Dot-product attention: s_uv = scale q_u . k_v, P = softmax over the row's keys, Z the dropout factor.
//   forward   out_u = sum_v Z_uv P_uv v_v
//   backward  with g_uv = grad_out_u . v_v and delta_u = grad_out_u . out_u = sum_v P_uv Z_uv g_uv,
//             dS_uv = P_uv (Z_uv g_uv - delta_u) scale
//             grad_q_u = sum_v dS_uv k_v                            a walk over the mask's rows
//             grad_k_v = sum_u dS_uv q_u,
//             grad_v_v = sum_u Z_uv P_uv grad_out_u                 a walk over the transpose's rows
// P is recomputed from the row's lse, Z from its hash; neither is ever stored.
#pragma once
#include "softmax.h"

namespace {

template <class T, int D, int H> struct DotForward : Kernel<T, D, H> {
  using K = Kernel<T, D, H>;
  using Row = Softmax<T, D, H>;
  static constexpr bool transposed = false;
  static constexpr int tile = kTile;
  static size_t state(const Problem& p) { return Row::bytes(p); }
  static size_t spill(const Problem&) { return 0; }

  const Table<T, D, H> q, k, v;

  INLINE DotForward(const Problem& p, void* workspace)
      : K(p, workspace), q(K::table(p.q, p.width_k)), k(K::table(p.k, p.width_k)), v(K::table(p.v, p.width_v)) {}

  INLINE void fetch(int64_t u) const { q.fetch(u); }

  INLINE void run(const Tile& tile, void* state, char*) const {
    Row row(this->p, state);
    T *s = this->numbers(0), *w = this->p.dropout ? this->numbers(1) : s;
    scores(s, q, k, tile);
    row.weigh(s, w, T(this->p.scale), tile, this->numbers(2), this->hashes(0));
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

// Rows are queries: grad_q, and delta for the walk to come.
template <class T, int D, int H> struct DotQueries : Kernel<T, D, H> {
  using K = Kernel<T, D, H>;
  static constexpr bool transposed = false;
  static constexpr int tile = kBackTile;
  static size_t state(const Problem& p) { return p.heads * p.width_k * sizeof(T); }
  static size_t spill(const Problem&) { return 0; }

  const Table<T, D, H> q, k, v, out, grad_out;

  INLINE DotQueries(const Problem& p, void* workspace)
      : K(p, workspace), q(K::table(p.q, p.width_k)), k(K::table(p.k, p.width_k)), v(K::table(p.v, p.width_v)),
        out(K::table(p.out, p.width_v)), grad_out(K::table(p.grad_out, p.width_v)) {}

  INLINE void fetch(int64_t u) const { q.fetch(u), grad_out.fetch(u); }

  INLINE void run(const Tile& tile, void* state, char*) const {
    constexpr int W = Lanes<T>::W;
    const Problem& p = this->p;
    const int64_t heads = this->heads();
    T *grad_q = static_cast<T*>(state), *deltas = static_cast<T*>(p.delta);
    T *s = this->numbers(0), *g = this->numbers(1), *lse = this->numbers(2), *delta = this->numbers(3);
    const T scale = T(p.scale);
    scores(s, q, k, tile);
    scores(g, grad_out, v, tile);
    for (const Segment& at : tile) repeat<T, H>(lse, static_cast<const T*>(p.lse) + at.row * heads, at, heads);
    if (p.dropout) entry_words<H>(this->hashes(0), p, tile);
    T* shares = lse;  // P Z g, which make up delta
    for (int64_t c = 0; c < tile.n * heads; c += W) {
      const Vec<T> weight = exponential<T>(load(s + c) * scale - load(lse + c));
      Vec<T> grad = load(g + c);
      if (p.dropout) grad *= kept<T>(p, load_hash<T>(this->hashes(0) + c));
      store(s + c, weight), store(g + c, grad), store(shares + c, weight * grad);
    }
    for (const Segment& at : tile) {
      T* mine = deltas + at.row * heads;
      if (tile.opens && tile.closes) sum_over<T, H>(mine, shares, at, heads);  // out is not read
      else if (tile.opens) row_deltas<T, D, H>(mine, grad_out.row(at.row), out.row(at.row), p);
      repeat<T, H>(delta, mine, at, heads);
    }
    for (int64_t c = 0; c < tile.n * heads; c += W)
      store(s + c, load(s + c) * (load(g + c) - load(delta + c)) * scale);
    for (const Segment& at : tile) {
      accumulate(grad_q, s, k, tile, at);
      if (tile.closes) finish(at.row, state);
    }
  }

  INLINE void finish(int64_t u, void* state) const {
    this->put(this->p.grad_q, u, static_cast<T*>(state), q);
  }

  static void merge(const Problem& p, void* into, void* from) {
    add(static_cast<T*>(into), static_cast<T*>(from), p.heads * p.width_k);
  }
};

// Rows are keys: grad_k and grad_v.
template <class T, int D, int H> struct DotKeys : Kernel<T, D, H> {
  using K = Kernel<T, D, H>;
  static constexpr bool transposed = true;
  static constexpr int tile = kBackTile;
  static size_t state(const Problem& p) { return p.heads * (p.width_k + p.width_v) * sizeof(T); }
  static size_t spill(const Problem&) { return 0; }

  const Table<T, D, H> q, k, v, grad_out;

  INLINE DotKeys(const Problem& p, void* workspace)
      : K(p, workspace), q(K::table(p.q, p.width_k)), k(K::table(p.k, p.width_k)), v(K::table(p.v, p.width_v)),
        grad_out(K::table(p.grad_out, p.width_v)) {}

  INLINE void fetch(int64_t key) const { k.fetch(key), v.fetch(key); }

  INLINE void run(const Tile& tile, void* state, char*) const {
    constexpr int W = Lanes<T>::W;
    const Problem& p = this->p;
    const int64_t heads = this->heads();
    T *grad_k = static_cast<T*>(state), *grad_v = grad_k + k.stride();
    T *s = this->numbers(0), *g = this->numbers(1), *lse = this->numbers(2), *delta = this->numbers(3);
    const T scale = T(p.scale);
    scores(s, k, q, tile);
    scores(g, v, grad_out, tile);
    gather<T, H>(lse, static_cast<const T*>(p.lse), tile, heads);
    gather<T, H>(delta, static_cast<const T*>(p.delta), tile, heads);
    if (p.dropout) query_words<H>(this->hashes(0), this->hashes(1), p, tile);
    for (int64_t c = 0; c < tile.n * heads; c += W) {
      const Vec<T> weight = exponential<T>(load(s + c) * scale - load(lse + c));
      Vec<T> dropped = weight, grad = load(g + c);
      if (p.dropout) {
        const Vec<T> factor = kept<T>(p, mix<Hash<T>>(load_hash<T>(this->hashes(0) + c)) + load_hash<T>(this->hashes(1) + c));
        dropped *= factor, grad *= factor;
      }
      store(g + c, dropped);
      store(s + c, weight * (grad - load(delta + c)) * scale);
    }
    for (const Segment& at : tile) {
      accumulate(grad_v, g, grad_out, tile, at);
      accumulate(grad_k, s, q, tile, at);
      if (tile.closes) finish(at.row, state);
    }
  }

  INLINE void finish(int64_t key, void* state) const {
    const T* from = static_cast<T*>(state);
    this->put(this->p.grad_k, key, from, k);
    this->put(this->p.grad_v, key, from + k.stride(), v);
  }

  static void merge(const Problem& p, void* into, void* from) {
    add(static_cast<T*>(into), static_cast<T*>(from), p.heads * (p.width_k + p.width_v));
  }
};

}  // namespace
