/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the operations and the instruction sets: one table of kernels per tier.
 * kernels.c is compiled once per tier, with that tier's flags and its lanes_<tier>.h. A further
 * tier is such a header, a line in meson.build and one in tier.c. A further element type is a row
 * in base/dtype.h and a block in kernels.c. */
#ifndef SPOTNIK_REDUCE_TIERS_H
#define SPOTNIK_REDUCE_TIERS_H

#include "base/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_REDUCE_DTYPES (SPOTNIK_Q8 + 1)
#define SPOTNIK_REDUCE_OPS (SPOTNIK_OP_LAST + 1)

/* One source, its weight converted once to the types that kernels compute in. */
struct spotnik_reduce_input {
    const void *data;
    double weight64;
    float weight32;
    uint16_t weight16; /* set and read within the kernels of means of integers (reduced.h) */
};

/* A divisor of means of bytes (byte_mean.h): floor(n / divisor) = (n + more) * multiplier >> 16 +
 * shift. */
struct spotnik_reduce_divisor16 {
    uint16_t divisor, half, more, multiplier, shift, ties;
};

/* What one call of a kernel is about, but for `out`. */
struct spotnik_reduce_inputs {
    const struct spotnik_reduce_input *input;
    size_t inputs; /* at least 1 */
    size_t bytes;  /* of each input and of `out` */
    double
        /* MEAN: divide by it at the end. The sum of the weights; for F32 and F64 also 1, for not
         * yet */
        divisor64;
    float divisor32;
    struct spotnik_reduce_divisor16 divisor16; /* as weight16 */
    bool is_streamed;
};

typedef void spotnik_reduce_fold(void *out, const struct spotnik_reduce_inputs *in);

struct spotnik_reduce_kernels {
    spotnik_reduce_fold
        /* NULL for what is no type or operation */
        *fold[SPOTNIK_REDUCE_DTYPES][SPOTNIK_REDUCE_OPS];
    /* F16 and BF16 */
    void (*widen[SPOTNIK_REDUCE_DTYPES])(float *out, const void *in, size_t count);
    void (*narrow[SPOTNIK_REDUCE_DTYPES])(void *out, const float *in, size_t count);
    double (*norm2[SPOTNIK_REDUCE_DTYPES])(const void *in, size_t count); /* of floating types */
    void (*quantise)(void *out, const float *in, size_t count);
    void (*dequantise)(float *out, const void *in, size_t count);
};

struct spotnik_reduce_tier {
    const char *name;
    const struct spotnik_reduce_kernels *kernels;
    bool (*is_supported)(void); /* by this processor */
};

/* Every tier of this build, slowest first; the first one runs everywhere. */
extern const struct spotnik_reduce_tier spotnik_reduce_tiers[];
extern const size_t spotnik_reduce_tier_count;

/* The best tier this processor has, but none after the one that SPOTNIK_CPU names. Chosen once. */
const struct spotnik_reduce_tier *spotnik_reduce_tier(void);

#endif
