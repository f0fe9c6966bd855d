/* SPDX-License-Identifier: Apache-2.0 */
/* All that is known of one member at one moment, as plain data; and the same as Prometheus' text
 * format. Decides the names and units of metrics (docs/reference/metrics.md), nothing else. */
#ifndef SPOTNIK_METRICS_WATCHED_H
#define SPOTNIK_METRICS_WATCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "member/view.h"
#include "metrics/observed.h"
#include "metrics/pace.h"
#include "metrics/counters.h"
#include "spotnik/spotnik.h"

#define SPOTNIK_WATCHED_MEMBERS 256
#define SPOTNIK_WATCHED_LANES 16

/* The phases of a recovery, as docs/protocol.md names them, and all of it. */
enum spotnik_phase {
    SPOTNIK_PHASE_PREPARE,
    SPOTNIK_PHASE_ACCEPT,
    SPOTNIK_PHASE_RESTART,
    SPOTNIK_PHASE_COMMIT,
    SPOTNIK_PHASE_TOTAL,
    SPOTNIK_PHASES,
};

extern const char *const spotnik_phase_name[SPOTNIK_PHASES];

/* Sums over the life of this process, whatever members it has been. */
struct spotnik_watched_sums {
    uint64_t losses, joins, leaves, notices, parks, recoveries;
    uint64_t parked_ns, recovering_ns;
    struct spotnik_histogram
        phase[SPOTNIK_PHASES]; /* of recoveries from losses that this member has finished */
};

struct spotnik_watched {
    char job[256];
    uint64_t now_ns, born_ns;
    double steps_per_s, dollars_per_hour;
    uint64_t founding; /* of the job: the same on all its members */
    uint64_t steps_max, batch, samples;
    bool noticed, outside;
    spotnik_job_status status;
    struct spotnik_troubles troubles;
    struct spotnik_pace pace;
    struct spotnik_counters counters;
    struct spotnik_watched_sums sums;
    spotnik_checkpoint_info checkpoint;
    uint64_t checkpoint_seen_ns; /* when complete_step was seen to change */
    spotnik_batch_info shares;
    char strategy[32], policy[128], reason[64];
    uint32_t switches;
    uint64_t switched_step;
    uint64_t refusals;
    char refusal[256], warning[256], path[256];
    uint64_t lineages_told; /* how often another lineage of this job was met */
    char lineage[400];      /* and what came of it last */
    uint64_t view_epoch;
    uint32_t member_count, channel_count, observed_count;
    struct spotnik_member member[SPOTNIK_WATCHED_MEMBERS];
    struct spotnik_channel_status channel[SPOTNIK_WATCHED_LANES];
    struct spotnik_observed_value observed[SPOTNIK_OBSERVED_MAX];
};

/* Part of this process's life in which it worked on steps that count: 0 to 1. */
double spotnik_watched_goodput(const struct spotnik_watched *watched);

/* Time that losses cost: recoveries, being parked, steps that were void for us. */
uint64_t spotnik_watched_lost_ns(const struct spotnik_watched *watched);

/* A recovery's phases, in nanoseconds; 0 where one was not reached. */
void spotnik_watched_phases(const spotnik_recovery *recovery, uint64_t ret_ns[SPOTNIK_PHASES]);

/* Write at most `size` bytes, with a final 0. Returns the length; 0 when it did not fit. */
size_t spotnik_exposition_text(const struct spotnik_watched *watched, char *text, size_t size);

#endif
