/* SPDX-License-Identifier: Apache-2.0 */
/* 32 bytes at a time; half precision by F16C. */
#ifndef SPOTNIK_REDUCE_LANES_AVX2_H
#define SPOTNIK_REDUCE_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_BYTES 32
#include "reduce/lanes_vector.h"

/* Two lines of each input in turn: see lanes_avx512.h. More than 8 sums would not stay in the 16
 * registers. */
#define UNROLL(held) (128 / sizeof(held) < 8 ? 128 / sizeof(held) : 8)
#define STREAM_END() _mm_sfence()

/* Past the caches; `to` is aligned. The size is known when this is compiled; small ones are plain
 * stores. */
static inline void stream(void *to, const void *vector, size_t size)
{
    if (size == 32)
        _mm256_stream_si256(to, _mm256_loadu_si256(vector));
    else if (size == 16)
        _mm_stream_si128(to, _mm_loadu_si128(vector));
    else
        memcpy(to, vector, size);
}
#define STREAM(to, value) stream((to), &(value), sizeof(value))

/* The upper 16 bits of products of 16 bits. */
#define MULTIPLY_HIGH(a, b) ((u16_v)_mm256_mulhi_epu16((__m256i)(a), _mm256_set1_epi16((short)(b))))

/* The lower 32 bits of lanes of 64, below these upper ones. */
#define UNDER(upper, lower)                                                                        \
    ((u64_v)_mm256_blend_epi32((__m256i)(lower), _mm256_set1_epi64x((long long)(upper) << 32),     \
                               0xaa))

static inline f32_v f16_unpack(half_v half)
{
    return (f32_v)_mm256_cvtph_ps((__m128i)half);
}

static inline half_v f16_pack(f32_v value)
{
    return (half_v)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
}

static inline f32_v bf16_unpack(half_v half)
{
    return (f32_v)_mm256_slli_epi32(_mm256_cvtepu16_epi32((__m128i)half), 16);
}

/* As in lanes_scalar.h. */
static inline half_v bf16_pack(f32_v value)
{
    u32_v bits = (u32_v)value;
    __m256i wide = (__m256i)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);

    return (half_v)_mm_packus_epi32(_mm256_castsi256_si128(wide),
                                    _mm256_extracti128_si256(wide, 1));
}

static inline i32_v greater(i32_v a, i32_v b)
{
    return (i32_v)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

static inline int32_t greatest_lane(i32_v a)
{
    __m128i four =
        _mm_max_epi32(_mm256_castsi256_si128((__m256i)a), _mm256_extracti128_si256((__m256i)a, 1));
    __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));

    return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_srli_epi64(two, 32)));
}

/* Bytes with sign in memory as F32, and back: whole numbers from -127 to 127 when rounded to
 * nearest, ties to even. */
static inline f32_v f32_of_bytes(const void *from)
{
    return (f32_v)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from)));
}

static inline void bytes_of_f32(void *to, f32_v a, f32_v b, f32_v c, f32_v d)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)a), _mm256_cvtps_epi32((__m256)b));
    __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32((__m256)c), _mm256_cvtps_epi32((__m256)d));

    _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order));
}

#endif
