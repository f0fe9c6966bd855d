/* SPDX-License-Identifier: Apache-2.0 */
/* Element kernels of the all-reduce, per element type and operation. They decide how arrays become
 * one, bit for bit; the ring decides which arrays, and in which order.
 *
 * Same bits: every instruction tier (tiers.h) computes each element by the same IEEE 754 operations
 * in the same order, without fused multiply-add. So members on unlike machines may share a ring. It
 * takes the default floating-point environment: rounding to nearest, denormals kept.
 *
 *   F32 F64     computed in their own type.
 *   F16 BF16    every call computes in F32 and rounds to nearest even once, at its end. Along a
 *               ring partial results travel in the element type, so there each hop rounds;
 *               reduce_flat() rounds once.
 *   integers    SUM and PRODUCT wrap (two's complement). MEAN is computed in F64, rounded to
 *               nearest even and kept within the type.
 *   NaN         one rule: whatever is computed and is not a number is the positive quiet NaN
 *               without payload (0x7fc00000, 0x7ff8000000000000, 0x7e00, 0x7fc0). MIN and MAX pass
 *               NaN on from any side. What is merely copied (one source, weight 0 elsewhere) keeps
 *               its bits.
 *   MIN, MAX    of -0 and +0 is the later of the two: SPOTNIK_MIN(+0, -0) = -0, SPOTNIK_MIN(-0, +0)
 *               = +0.
 *   MEAN        F32 and F64 carry the weighted sum and divide at the end. The other types could not
 *               hold that sum (1 024 samples of 64 are infinite in F16), so they carry the running
 *               mean: (W r + w x) / (W + w), W being the weight of what was received.
 *
 * Weights and totals are converted to the type of the computation. They are exact up to 2^24 in F32
 * and 2^53 in F64, and rounded to nearest beyond.
 *
 * Pointers need no alignment. `out` may be one of the inputs itself, but must overlap none of them
 * partly. All functions may be called from any thread. */
#ifndef SPOTNIK_REDUCE_REDUCE_H
#define SPOTNIK_REDUCE_REDUCE_H

#include "spotnik/spotnik.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one element; 0 for a value that is no dtype. */
size_t spotnik_dtype_size(enum spotnik_dtype dtype);

/* All types take all operations. False for values out of range, so a caller may ask it about bytes
 * from the wire. */
bool spotnik_reduce_supported(enum spotnik_dtype dtype, enum spotnik_op op);

/* out[i] = received[i] (op) input[i]. The weights count for MEAN only. Weight 1 does not multiply.
 * Weight 0 copies `received`, so that the NaN of a member without samples spreads to no other
 * member. `received_weight` is the sum of the weights in `received`, at least 1. */
void spotnik_reduce_combine(void *out, const void *received, const void *input, size_t count,
                            enum spotnik_dtype dtype, enum spotnik_op op, uint64_t weight,
                            uint64_t received_weight);

/* The first member's contribution to MEAN: weight * input[i] for F32 and F64, input[i] for the
 * others, whose running mean it begins. Weight 0 gives zeros. */
void spotnik_reduce_scale(void *out, const void *input, size_t count, enum spotnik_dtype dtype,
                          uint64_t weight);

/* The end of MEAN: out[i] / total for F32 and F64, nothing for the others. Total 0 (no member had
 * samples) gives zeros. */
void spotnik_reduce_divide(void *out, size_t count, enum spotnik_dtype dtype, uint64_t total);

/* Is a partial MEAN of this type the weighted sum (else the running mean)? */
bool spotnik_reduce_sums_mean(enum spotnik_dtype dtype);

struct spotnik_reduce_source {
    const void *data;
    /* MEAN: its weight. 0: carries nothing and is not read, whatever the operation */
    uint64_t weight;
};

#define SPOTNIK_REDUCE_SOURCES_MAX 1024

enum spotnik_reduce_flags {
    /* `out` is not read soon and does not fit into caches: store past them, without reading it
     * first. Other threads see the result after what publishes it, as with plain stores. */
    SPOTNIK_REDUCE_STREAM = 1,
    /* MEAN of F32 and F64: leave out the division, as the partial sums of a ring do. */
    SPOTNIK_REDUCE_PARTIAL = 2,
};

/* out[i] = ((source[0][i] op source[1][i]) op source[2][i]) ..., in one pass over memory. MEAN
 * divides by the sum of the weights. F32 and F64 get the bits that scale(), combine()s and divide()
 * in the same order give. When every weight is 0, MEAN gives zeros and the others copy source 0. 1
 * <= sources <= SOURCES_MAX. */
void spotnik_reduce_flat(void *out, const struct spotnik_reduce_source *source, size_t sources,
                         size_t count, enum spotnik_dtype dtype, enum spotnik_op op,
                         unsigned flags);

/* The same for a whole bucket in the order of the ring: segment j of `sources` is added up from
 * source j on. So F32 and F64 get the bits that a ring of as many members gives them. 2 <=
 * sources. */
void spotnik_reduce_rounds(void *out, const struct spotnik_reduce_source *source, uint32_t sources,
                           uint64_t count, enum spotnik_dtype dtype, enum spotnik_op op);

/* Sums of several members each, as one, in this order: source 0, an input, or (`summed`) the sum of
 * a host; then partial results of this very function or of reduce_flat() with PARTIAL. `weight` is
 * what is in them. `last`: all members are, so MEAN is finished. Types that round do so once, here.
 * `out` may be the data of source 0. Up to 16 sources. */
void spotnik_reduce_partials(void *out, const struct spotnik_reduce_source *source,
                             uint32_t sources, bool summed, bool last, uint64_t count,
                             enum spotnik_dtype dtype, enum spotnik_op op);

/* The sum of the squares of all elements, in F64 and in one order that no tier changes (squares.h).
 * 0 for integers. */
double spotnik_reduce_norm2(const void *in, size_t count, enum spotnik_dtype dtype);

/* The tier in use: "scalar", "avx2", "avx512" or "neon". The best one this processor has, but none
 * above what SPOTNIK_CPU names in the environment of the first call. */
const char *spotnik_reduce_tier_name(void);

#endif
