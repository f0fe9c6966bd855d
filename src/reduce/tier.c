/* SPDX-License-Identifier: Apache-2.0 */
/* Which instruction tier runs: asks the processor and SPOTNIK_CPU, once. What tiers compute is the
 * same. */
#include "reduce/reduce.h"
#include "reduce/tiers.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#if defined(SPOTNIK_REDUCE_AVX2)
#include <cpuid.h>
#endif

extern const struct spotnik_reduce_kernels spotnik_reduce_kernels_scalar,
    spotnik_reduce_kernels_avx2, spotnik_reduce_kernels_avx512, spotnik_reduce_kernels_neon;

static bool always(void)
{
    return true;
}

#if defined(SPOTNIK_REDUCE_AVX2)
/* __builtin_cpu_supports() sees to it that the system saves the registers; not every compiler lets
 * it ask for F16C. */
static bool has_avx2(void)
{
    unsigned a, b, c, d;

    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

#if defined(SPOTNIK_REDUCE_AVX512)
static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

const struct spotnik_reduce_tier spotnik_reduce_tiers[] = {
    { "scalar", &spotnik_reduce_kernels_scalar, always },
#if defined(SPOTNIK_REDUCE_AVX2)
    { "avx2", &spotnik_reduce_kernels_avx2, has_avx2 },
#endif
#if defined(SPOTNIK_REDUCE_AVX512)
    { "avx512", &spotnik_reduce_kernels_avx512, has_avx512 },
#endif
#if defined(SPOTNIK_REDUCE_NEON)
    { "neon", &spotnik_reduce_kernels_neon, always },
#endif
};
const size_t spotnik_reduce_tier_count =
    sizeof spotnik_reduce_tiers / sizeof spotnik_reduce_tiers[0];

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
const struct spotnik_reduce_tier *spotnik_reduce_tier(void)
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
    return spotnik_reduce_tier()->name;
}
