/* SPDX-License-Identifier: Apache-2.0 */
/* The published policies of Can't Be Late (Wu et al., NSDI'24). C is work left, R time left, d one
 * changeover. The safety net and the thrifty rule are the simulator's. */
#include "backtest_policy.h"

#include <math.h>

#define NEVER_S 1e30

/* Spot whenever there is one, else wait: the safety net does the rest. Competitive ratio k. */
static struct spotnik_choice greedy_choose(void *self, const struct spotnik_job_view *view)
{
    (void)self;
    if (view->machine == SPOTNIK_ON_DEMAND)
        return (struct spotnik_choice){ SPOTNIK_ON_DEMAND, NEVER_S, false };
    return (struct spotnik_choice){ view->available ? SPOTNIK_SPOT : SPOTNIK_IDLE, NEVER_S, false };
}

struct spotnik_policy spotnik_policy_greedy(void)
{
    return (struct spotnik_policy){ .name = "greedy", .choose = greedy_choose };
}

static struct spotnik_choice on_demand_choose(void *self, const struct spotnik_job_view *view)
{
    (void)self;
    (void)view;
    return (struct spotnik_choice){ SPOTNIK_ON_DEMAND, NEVER_S, false };
}

struct spotnik_policy spotnik_policy_on_demand(void)
{
    return (struct spotnik_policy){ .name = "on-demand", .choose = on_demand_choose };
}

/* How far the work should be at time t on a straight line from nothing to all of it at the
 * deadline. */
static double expected_work_s(const struct spotnik_job_terms *terms, double t_s)
{
    return t_s * terms->work_s / terms->deadline_s;
}

/* Time until the straight line overtakes the work done, and until on-demand is 2 d ahead of it. */
static struct spotnik_choice uniform_choose(void *self, const struct spotnik_job_view *view)
{
    const struct spotnik_job_terms *terms = view->terms;
    double done_s = terms->work_s - view->work_left_s, rate = terms->work_s / terms->deadline_s;
    double ahead_s = expected_work_s(terms, view->now_s + 2 * terms->changeover_s);

    (void)self;
    if (view->machine == SPOTNIK_SPOT)
        return (struct spotnik_choice){ SPOTNIK_SPOT, NEVER_S, false };
    if (view->machine == SPOTNIK_ON_DEMAND) {
        if (view->available && done_s >= ahead_s)
            return (struct spotnik_choice){ SPOTNIK_SPOT, NEVER_S, false };
        double gap_s = ahead_s - done_s;
        return (struct spotnik_choice){ SPOTNIK_ON_DEMAND,
                                        gap_s > 0 && rate < 1 ? gap_s / (1 - rate) + 1e-3 : NEVER_S,
                                        false };
    }
    if (view->available)
        return (struct spotnik_choice){ SPOTNIK_SPOT, NEVER_S, false };
    if (done_s < expected_work_s(terms, view->now_s))
        return (struct spotnik_choice){ SPOTNIK_ON_DEMAND, NEVER_S, false };
    return (struct spotnik_choice){ SPOTNIK_IDLE, done_s / rate - view->now_s + 1e-3, false };
}

struct spotnik_policy spotnik_policy_uniform(void)
{
    return (struct spotnik_policy){ .name = "uniform", .choose = uniform_choose };
}

/* n equal slices, each with 1/n of the work and a greedy run inside; work done ahead shortens the
 * next slice. */
static struct spotnik_choice sliced_choose(void *self, const struct spotnik_job_view *view)
{
    const struct spotnik_sliced *sliced = self;
    const struct spotnik_job_terms *terms = view->terms;
    double slice_s = terms->deadline_s / sliced->slices, d_s = terms->changeover_s;
    double index = fmin(floor((view->now_s + 1e-6) / slice_s), sliced->slices - 1);
    double end_s = (index + 1) * slice_s, done_s = terms->work_s - view->work_left_s;
    double quota_s = fmax(0, (index + 1) * terms->work_s / sliced->slices - done_s);
    double left_s = end_s - view->now_s;

    if (view->machine == SPOTNIK_SPOT)
        return (struct spotnik_choice){ SPOTNIK_SPOT, NEVER_S, false };
    if (view->machine == SPOTNIK_ON_DEMAND && quota_s > 1e-3 && left_s < quota_s + 2 * d_s)
        return (struct spotnik_choice){ SPOTNIK_ON_DEMAND, fmax(quota_s, 1e-3), false };
    if (view->machine != SPOTNIK_ON_DEMAND && quota_s > 1e-3 && left_s < quota_s + 2 * d_s)
        return (struct spotnik_choice){ SPOTNIK_ON_DEMAND, NEVER_S, false };
    if (view->available)
        return (struct spotnik_choice){ SPOTNIK_SPOT, NEVER_S, false };
    double net_s = quota_s > 1e-3 ? left_s - quota_s - 2 * d_s : left_s;
    return (struct spotnik_choice){ SPOTNIK_IDLE, fmax(net_s, 0) + 1e-3, false };
}

struct spotnik_policy spotnik_policy_sliced(struct spotnik_sliced *sliced)
{
    return (struct spotnik_policy){ .name = "sliced", .self = sliced, .choose = sliced_choose };
}
