/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet is up to four groups of equal machines, each spot or on-demand. Here: how fast it steps
 * with some of its machines gone, and what a job on it takes and costs, as a distribution over
 * simulated runs.
 *
 * Steps are synchronous: devices get shares of the batch in proportion to their speed. Those of
 * one machine add up in its memory, and the ring of machines runs at the slowest link.
 *
 * A lost spot machine costs `recover_s`, then the survivors go
 * on; its replacement waits until there is capacity, starts up and joins. Capacity is that of the
 * group's pool (pool.h): it goes for all machines of a pool at once. Machines that are lost by
 * themselves take others along with probability `together` (each with one half). When nobody is
 * left, work since the last checkpoint is lost. A spot machine with a price history is billed by
 * the second at the prices of the moment. Each run begins at a random moment of the history.
 *
 * Where the job is followed by new plans, a run need not end with the fleet that it began with: a
 * rescue, a fleet on demand, takes over at the last moment from which it still ends in time. */
#ifndef SPOTNIK_PLAN_FLEET_H
#define SPOTNIK_PLAN_FLEET_H

#include "plan/catalog.h"
#include "plan/profile.h"
#include "plan/pool.h"

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_FLEET_GROUPS 4
#define SPOTNIK_FLEET_RUNS_MAX 2000
#define SPOTNIK_LOSSES_TOGETHER 0.25
#define SPOTNIK_CHECKPOINTS_KEPT 2
#define SPOTNIK_MOVE_S_PER_GB 8 /* 1 Gbit/s between regions */

struct spotnik_group {
    const struct spotnik_offer *offer;
    const struct spotnik_device *device;
    unsigned machines;
    bool spot;
    unsigned running; /* of them already up: no start-up time (re-planning) */
};

struct spotnik_fleet {
    struct spotnik_group groups[SPOTNIK_FLEET_GROUPS];
    size_t group_count;
    double batch;
};

/* The fleet that takes over. A plan is made anew every `every_s` at most, so the moment may be
 * missed by that. */
struct spotnik_rescue {
    struct spotnik_fleet fleet; /* its batch is that of the fleet before */
    double every_s, by_s;       /* by_s: the deadline */
};

struct spotnik_work {
    double epochs;       /* at the reference batch */
    double losses_per_h; /* of single machines, for offers that do not say; NAN: unknown */
    double together;
    const struct spotnik_trace
        *churn; /* replayed for all spot machines, whatever else is known; NULL: draw */
    /* for pools of which nothing is known; NULL: the built-in one */
    const struct spotnik_availability *availability;
    const struct spotnik_survival *lives; /* lifetimes of spot machines; NULL: unknown */
    /* NULL: every run ends with the fleet of its beginning */
    const struct spotnik_rescue *rescue;
    /* the provider ends spot machines at this age; 0: it does not */
    double cap_s;
    /* paid once for every other region that the fleet is in */
    double data_gb, egress_usd_per_gb;
    const char *data_region;  /* where the data are; NULL: nothing is paid */
    const char *state_region; /* where the state of a running job is; NULL: there is none yet */
    double storage_usd_per_gb_month; /* of SPOTNIK_CHECKPOINTS_KEPT checkpoints */
};

struct spotnik_estimate {
    double step_s, steps, time_s, cost_usd, usd_per_h; /* without losses, start-up included */
};

struct spotnik_outcome {
    double time_mean_s, time_low_s, time_high_s; /* 5 % and 95 % */
    double cost_mean_usd, cost_low_usd, cost_high_usd;
    double on_time, in_budget, both; /* shares of runs */
    double losses, machine_h;
    double third_both[3],
        /* runs by how long capacity was short: `both` of the best, the middle and the worst third,
         * and the largest share of time short in each */
        third_short[3];
    unsigned runs;
};

/* One run. */
struct spotnik_run {
    double time_s, cost_usd; /* infinite: it never ends */
    double machine_s;        /* of machines that were up */
    double short_share;      /* of the time, with fewer spot machines than wanted */
    unsigned losses;
};

/* Accelerators, or vCPUs, with alive[i] machines of group i. */
double spotnik_fleet_devices(const struct spotnik_fleet *fleet, const unsigned *alive);
unsigned spotnik_fleet_machines(const struct spotnik_fleet *fleet);
double spotnik_fleet_usd_per_h(const struct spotnik_fleet *fleet);
/* Seconds of one step with alive[i] machines of group i; infinite when the batch does not fit or
 * nobody is alive. */
double spotnik_fleet_step_s(const struct spotnik_profile *profile,
                            const struct spotnik_fleet *fleet, const unsigned *alive);
/* How often the devices of the fleet double those of the largest step that was measured. */
double spotnik_fleet_doublings(const struct spotnik_profile *profile,
                               const struct spotnik_fleet *fleet);
/* Relative standard error of a step: the profile's, and more beyond what was measured. */
double spotnik_fleet_error(const struct spotnik_profile *profile,
                           const struct spotnik_fleet *fleet);
struct spotnik_estimate spotnik_fleet_estimate(const struct spotnik_profile *profile,
                                               const struct spotnik_fleet *fleet,
                                               const struct spotnik_work *work);
/* What a job of `time_s` costs beside its machines: moving its data and the state of a job that
 * runs, keeping its checkpoints. */
double spotnik_fleet_extra_usd(const struct spotnik_profile *profile,
                               const struct spotnik_fleet *fleet, const struct spotnik_work *work,
                               double time_s);
/* How long the state of a job that runs takes to a fleet none of which is where it is. */
double spotnik_fleet_move_s(const struct spotnik_profile *profile,
                            const struct spotnik_fleet *fleet, const struct spotnik_work *work);
/* Steps that the job needs at the fleet's batch. */
double spotnik_fleet_steps(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
                           const struct spotnik_work *work);
/* What is known of the capacity of a group: by its offer, else by `work`. */
void spotnik_group_pool(const struct spotnik_group *group, const struct spotnik_work *work,
                        struct spotnik_pool *pool_out);
/* One run under work->churn from `from_s` on. */
struct spotnik_run spotnik_fleet_replay(const struct spotnik_profile *profile,
                                        const struct spotnik_fleet *fleet,
                                        const struct spotnik_work *work, double from_s);
/* Same seed, same outcome. `deadline_s` and `budget_usd` may be infinite. */
struct spotnik_outcome spotnik_fleet_simulate(const struct spotnik_profile *profile,
                                              const struct spotnik_fleet *fleet,
                                              const struct spotnik_work *work, double deadline_s,
                                              double budget_usd, unsigned runs, uint64_t seed);

#endif
