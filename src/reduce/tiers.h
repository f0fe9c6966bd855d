/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between the operations and the instruction sets: one table of kernels per tier. kernels.c is
 * compiled once per tier with that tier's flags. A further tier is a further static library in meson.build
 * and a line in reduce.c; a further element type is a block in kernels.c and a row in dtype_sizes. A missing
 * kernel is a NULL. */
#ifndef SPOTNIK_REDUCE_TIERS_H
#define SPOTNIK_REDUCE_TIERS_H

#include "spotnik/spotnik.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_REDUCE_DTYPES (SPOTNIK_U8 + 1)
#define SPOTNIK_REDUCE_OPS (SPOTNIK_MAX + 1)

struct spotnik_reduce_kernels {
    /* [dtype][op]. SPOTNIK_MEAN: out = received + weight * input; the others ignore the weight. */
    void (*combine[SPOTNIK_REDUCE_DTYPES][SPOTNIK_REDUCE_OPS])(void *out, const void *received,
                                                               const void *input, size_t count,
                                                               uint64_t weight);
    void (*scale[SPOTNIK_REDUCE_DTYPES])(void *out, const void *input, size_t count, uint64_t weight);
    void (*divide[SPOTNIK_REDUCE_DTYPES])(void *out, size_t count, uint64_t total);
};

struct spotnik_reduce_tier {
    const char *name;
    const struct spotnik_reduce_kernels *kernels;
    bool (*is_supported)(void); /* by this processor */
};

extern const struct spotnik_reduce_kernels spotnik_reduce_kernels_scalar;
extern const struct spotnik_reduce_kernels spotnik_reduce_kernels_avx2;

/* Every tier of this build, slowest first; the first one runs everywhere. */
extern const struct spotnik_reduce_tier spotnik_reduce_tiers[];
extern const size_t spotnik_reduce_tier_count;

#endif
