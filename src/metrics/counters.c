/* SPDX-License-Identifier: Apache-2.0 */
/* Counting without a lock: one writer, so a plain addition and a relaxed store are enough. */
#include "metrics/counters.h"

static const uint64_t bound_ns[SPOTNIK_HISTOGRAM_BUCKETS] = {
    10000,       20000,       50000,       100000,       200000,     500000,
    1000000,     2000000,     5000000,     10000000,     20000000,   50000000,
    100000000,   200000000,   500000000,   1000000000,   2000000000, 5000000000,
    10000000000, 20000000000, 50000000000, 100000000000,
};

static void add(uint64_t *to, uint64_t value)
{
    __atomic_store_n(to, *to + value, __ATOMIC_RELAXED);
}

static uint64_t get(const uint64_t *from)
{
    return __atomic_load_n(from, __ATOMIC_RELAXED);
}

double spotnik_histogram_bound(unsigned index)
{
    return (double)bound_ns[index] / 1e9;
}

void spotnik_histogram_add(struct spotnik_histogram *histogram, uint64_t duration_ns)
{
    unsigned index = 0;

    while (index < SPOTNIK_HISTOGRAM_BUCKETS && duration_ns > bound_ns[index])
        index++;
    add(&histogram->bucket[index], 1);
    add(&histogram->sum_ns, duration_ns);
}

void spotnik_histogram_read(const struct spotnik_histogram *histogram,
                            struct spotnik_histogram *ret)
{
    for (unsigned i = 0; i <= SPOTNIK_HISTOGRAM_BUCKETS; i++)
        ret->bucket[i] = get(&histogram->bucket[i]);
    ret->sum_ns = get(&histogram->sum_ns);
}

void spotnik_counters_commit(struct spotnik_counters *counters, uint64_t now_ns)
{
    counters->commit_ns = now_ns;
}

/* The first step has no commit before it to measure from, and a replayed one is no step of ours. */
void spotnik_counters_step(struct spotnik_counters *counters, uint64_t samples, uint64_t bytes,
                           uint32_t replay, uint64_t now_ns)
{
    uint64_t last_ns = counters->last_ns;

    counters->last_ns = now_ns;
    if (replay) {
        add(&counters->replayed, 1);
        return;
    }
    if (last_ns)
        spotnik_histogram_add(&counters->step, now_ns - last_ns);
    spotnik_histogram_add(&counters->commit, now_ns - counters->commit_ns);
    add(&counters->steps, 1);
    add(&counters->samples, samples);
    add(&counters->reduced_bytes, bytes);
}

void spotnik_counters_excluded(struct spotnik_counters *counters, uint64_t computed_ns)
{
    counters->last_ns = 0;
    add(&counters->excluded, 1);
    add(&counters->wasted_ns, computed_ns);
}

void spotnik_counters_read(const struct spotnik_counters *counters, struct spotnik_counters *ret)
{
    *ret = (struct spotnik_counters){ 0 };
    spotnik_histogram_read(&counters->step, &ret->step);
    spotnik_histogram_read(&counters->commit, &ret->commit);
    ret->steps = get(&counters->steps);
    ret->replayed = get(&counters->replayed);
    ret->excluded = get(&counters->excluded);
    ret->samples = get(&counters->samples);
    ret->reduced_bytes = get(&counters->reduced_bytes);
    ret->wasted_ns = get(&counters->wasted_ns);
}
