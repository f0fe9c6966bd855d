/* SPDX-License-Identifier: Apache-2.0 */
/* The status of one member as JSON text: what `spotnik status` and the tests read. Turns numbers
 * into words; decides nothing, allocates nothing. Keys are added at will and never change their
 * meaning. */
#ifndef SPOTNIK_METRICS_STATUS_H
#define SPOTNIK_METRICS_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/checkpoint.h"
#include "runtime/runtime.h"
#include "member/view.h"
#include "metrics/observed.h"
#include "metrics/pace.h"
#include "metrics/counters.h"
#include "spotnik/spotnik.h"

/* The strategy by which replicas are kept together. */
struct spotnik_status_sync {
    const char *strategy, *policy; /* that runs; "": none */
    const char *reason;            /* of the last switch */
    bool asynchronous;
    uint32_t switches;
    uint64_t switched_step;
    double value, limit, throughput, waiting;
};

/* What the text says beside spotnik_job_status. */
struct spotnik_status_more {
    const char *job_name;
    const char *from; /* the checkpoint that SPOTNIK_FROM names; "": none */
    int64_t pid;
    bool noticed;    /* it was told to leave, and does so at the next step boundary */
    uint64_t now_ns; /* CLOCK_MONOTONIC, to which the instants of recoveries relate */
    uint64_t uptime_ns;
    double steps_per_s; /* over the last seconds */
    struct spotnik_pace pace;
    /* NULL: as one of zeros, shares are even and noise is not measured */
    const spotnik_batch_info *batch;
    uint64_t view_epoch;                   /* of `member` */
    uint32_t member_count, members_needed; /* that are there, and that the next step waits for */
    const struct spotnik_member *member;
    uint32_t channel_count; /* data connections that we send on */
    const struct spotnik_channel_status *channel;
    uint32_t donor_sessions; /* joiners that copy from us */
    uint64_t donor_log_bytes, donor_dropped;
    uint64_t refusals;   /* strangers turned away at our door */
    const char *refusal; /* why the last one was; "" for none */
    const char *path;    /* the last broken path between two members; "" for none */
    uint64_t path_age_ns;
    const struct spotnik_presence *presence; /* NULL: in no lineage */
    const char *lineage; /* what came of another lineage that was met; "": none was */
    const char *warning; /* of the peers directory; "" for none */
    uint64_t steps_max;  /* 0: no end is known */
    /* of a step over all members together; 0: the job has no ledger */
    uint64_t step_samples;
    double dollars_per_hour;                 /* of this member; 0: not told */
    const struct spotnik_counters *counters; /* NULL: not told */
    uint32_t observed_count;                 /* numbers of the program's own */
    const struct spotnik_observed_value *observed;
    const char *extra; /* more members of the object, ",\"key\":..."; NULL: none */
    const struct spotnik_checkpoint_health *checkpoint; /* NULL: there are none */
    const struct spotnik_status_sync *sync;             /* NULL: the program averages by itself */
};

/* Write at most `size` bytes, with a final 0. Returns the length; 0 when it did not fit. */
size_t spotnik_status_text(const spotnik_job_status *status, const struct spotnik_status_more *more,
                           char *text, size_t size);

#endif
