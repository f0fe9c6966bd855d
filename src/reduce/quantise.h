/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of F32 as bytes with one scale; compress.h has the layout and what is promised. Plain loops, from which
 * the compiler makes vectors. */
#ifndef SPOTNIK_REDUCE_QUANTISE_H
#define SPOTNIK_REDUCE_QUANTISE_H

#include "reduce/compress.h"

#include <string.h>

#define QUANTISE_AHEAD 2048

/* As a bit pattern: patterns without sign order as the magnitudes do, so it does not matter in which order the
 * greatest is looked for, and infinity and NaN come out on top. */
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

/* Each block is read twice, the second time from the nearest cache. So that memory is busy meanwhile, what comes a little later is
 * asked for now; beyond the end of an array that does nothing. */
static inline void ask_for(const uint8_t *in)
{
    for (size_t at = 0; at < SPOTNIK_QUANT_BLOCK * sizeof(float); at += 64)
        __builtin_prefetch((const void *)((uintptr_t)in + QUANTISE_AHEAD + at));
}

/* A whole block is no multiple of any vector: its last 64 elements overlap the 192 before, which finds the same twice. */
enum { QUANT_FRONT = 192, QUANT_BACK = 64, QUANT_OVER = SPOTNIK_QUANT_BLOCK - QUANT_BACK };

static inline uint32_t greatest_of_block(const uint8_t *in, size_t count)
{
    uint32_t front, back;

    if (count != SPOTNIK_QUANT_BLOCK)
        return greatest_magnitude(in, count);
    front = greatest_magnitude(in, QUANT_FRONT);
    back = greatest_magnitude(in + QUANT_OVER * sizeof(float), QUANT_BACK);
    return front > back ? front : back;
}

static inline void bytes_of_block(uint8_t *out, const uint8_t *in, size_t count, float units)
{
    if (count != SPOTNIK_QUANT_BLOCK) {
        bytes_of_floats(out, in, count, units);
        return;
    }
    bytes_of_floats(out, in, QUANT_FRONT, units);
    bytes_of_floats(out + QUANT_OVER, in + QUANT_OVER * sizeof(float), QUANT_BACK, units);
}

static inline __attribute__((always_inline)) void quantise_block(uint8_t *out, const uint8_t *in, size_t count)
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

/* `base` NULL: nothing to add to. */
static inline __attribute__((always_inline)) void dequantise_block(uint8_t *out, const uint8_t *base,
                                                                   const uint8_t *in, size_t count)
{
    float scale;

    memcpy(&scale, in, sizeof scale);
    in += sizeof scale;
    for (size_t i = 0; i < count; i++) {
        float had = 0, x = (float)(int8_t)in[i] * scale;
        if (base) {
            memcpy(&had, base + 4 * i, sizeof had);
            x = had + x;
        }
        x = x != x ? __builtin_nanf("") : x;
        memcpy(out + 4 * i, &x, sizeof x);
    }
}

static void dequantise(float *out, const void *in, size_t count)
{
    const uint8_t *from = in;
    uint8_t *to = (uint8_t *)out;

    for (; count >= SPOTNIK_QUANT_BLOCK; count -= SPOTNIK_QUANT_BLOCK) {
        dequantise_block(to, NULL, from, SPOTNIK_QUANT_BLOCK);
        to += SPOTNIK_QUANT_BLOCK * sizeof(float);
        from += SPOTNIK_QUANT_BLOCK_BYTES;
    }
    if (count > 0)
        dequantise_block(to, NULL, from, count);
}

static void dequantise_add(float *out, const float *base, const void *in, size_t count)
{
    const uint8_t *from = in, *had = (const uint8_t *)base;
    uint8_t *to = (uint8_t *)out;

    for (; count >= SPOTNIK_QUANT_BLOCK; count -= SPOTNIK_QUANT_BLOCK) {
        dequantise_block(to, had, from, SPOTNIK_QUANT_BLOCK);
        to += SPOTNIK_QUANT_BLOCK * sizeof(float);
        had += SPOTNIK_QUANT_BLOCK * sizeof(float);
        from += SPOTNIK_QUANT_BLOCK_BYTES;
    }
    if (count > 0)
        dequantise_block(to, had, from, count);
}

#endif
