// One attention over a CSR mask, as the C interface passes it. Every tensor is dense and row-major;
// a field that a kernel does not name is not read. Rows and keys are the same T nodes.
#pragma once
#include <cstddef>
#include <cstdint>

struct Problem {
  int64_t rows;     // T
  int64_t entries;  // m, the pairs of the mask
  int64_t heads;    // H
  int64_t width_k;  // d_h of q and k
  int64_t width_v;  // d_h of v

  const int64_t* indptr;     // [T + 1], rows are queries
  const int64_t* indices;    // [m], keys
  const int64_t* t_indptr;   // [T + 1], the transpose: rows are keys
  const int64_t* t_indices;  // [m], queries
  const int64_t* order;      // [T], which row lies at each place of both; null: row i at place i

  const void *q, *k, *v;  // [T, H, d_h]
  const void *a, *b;      // [T, H], additive scores
  void* out;              // [T, H, d_h]
  void* lse;              // [T, H], log-sum-exp of the row's scores, 0 for a row without keys
  const void* grad_out;   // [T, H, d_h]
  void* delta;            // [T, H], scratch: sum of grad_out * out
  void *grad_q, *grad_k, *grad_v, *grad_a, *grad_b;

  double scale;       // dot scores: 1 / sqrt(d_h)
  double slope;       // additive scores: LeakyReLU below zero
  double keep_scale;  // dropout: 1 / (1 - p)
  uint32_t dropout;   // 0: keep everything
  uint32_t step;      // hash of seed and call
  uint32_t threshold; // p * 2^32: entries whose hash is lower are dropped
  int32_t threads;
  int32_t isa;      // 0 the best there is, 1 baseline, 2 avx2, 3 avx512
  int32_t float64;  // 0: tensors are float32
};

// One walk over the rows of the mask, or of its transpose; see pass.h for the kernels and walk.cpp for the walk.
struct Pass {
  size_t state;      // bytes of a row's state
  size_t workspace;  // bytes, per thread
  size_t spill;      // bytes that an entry spills
  bool transposed;
  void (*rows)(const Problem&, int64_t first, int64_t last, int64_t longest, void* state, void* workspace, char* spill);
  void (*piece)(const Problem&, int64_t row, int64_t begin, int64_t end, void* state, void* workspace, char* spill);
  void (*merge)(const Problem&, void* into, void* from);
  void (*finish)(const Problem&, int64_t row, void* state, void* workspace);
};

// What becomes of the spill: that of entries begin..end is added to the sums of a strand, these to the result.
struct Retirement {
  void (*retire)(const Problem&, int64_t begin, int64_t end, const void* spill, void* sums);
  void (*join)(const Problem&, const void* sums);
};

struct Kernels {
  Pass dot_forward, dot_queries, dot_keys, additive_forward, additive_backward;
  void (*deltas)(const Problem&, int64_t row, int64_t end);  // rows of delta
  Retirement grad_a;
};

constexpr int kOutOfRange = 1, kNoMemory = 2;
