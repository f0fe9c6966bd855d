/* SPDX-License-Identifier: Apache-2.0 */
/* Speed and simulated runs of one fleet. Which fleets to look at is planner.c's business. */
#include "plan/fleet.h"
#include "base/prng.h"
#include "plan/model_speed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINK_GBPS_UNKNOWN 5.0
#define EVENTS_MAX 200000

unsigned spotnik_fleet_machines(const struct spotnik_fleet *fleet)
{
    unsigned machines = 0;

    for (size_t i = 0; i < fleet->group_count; i++)
        machines += fleet->groups[i].machines;
    return machines;
}

static double group_usd_per_h(const struct spotnik_group *group)
{
    return group->spot ? group->offer->spot_usd_per_h : group->offer->on_demand_usd_per_h;
}

double spotnik_fleet_usd_per_h(const struct spotnik_fleet *fleet)
{
    double usd = 0;

    for (size_t i = 0; i < fleet->group_count; i++)
        usd += fleet->groups[i].machines * group_usd_per_h(&fleet->groups[i]);
    return usd;
}

static double devices_of(const struct spotnik_group *group)
{
    return group->offer->accelerators > 0 ? group->offer->accelerators : fmax(1, group->offer->vcpus);
}

static double link_of(const struct spotnik_profile *profile, const struct spotnik_group *group)
{
    double gbps = isnan(group->offer->link_gbps) ? LINK_GBPS_UNKNOWN : group->offer->link_gbps;

    return profile->link_bytes_per_s > 0 ? profile->link_bytes_per_s : gbps * 1e9 / 8;
}

/* A step that was measured with just these machines; NAN when none was, or when they are of several kinds. */
static double measured_of(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
                          const unsigned *alive)
{
    const char *kind = NULL;
    double devices = 0;

    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_device *device = fleet->groups[i].device;
        if (!alive[i])
            continue;
        if (kind && strcmp(kind, device->accelerator))
            return NAN;
        kind = device->accelerator;
        devices += alive[i] * devices_of(&fleet->groups[i]);
    }
    return kind ? spotnik_profile_measured_s(profile, kind, devices, fleet->batch) : NAN;
}

double spotnik_fleet_step_s(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
                            const unsigned *alive)
{
    double rate = 0, fixed_s = 0, room = 0, link = INFINITY;
    unsigned machines = 0;

    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_group *group = &fleet->groups[i];
        if (!alive[i])
            continue;
        double devices = alive[i] * devices_of(group);
        rate += devices / group->device->sample_s;
        room += devices * group->device->batch_most;
        fixed_s = fmax(fixed_s, group->device->fixed_s);
        link = fmin(link, link_of(profile, group));
        machines += alive[i];
    }
    if (!machines)
        return INFINITY;
    double measured_s = measured_of(profile, fleet, alive);
    if (!isnan(measured_s))
        return measured_s;
    /* a batch that does not fit is run in as many rounds as it takes */
    double rounds = fmax(1, ceil(fleet->batch / room - 1e-9)),
           compute_s = rounds * fixed_s + fleet->batch / rate;
    return spotnik_ring_step_s(
        compute_s, spotnik_ring_allreduce_s(profile->gradient_bytes, machines, link, profile->hop_s),
        profile->overlap);
}

static double steps_of(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
                       const struct spotnik_work *work)
{
    return spotnik_profile_epochs(profile, work->epochs, fleet->batch) * profile->samples_per_epoch
           / fleet->batch;
}

static double startup_of(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet)
{
    bool waiting = true;

    for (size_t i = 0; i < fleet->group_count; i++)
        waiting = waiting && !fleet->groups[i].running;
    return waiting ? profile->startup_s + profile->join_s : 0;
}

struct spotnik_estimate spotnik_fleet_estimate(const struct spotnik_profile *profile,
                                               const struct spotnik_fleet *fleet,
                                               const struct spotnik_work *work)
{
    unsigned alive[SPOTNIK_FLEET_GROUPS] = { 0 };
    struct spotnik_estimate e;

    for (size_t i = 0; i < fleet->group_count; i++)
        alive[i] = fleet->groups[i].machines;
    e.step_s = spotnik_fleet_step_s(profile, fleet, alive);
    e.steps = steps_of(profile, fleet, work);
    e.time_s = e.steps * e.step_s + startup_of(profile, fleet);
    e.usd_per_h = spotnik_fleet_usd_per_h(fleet);
    e.cost_usd = e.time_s / 3600 * e.usd_per_h;
    return e;
}

/* One simulated run. Machines of a group are alive, or starting with a time at which they join. */
struct run {
    const struct spotnik_profile *profile;
    const struct spotnik_fleet *fleet;
    const struct spotnik_work *work;
    struct spotnik_prng prng;
    double now_s, stalled_until_s, left, kept, kept_at_s, cost_usd, slowness;
    unsigned alive[SPOTNIK_FLEET_GROUPS], starting[SPOTNIK_FLEET_GROUPS], losses;
    double joins_s[SPOTNIK_FLEET_GROUPS];
    double history_from_s[SPOTNIK_FLEET_GROUPS]; /* where in its price history the run starts */
};

static double uniform(struct run *run)
{
    return ((double)(spotnik_prng_next(&run->prng) >> 11) + 0.5) * 0x1p-53;
}

static double normal(struct run *run)
{
    double radius = sqrt(-2 * log(uniform(run)));

    return radius * cos(2 * 3.14159265358979323846 * uniform(run));
}

static double losses_per_s(const struct run *run, size_t i)
{
    const struct spotnik_group *group = &run->fleet->groups[i];
    double rate = group->offer->losses_per_h;

    if (!group->spot)
        return 0;
    if (isnan(rate))
        rate = isnan(run->work->losses_per_h) ? SPOTNIK_LOSSES_PER_H_UNKNOWN : run->work->losses_per_h;
    /* losses that take others with them are rarer, so that each machine is lost as often as the rate says */
    double others = run->alive[i] > 1 ? run->work->together * 0.5 * (run->alive[i] - 1) : 0;
    return run->alive[i] * rate / 3600 / (1 + others);
}

static unsigned total_alive(const struct run *run)
{
    unsigned total = 0;

    for (size_t i = 0; i < run->fleet->group_count; i++)
        total += run->alive[i];
    return total;
}

/* What one machine of group i pays from now on, in (USD/h) s: by the second, at the price of the moment. */
static double paid(const struct run *run, size_t i, double stretch_s)
{
    const struct spotnik_group *group = &run->fleet->groups[i];

    if (!group->spot || !group->offer->spot_prices)
        return group_usd_per_h(group) * stretch_s;
    return spotnik_prices_paid(group->offer->spot_prices, run->history_from_s[i] + run->now_s, stretch_s);
}

/* `stretch_s` passes; steps happen while nothing stalls. */
static void run_pass(struct run *run, double stretch_s, double step_s)
{
    double stalled_s = fmin(stretch_s, fmax(0, run->stalled_until_s - run->now_s));

    for (size_t i = 0; i < run->fleet->group_count; i++)
        run->cost_usd += (run->alive[i] + run->starting[i]) * paid(run, i, stretch_s) / 3600;
    if (isfinite(step_s))
        run->left -= (stretch_s - stalled_s) / step_s;
    run->now_s += stretch_s;
    if (run->now_s - run->kept_at_s >= run->profile->checkpoint_every_s) {
        run->kept = run->left;
        run->kept_at_s = run->now_s;
    }
}

static void run_lose(struct run *run, size_t i)
{
    unsigned gone = 1;

    if (uniform(run) < run->work->together)
        for (unsigned j = 1; j < run->alive[i]; j++)
            gone += uniform(run) < 0.5;
    run->alive[i] -= gone;
    run->losses += gone;
    /* replacements that start later wait for these: one wave at a time and group keeps the state small */
    run->starting[i] += gone;
    run->joins_s[i] = run->now_s + run->profile->startup_s;
    run->stalled_until_s = fmax(run->stalled_until_s, run->now_s + run->profile->recover_s);
    if (!total_alive(run))
        run->left = run->kept;
}

static void run_join(struct run *run, size_t i)
{
    run->alive[i] += run->starting[i];
    run->starting[i] = 0;
    run->joins_s[i] = INFINITY;
    run->stalled_until_s = fmax(run->stalled_until_s, run->now_s + run->profile->join_s);
}

/* Next event: a loss (drawn), a join, or the end; returns false at the end. */
static bool run_step(struct run *run)
{
    double step_s = spotnik_fleet_step_s(run->profile, run->fleet, run->alive) * run->slowness, hazard = 0;
    double next_s =
        isfinite(step_s) ? fmax(0, run->stalled_until_s - run->now_s) + run->left * step_s : INFINITY;
    size_t join = SPOTNIK_FLEET_GROUPS, count = run->fleet->group_count;
    bool lose = false;

    for (size_t i = 0; i < count; i++) {
        hazard += losses_per_s(run, i);
        if (run->joins_s[i] - run->now_s < next_s) {
            next_s = fmax(0, run->joins_s[i] - run->now_s);
            join = i;
        }
    }
    double loss_s = hazard > 0 ? -log(uniform(run)) / hazard : INFINITY;
    if (loss_s < next_s) {
        next_s = loss_s;
        lose = true;
    }
    run_pass(run, next_s, step_s);
    if (lose) {
        double pick = uniform(run) * hazard;
        for (size_t i = 0; i < count; i++) {
            double share = losses_per_s(run, i);
            if (pick < share && run->alive[i]) {
                run_lose(run, i);
                return true;
            }
            pick -= share;
        }
        return true;
    }
    if (join < count) {
        run_join(run, join);
        return true;
    }
    return false;
}

static void run_once(struct run *run)
{
    const struct spotnik_fleet *fleet = run->fleet;
    double error = run->profile->error;

    run->slowness = exp(error * normal(run) - error * error / 2);
    run->left = run->kept = steps_of(run->profile, fleet, run->work);
    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_prices *prices = fleet->groups[i].offer->spot_prices;
        run->history_from_s[i] = prices ? uniform(run) * spotnik_prices_length_s(prices) : 0;
        run->joins_s[i] = INFINITY;
        if (fleet->groups[i].running) {
            run->alive[i] = fleet->groups[i].machines;
        } else {
            run->starting[i] = fleet->groups[i].machines;
            run->joins_s[i] = run->profile->startup_s;
        }
    }
    for (unsigned events = 0; events < EVENTS_MAX && run_step(run); events++)
        ;
}

/* The trace says who comes and goes; only the error of the predicted step is drawn. */
static void run_traced(struct run *run)
{
    double error = run->profile->error, slowness = exp(error * normal(run) - error * error / 2);
    struct spotnik_replay replay = spotnik_fleet_replay(
        run->profile, run->fleet, run->work->churn, steps_of(run->profile, run->fleet, run->work), slowness);

    run->now_s = replay.time_s;
    run->cost_usd = replay.cost_usd;
    run->losses = replay.losses;
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

struct spotnik_outcome spotnik_fleet_simulate(const struct spotnik_profile *profile,
                                              const struct spotnik_fleet *fleet,
                                              const struct spotnik_work *work, double deadline_s,
                                              double budget_usd, unsigned runs, uint64_t seed)
{
    double times_s[SPOTNIK_FLEET_RUNS_MAX], costs_usd[SPOTNIK_FLEET_RUNS_MAX];
    struct spotnik_outcome o = { 0 };

    if (runs > SPOTNIK_FLEET_RUNS_MAX)
        runs = SPOTNIK_FLEET_RUNS_MAX;
    for (unsigned i = 0; i < runs; i++) {
        struct run run = { .profile = profile, .fleet = fleet, .work = work };
        spotnik_prng_seed(&run.prng, seed * 1000003 + i);
        if (work->churn)
            run_traced(&run);
        else
            run_once(&run);
        times_s[i] = run.now_s;
        costs_usd[i] = run.cost_usd;
        o.time_mean_s += run.now_s / runs;
        o.cost_mean_usd += run.cost_usd / runs;
        o.losses += (double)run.losses / runs;
        o.on_time += (run.now_s <= deadline_s) / (double)runs;
        o.in_budget += (run.cost_usd <= budget_usd) / (double)runs;
        o.both += (run.now_s <= deadline_s && run.cost_usd <= budget_usd) / (double)runs;
    }
    qsort(times_s, runs, sizeof(*times_s), by_value);
    qsort(costs_usd, runs, sizeof(*costs_usd), by_value);
    o.runs = runs;
    o.time_low_s = times_s[runs / 20];
    o.time_high_s = times_s[runs - 1 - runs / 20];
    o.cost_low_usd = costs_usd[runs / 20];
    o.cost_high_usd = costs_usd[runs - 1 - runs / 20];
    return o;
}
