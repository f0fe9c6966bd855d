/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of compress.h, by the kernels of the tier in use. */
#include "reduce/compress.h"

#include "base/assert.h"
#include "reduce/tiers.h"

#include <string.h>

_Static_assert(SPOTNIK_QUANT_BLOCK_BYTES == SPOTNIK_DTYPE_BYTES_MAX,
               "a block is one element of SPOTNIK_Q8");

static bool is_half(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_F16 || dtype == SPOTNIK_BF16;
}

void spotnik_compress_narrow(void *out, const float *in, size_t count, enum spotnik_dtype dtype)
{
    SPOTNIK_ASSERT(is_half(dtype));
    spotnik_reduce_tier()->kernels->narrow[dtype](out, in, count);
}

void spotnik_compress_widen(float *out, const void *in, size_t count, enum spotnik_dtype dtype)
{
    SPOTNIK_ASSERT(is_half(dtype));
    spotnik_reduce_tier()->kernels->widen[dtype](out, in, count);
}

size_t spotnik_quant_blocks(size_t count)
{
    return count / SPOTNIK_QUANT_BLOCK + (count % SPOTNIK_QUANT_BLOCK != 0);
}

size_t spotnik_quant_bytes(size_t count)
{
    return count + spotnik_quant_blocks(count) * sizeof(float);
}

void spotnik_quant_pack(void *out, const float *in, size_t count)
{
    size_t bytes = spotnik_quant_bytes(count),
           whole = spotnik_quant_blocks(count) * SPOTNIK_QUANT_BLOCK_BYTES;

    spotnik_quant_encode(out, in, count);
    if (whole > bytes)
        memset((uint8_t *)out + bytes, 0, whole - bytes);
}

void spotnik_quant_encode(void *out, const float *in, size_t count)
{
    spotnik_reduce_tier()->kernels->quantise(out, in, count);
}

void spotnik_quant_decode(float *out, const void *in, size_t count)
{
    spotnik_reduce_tier()->kernels->dequantise(out, in, count);
}
