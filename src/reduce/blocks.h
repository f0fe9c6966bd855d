/* SPDX-License-Identifier: Apache-2.0 */
/* Reduction of blocks of quantised numbers: decode every input, compute in F32 as for the halves,
 * quantise the result once. So a ring quantises at each hop, a flat reduction once; a mere copy
 * copies bytes. Layout and limits are compress.h's; what NaN and weights mean is reduce.h's. */
#ifndef SPOTNIK_REDUCE_BLOCKS_H
#define SPOTNIK_REDUCE_BLOCKS_H

#include "reduce/quantise.h"
#include "reduce/tiers.h"

#define BLOCK_FIRST(x, w) (x)
#define BLOCK_WEIGHTED(x, w) ((x) * (w))
#define BLOCK_ADD(sum, x, w) ((sum) + (x))
#define BLOCK_ADD_WEIGHTED(sum, x, w) ((sum) + (x) * (w))
#define BLOCK_TIMES(sum, x, w) ((sum) * (x))
#define BLOCK_LEAST(sum, x, w) ((((sum) < (x)) | ((sum) != (sum))) ? (sum) : (x))
#define BLOCK_MOST(sum, x, w) ((((sum) > (x)) | ((sum) != (sum))) ? (sum) : (x))

/* `out` may be one of the inputs: they have been read when it is written. */
#define BLOCKS(name, first, next)                                                                  \
    static void name(void *out, const struct spotnik_reduce_inputs *in)                            \
    {                                                                                              \
        float sum[SPOTNIK_QUANT_BLOCK];                                                            \
                                                                                                   \
        for (size_t at = 0; at < in->bytes; at += SPOTNIK_QUANT_BLOCK_BYTES) {                     \
            for (size_t i = 0; i < in->inputs; i++) {                                              \
                const uint8_t *from = (const uint8_t *)in->input[i].data + at;                     \
                float weight = in->input[i].weight32, scale;                                       \
                (void)weight;                                                                      \
                memcpy(&scale, from, sizeof scale);                                                \
                from += sizeof scale;                                                              \
                for (size_t k = 0; k < SPOTNIK_QUANT_BLOCK; k++) {                                 \
                    float x = (float)(int8_t)from[k] * scale;                                      \
                    sum[k] = i ? next(sum[k], x, weight) : first(x, weight);                       \
                }                                                                                  \
            }                                                                                      \
            if (in->divisor32 != 1)                                                                \
                blocks_divide_##name(sum, in->divisor32);                                          \
            quantise_block((uint8_t *)out + at, (const uint8_t *)sum, SPOTNIK_QUANT_BLOCK);        \
        }                                                                                          \
    }

static inline void blocks_divide(float *sum, float divisor)
{
    for (size_t k = 0; k < SPOTNIK_QUANT_BLOCK; k++)
        sum[k] /= divisor;
}

/* Only a mean is divided; the others are called with the sum of weights all the same. */
#define blocks_divide_q8_sum(sum, divisor) (void)(divisor)
#define blocks_divide_q8_min(sum, divisor) (void)(divisor)
#define blocks_divide_q8_max(sum, divisor) (void)(divisor)
#define blocks_divide_q8_product(sum, divisor) (void)(divisor)
#define blocks_divide_q8_mean(sum, divisor) blocks_divide(sum, divisor)

BLOCKS(q8_sum, BLOCK_FIRST, BLOCK_ADD)
BLOCKS(q8_mean, BLOCK_WEIGHTED, BLOCK_ADD_WEIGHTED)
BLOCKS(q8_min, BLOCK_FIRST, BLOCK_LEAST)
BLOCKS(q8_max, BLOCK_FIRST, BLOCK_MOST)
BLOCKS(q8_product, BLOCK_FIRST, BLOCK_TIMES)

#endif
