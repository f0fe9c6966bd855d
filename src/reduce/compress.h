/* SPDX-License-Identifier: Apache-2.0 */
/* F32 made smaller for the wire: as halves, or as bytes in blocks with a scale. Decides the bits of
 * both directions, the same on every processor; the caller decides what to compress, and what
 * becomes of errors.
 *
 * Quantised form: blocks of 252 elements, the last one shorter. Each is its scale (F32) and then
 * one signed byte q an element, from -127 to 127; it stands for q * scale: 256 bytes, so that
 * blocks fill pages and lie on lines. With m the greatest magnitude of the block:
 *
 *     scale = m / 127, the last 7 bits of its fraction cleared: so q * scale is exact, and never
 *         beyond m
 *     q = x * (127 / m), rounded to nearest even; the error is below 0.51 * m / 127
 *     m < 2^-119: scale 0 and zeros, since 127 / m would not be finite for the least of them
 *     m infinite or NaN: scale NaN and zeros; the whole block comes out as NaN, rather than as
 *         numbers that no member sent
 *
 * Quantising is not a projection: to pass values on, forward the bytes. Pointers need no alignment.
 * Casts and NaN are as in reduce.h. All functions may be called from any thread. */
#ifndef SPOTNIK_REDUCE_COMPRESS_H
#define SPOTNIK_REDUCE_COMPRESS_H

#include "spotnik/spotnik.h"

#include <stddef.h>

/* out[i] = in[i] in the half type `dtype`, F16 or BF16; or back. The arrays do not overlap. */
void spotnik_compress_narrow(void *out, const float *in, size_t count, enum spotnik_dtype dtype);
void spotnik_compress_widen(float *out, const void *in, size_t count, enum spotnik_dtype dtype);

#define SPOTNIK_QUANT_BLOCK 252
/* an element of SPOTNIK_Q8 */
#define SPOTNIK_QUANT_BLOCK_BYTES (SPOTNIK_QUANT_BLOCK + sizeof(float))
#define SPOTNIK_QUANT_LEAST 0x1p-119f

/* Blocks of `count` elements; as elements of SPOTNIK_Q8 the last one is filled up with zeros
 * (spotnik_quant_pack). */
size_t spotnik_quant_blocks(size_t count);
void spotnik_quant_pack(void *out, const float *in, size_t count);

/* Bytes of the quantised form of `count` elements. Elements from a multiple of SPOTNIK_QUANT_BLOCK
 * on begin at spotnik_quant_bytes() of their number, so pieces may be worked on apart. */
size_t spotnik_quant_bytes(size_t count);

void spotnik_quant_encode(void *out, const float *in, size_t count);
void spotnik_quant_decode(float *out, const void *in, size_t count);

#endif
