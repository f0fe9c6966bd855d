/* SPDX-License-Identifier: Apache-2.0 */
/* Copying in whole cache lines that are written only. Other processors than x86: memcpy() alone. */
#include "base/copy.h"

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#define LINE 64u

static void line_copy(uint8_t *to, const uint8_t *from)
{
    __m128i a = _mm_loadu_si128((const __m128i *)from),
            b = _mm_loadu_si128((const __m128i *)(from + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)),
            d = _mm_loadu_si128((const __m128i *)(from + 48));
    _mm_stream_si128((__m128i *)to, a);
    _mm_stream_si128((__m128i *)(to + 16), b);
    _mm_stream_si128((__m128i *)(to + 32), c);
    _mm_stream_si128((__m128i *)(to + 48), d);
}

static void copy_past(uint8_t *to, const uint8_t *from, size_t bytes)
{
    size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    head = head < bytes ? head : bytes;
    memcpy(to, from, head);
    size_t at = head;
    for (; bytes - at >= LINE; at += LINE)
        line_copy(to + at, from + at);
    _mm_sfence();
    memcpy(to + at, from + at, bytes - at);
}
#else
static void copy_past(uint8_t *to, const uint8_t *from, size_t bytes)
{
    memcpy(to, from, bytes);
}
#endif

void spotnik_copy(void *to, const void *from, size_t bytes, size_t whole)
{
    if (whole >= SPOTNIK_COPY_PAST_CACHES)
        copy_past(to, from, bytes);
    else if (bytes > 0)
        memcpy(to, from, bytes);
}
