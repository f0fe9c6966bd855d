/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet is up to four groups of equal machines, each spot or on-demand. Here: how fast it steps with
 * some of its machines gone, and what a job on it takes and costs, as a distribution over simulated runs.
 *
 * Steps are synchronous (our ring): devices get shares of the batch in proportion to their speed, the ring
 * runs at the slowest link. A lost spot machine costs `recover_s`, then the survivors go on; its
 * replacement starts up and joins. Losses come together: with probability `together` a loss takes each
 * other machine of its group with probability one half (in the GCE data of docs/planning.md losses
 * cluster). When nobody is left, work since the last checkpoint is lost. A spot machine with a price history
 * is billed by the second at the prices of the moment, each run from a random moment of the history on. */
#ifndef SPOTNIK_PLAN_FLEET_H
#define SPOTNIK_PLAN_FLEET_H

#include "plan/catalog.h"
#include "plan/profile.h"
#include "plan/replay.h"

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_FLEET_GROUPS 4
#define SPOTNIK_FLEET_RUNS_MAX 2000
#define SPOTNIK_LOSSES_PER_H_UNKNOWN 0.02
#define SPOTNIK_LOSSES_TOGETHER 0.25

struct spotnik_group {
    const struct spotnik_offer *offer;
    const struct spotnik_device *device;
    unsigned machines;
    bool spot;
    bool running; /* already up: no start-up time (re-planning) */
};

struct spotnik_fleet {
    struct spotnik_group groups[SPOTNIK_FLEET_GROUPS];
    size_t group_count;
    double batch;
};

struct spotnik_work {
    double epochs;       /* at the reference batch */
    double losses_per_h; /* for offers that do not say; NAN: the default */
    double together;
    const struct spotnik_churn *churn; /* a trace to replay instead of drawing losses; NULL: draw */
};

struct spotnik_estimate {
    double step_s, steps, time_s, cost_usd, usd_per_h; /* without losses, start-up included */
};

struct spotnik_outcome {
    double time_mean_s, time_low_s, time_high_s; /* 5 % and 95 % */
    double cost_mean_usd, cost_low_usd, cost_high_usd;
    double on_time, in_budget, both; /* shares of runs */
    double losses;
    unsigned runs;
};

unsigned spotnik_fleet_machines(const struct spotnik_fleet *fleet);
double spotnik_fleet_usd_per_h(const struct spotnik_fleet *fleet);
/* Seconds of one step with alive[i] machines of group i; infinite when the batch does not fit or nobody is
 * alive. */
double spotnik_fleet_step_s(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
                            const unsigned *alive);
struct spotnik_estimate spotnik_fleet_estimate(const struct spotnik_profile *profile,
                                               const struct spotnik_fleet *fleet,
                                               const struct spotnik_work *work);
/* Same seed, same outcome. `deadline_s` and `budget_usd` may be infinite. */
struct spotnik_outcome spotnik_fleet_simulate(const struct spotnik_profile *profile,
                                              const struct spotnik_fleet *fleet,
                                              const struct spotnik_work *work, double deadline_s,
                                              double budget_usd, unsigned runs, uint64_t seed);

#endif
