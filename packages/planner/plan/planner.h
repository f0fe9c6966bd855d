/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for the fleet and the batch with which a job meets its deadline and its budget. All
 * machines of the catalog that the profile knows, spot and on-demand, alone and in pairs, are
 * estimated in closed form; the most promising are simulated; the cheapest that is sure enough
 * wins. Every other one keeps the reason for which it lost. */
#ifndef SPOTNIK_PLAN_PLANNER_H
#define SPOTNIK_PLAN_PLANNER_H

#include "plan/fleet.h"

#define SPOTNIK_QUOTAS_MAX 16

struct spotnik_wish {
    double deadline_s, budget_usd; /* infinite: none */
    double confidence;             /* chance wanted of meeting both */
    struct spotnik_work work;
    unsigned machines_most;
    bool spot, on_demand; /* which may be used */
    uint64_t seed;
    unsigned runs;
    struct spotnik_group kept[SPOTNIK_FLEET_GROUPS - 1]; /* what runs (re-planning) */
    size_t kept_count;
    double kept_batch; /* of the running job */
    bool release;      /* what runs may be given back; else it stays in every fleet */
    /* above zero: plans are made anew that often, so that machines on demand may take over */
    double follow_s;
    bool best; /* when nothing is sure enough, what has the best chance is the plan */
    struct {
        const char *type; /* pattern */
        unsigned machines;
    } quotas[SPOTNIK_QUOTAS_MAX];
    size_t quota_count;
};

struct spotnik_candidate {
    struct spotnik_fleet fleet;
    struct spotnik_estimate estimate;
    struct spotnik_outcome outcome;
    char reason[160];
    bool feasible, on_front;
};

#define SPOTNIK_PLAN_CANDIDATES 150

struct spotnik_plan {
    /* the winner first, when there is one */
    struct spotnik_candidate candidates[SPOTNIK_PLAN_CANDIDATES];
    /* what takes over when spot machines will be late; with wish.follow_s */
    struct spotnik_rescue rescue;
    struct spotnik_candidate as_it_runs; /* the fleet of now, left alone; with wish.kept */
    size_t count, looked_at, offers;
    struct spotnik_drop left[SPOTNIK_DROPS_MAX],
        alike[SPOTNIK_DROPS_MAX]; /* not looked at; looked at as another */
    size_t left_count, alike_count;
    bool found;
    /* when nothing was found: which wish binds and the nearest that can be met */
    char binding[512];
};

int spotnik_plan_make(const struct spotnik_catalog *catalog, const struct spotnik_profile *profile,
                      const struct spotnik_wish *wish, struct spotnik_plan *plan_out,
                      struct spotnik_fault *fault);
/* "4 x p3.2xlarge spot + 1 x p3.2xlarge on-demand" */
void spotnik_fleet_describe(const struct spotnik_fleet *fleet, char *text, size_t size);

#endif
