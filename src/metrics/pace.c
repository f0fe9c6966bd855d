/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of time between calls. */
#include "metrics/pace.h"

static void put(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
}

void spotnik_pace_turn(struct spotnik_pace *pace, enum spotnik_pace_part next, uint64_t now_ns)
{
    if (pace->since_ns && pace->part == SPOTNIK_PACE_COMPUTE)
        put(&pace->computed_ns, now_ns - pace->since_ns);
    if (pace->since_ns)
        put(&pace->part_ns[pace->part], pace->part_ns[pace->part] + (now_ns - pace->since_ns));
    pace->since_ns = now_ns;
    pace->part = next;
    if (next == SPOTNIK_PACE_BEGIN)
        pace->bytes = 0;
}

void spotnik_pace_reduce(struct spotnik_pace *pace, uint64_t bytes)
{
    pace->bytes += bytes;
}

void spotnik_pace_step(struct spotnik_pace *pace)
{
    put(&pace->steps, pace->steps + 1);
    put(&pace->reduce_bytes, pace->bytes);
}

void spotnik_pace_read(const struct spotnik_pace *pace, struct spotnik_pace *ret)
{
    *ret = (struct spotnik_pace){ 0 };
    for (int i = 0; i < SPOTNIK_PACE_PARTS; i++)
        ret->part_ns[i] = __atomic_load_n(&pace->part_ns[i], __ATOMIC_RELAXED);
    ret->computed_ns = __atomic_load_n(&pace->computed_ns, __ATOMIC_RELAXED);
    ret->steps = __atomic_load_n(&pace->steps, __ATOMIC_RELAXED);
    ret->reduce_bytes = __atomic_load_n(&pace->reduce_bytes, __ATOMIC_RELAXED);
}
