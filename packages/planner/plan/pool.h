/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of spot capacity for one machine type in one zone: where it stands, and what
 * futures a run may meet. Four sources, the first that there is: a trace to replay; what was seen
 * of the place until now (a trace as history); a rate or a band of losses per machine; and
 * otherwise nothing but how such machines fare in general. */
#ifndef SPOTNIK_PLAN_POOL_H
#define SPOTNIK_PLAN_POOL_H

#include "common/model_lifetime.h"
#include "plan/availability.h"

enum spotnik_pool_kind {
    SPOTNIK_POOL_UNKNOWN,
    SPOTNIK_POOL_RATE,
    SPOTNIK_POOL_BAND,
    SPOTNIK_POOL_SEEN,
    SPOTNIK_POOL_REPLAY
};

struct spotnik_pool {
    enum spotnik_pool_kind kind;
    const struct spotnik_availability *
        availability; /* regimes of all kinds but REPLAY; when capacity returns for RATE and BAND */
    struct spotnik_belief belief;
    /* losses per machine: of RATE both the same; of BAND a range; of SEEN what single ones were
     * lost while others stayed */
    double low_per_h, high_per_h;
    double doubt;                      /* share of runs in which a BAND tells nothing */
    const struct spotnik_trace *trace; /* REPLAY */
    /* lifetimes of single machines besides; null: none known */
    const struct spotnik_survival *lives;
    double cap_s; /* the provider ends every machine at this age; infinite: it does not */
};

/* One future of a pool. */
struct spotnik_sky {
    const struct spotnik_pool *pool;
    struct spotnik_path path;
    double trace_at_s;   /* REPLAY: where the run begins in the trace */
    double losses_per_h; /* of single machines; 0: none but with the capacity */
    unsigned machines;   /* what can be had now; UINT_MAX: as many as wanted */
    double changes_s;    /* when that changes */
};

/* `from_s`: where a replay begins; NAN: anywhere, unless the trace says. */
void spotnik_sky_start(struct spotnik_sky *sky, const struct spotnik_pool *pool, double from_s,
                       struct spotnik_prng *prng);
/* The change at changes_s has come. */
void spotnik_sky_change(struct spotnik_sky *sky, struct spotnik_prng *prng);
/* How long a machine that starts now lives by itself; infinite when only capacity ends it. */
double spotnik_sky_life_s(const struct spotnik_sky *sky, struct spotnik_prng *prng);
/* How long it takes until one that was lost by itself can be had again. */
double spotnik_sky_wait_s(const struct spotnik_sky *sky, struct spotnik_prng *prng);

#endif
