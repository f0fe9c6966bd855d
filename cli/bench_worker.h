/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of spotnik bench recovery: processes that do nothing but all-reduce, and a page of
 * memory in which each reports to the parent. */
#ifndef SPOTNIK_CLI_BENCH_WORKER_H
#define SPOTNIK_CLI_BENCH_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "link/slots.h"
#include "spotnik/spotnik.h"

#define BENCH_WORKERS_MAX 128
#define BENCH_STEPS_KEPT 64

/* Written by one worker, read by the parent; fields by __atomic builtins, `recovery` guarded by
 * `recoveries`. */
struct bench_report {
    uint64_t steps; /* committed by this worker */
    uint32_t size;  /* of the view of its last commit */
    /* view changes it has committed in; odd while `recovery` is written */
    uint32_t recoveries;
    spotnik_recovery recovery;          /* the last one */
    uint32_t recovery_size;             /* members after it */
    uint64_t step_ns[BENCH_STEPS_KEPT]; /* durations of its last steps */
};

struct bench_board {
    uint32_t news; /* futex: counts view changes and failures */
    struct bench_report report[BENCH_WORKERS_MAX];
};

struct bench_crew {
    uint32_t places;
    uint64_t bytes, state_bytes, resident_bytes;
    pid_t pid[BENCH_WORKERS_MAX]; /* 0: nobody */
    struct bench_board *board;
    struct spotnik_slots *slots;
    int slots_fd;
    char folder[64];
};

/* Folder, key, slots and board. False: errno. */
bool bench_crew_init(struct bench_crew *crew, uint32_t places, uint64_t bytes, uint64_t state_bytes,
                     uint64_t resident_bytes);
void bench_crew_done(struct bench_crew *crew);
bool bench_crew_start(struct bench_crew *crew, uint32_t place);

/* SIGKILL to several at once; returns the instant just before the first. They are reaped by
 * bench_crew_reap(). */
uint64_t bench_crew_kill(struct bench_crew *crew, const uint32_t *place, uint32_t count);
void bench_crew_reap(struct bench_crew *crew, const uint32_t *place, uint32_t count);

/* Wait until every living worker's last commit was in a view of `size`. False after `limit_ns`. */
bool bench_crew_await(struct bench_crew *crew, uint32_t size, uint64_t limit_ns);

/* A consistent copy of a worker's last recovery. */
spotnik_recovery bench_crew_recovery(const struct bench_crew *crew, uint32_t place);

uint64_t bench_now_ns(void);

#endif
