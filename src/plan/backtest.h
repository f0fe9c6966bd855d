/* SPDX-License-Identifier: Apache-2.0 */
/* One job of a fixed amount of work, a deadline, and one machine that is spot, on-demand or none: what
 * Can't Be Late (Wu et al., NSDI'24) simulates, in continuous time. Availability changes at tick boundaries;
 * everything else (the end of a changeover, the safety net, the end of the work) happens when it happens, not
 * at the next tick.
 *
 * Rules that hold for every policy, so that no policy can miss the deadline:
 *   thrifty      nothing runs once the work is done;
 *   safety net   an idle job with less time left than work left + 2 changeovers goes to on-demand for good;
 *   guard        on-demand is left only while two changeovers fit.
 * A changeover is paid (in time and money) at every move to a machine. With `overlap`, what an elastic
 * runtime can do: the spot machine starts up while the on-demand machine works on, and both are paid for
 * meanwhile. A spot machine that is lost while it starts then costs money but no time, and one
 * changeover of slack is enough to try. */
#ifndef SPOTNIK_PLAN_BACKTEST_H
#define SPOTNIK_PLAN_BACKTEST_H

#include "plan/windows.h"

#include <stdbool.h>

enum spotnik_machine { SPOTNIK_IDLE, SPOTNIK_SPOT, SPOTNIK_ON_DEMAND };

struct spotnik_job_terms {
    double work_s, deadline_s, changeover_s;
    double price_ratio; /* on-demand price / spot price */
    bool overlap;       /* on-demand works on while its spot successor starts */
};

/* What a policy may know at one moment. */
struct spotnik_job_view {
    const struct spotnik_job_terms *terms;
    double now_s, work_left_s, time_left_s;
    double run_age_s; /* how long availability has been what it is */
    enum spotnik_machine machine;
    bool available;
    bool joining; /* on on-demand, with a spot machine starting up */
};

struct spotnik_choice {
    enum spotnik_machine machine;
    double again_s; /* ask again after this long at the latest */
};

/* A policy: one object for many windows. `start` (may be null) forgets the last window; `observe` (may be
 * null) is told every stretch of constant availability before the policy is asked again. */
struct spotnik_policy {
    const char *name;
    void *self;
    void (*start)(void *self);
    void (*observe)(void *self, bool available, double age_s, double stretch_s, bool ended);
    struct spotnik_choice (*choose)(void *self, const struct spotnik_job_view *view);
};

struct spotnik_job_result {
    double on_demand_work_s, spot_work_s;     /* work done, changeovers not counted */
    double on_demand_billed_s, spot_billed_s; /* machine time paid for */
    double finish_s;
    unsigned changeovers, revocations;
    bool missed;
};

/* Runs one window; a window that is shorter than the deadline is a fault. `first_tick` shifts the start. */
int spotnik_backtest_run(const struct spotnik_window *window, double tick_s,
                         const struct spotnik_job_terms *terms, const struct spotnik_policy *policy,
                         struct spotnik_job_result *result_out, struct spotnik_fault *fault);

/* Cost in hours of spot price. */
double spotnik_backtest_cost(const struct spotnik_job_result *result, double price_ratio);

/* Refuses terms that no policy can meet, saying which one binds and the nearest that can be met. */
int spotnik_job_terms_check(const struct spotnik_job_terms *terms, struct spotnik_fault *fault);

#endif
