/* SPDX-License-Identifier: Apache-2.0 */
/* Element kernels of the all-reduce, per element type and operation. They decide how two arrays become one,
 * bit for bit; which arrays, and in which order the members add up, is the ring's business.
 *
 * Same bits: every instruction tier (scalar, avx2) computes each element by the same IEEE 754 operations in
 * the same order, without fused multiply-add, so members on unlike machines may share a ring. One thing is
 * left open: when two NaNs with different payloads meet, either payload may survive. The promise P4 does not
 * rest on it, because every member copies the bits of the one that reduced a segment last.
 *
 * Arithmetic: integers wrap (two's complement). MIN and MAX of floats pass a NaN on, whichever side it is on;
 * where both sides are equal (-0 and +0) the result is `input`. Weights and totals are converted to the
 * element type: exact up to 2^24 for F32 and 2^53 for F64, rounded to nearest beyond.
 *
 * Pointers need no alignment. `out` may be `received` (or `input`) itself, but must not overlap either
 * partly. All functions may be called from any thread. */
#ifndef SPOTNIK_REDUCE_REDUCE_H
#define SPOTNIK_REDUCE_REDUCE_H

#include "spotnik/spotnik.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one element; 0 for a value that is no dtype. */
size_t spotnik_dtype_size(enum spotnik_dtype dtype);

/* Floats take all operations, I32 and I64 SUM, MIN and MAX, U8 MIN and MAX. False too for values out of
 * range, so a caller may ask it about bytes from the wire. */
bool spotnik_reduce_supported(enum spotnik_dtype dtype, enum spotnik_op op);

/* out[i] = received[i] (op) input[i]. `weight` counts for MEAN only: out = received + weight * input, where
 * weight 1 does not multiply, and weight 0 copies `received`, so that the NaN of a member without samples
 * poisons nobody. */
void spotnik_reduce_combine(void *out, const void *received, const void *input, size_t count,
                            enum spotnik_dtype dtype, enum spotnik_op op, uint64_t weight);

/* out[i] = weight * input[i]: the first member's contribution to MEAN. Weight 1 copies, weight 0 gives zeros.
 * Floats only. */
void spotnik_reduce_scale(void *out, const void *input, size_t count, enum spotnik_dtype dtype,
                          uint64_t weight);

/* out[i] = out[i] / total: the end of MEAN. Total 0 (nobody had samples) gives zeros. Floats only. */
void spotnik_reduce_divide(void *out, size_t count, enum spotnik_dtype dtype, uint64_t total);

/* The tier in use: "scalar" or "avx2". The best one this processor has, but none above what SPOTNIK_CPU names
 * in the environment of the first call. */
const char *spotnik_reduce_tier_name(void);

#endif
