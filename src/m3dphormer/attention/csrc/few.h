// Every row sees the same few keys, whose scores are given: s [rows, heads, keys]. Their weights after dropout,
//   w_c,h = drop_c softmax_c(s_h)
// A row's head is a column of a tile, so that softmax and dropout run over whole vectors of rows.
#pragma once
#include "rows.h"

namespace {

constexpr int64_t kFewRows = 16;  // of a tile

struct Few {
  int64_t rows, heads, keys, first_key;
};

// Weights of some rows, [keys, size]: after the softmax, and after dropout as well.
template <class T> struct FewTile {
  const Few& few;
  int64_t size;  // rows x heads, in whole vectors
  Scratch<T> memory;
  T *weights, *kept, *inner;
  Scratch<uint32_t> words;  // what each column is hashed from

  explicit FewTile(const Few& few)
      : few(few), size((kFewRows * few.heads + Lanes<T>::W - 1) / Lanes<T>::W * Lanes<T>::W),
        memory(3 * few.keys * size), weights(memory.at), kept(weights + few.keys * size), inner(kept + few.keys * size),
        words(size) {}

  // n columns of [columns, keys] into a tile and back.
  INLINE void turn(T* to, const T* from, int64_t n) const {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < few.keys; ++c) to[c * size + i] = from[i * few.keys + c];
    for (int64_t i = n; i % Lanes<T>::W; ++i)
      for (int64_t c = 0; c < few.keys; ++c) to[c * size + i] = 0;
  }
  INLINE void turn_back(T* to, const T* from, int64_t n) const {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t c = 0; c < few.keys; ++c) to[i * few.keys + c] = from[c * size + i];
  }

  // For n columns, of which the first is row * heads + head.
  INLINE void weigh(const T* scores, int64_t first, int64_t n, const Drop& drop) {
    constexpr int W = Lanes<T>::W;
    const int64_t keys = few.keys;
    turn(weights, scores + first * keys, n);
    for (int64_t i = 0, row = first / few.heads; drop.active && i < n; ++row)
      for (int64_t h = 0; h < few.heads; ++h) words.at[i++] = drop.word(row, few.heads, h);
    for (int64_t at = 0; at < n; at += W) {
      Vec<T> top = load(weights + at), total = {};
      for (int64_t c = 1; c < keys; ++c) top = larger<T>(load(weights + c * size + at), top);
      for (int64_t c = 0; c < keys; ++c) {
        const Vec<T> weight = exponential<T>(load(weights + c * size + at) - top);
        store(weights + c * size + at, weight);
        total += weight;
      }
      const Vec<T> share = T(1) / total;
      const Hash<T> row = mix<Hash<T>>(load_hash<T>(words.at + at));
      for (int64_t c = 0; c < keys; ++c) {
        const Vec<T> weight = load(weights + c * size + at) * share;
        store(weights + c * size + at, weight);
        store(kept + c * size + at, weight * drop.keep<T>(row + drop.name(few.first_key + c) * kGolden));
      }
    }
  }

  // inner holds gradients of the weights and becomes those of the scores.
  INLINE void through_softmax(int64_t n) {
    constexpr int W = Lanes<T>::W;
    for (int64_t at = 0; at < n; at += W) {
      Vec<T> delta = {};
      for (int64_t c = 0; c < few.keys; ++c) delta += load(kept + c * size + at) * load(inner + c * size + at);
      for (int64_t c = 0; c < few.keys; ++c) {
        const int64_t i = c * size + at;
        store(inner + i, load(kept + i) * load(inner + i) - load(weights + i) * delta);
      }
    }
  }
};

// Calls body with a tile that has weighed some rows, the first of its columns and their number.
template <class T, class Body>
void weigh_few(const T* scores, const Few& few, const Drop& drop, int64_t threads, const Body& body) {
  blocks(threads, (few.rows + kFewRows - 1) / kFewRows, [&](int64_t block) {
    const int64_t row = block * kFewRows, rows = few.rows - row < kFewRows ? few.rows - row : kFewRows;
    FewTile<T> tile(few);
    tile.weigh(scores, row * few.heads, rows * few.heads, drop);
    body(tile, row * few.heads, rows * few.heads);
  });
}

template <class T>
void few_forward(T* out, const T* scores, const Few& few, const Drop& drop, int64_t threads) {
  weigh_few(scores, few, drop, threads, [&](FewTile<T>& tile, int64_t first, int64_t n) {
    tile.turn_back(out + first * few.keys, tile.kept, n);
  });
}

template <class T>
void few_backward(T* grad_scores, const T* grad, const T* scores, const Few& few, const Drop& drop, int64_t threads) {
  weigh_few(scores, few, drop, threads, [&](FewTile<T>& tile, int64_t first, int64_t n) {
    tile.turn(tile.inner, grad + first * few.keys, n);
    tile.through_softmax(n);
    tile.turn_back(grad_scores + first * few.keys, tile.inner, n);
  });
}

}  // namespace
