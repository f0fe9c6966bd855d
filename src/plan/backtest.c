/* SPDX-License-Identifier: Apache-2.0 */
/* The job simulator: an event loop over one window. It decides nothing about spot or on-demand beyond the
 * three rules in the header; policies do. */
#include "plan/backtest.h"

#include <math.h>

#define TIME_EPSILON_S 1e-6

struct run {
    const struct spotnik_window *window;
    const struct spotnik_job_terms *terms;
    const struct spotnik_policy *policy;
    struct spotnik_job_result result;
    double tick_s, now_s, work_left_s, delay_left_s, run_started_s, joining_left_s;
    enum spotnik_machine machine;
    bool committed, available, joining;
};

int spotnik_job_terms_check(const struct spotnik_job_terms *terms, struct spotnik_fault *fault)
{
    double least_s = terms->work_s + 2 * terms->changeover_s;

    if (!(terms->work_s > 0) || !(terms->deadline_s > 0) || !(terms->changeover_s >= 0))
        return spotnik_fault_set(fault, "work and deadline must be above zero, the changeover not below it");
    if (!(terms->price_ratio > 0))
        return spotnik_fault_set(fault, "the price ratio (on-demand / spot) must be above zero");
    if (terms->deadline_s < least_s)
        return spotnik_fault_set(
            fault,
            "the deadline binds: %.2f h of work and two changeovers of %.2f h need %.2f h, "
            "the deadline is %.2f h; nearest feasible: --deadline %.2fh",
            terms->work_s / 3600, terms->changeover_s / 3600, least_s / 3600, terms->deadline_s / 3600,
            ceil(least_s / 36) / 100);
    return 0;
}

static bool available_at(const struct run *run, double now_s)
{
    size_t tick = (size_t)((now_s + TIME_EPSILON_S) / run->tick_s);

    return run->window->machines[tick < run->window->ticks ? tick : run->window->ticks - 1] > 0;
}

static double slack_s(const struct run *run)
{
    return run->terms->deadline_s - run->now_s - run->work_left_s;
}

/* Time passes with nothing changing but the clock, the work and the bill. */
static void run_pass(struct run *run, double stretch_s)
{
    double delay_s = fmin(stretch_s, run->delay_left_s), work_s = stretch_s - delay_s;

    if (run->machine != SPOTNIK_IDLE) {
        bool spot = run->machine == SPOTNIK_SPOT;
        *(spot ? &run->result.spot_billed_s : &run->result.on_demand_billed_s) += stretch_s;
        *(spot ? &run->result.spot_work_s : &run->result.on_demand_work_s) += work_s;
        run->delay_left_s -= delay_s;
        run->work_left_s -= work_s;
    }
    if (run->joining) {
        run->result.spot_billed_s += stretch_s;
        run->joining_left_s -= stretch_s;
    }
    if (run->policy->observe)
        run->policy->observe(run->policy->self, run->available, run->now_s - run->run_started_s, stretch_s,
                             false);
    run->now_s += stretch_s;
}

static void run_move(struct run *run, enum spotnik_machine machine)
{
    if (machine == run->machine)
        return;
    run->machine = machine;
    run->delay_left_s = machine == SPOTNIK_IDLE ? 0 : run->terms->changeover_s;
    run->result.changeovers += machine != SPOTNIK_IDLE;
    run->joining = false;
}

/* The successor starts while the on-demand machine, which must itself be up, works on. */
static void run_join(struct run *run)
{
    if (run->joining || run->delay_left_s > 0)
        return;
    run->joining = true;
    run->joining_left_s = run->terms->changeover_s;
    run->result.changeovers++;
}

/* Looks at availability; a spot machine that is no longer available is gone. */
static void run_look(struct run *run)
{
    bool available = available_at(run, run->now_s);

    if (available != run->available) {
        if (run->policy->observe)
            run->policy->observe(run->policy->self, run->available, run->now_s - run->run_started_s, 0, true);
        run->available = available;
        run->run_started_s = run->now_s;
    }
    if (run->machine == SPOTNIK_SPOT && !available) {
        run_move(run, SPOTNIK_IDLE);
        run->result.revocations++;
    }
    if (run->joining && !available) {
        run->joining = false;
        run->result.revocations++;
    }
    if (run->joining && run->joining_left_s <= TIME_EPSILON_S) {
        run->machine = SPOTNIK_SPOT;
        run->delay_left_s = 0;
        run->joining = false;
    }
}

/* The policy's choice, as far as the guard lets it through. */
static void run_obey(struct run *run, enum spotnik_machine machine)
{
    bool overlap = run->terms->overlap && run->machine == SPOTNIK_ON_DEMAND && machine == SPOTNIK_SPOT;
    double need_s = run->terms->changeover_s * (overlap ? 1 : 2);

    if (machine == SPOTNIK_SPOT && !run->available)
        return;
    if (run->machine == SPOTNIK_ON_DEMAND && machine != SPOTNIK_ON_DEMAND && slack_s(run) < need_s)
        return;
    if (overlap)
        run_join(run);
    else
        run_move(run, machine);
    if (run->machine == SPOTNIK_ON_DEMAND && machine == SPOTNIK_ON_DEMAND)
        run->joining = false;
}

/* The rules first, then the policy. Returns when to look again, as a stretch from now. */
static double run_decide(struct run *run)
{
    double net_s = 2 * run->terms->changeover_s, again_s = INFINITY;

    if (run->machine == SPOTNIK_IDLE && slack_s(run) < net_s + TIME_EPSILON_S) {
        run->committed = !run->terms->overlap;
        run_move(run, SPOTNIK_ON_DEMAND);
    }
    if (run->committed)
        return again_s;
    struct spotnik_job_view view = {
        .terms = run->terms,
        .now_s = run->now_s,
        .work_left_s = run->work_left_s,
        .time_left_s = run->terms->deadline_s - run->now_s,
        .run_age_s = run->now_s - run->run_started_s,
        .machine = run->machine,
        .available = run->available,
        .joining = run->joining,
    };
    struct spotnik_choice choice = run->policy->choose(run->policy->self, &view);
    run_obey(run, choice.machine);
    if (choice.again_s > 0)
        again_s = choice.again_s;
    if (run->machine == SPOTNIK_IDLE)
        again_s = fmin(again_s, fmax(slack_s(run) - net_s, TIME_EPSILON_S));
    return again_s;
}

static void run_step(struct run *run)
{
    run_look(run);
    double stretch_s = run_decide(run);
    double tick_end_s = (floor((run->now_s + TIME_EPSILON_S) / run->tick_s) + 1) * run->tick_s - run->now_s;

    stretch_s = fmin(stretch_s, tick_end_s);
    if (run->machine != SPOTNIK_IDLE)
        stretch_s = fmin(stretch_s, run->delay_left_s > 0 ? run->delay_left_s : run->work_left_s);
    if (run->joining)
        stretch_s = fmin(stretch_s, run->joining_left_s);
    run_pass(run, fmax(stretch_s, TIME_EPSILON_S));
}

int spotnik_backtest_run(const struct spotnik_window *window, double tick_s,
                         const struct spotnik_job_terms *terms, const struct spotnik_policy *policy,
                         struct spotnik_job_result *result_out, struct spotnik_fault *fault)
{
    struct run run = {
        .window = window, .terms = terms, .policy = policy, .tick_s = tick_s, .work_left_s = terms->work_s
    };

    if (spotnik_job_terms_check(terms, fault))
        return -1;
    if ((double)window->ticks * tick_s < terms->deadline_s)
        return spotnik_fault_set(fault,
                                 "the window covers %.1f h, the deadline is %.1f h; take a longer trace",
                                 (double)window->ticks * tick_s / 3600, terms->deadline_s / 3600);
    run.available = available_at(&run, 0);
    if (policy->start)
        policy->start(policy->self);
    while (run.work_left_s > TIME_EPSILON_S)
        run_step(&run);
    run.result.finish_s = run.now_s;
    run.result.missed = run.now_s > terms->deadline_s + 1;
    *result_out = run.result;
    return 0;
}

double spotnik_backtest_cost(const struct spotnik_job_result *result, double price_ratio)
{
    return (result->spot_billed_s + price_ratio * result->on_demand_billed_s) / 3600;
}
