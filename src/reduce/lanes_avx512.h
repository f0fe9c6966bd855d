/* SPDX-License-Identifier: Apache-2.0 */
/* 64 bytes at a time. */
#ifndef SPOTNIK_REDUCE_LANES_AVX512_H
#define SPOTNIK_REDUCE_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_BYTES 64
#include "reduce/lanes_vector.h"

/* Two lines of each input in turn. On Zen 5, with four, F32 sums with streaming stores reach 0.75 to 0.85 of the triad and
 * MIN and MAX lose a tenth; with one, sums of 8 inputs lose a fifth. */
#define UNROLL(held) (128 / sizeof(held) < 8 ? 128 / sizeof(held) : 8)
#define STREAM_END() _mm_sfence()

/* Past the caches; `to` is aligned. The size is known when this is compiled; small ones are plain stores. */
static inline void stream(void *to, const void *vector, size_t size)
{
    if (size == 64)
        _mm512_stream_si512(to, _mm512_loadu_si512(vector));
    else if (size == 32)
        _mm256_stream_si256(to, _mm256_loadu_si256(vector));
    else
        memcpy(to, vector, size);
}
#define STREAM(to, value) stream((to), &(value), sizeof(value))

/* The upper 16 bits of products of 16 bits. */
#define MULTIPLY_HIGH(a, b) ((u16_v)_mm512_mulhi_epu16((__m512i)(a), _mm512_set1_epi16((short)(b))))

static inline f32_v f16_unpack(half_v half)
{
    return (f32_v)_mm512_cvtph_ps((__m256i)half);
}

static inline half_v f16_pack(f32_v value)
{
    return (half_v)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline f32_v bf16_unpack(half_v half)
{
    return (f32_v)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)half), 16);
}

/* As in lanes_scalar.h. */
static inline half_v bf16_pack(f32_v value)
{
    u32_v bits = (u32_v)value;

    return (half_v)_mm512_cvtepi32_epi16((__m512i)((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
}

#endif
