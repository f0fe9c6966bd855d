/* SPDX-License-Identifier: Apache-2.0 */
/* Spot capacity as a hidden Markov model. A place (one machine type in one zone) is in one of a few
 * regimes, which last from hours to weeks; in a regime, capacity comes and goes with a hazard that
 * depends on how long it has been as it is. So capacity flaps and then stays, good days follow good
 * days, and places differ. What was seen of a place says in which regime it may be (a filter). The
 * planner's runs meet paths drawn from there.
 *
 * Regimes are learned from traces by expectation-maximisation. Those built in are statistics of
 * public traces. */
#ifndef SPOTNIK_PLAN_AVAILABILITY_H
#define SPOTNIK_PLAN_AVAILABILITY_H

#include "common/fault.h"
#include "common/trace.h"

#include "base/prng.h"

#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_AVAILABILITY_TICK_S 600.0
#define SPOTNIK_REGIMES_MAX 12
#define SPOTNIK_AGES 6
#define SPOTNIK_HOURS 8 /* parts of a day */
#define SPOTNIK_TICKS_A_DAY 144u

/* Ages (in ticks) from which the next bucket counts; the last bucket has no end. */
extern const unsigned spotnik_availability_ages[SPOTNIK_AGES - 1];

struct spotnik_availability {
    char name[96];
    size_t regimes;
    double share[SPOTNIK_REGIMES_MAX]; /* of all time that was seen */
    /* share of a regime's time with capacity */
    double up[SPOTNIK_REGIMES_MAX];
    double end[SPOTNIK_REGIMES_MAX][2][SPOTNIK_AGES];    /* chance per tick that [up] ends */
    double go[SPOTNIK_REGIMES_MAX][SPOTNIK_REGIMES_MAX]; /* chance per tick of the next regime */
};

/* For accelerators, and for machines without. */
extern const struct spotnik_availability spotnik_availability_accelerators,
    spotnik_availability_processors;

/* What is known of a place at one moment. */
struct spotnik_belief {
    double chance[SPOTNIK_REGIMES_MAX]; /* of each regime */
    bool up_known, up;
    unsigned age_ticks;
    unsigned tick_of_day; /* of the place's own days: 0 is when it was first seen */
    double hours[2]
                /* how much likelier than the regimes say [up] ends in this part of the day */
                [SPOTNIK_HOURS];
};

/* Nothing is known of the place. */
struct spotnik_belief spotnik_belief_unknown(const struct spotnik_availability *availability);
/* Capacity for at least `machines` was seen as `trace` has it, from its beginning until
 * `until_s`. */
struct spotnik_belief spotnik_belief_after(const struct spotnik_availability *availability,
                                           const struct spotnik_trace *trace, unsigned machines,
                                           double until_s);

/* Regimes are of many places, and each place keeps to its own. So among places with the same past
 * the chances of a job that lasts until `ahead_s` differ. Where the average is `chance`, those of
 * nine in ten are in here. */
void spotnik_belief_range(double chance, double ahead_s, double *low_out, double *high_out);

/* One future of a place. */
struct spotnik_path {
    const struct spotnik_availability *availability;
    size_t regime;
    bool up;
    unsigned age_ticks, tick_of_day;
    const struct spotnik_belief *belief;
};

/* `belief` stays while the path is used. */
void spotnik_path_start(struct spotnik_path *path, const struct spotnik_availability *availability,
                        const struct spotnik_belief *belief, struct spotnik_prng *prng);
/* Goes on to the next change of `up`, and returns how long that takes (infinite: it never
 * comes). */
double spotnik_path_next_s(struct spotnik_path *path, struct spotnik_prng *prng);

/* Learns `regimes` regimes; the same traces and seed give the same model. */
int spotnik_availability_learn(const struct spotnik_trace *traces, size_t count, size_t regimes,
                               unsigned seed, struct spotnik_availability *availability_out,
                               struct spotnik_fault *fault);

/* A trace as one byte a tick: 1 with capacity for `machines`. The caller frees it. */
unsigned char *spotnik_availability_ticks(const struct spotnik_trace *trace, unsigned machines,
                                          double until_s, size_t *count_out);
size_t spotnik_availability_bucket(unsigned age_ticks);

#endif
