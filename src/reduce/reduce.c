/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the instruction tier, and the special weights that need no kernel. See reduce.h for what is
 * promised and tiers.h for how to add a tier or a type. */
#include "reduce/reduce.h"

#include "base/assert.h"
#include "reduce/tiers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const size_t dtype_sizes[SPOTNIK_REDUCE_DTYPES] = {
    [SPOTNIK_F32] = 4, [SPOTNIK_F64] = 8, [SPOTNIK_I32] = 4, [SPOTNIK_I64] = 8, [SPOTNIK_U8] = 1,
};

static bool always(void)
{
    return true;
}

#if defined(SPOTNIK_REDUCE_AVX2)
static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2");
}
#endif

const struct spotnik_reduce_tier spotnik_reduce_tiers[] = {
    { "scalar", &spotnik_reduce_kernels_scalar, always },
#if defined(SPOTNIK_REDUCE_AVX2)
    { "avx2", &spotnik_reduce_kernels_avx2, has_avx2 },
#endif
};
const size_t spotnik_reduce_tier_count = sizeof spotnik_reduce_tiers / sizeof spotnik_reduce_tiers[0];

/* The best tier this processor has, but none after the one that SPOTNIK_CPU names. */
static const struct spotnik_reduce_tier *tier_choose(void)
{
    const struct spotnik_reduce_tier *best = &spotnik_reduce_tiers[0];
    const char *limit = getenv("SPOTNIK_CPU");

    for (size_t i = 0; i < spotnik_reduce_tier_count; i++) {
        const struct spotnik_reduce_tier *tier = &spotnik_reduce_tiers[i];
        if (tier->is_supported())
            best = tier;
        if (limit && strcmp(limit, tier->name) == 0)
            break;
    }
    return best;
}

/* Threads that come first together choose the same. */
static const struct spotnik_reduce_tier *tier(void)
{
    static _Atomic(const struct spotnik_reduce_tier *) chosen;
    const struct spotnik_reduce_tier *now = atomic_load_explicit(&chosen, memory_order_acquire);

    if (!now) {
        now = tier_choose();
        atomic_store_explicit(&chosen, now, memory_order_release);
    }
    return now;
}

const char *spotnik_reduce_tier_name(void)
{
    return tier()->name;
}

size_t spotnik_dtype_size(enum spotnik_dtype dtype)
{
    return (unsigned)dtype < SPOTNIK_REDUCE_DTYPES ? dtype_sizes[dtype] : 0;
}

bool spotnik_reduce_supported(enum spotnik_dtype dtype, enum spotnik_op op)
{
    return (unsigned)dtype < SPOTNIK_REDUCE_DTYPES && (unsigned)op < SPOTNIK_REDUCE_OPS
           && spotnik_reduce_kernels_scalar.combine[dtype][op];
}

static void copy(void *out, const void *from, size_t count, enum spotnik_dtype dtype)
{
    if (count > 0 && out != from)
        memmove(out, from, count * spotnik_dtype_size(dtype));
}

static void clear(void *out, size_t count, enum spotnik_dtype dtype)
{
    if (count > 0)
        memset(out, 0, count * spotnik_dtype_size(dtype));
}

void spotnik_reduce_combine(void *out, const void *received, const void *input, size_t count,
                            enum spotnik_dtype dtype, enum spotnik_op op, uint64_t weight)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, op));
    if (op == SPOTNIK_MEAN && weight == 0) {
        copy(out, received, count, dtype);
        return;
    }
    if (op == SPOTNIK_MEAN && weight == 1)
        op = SPOTNIK_SUM;
    tier()->kernels->combine[dtype][op](out, received, input, count, weight);
}

void spotnik_reduce_scale(void *out, const void *input, size_t count, enum spotnik_dtype dtype,
                          uint64_t weight)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, SPOTNIK_MEAN));
    if (weight == 0)
        clear(out, count, dtype);
    else if (weight == 1)
        copy(out, input, count, dtype);
    else
        tier()->kernels->scale[dtype](out, input, count, weight);
}

void spotnik_reduce_divide(void *out, size_t count, enum spotnik_dtype dtype, uint64_t total)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, SPOTNIK_MEAN));
    if (total == 0)
        clear(out, count, dtype);
    else if (total > 1)
        tier()->kernels->divide[dtype](out, count, total);
}
