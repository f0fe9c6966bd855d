/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of F32 as bytes with one scale; compress.h has the layout and what is promised. Plain
 * loops, from which the compiler makes vectors. */
#ifndef SPOTNIK_REDUCE_QUANTISE_H
#define SPOTNIK_REDUCE_QUANTISE_H

#include "reduce/compress.h"

#include <string.h>

#define QUANTISE_AHEAD 6144

/* As a bit pattern: patterns without sign order as the magnitudes do. So it does not matter in
 * which order the greatest is looked for, and infinity and NaN come out on top. */
static inline uint32_t greatest_magnitude(const uint8_t *in, size_t count)
{
    uint32_t most = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, in + 4 * i, sizeof bits);
        bits &= 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return most;
}

/* Adding 1.5 * 2^23 leaves the whole number, rounded to nearest even, in the lowest bits. */
static inline void bytes_of_floats(uint8_t *out, const uint8_t *in, size_t count, float units)
{
    for (size_t i = 0; i < count; i++) {
        float value;
        uint32_t bits;
        memcpy(&value, in + 4 * i, sizeof value);
        value = value * units + 0x1.8p23f;
        memcpy(&bits, &value, sizeof bits);
        out[i] = (uint8_t)bits;
    }
}

/* m / 127 with the last 7 bits of its fraction cleared, and what the limits make of it. */
static inline float scale_of(uint32_t bits, float most)
{
    float scale;

    if (bits >= 0x7f800000)
        return __builtin_nanf("");
    if (most < SPOTNIK_QUANT_LEAST)
        return 0;
    scale = most / 127;
    memcpy(&bits, &scale, sizeof bits);
    bits &= ~0x7fu;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

/* Each block is read twice, the second time from the nearest cache. So that memory is busy
 * meanwhile, what comes a little later is asked for now; beyond the end of an array that does
 * nothing. */
static inline void ask_for(const uint8_t *in)
{
    for (size_t at = 0; at < SPOTNIK_QUANT_BLOCK * sizeof(float); at += 64)
        __builtin_prefetch((const void *)((uintptr_t)in + QUANTISE_AHEAD + at));
}

#ifdef VECTOR_BYTES
/* A whole block is no multiple of four vectors: the last four overlap those before, which finds the
 * same twice. */
enum { QUANT_GROUP = 4 * LANES, QUANT_LAST = SPOTNIK_QUANT_BLOCK - QUANT_GROUP };
static inline i32_v magnitude(const uint8_t *in)
{
    i32_v bits;

    memcpy(&bits, in, sizeof bits);
    return bits & 0x7fffffff;
}

static inline i32_v greatest_of_group(const uint8_t *in)
{
    return greater(greater(magnitude(in), magnitude(in + sizeof(i32_v))),
                   greater(magnitude(in + 2 * sizeof(i32_v)), magnitude(in + 3 * sizeof(i32_v))));
}

static inline uint32_t greatest_of_block(const uint8_t *in, size_t count)
{
    i32_v most;

    if (count != SPOTNIK_QUANT_BLOCK)
        return greatest_magnitude(in, count);
    most = greatest_of_group(in + QUANT_LAST * sizeof(float));
    for (size_t at = 0; at < QUANT_LAST; at += QUANT_GROUP)
        most = greater(most, greatest_of_group(in + at * sizeof(float)));
    return (uint32_t)greatest_lane(most);
}

static inline f32_v in_units(const uint8_t *in, float units)
{
    f32_v value;

    memcpy(&value, in, sizeof value);
    return value * units;
}

static inline void bytes_of_group(uint8_t *out, const uint8_t *in, float units)
{
    bytes_of_f32(out, in_units(in, units), in_units(in + sizeof(f32_v), units),
                 in_units(in + 2 * sizeof(f32_v), units), in_units(in + 3 * sizeof(f32_v), units));
}

static inline void bytes_of_block(uint8_t *out, const uint8_t *in, size_t count, float units)
{
    if (count != SPOTNIK_QUANT_BLOCK) {
        bytes_of_floats(out, in, count, units);
        return;
    }
    for (size_t at = 0; at < QUANT_LAST; at += QUANT_GROUP)
        bytes_of_group(out + at, in + at * sizeof(float), units);
    bytes_of_group(out + QUANT_LAST, in + QUANT_LAST * sizeof(float), units);
}
#else
#define greatest_of_block greatest_magnitude
#define bytes_of_block bytes_of_floats
#endif

static inline __attribute__((always_inline)) void quantise_block(uint8_t *out, const uint8_t *in,
                                                                 size_t count)
{
    uint32_t bits = greatest_of_block(in, count);
    float most, scale;

    memcpy(&most, &bits, sizeof most);
    scale = scale_of(bits, most);
    memcpy(out, &scale, sizeof scale);
    if (scale > 0)
        bytes_of_block(out + sizeof scale, in, count, 127 / most);
    else
        memset(out + sizeof scale, 0, count);
}

static void quantise(void *out, const float *in, size_t count)
{
    const uint8_t *from = (const uint8_t *)in;
    uint8_t *to = out;

    for (; count >= SPOTNIK_QUANT_BLOCK; count -= SPOTNIK_QUANT_BLOCK) {
        ask_for(from);
        quantise_block(to, from, SPOTNIK_QUANT_BLOCK);
        from += SPOTNIK_QUANT_BLOCK * sizeof(float);
        to += SPOTNIK_QUANT_BLOCK_BYTES;
    }
    if (count > 0)
        quantise_block(to, from, count);
}

static inline f32_v dequantised(const uint8_t *in, float scale)
{
    f32_v x = f32_of_bytes(in) * scale;

    return LAST_F32(x, 1);
}

static inline void dequantise_few(uint8_t *out, const uint8_t *in, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++) {
        float x = (float)(int8_t)in[i] * scale;
        x = x != x ? __builtin_nanf("") : x;
        memcpy(out + 4 * i, &x, sizeof x);
    }
}

/* Blocks begin anywhere in a line, and a store that crosses lines costs more than two. So the first
 * and the last vector overlap others, which are aligned. */
static inline __attribute__((always_inline)) void dequantise_block(uint8_t *out, const uint8_t *in,
                                                                   size_t count)
{
    float scale;

    memcpy(&scale, in, sizeof scale);
    in += sizeof scale;
    if (count < LANES) {
        dequantise_few(out, in, count, scale);
        return;
    }
    const size_t end = count - LANES;
    f32_v first = dequantised(in, scale), last = dequantised(in + end, scale);
    for (size_t at = (-(uintptr_t)out & (sizeof(f32_v) - 1)) / sizeof(float); at < end;
         at += LANES) {
        f32_v x = dequantised(in + at, scale);
        memcpy(out + at * sizeof(float), &x, sizeof x);
    }
    memcpy(out, &first, sizeof first);
    memcpy(out + end * sizeof(float), &last, sizeof last);
}

static void dequantise(float *out, const void *in, size_t count)
{
    const uint8_t *from = in;
    uint8_t *to = (uint8_t *)out;

    for (; count >= SPOTNIK_QUANT_BLOCK; count -= SPOTNIK_QUANT_BLOCK) {
        dequantise_block(to, from, SPOTNIK_QUANT_BLOCK);
        to += SPOTNIK_QUANT_BLOCK * sizeof(float);
        from += SPOTNIK_QUANT_BLOCK_BYTES;
    }
    if (count > 0)
        dequantise_block(to, from, count);
}

#endif
