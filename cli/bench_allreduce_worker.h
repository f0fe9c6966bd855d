/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of spotnik bench allreduce: processes that are members of two jobs at once, one in
 * shared memory and one over TCP. They take turns between the jobs, so that all ways of moving
 * bytes see the same weather. */
#ifndef SPOTNIK_CLI_BENCH_ALLREDUCE_WORKER_H
#define SPOTNIK_CLI_BENCH_ALLREDUCE_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#define ALLREDUCE_SIZES_MAX 16
#define ALLREDUCE_WORKERS_MAX 64
#define ALLREDUCE_STEPS_MAX 1000
#define ALLREDUCE_LANES_MAX 8

enum allreduce_way { ALLREDUCE_OWNED, ALLREDUCE_SHARED, ALLREDUCE_TCP, ALLREDUCE_WAYS };

/* How the runtime did it, as it says itself. */
enum allreduce_algorithm {
    ALLREDUCE_NONE, /* not measured */
    ALLREDUCE_FLAT_SMALL,
    ALLREDUCE_FLAT_LARGE,
    ALLREDUCE_RING,           /* asked for */
    ALLREDUCE_RING_NO_MEMORY, /* this process cannot share memory */
    ALLREDUCE_RING_APART,     /* not everybody shares memory with everybody */
    ALLREDUCE_DIRECT,         /* small, over TCP */
    ALLREDUCE_HUB,
    ALLREDUCE_TREE,  /* small, over TCP, or what goes on between hosts of a small one */
    ALLREDUCE_HOSTS, /* on each host in memory, and between hosts round a ring of those */
};

struct allreduce_cell {
    enum allreduce_algorithm algorithm;
    double ms[ALLREDUCE_STEPS_MAX];
    /* against sums in F64: the greatest, of the greatest sum; root of the mean square, of the
     * sums' */
    double error_most, error_mean;
};

/* The connections on which the first worker sends over TCP to one other. */
struct allreduce_channel {
    uint32_t connections;
    uint64_t round_trip_ns;
    char congestion[16];
};

/* Shared with the workers; the first of them writes. */
struct allreduce_board {
    struct allreduce_cell cell[ALLREDUCE_SIZES_MAX][ALLREDUCE_WAYS];
    uint64_t chunk_bytes, small_bytes; /* 0: no shared memory here */
    struct allreduce_channel channel[ALLREDUCE_LANES_MAX];
    uint32_t lanes;
    char failure[512];
};

struct allreduce_plan {
    uint32_t workers, steps, sizes;
    uint32_t hosts; /* that the workers take themselves for, in turn */
    int wire;       /* enum spotnik_dtype: how F32 travels; 0: as it is */
    uint64_t bytes[ALLREDUCE_SIZES_MAX];
};

/* Run the plan; what comes of it is in `board`, from mmap(), zeroed. False: `failure` says why. */
bool allreduce_measure(const struct allreduce_plan *plan, struct allreduce_board *board);

#endif
