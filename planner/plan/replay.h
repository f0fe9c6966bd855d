/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a fleet under a trace of spot machines that come and go, instead of drawn losses: what a plan
 * would have met on such a day, and what `spotnik run --churn` replays. */
#ifndef SPOTNIK_PLAN_REPLAY_H
#define SPOTNIK_PLAN_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

struct spotnik_profile;
struct spotnik_fleet;

/* Nodes are numbered from 0 as they first appear; node j is the fleet's j-th spot machine. */
struct spotnik_churn_event {
    double at_s;
    unsigned node;
    bool add;
};

/* Sorted by time. Spot machines that the trace does not know are there from the beginning to the end, as
 * on-demand ones are. */
struct spotnik_churn {
    size_t count;
    const struct spotnik_churn_event *events;
    unsigned nodes;
};

struct spotnik_replay {
    double time_s, cost_usd; /* infinite time: the trace leaves nobody before the job is done */
    unsigned losses;
};

/* `steps` steps, each `slowness` times as long as predicted. A machine is billed from its add to its remove
 * or the end, and works profile->startup_s after its add. */
struct spotnik_replay spotnik_fleet_replay(const struct spotnik_profile *profile,
                                           const struct spotnik_fleet *fleet,
                                           const struct spotnik_churn *churn, double steps, double slowness);

#endif
