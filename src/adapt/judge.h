/* SPDX-License-Identifier: Apache-2.0 */
/* From the agreed rows of committed steps to the mode that is wished for. A policy (policy.h)
 * judges what is measured over a window of steps. Everything it remembers is plain data without
 * holes, part of the registered state, so a joiner judges like those that were there. Rows are the
 * same bits on every member (adapt/same_bits.h). Switches nothing.
 *
 * Throughput of a member in a synchronous step, relative to one alone, is mean(busy) / (max(busy) +
 * min(wait)). Busy is compute and update. The member that came last has waited for nothing but the
 * exchange. So members that run apart can measure it, too, in the steps in which they average their
 * models: what synchronous SGD would do now. */
#ifndef SPOTNIK_ADAPT_JUDGE_H
#define SPOTNIK_ADAPT_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "adapt/policy.h"

#define SPOTNIK_SYNC_WINDOW 8
#define SPOTNIK_SYNC_MEMORY 8

/* What one contributing member measured in a step. */
struct spotnik_sync_row {
    uint32_t compute_us, apply_us; /* of this step; from the commit before to the begin of this */
    uint32_t wait_us;              /* in the commit of the step before, and in the begin of this */
    uint32_t samples;
};

enum spotnik_sync_rule {
    SPOTNIK_SYNC_RULE_THROUGHPUT,
    SPOTNIK_SYNC_RULE_WAITING,
    SPOTNIK_SYNC_RULE_SCHEDULE,
};

struct spotnik_sync_rules {
    enum spotnik_sync_rule rule;
    struct spotnik_sync_hysteresis limits;
    uint32_t window;        /* steps of a window, at most SPOTNIK_SYNC_WINDOW; 0: that maximum */
    double part;            /* schedule */
    uint64_t samples_total; /* of the whole work; 0: unknown */
    /* A policy of the program's own in place of the rule; NULL: none. `memory`: SPOTNIK_SYNC_MEMORY
     * numbers to keep. */
    enum spotnik_sync_mode (*own)(void *context, const struct spotnik_sync_metrics *metrics,
                                  enum spotnik_sync_mode mode, double *memory);
    void *own_context;
};

/* Registered. */
struct spotnik_sync_judge {
    uint64_t mode, reason, streak; /* the policy's, see struct spotnik_sync_policy */
    double value, limit;
    uint64_t step; /* the last one seen */
    uint64_t samples_done;
    /* 1: in that step the members exchanged what synchronous SGD exchanges */
    uint64_t averaged;
    uint64_t ratios, times; /* measured in the running window */
    uint64_t windows;       /* complete ones */
    double ratio[SPOTNIK_SYNC_WINDOW];
    double mean_us[SPOTNIK_SYNC_WINDOW], max_us[SPOTNIK_SYNC_WINDOW]; /* compute times */
    /* of the last complete window; 0: none yet */
    double last_ratio, last_mean_us, last_max_us;
    double memory[SPOTNIK_SYNC_MEMORY];
};

void spotnik_sync_judge_init(struct spotnik_sync_judge *judge, enum spotnik_sync_mode mode);

/* Step `step` was committed with `rows`, and `averaged` says whether the members exchanged in it
 * what synchronous SGD does. Returns the mode that is wished for from now on. Once for each step,
 * in order; steps may be left out. */
enum spotnik_sync_mode spotnik_sync_judge_step(struct spotnik_sync_judge *judge,
                                               const struct spotnik_sync_rules *rules,
                                               uint64_t step, const struct spotnik_sync_row *rows,
                                               uint32_t count, bool averaged);

#endif
