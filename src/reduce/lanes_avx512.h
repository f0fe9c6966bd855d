/* SPDX-License-Identifier: Apache-2.0 */
/* 64 bytes at a time. */
#ifndef SPOTNIK_REDUCE_LANES_AVX512_H
#define SPOTNIK_REDUCE_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_BYTES 64
#include "reduce/lanes_vector.h"

/* Two lines of each input in turn. On Zen 5, with four, F32 sums with streaming stores reach 0.75
 * to 0.85 of the triad and MIN and MAX lose a tenth. With one, sums of 8 inputs lose a fifth. */
#define UNROLL(held) (128 / sizeof(held) < 8 ? 128 / sizeof(held) : 8)
#define STREAM_END() _mm_sfence()

/* Past the caches; `to` is aligned. The size is known when this is compiled; small ones are plain
 * stores. */
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

/* Between 64 bits and F64 (wide_mean.h), rounded to nearest. What is beyond the type comes out as
 * anything. */
#define I64_F64(x) ((f64_v)_mm512_cvtepi64_pd((__m512i)(x)))
#define U64_F64(x) ((f64_v)_mm512_cvtepu64_pd((__m512i)(x)))
#define F64_I64(value) ((u64_v)_mm512_cvtpd_epi64((__m512d)(value)))
#define F64_U64(value) ((u64_v)_mm512_cvtpd_epu64((__m512d)(value)))

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

static inline i32_v greater(i32_v a, i32_v b)
{
    return (i32_v)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

static inline int32_t greatest_lane(i32_v a)
{
    return _mm512_reduce_max_epi32((__m512i)a);
}

/* Bytes with sign in memory as F32, and back: whole numbers from -127 to 127 when rounded to
 * nearest, ties to even. */
static inline f32_v f32_of_bytes(const void *from)
{
    return (f32_v)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from)));
}

static inline void bytes_of_f32(void *to, f32_v a, f32_v b, f32_v c, f32_v d)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)a), _mm512_cvtps_epi32((__m512)b));
    __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)c), _mm512_cvtps_epi32((__m512)d));

    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high)));
}

#endif
