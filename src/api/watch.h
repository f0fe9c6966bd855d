/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher as the rest of the API uses it. */
#ifndef SPOTNIK_API_WATCH_H
#define SPOTNIK_API_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/pace.h"
#include "spotnik/spotnik.h"
#include "watch/watch.h"

/* What the watcher reads of the job without a lock. Written by the caller's thread. */
struct spotnik_job_shown {
    uint64_t founding; /* atomic */
    bool outside;      /* atomic */
    uint32_t replay;   /* of the begun step; the caller's own */
    struct spotnik_observed observed;
    struct spotnik_counters counters;
    double dollars_per_hour; /* constant once the job is open */
    const char *how;         /* it ended; NULL: abruptly */
};

struct spotnik_job;

/* After the job was found: with SPOTNIK_HTTP, or where there is an event log. Errors: ARGUMENT,
 * SYSTEM, MEMORY. */
int spotnik_job_watch_open(struct spotnik_job *job);

/* Close: tell how it ended and stop, while the runtime is still there. Free: once no thread of the
 * runtime runs. */
void spotnik_job_watch_close(struct spotnik_job *job);
void spotnik_job_watch_free(struct spotnik_job *job);

/* The caller's thread, where step_begin starts and ends. */
void spotnik_job_show(struct spotnik_job *job);

/* The caller's thread: another part of the step begins, for the pace and for the trace. */
void spotnik_job_turn(struct spotnik_job *job, enum spotnik_pace_part part);

/* SPOTNIK_PRICE. 0 or ARGUMENT. */
int spotnik_job_price(struct spotnik_job *job);

/* What a step is in samples, over all members; 0 where the job has no ledger. */
uint64_t spotnik_job_batch(const struct spotnik_job *job, uint32_t size);

#endif
