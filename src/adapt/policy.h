/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: synchronous or asynchronous, and why. A policy is a function of agreed metrics and of
 * its own state, which is plain data and agreed as well. So all members answer alike
 * (adapt/same_bits.h). Which strategies stand for the two modes is the user's choice; how a switch
 * is made is in switch.h. */
#ifndef SPOTNIK_ADAPT_POLICY_H
#define SPOTNIK_ADAPT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

enum spotnik_sync_mode { SPOTNIK_SYNC_SYNCHRONOUS, SPOTNIK_SYNC_ASYNCHRONOUS };

/* As agreed, over one window of steps. Numbers that are not known are 0. */
struct spotnik_sync_metrics {
    /* samples/s of a member in a synchronous step; while asynchronous: in the last probe */
    double speed;
    double alone_speed; /* the same without waiting: measured at size 1, or compute alone */
    double mean_time_s; /* compute time of a step, mean over members */
    double max_time_s;  /* of the slowest */
    uint64_t samples_done, samples_total; /* work of the whole job; total 0: unknown */
    uint64_t step;                        /* the one committed last */
    uint32_t members;                     /* that contributed to it */
};

enum spotnik_sync_reason {
    SPOTNIK_SYNC_REASON_NONE,      /* nothing has changed yet */
    SPOTNIK_SYNC_REASON_SLOW,      /* throughput of a member fell below the limit */
    SPOTNIK_SYNC_REASON_FAST,      /* it recovered */
    SPOTNIK_SYNC_REASON_WAITING,   /* too much time would be spent waiting for stragglers */
    SPOTNIK_SYNC_REASON_EVEN,      /* stragglers are gone */
    SPOTNIK_SYNC_REASON_WORK_DONE, /* the synchronous part of the work is done */
    SPOTNIK_SYNC_REASON_OWN,       /* the policy of the program has asked for it */
};

/* Two limits with room between them, and patience: the condition must hold for N windows in a
 * row. */
struct spotnik_sync_hysteresis {
    double low, high;
    uint32_t patience; /* windows, >= 1 */
};

struct spotnik_sync_policy {
    enum spotnik_sync_mode mode;
    enum spotnik_sync_reason reason; /* of the last change */
    double value, limit;             /* what was compared at that change */
    uint32_t streak;                 /* windows in a row that ask for the other mode */
};

/* Spotnik (HotCloud'20, section 3.3): asynchronous when throughput per worker falls below 40 % of
 * the one-worker value. The paper does not say when to go back; here: above 50 %, and either way
 * three windows in a row. */
struct spotnik_sync_hysteresis spotnik_sync_throughput_usual(void);
enum spotnik_sync_mode spotnik_sync_policy_throughput(struct spotnik_sync_policy *policy,
                                                      const struct spotnik_sync_hysteresis *limits,
                                                      const struct spotnik_sync_metrics *metrics);

/* Stragglers: the part of a synchronous step that members would spend waiting for the slowest, 1 -
 * mean / max of compute times. Asynchronous above `high` (30 %), back below `low` (15 %). Known in
 * either mode. */
struct spotnik_sync_hysteresis spotnik_sync_waiting_usual(void);
enum spotnik_sync_mode spotnik_sync_policy_waiting(struct spotnik_sync_policy *policy,
                                                   const struct spotnik_sync_hysteresis *limits,
                                                   const struct spotnik_sync_metrics *metrics);

/* Sync-Switch (Li et al., ICDCS'21): synchronous first, asynchronous after the fraction `part` of
 * the work, once. Work is samples, so that a synchronous step counts as `size` asynchronous ones,
 * as in the paper. Their parts: 5 %, 12.5 %, 50 %. */
enum spotnik_sync_mode spotnik_sync_policy_schedule(struct spotnik_sync_policy *policy, double part,
                                                    const struct spotnik_sync_metrics *metrics);

/* For logs: "throughput per member fell to", to be followed by value and limit. Static storage. */
const char *spotnik_sync_reason_text(enum spotnik_sync_reason reason);

#endif
