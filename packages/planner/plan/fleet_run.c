/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of one fleet, drawn or replayed. Every machine is out, starting or up. Capacity of a pool
 * that falls below what is held takes machines away at once; when it returns, those that are out
 * are asked for again and start up. Machines also end by themselves (rates, lifetimes, caps), and
 * take others with them. Between two events the fleet steps evenly. A rescue is the end of the
 * simulation: on demand nothing happens. */
#include "plan/draw.h"
#include "plan/fleet.h"

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_MAX 20000 /* after this number, the rest of a run goes on at the rate so far */
#define MACHINES_MAX 1024
#define CORRELATION 0.45

enum state { OUT, STARTING, UP };

struct machine {
    size_t group;
    enum state state;
    double next_s; /* OUT: when it may be asked for; STARTING: when it is up */
    double ends_s; /* by itself */
};

struct run {
    const struct spotnik_profile *profile;
    const struct spotnik_fleet *fleet;
    const struct spotnik_work *work;
    struct spotnik_prng prng;
    struct spotnik_pool pools[SPOTNIK_FLEET_GROUPS];
    struct spotnik_sky skies[SPOTNIK_FLEET_GROUPS];
    size_t sky_of[SPOTNIK_FLEET_GROUPS]; /* groups may share one */
    unsigned count, up[SPOTNIK_FLEET_GROUPS], held[SPOTNIK_FLEET_GROUPS], losses;
    double now_s, stalled_until_s, left, kept, cost_usd, slowness, machine_s, short_s;
    double history_from_s[SPOTNIK_FLEET_GROUPS]; /* where in its price history the run starts */
    double move_s;        /* of the state to this fleet's region; 0 once a machine has it */
    double rescue_step_s; /* infinite: nobody comes to the rescue */
    struct machine machines[MACHINES_MAX]; /* last: cleared one by one */
};

static bool anybody(const struct run *run)
{
    for (size_t i = 0; i < run->fleet->group_count; i++)
        if (run->up[i])
            return true;
    return false;
}

/* What one machine of group i pays from now on, in (USD/h) s: by the second, at the price of the
 * moment. */
static double paid(const struct run *run, size_t i, double stretch_s)
{
    const struct spotnik_group *group = &run->fleet->groups[i];

    if (!group->spot || !group->offer->spot_prices)
        return (group->spot ? group->offer->spot_usd_per_h : group->offer->on_demand_usd_per_h)
               * stretch_s;
    return spotnik_prices_paid(group->offer->spot_prices, run->history_from_s[i] + run->now_s,
                               stretch_s);
}

/* `stretch_s` passes; steps happen while nothing stalls, and checkpoints at whole multiples of
 * their interval. */
static void run_pass(struct run *run, double stretch_s, double step_s)
{
    double until_s = run->now_s + stretch_s,
           begins_s = fmin(until_s, fmax(run->now_s, run->stalled_until_s));
    double every_s = run->profile->checkpoint_every_s, mark_s = floor(until_s / every_s) * every_s;

    bool is_short = false;

    for (size_t i = 0; i < run->fleet->group_count; i++) {
        if (run->held[i])
            run->cost_usd += run->held[i] * paid(run, i, stretch_s) / 3600;
        run->machine_s += run->up[i] * stretch_s;
        is_short = is_short || run->held[i] < run->fleet->groups[i].machines;
    }
    run->short_s += is_short ? stretch_s : 0;
    if (mark_s > run->now_s && isfinite(mark_s))
        run->kept = isfinite(step_s) ? run->left - fmax(0, mark_s - begins_s) / step_s : run->left;
    if (isfinite(step_s))
        run->left -= (until_s - begins_s) / step_s;
    run->now_s = until_s;
}

static void machine_ask(struct run *run, struct machine *machine, double startup_s)
{
    const struct spotnik_group *group = &run->fleet->groups[machine->group];

    machine->state = STARTING;
    machine->next_s = run->now_s + startup_s;
    machine->ends_s =
        group->spot
            ? run->now_s + spotnik_sky_life_s(&run->skies[run->sky_of[machine->group]], &run->prng)
            : INFINITY;
    run->held[machine->group]++;
}

/* Those of the beginning find each other; a newcomer costs the others join_s. */
static void machine_up(struct run *run, struct machine *machine)
{
    machine->state = UP;
    machine->next_s = INFINITY;
    run->up[machine->group]++;
    run->move_s = 0;
    run->stalled_until_s = fmax(run->stalled_until_s, run->now_s + run->profile->join_s);
}

static void machine_gone(struct run *run, struct machine *machine, double again_s)
{
    bool was_up = machine->state == UP;

    machine->state = OUT;
    machine->next_s = again_s;
    machine->ends_s = INFINITY;
    run->held[machine->group]--;
    if (!was_up)
        return;
    run->up[machine->group]--;
    run->losses++;
    run->stalled_until_s = fmax(run->stalled_until_s, run->now_s + run->profile->recover_s);
    if (!anybody(run))
        run->left = run->kept;
}

/* One ends by itself, and may take others of its group with it. */
static void machine_end(struct run *run, struct machine *machine)
{
    size_t group = machine->group;
    struct spotnik_sky *sky = &run->skies[run->sky_of[group]];
    bool together = sky->losses_per_h > 0 && spotnik_draw_uniform(&run->prng) < run->work->together;

    machine_gone(run, machine, run->now_s + spotnik_sky_wait_s(sky, &run->prng));
    for (unsigned i = 0; together && i < run->count; i++)
        if (run->machines[i].group == group && run->machines[i].state == UP
            && spotnik_draw_uniform(&run->prng) < 0.5)
            machine_gone(run, &run->machines[i], run->now_s + spotnik_sky_wait_s(sky, &run->prng));
}

/* How many the group may hold. Groups that are replayed share the machines of one trace. */
static unsigned group_most(const struct run *run, size_t group)
{
    const struct spotnik_fleet *fleet = run->fleet;
    unsigned most, others = 0;

    if (!fleet->groups[group].spot)
        return UINT_MAX;
    most = run->skies[run->sky_of[group]].machines;
    if (most == UINT_MAX || run->pools[group].kind != SPOTNIK_POOL_REPLAY)
        return most;
    for (size_t i = 0; i < fleet->group_count; i++)
        others += i != group && fleet->groups[i].spot ? run->held[i] : 0;
    return most > others ? most - others : 0;
}

/* Takes away what capacity no longer covers (those that start first, then any), and asks for what
 * it covers again. */
static void group_fit(struct run *run, size_t group)
{
    unsigned most = group_most(run, group);

    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned i = run->count; run->held[group] > most && i-- > 0;)
            if (run->machines[i].group == group && run->machines[i].state == (pass ? UP : STARTING))
                machine_gone(run, &run->machines[i], run->now_s);
    for (unsigned i = 0; i < run->count && run->held[group] < most; i++) {
        struct machine *machine = &run->machines[i];
        if (machine->group == group && machine->state == OUT && machine->next_s <= run->now_s)
            machine_ask(run, machine, run->profile->startup_s + run->move_s);
    }
}

/* Capacity of one kind of machine in the zones of a region goes together: series of availability
 * have a correlation of .35 to .59 (.45 on average) there, and of about nothing between kinds. So
 * two pools of which nothing was seen are one in that share of the runs. */
static size_t sky_share(struct run *run, size_t group)
{
    const struct spotnik_group *own = &run->fleet->groups[group];

    for (size_t i = 0; i < group; i++) {
        const struct spotnik_group *other = &run->fleet->groups[i];
        if (other->spot && run->pools[group].kind == SPOTNIK_POOL_REPLAY)
            return i;
        bool alike = other->spot && !strcmp(other->offer->accelerator, own->offer->accelerator)
                     && !strcasecmp(other->offer->region, own->offer->region);
        if (alike && run->pools[i].kind != SPOTNIK_POOL_SEEN
            && run->pools[group].kind == run->pools[i].kind
            && spotnik_draw_uniform(&run->prng) < CORRELATION)
            return run->sky_of[i];
    }
    return group;
}

static void run_start(struct run *run, double from_s)
{
    run->move_s = spotnik_fleet_move_s(run->profile, run->fleet, run->work);
    for (size_t i = 0; i < run->fleet->group_count; i++) {
        const struct spotnik_group *group = &run->fleet->groups[i];
        const struct spotnik_prices *prices = group->offer->spot_prices;
        run->history_from_s[i] =
            prices ? spotnik_draw_uniform(&run->prng) * spotnik_prices_length_s(prices) : 0;
        spotnik_group_pool(group, run->work, &run->pools[i]);
        run->sky_of[i] = group->spot ? sky_share(run, i) : i;
        if (group->spot && run->sky_of[i] == i) {
            spotnik_sky_start(&run->skies[i], &run->pools[i], from_s, &run->prng);
            /* losses that take others with them are rarer, so that each machine is lost as often as
             * the rate says */
            run->skies[i].losses_per_h /= 1 + run->work->together * 0.5 * (group->machines - 1);
        }
        for (unsigned j = 0; j < group->machines && run->count < MACHINES_MAX; j++) {
            struct machine *machine = &run->machines[run->count++];
            *machine = (struct machine){ .group = i, .state = OUT, .ends_s = INFINITY };
            if (j >= group->running)
                continue;
            machine_ask(run, machine, 0);
            machine->state = UP;
            machine->next_s = INFINITY;
            run->up[i]++;
        }
        group_fit(run, i);
    }
}

/* The next instant at which anything happens but the end. */
static double next_event_s(const struct run *run)
{
    double next_s = INFINITY;

    for (size_t i = 0; i < run->fleet->group_count; i++)
        if (run->fleet->groups[i].spot && run->sky_of[i] == i)
            next_s = fmin(next_s, run->skies[i].changes_s);
    for (unsigned i = 0; i < run->count; i++) {
        const struct machine *machine = &run->machines[i];
        if (machine->state != OUT || machine->next_s > run->now_s)
            next_s = fmin(next_s, machine->next_s);
        next_s = fmin(next_s, machine->ends_s);
    }
    return next_s;
}

static void run_events(struct run *run)
{
    for (size_t i = 0; i < run->fleet->group_count; i++)
        while (run->fleet->groups[i].spot && run->sky_of[i] == i
               && run->skies[i].changes_s <= run->now_s)
            spotnik_sky_change(&run->skies[i], &run->prng);
    for (unsigned i = 0; i < run->count; i++) {
        struct machine *machine = &run->machines[i];
        if (machine->state != OUT && machine->ends_s <= run->now_s)
            machine_end(run, machine);
        else if (machine->state == STARTING && machine->next_s <= run->now_s)
            machine_up(run, machine);
    }
    for (size_t i = 0; i < run->fleet->group_count; i++)
        group_fit(run, i);
}

/* Seconds from now on for which the rescue may wait. */
static double rescue_slack_s(const struct run *run)
{
    const struct spotnik_rescue *rescue = run->work->rescue;
    double margin_s = rescue->every_s + run->profile->startup_s + run->profile->join_s;

    return rescue->by_s - run->now_s - margin_s - run->left * run->rescue_step_s;
}

/* Only spot machines are rescued, and only by a fleet that could be in time at the beginning. */
static void rescue_start(struct run *run)
{
    const struct spotnik_rescue *rescue = run->work->rescue;
    unsigned alive[SPOTNIK_FLEET_GROUPS] = { 0 };
    bool spot = false;

    run->rescue_step_s = INFINITY;
    for (size_t i = 0; i < run->fleet->group_count; i++)
        spot = spot || run->fleet->groups[i].spot;
    if (!rescue || !spot)
        return;
    struct spotnik_fleet fleet = rescue->fleet;
    fleet.batch = run->fleet->batch;
    for (size_t i = 0; i < fleet.group_count; i++)
        alive[i] = fleet.groups[i].machines;
    run->rescue_step_s = spotnik_fleet_step_s(run->profile, &fleet, alive) * run->slowness;
    if (!(rescue_slack_s(run) >= 0))
        run->rescue_step_s = INFINITY;
}

/* When the rescue takes over if nothing else happens. Slack goes with the time while the fleet
 * stalls, and after that by what the fleet is slower than the rescue. A fleet that will be in time
 * as it is needs none. */
static double rescue_s(const struct run *run, double step_s, double done_s)
{
    if (!isfinite(run->rescue_step_s) || done_s <= run->work->rescue->by_s)
        return INFINITY;
    double slack_s = fmax(0, rescue_slack_s(run)),
           stall_s = fmax(0, run->stalled_until_s - run->now_s);
    if (slack_s <= stall_s || !isfinite(step_s))
        return run->now_s + slack_s;
    double falls = 1 - run->rescue_step_s / step_s;
    return falls > 0 ? run->now_s + stall_s + (slack_s - stall_s) / falls : INFINITY;
}

/* What ran is given back, and the rescue is paid from its start-up on. */
static void rescue_run(struct run *run)
{
    double stretch_s =
        run->profile->startup_s + run->profile->join_s + run->left * run->rescue_step_s;

    run->now_s += stretch_s;
    run->machine_s += stretch_s * spotnik_fleet_machines(&run->work->rescue->fleet);
    run->cost_usd += stretch_s / 3600 * spotnik_fleet_usd_per_h(&run->work->rescue->fleet);
    run->left = 0;
}

/* True at the end of the job. */
static bool run_step(struct run *run)
{
    double step_s = spotnik_fleet_step_s(run->profile, run->fleet, run->up) * run->slowness;
    double done_s =
        isfinite(step_s) ? fmax(run->now_s, run->stalled_until_s) + run->left * step_s : INFINITY;
    double next_s = next_event_s(run), rescued_s = rescue_s(run, step_s, done_s);

    if (rescued_s <= next_s && rescued_s < done_s) {
        run_pass(run, rescued_s - run->now_s, step_s);
        rescue_run(run);
        return true;
    }
    if (done_s <= next_s) {
        bool never = isinf(done_s);
        if (never)
            run->now_s = run->cost_usd = INFINITY;
        else
            run_pass(run, done_s - run->now_s, step_s);
        return true;
    }
    run_pass(run, next_s - run->now_s, step_s);
    run_events(run);
    return false;
}

/* A run of this number of events has met all kinds: the rest takes and costs as the part done. */
static void run_extend(struct run *run, double steps)
{
    double done = steps - run->left, factor = done > 0 ? steps / done : INFINITY;

    run->now_s *= factor;
    run->cost_usd *= factor;
}

static struct spotnik_run run_once(const struct spotnik_profile *profile,
                                   const struct spotnik_fleet *fleet,
                                   const struct spotnik_work *work, double steps, double from_s,
                                   uint64_t seed)
{
    struct run run;
    double error = spotnik_fleet_error(profile, fleet);
    unsigned events = 0;

    memset(&run, 0, offsetof(struct run, machines));
    run.profile = profile;
    run.fleet = fleet;
    run.work = work;
    run.left = run.kept = steps;
    spotnik_prng_seed(&run.prng, seed);
    run.slowness = exp(error * spotnik_draw_normal(&run.prng) - error * error / 2);
    run_start(&run, from_s);
    rescue_start(&run);
    while (!run_step(&run))
        if (++events == EVENTS_MAX) {
            run_extend(&run, steps);
            break;
        }
    if (isfinite(run.now_s))
        run.cost_usd += spotnik_fleet_extra_usd(profile, fleet, work, run.now_s);
    return (struct spotnik_run){ .time_s = run.now_s,
                                 .cost_usd = run.cost_usd,
                                 .machine_s = run.machine_s,
                                 .short_share = run.now_s > 0 && isfinite(run.now_s)
                                                    ? run.short_s / run.now_s
                                                    : 1,
                                 .losses = run.losses };
}

struct spotnik_run spotnik_fleet_replay(const struct spotnik_profile *profile,
                                        const struct spotnik_fleet *fleet,
                                        const struct spotnik_work *work, double from_s)
{
    return run_once(profile, fleet, work, spotnik_fleet_steps(profile, fleet, work), from_s, 1);
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* By how much capacity was short. */
static int by_shortage(const void *left, const void *right)
{
    const struct spotnik_run *a = left, *b = right;

    return (a->short_share > b->short_share) - (a->short_share < b->short_share);
}

/* The best, the middle and the worst third of the runs, by how much of the time capacity was
 * short. */
static void outcome_thirds(struct spotnik_run *runs, unsigned count, double deadline_s,
                           double budget_usd, struct spotnik_outcome *o)
{
    qsort(runs, count, sizeof(*runs), by_shortage);
    for (unsigned third = 0; third < 3; third++) {
        unsigned from = third * count / 3, until = (third + 1) * count / 3, good = 0;
        for (unsigned i = from; i < until; i++)
            good += runs[i].time_s <= deadline_s && runs[i].cost_usd <= budget_usd;
        o->third_both[third] = until > from ? (double)good / (until - from) : 0;
        o->third_short[third] = until > from ? runs[until - 1].short_share : 0;
    }
}

struct spotnik_outcome spotnik_fleet_simulate(const struct spotnik_profile *profile,
                                              const struct spotnik_fleet *fleet,
                                              const struct spotnik_work *work, double deadline_s,
                                              double budget_usd, unsigned runs, uint64_t seed)
{
    double times_s[SPOTNIK_FLEET_RUNS_MAX], costs_usd[SPOTNIK_FLEET_RUNS_MAX];
    struct spotnik_run list[SPOTNIK_FLEET_RUNS_MAX];
    double steps = spotnik_fleet_steps(profile, fleet, work);
    struct spotnik_outcome o = { 0 };

    if (runs > SPOTNIK_FLEET_RUNS_MAX)
        runs = SPOTNIK_FLEET_RUNS_MAX;
    for (unsigned i = 0; i < runs; i++) {
        struct spotnik_run run = run_once(profile, fleet, work, steps, NAN, seed * 1000003 + i);
        bool in_time = run.time_s <= deadline_s, in_budget = run.cost_usd <= budget_usd;
        list[i] = run;
        times_s[i] = run.time_s;
        costs_usd[i] = run.cost_usd;
        o.time_mean_s += run.time_s / runs;
        o.cost_mean_usd += run.cost_usd / runs;
        o.losses += (double)run.losses / runs;
        o.machine_h += run.machine_s / 3600 / runs;
        o.on_time += in_time;
        o.in_budget += in_budget;
        o.both += in_time && in_budget;
    }
    o.on_time /= runs;
    o.in_budget /= runs;
    o.both /= runs;
    qsort(times_s, runs, sizeof(*times_s), by_value);
    qsort(costs_usd, runs, sizeof(*costs_usd), by_value);
    o.runs = runs;
    o.time_low_s = times_s[runs / 20];
    o.time_high_s = times_s[runs - 1 - runs / 20];
    o.cost_low_usd = costs_usd[runs / 20];
    o.cost_high_usd = costs_usd[runs - 1 - runs / 20];
    outcome_thirds(list, runs, deadline_s, budget_usd, &o);
    return o;
}
