// The passes of the structured layer for one instruction set, as C functions of addresses and numbers:
// m3d_<pass>_<f32|f64>_<set>. Compiled once for each set, with M3D_SET its name. See kernels.cpp on linkage.
#include "few.h"
#include "mix.h"
#include "norm.h"
#include "product.h"
#include "skip.h"
#include "sparse.h"
#include "star.h"
#include "take.h"

#define PASTE(pass, type, set) m3d_##pass##_##type##_##set
#define NAMED(pass, type, set) PASTE(pass, type, set)
#define EXPORT(pass, type) extern "C" __attribute__((visibility("default"))) void NAMED(pass, type, M3D_SET)

#define DROP int64_t active, int64_t step, int64_t threshold, double keep_scale, const int64_t *names
#define DROPPED Drop{active, step, threshold, keep_scale, names}
#define MEMBERS                                                                                                \
  const int64_t *ids, const int64_t *first, const int64_t *from, const int64_t *to, const int64_t *group, int64_t groups, \
      int64_t pieces
#define MEMBERED Members{ids, first, from, to, group, groups, pieces}
#define STAR MEMBERS, int64_t first_centre, int64_t loops, int64_t heads, int64_t width, double scale
#define STARRED Star{MEMBERED, first_centre, loops, heads, scale}

#define PIECES(TYPE)                                                                                             \
  TYPE *const *weights, const int64_t *from, const int64_t *to, const int64_t *expert, const int64_t *keys,    \
      int64_t count, int64_t heads
#define PIECED(x, weights) {x, weights, from, to, expert, keys, count, heads, width / heads}

#define PICKS(TYPE)                                                                                          \
  const int64_t *first, const int32_t *column, const TYPE *value, const int64_t *run, const int32_t *row,    \
      const int32_t *place, int64_t block, int64_t rows, int64_t features
#define PICKED {first, column, value, run, row, place, block, rows, features}

#define PASSES(TYPE, type)                                                                                            \
  EXPORT(mix_forward, type)(TYPE * out, const TYPE* residual, const TYPE* gates, TYPE* const* x, PIECES(TYPE),        \
                            int64_t rows, int64_t width, int64_t experts, int64_t bare, DROP, int64_t threads) {      \
    with_width(width, [&](auto known) {                                                                               \
      mix_forward<TYPE>(out, residual, gates, PIECED(x, weights), rows, known, experts, bare, DROPPED, threads);      \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(mix_backward, type)(const TYPE* grad, const TYPE* gates, TYPE* grad_gates, TYPE* const* x, PIECES(TYPE),     \
                             TYPE* const* by_x, TYPE* const* by_weights, TYPE* const* partial, int64_t height,        \
                             int64_t rows, int64_t width, int64_t experts, int64_t bare, DROP, int64_t threads) {     \
    with_width(width, [&](auto known) {                                                                               \
      mix_backward<TYPE>(grad, gates, grad_gates, PIECED(x, weights), PIECED(by_x, by_weights), partial, height, rows,\
                         known, experts, bare, DROPPED, threads);                                                     \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(keep_rows, type)(TYPE * out, int64_t rows, int64_t width, DROP, int64_t threads) {                           \
    keep_rows<TYPE>(out, rows, width, DROPPED, threads);                                                              \
  }                                                                                                                   \
  EXPORT(skip_forward, type)(TYPE * out, const TYPE* z, int64_t rows, int64_t width, DROP, int64_t threads) {         \
    skip_forward<TYPE>(out, z, rows, width, DROPPED, threads);                                                        \
  }                                                                                                                   \
  EXPORT(skip_backward, type)(TYPE * grad_z, const TYPE* grad, const TYPE* out, int64_t rows, int64_t width, DROP,    \
                              int64_t threads) {                                                                      \
    skip_backward<TYPE>(grad_z, grad, out, rows, width, DROPPED, threads);                                            \
  }                                                                                                                   \
  EXPORT(norm_forward, type)(TYPE * z, TYPE * inverse, const TYPE* h, const TYPE* weight, const TYPE* bias,           \
                             int64_t rows, int64_t width, double eps, int64_t threads) {                              \
    with_width(width, [&](auto known) {                                                                               \
      norm_forward<TYPE>(z, inverse, h, weight, bias, rows, known, eps, threads);                                     \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(norm_backward, type)(TYPE * grad_h, TYPE * grad_affine, TYPE * partial, const TYPE* grad, const TYPE* h,     \
                              const TYPE* inverse, const TYPE* weight, int64_t rows, int64_t width, int64_t fresh,    \
                              int64_t threads) {                                                                      \
    with_width(width, [&](auto known) {                                                                               \
      norm_backward<TYPE>(grad_h, grad_affine, partial, grad, h, inverse, weight, rows, known, fresh, threads);       \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(map_forward, type)(const TYPE* x, TYPE* const* weights, TYPE* const* biases, TYPE* const* outs,              \
                            const int64_t* outputs, const int64_t* limits, int64_t count, int64_t rows,               \
                            int64_t width, int64_t threads) {                                                         \
    map_forward<TYPE>(x, {weights, biases, outs, outputs, limits, count}, rows, width, threads);                      \
  }                                                                                                                   \
  EXPORT(map_rows, type)(TYPE * grad_x, TYPE* const* weights, TYPE* const* grads, const int64_t* outputs,             \
                         const int64_t* limits, int64_t count, int64_t rows, int64_t width, int64_t threads) {        \
    map_rows<TYPE>(grad_x, {weights, nullptr, grads, outputs, limits, count}, rows, width, threads);                  \
  }                                                                                                                   \
  EXPORT(map_weights, type)(TYPE * by_map, TYPE * partial, const TYPE* x, TYPE* const* grads, const int64_t* outputs, \
                            const int64_t* limits, int64_t count, int64_t spans, int64_t rows, int64_t width,         \
                            int64_t threads) {                                                                        \
    map_weights<TYPE>(by_map, partial, x, {nullptr, nullptr, grads, outputs, limits, count}, spans, rows, width,      \
                      threads);                                                                                       \
  }                                                                                                                   \
  EXPORT(pick_forward, type)(TYPE * out, const TYPE* weight, const TYPE* bias, PICKS(TYPE), int64_t outputs,          \
                             int64_t threads) {                                                                       \
    pick_forward<TYPE>(out, PICKED, weight, bias, outputs, threads);                                                  \
  }                                                                                                                   \
  EXPORT(pick_weights, type)(TYPE * by_weight, TYPE * by_bias, const TYPE* grad, PICKS(TYPE), int64_t outputs,        \
                             int64_t threads) {                                                                       \
    pick_weights<TYPE>(by_weight, by_bias, PICKED, grad, outputs, threads);                                           \
  }                                                                                                                   \
  EXPORT(take_rows, type)(TYPE * out, const TYPE* x, const int64_t* rows, int64_t count, int64_t width,               \
                          int64_t threads) {                                                                          \
    with_width(width, [&](auto known) { take_rows<TYPE>(out, x, rows, count, known, threads); });                     \
  }                                                                                                                   \
  EXPORT(spread_rows, type)(TYPE * to, const TYPE* grad, const int64_t* rows, int64_t count, int64_t total,           \
                            int64_t width, int64_t threads) {                                                         \
    with_width(width, [&](auto known) { spread_rows<TYPE>(to, grad, rows, count, total, known, threads); });          \
  }                                                                                                                   \
  EXPORT(give_rows, type)(TYPE * into, const TYPE* grad, const int64_t* rows, int64_t count, int64_t width,           \
                          int64_t threads) {                                                                          \
    with_width(width, [&](auto known) { give_rows<TYPE>(into, grad, rows, count, known, threads); });                 \
  }                                                                                                                   \
  EXPORT(pool_forward, type)(TYPE * pooled, TYPE * kept, TYPE * lse, TYPE * states, const TYPE* z,                    \
                             const TYPE* queries, MEMBERS, int64_t first_query, int64_t heads, int64_t width, DROP,   \
                             int64_t threads) {                                                                       \
    with_width(width, [&](auto known) {                                                                               \
      pool_forward<TYPE>(pooled, kept, lse, states, z, queries, MEMBERED, first_query, heads, known, DROPPED,         \
          threads);                                                                                                   \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(pool_backward, type)(TYPE * grad_z, TYPE * grad_queries, TYPE * partial, const TYPE* grad_pooled,            \
                              const TYPE* grad_kept, const TYPE* pooled, const TYPE* kept, const TYPE* lse,           \
                              const TYPE* z, const TYPE* queries, MEMBERS, int64_t first_query, int64_t heads,        \
                              int64_t width, DROP, int64_t threads) {                                                 \
    with_width(width, [&](auto known) {                                                                               \
      pool_backward<TYPE>(grad_z, grad_queries, partial, grad_pooled, grad_kept, pooled, kept, lse, z, queries,       \
          MEMBERED, first_query, heads, known, DROPPED, threads);                                                     \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(few_forward, type)(TYPE * out, const TYPE* scores, int64_t rows, int64_t heads, int64_t keys,                \
                            int64_t first_key, DROP, int64_t threads) {                                               \
    few_forward<TYPE>(out, scores, {rows, heads, keys, first_key}, DROPPED, threads);                                 \
  }                                                                                                                   \
  EXPORT(few_backward, type)(TYPE * grad_scores, const TYPE* grad, const TYPE* scores, int64_t rows, int64_t heads,   \
                             int64_t keys, int64_t first_key, DROP, int64_t threads) {                                \
    few_backward<TYPE>(grad_scores, grad, scores, {rows, heads, keys, first_key}, DROPPED, threads);                  \
  }                                                                                                                   \
  EXPORT(star_forward, type)(TYPE * out, TYPE * lse, TYPE * states, const TYPE* q, const TYPE* k, const TYPE* v,      \
                             STAR, DROP, int64_t threads) {                                                           \
    with_width(width, [&](auto known) {                                                                               \
      star_forward<TYPE>(out, lse, states, q, k, v, STARRED, known, DROPPED, threads);                                \
    });                                                                                                               \
  }                                                                                                                   \
  EXPORT(star_backward, type)(TYPE * grad_q, TYPE * grad_k, TYPE * grad_v, TYPE * partial, const TYPE* grad,          \
                              const TYPE* out, const TYPE* lse, const TYPE* q, const TYPE* k, const TYPE* v, STAR,    \
                              DROP, int64_t threads) {                                                                \
    with_width(width, [&](auto known) {                                                                               \
      star_backward<TYPE>(grad_q, grad_k, grad_v, partial, grad, out, lse, q, k, v, STARRED, known, DROPPED,          \
          threads);                                                                                                   \
    });                                                                                                               \
  }

PASSES(float, f32)
PASSES(double, f64)
