/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN of integers of 64 bits: computed in F64, rounded to nearest (ties to even), kept within the
 * type. Conversions are rounded as the C ones are; not all tiers have instructions for them.
 * Decides no more than that: above 2^53 a mean is what F64 makes of it, so weights are not brought
 * to smaller ones here. */
#ifndef SPOTNIK_REDUCE_WIDE_MEAN_H
#define SPOTNIK_REDUCE_WIDE_MEAN_H

#include <math.h>

#if defined(I64_F64)
/* This tier has the instructions. */
#elif defined(VECTOR_BYTES)
/* The upper 32 bits are the fraction of 2^84 and 2^32 times as many, the lower ones that of 2^52
 * and as many. Taking away both powers from the first is exact; only the last addition rounds. */
static inline f64_v wide_f64(u64_v x, uint64_t power84, double powers)
{
    u64_v high = (x >> 32) ^ power84, low = UNDER(0x43300000, x);

    return ((f64_v)high - powers) + (f64_v)low;
}

#define U64_F64(x) wide_f64(x, 0x4530000000000000, 0x1p84 + 0x1p52)
/* The upper bit turned: 2^63 more. */
#define I64_F64(x) wide_f64(x, 0x4530000080000000, 0x1p84 + 0x1p63 + 0x1p52)

/* Adding 1.5 * 2^84 leaves the nearest multiple of 2^32 in the lowest bits. The rest is exact, and
 * rounded to a whole number as `value` itself would be, since what was taken off is even. Both are
 * in two's complement. */
static inline u64_v wide_whole(f64_v value)
{
    f64_v high = value + 0x1.8p84, rest = value - (high - 0x1.8p84);

    return ((u64_v)high << 32) + ((u64_v)(rest + 0x1.8p52) - 0x4338000000000000);
}

#else
#define U64_F64(x) ((double)(x))
#define I64_F64(x) ((double)(int64_t)(x))

/* Above 2^52 there are no fractions; below, adding 2^52 rounds them away. What is beyond 64 bits is
 * not looked at. */
static inline uint64_t wide_whole(double value)
{
    double magnitude = fabs(value), whole = magnitude + 0x1p52 - 0x1p52;

    whole = magnitude < 0x1p52 ? whole : magnitude < 0x1p64 ? magnitude : 0;
    return value < 0 ? -(uint64_t)whole : (uint64_t)whole;
}

#endif

#ifndef F64_I64
#define F64_I64(value) wide_whole(value)
#define F64_U64(value) wide_whole(value)
#endif

/* 2^63 and 2^64 are doubles, but one more than the types hold. No mean of numbers without sign is
 * below 0. */
static inline u64_v i64_kept(f64_v value)
{
    u64_v whole = SELECT(value >= 0x1p63, (u64_v){ 0 } + INT64_MAX, F64_I64(value));

    return SELECT(value < -0x1p63, (u64_v){ 0 } + (UINT64_C(1) << 63), whole);
}

static inline u64_v u64_kept(f64_v value)
{
    return SELECT(value >= 0x1p64, (u64_v){ 0 } + UINT64_MAX, F64_U64(value));
}

FOLD(i64_mean, 8, u64_v, f64_v, I64_F64, i64_kept, 64, FIRST_WEIGHTED, ADD_WEIGHTED, DIVIDED)
FOLD(u64_mean, 8, u64_v, f64_v, U64_F64, u64_kept, 64, FIRST_WEIGHTED, ADD_WEIGHTED, DIVIDED)

#endif
