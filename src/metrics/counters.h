/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of the caller's thread while it trains, for the watcher: histograms and totals. One thread
 * writes, any thread reads; relaxed atomics, no lock, no allocation. Decides nothing. */
#ifndef SPOTNIK_METRICS_COUNTERS_H
#define SPOTNIK_METRICS_COUNTERS_H

#include <stdint.h>

#define SPOTNIK_HISTOGRAM_BUCKETS 22

/* Upper bounds are 1, 2, 5, 10, ... times 10 microseconds, up to 100 s; the last bucket has
 * none. */
struct spotnik_histogram {
    uint64_t bucket[SPOTNIK_HISTOGRAM_BUCKETS + 1]; /* not cumulative */
    uint64_t sum_ns;
};

struct spotnik_counters {
    struct spotnik_histogram step; /* from one commit to the next */
    /* inside step_commit: what compute does not hide of the all-reduce */
    struct spotnik_histogram commit;
    uint64_t steps, replayed, excluded;
    uint64_t samples; /* of this member's committed shares */
    uint64_t reduced_bytes;
    uint64_t wasted_ns; /* compute of steps that were void for us */
    uint64_t last_ns;   /* the last commit; writer only */
    uint64_t commit_ns; /* the commit that runs began; writer only */
};

/* Seconds; index SPOTNIK_HISTOGRAM_BUCKETS is infinity and has no bound. */
double spotnik_histogram_bound(unsigned index);

/* The writer's. */
void spotnik_histogram_add(struct spotnik_histogram *histogram, uint64_t duration_ns);

/* A copy for another thread; numbers of one step more or less may mix. */
void spotnik_histogram_read(const struct spotnik_histogram *histogram,
                            struct spotnik_histogram *ret);

/* The caller's thread: step_commit was called; and has returned with a step that is committed. */
void spotnik_counters_commit(struct spotnik_counters *counters, uint64_t now_ns);
void spotnik_counters_step(struct spotnik_counters *counters, uint64_t samples, uint64_t bytes,
                           uint32_t replay, uint64_t now_ns);

/* The begun step was void: the others went on without us. */
void spotnik_counters_excluded(struct spotnik_counters *counters, uint64_t computed_ns);

void spotnik_counters_read(const struct spotnik_counters *counters, struct spotnik_counters *ret);

#endif
