/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace. Machines come up and go one at a time; between two such events the fleet steps evenly. */
#include "plan/replay.h"
#include "plan/fleet.h"

#include <math.h>

#define MACHINES_MAX 1024

struct machine {
    size_t group;
    bool held, up;
    double added_s, up_s; /* when it was added; when it is up (infinite: not held) */
};

struct run {
    const struct spotnik_profile *profile;
    const struct spotnik_fleet *fleet;
    struct machine machines[MACHINES_MAX];
    unsigned count, alive[SPOTNIK_FLEET_GROUPS];
    double now_s, left, kept, stalled_until_s, slowness; /* kept: what was left at the last checkpoint */
    struct spotnik_replay result;
};

static void machine_add(struct machine *machine, double at_s, double startup_s)
{
    if (machine->held)
        return;
    machine->held = true;
    machine->added_s = at_s;
    machine->up_s = at_s + startup_s;
}

static void machine_bill(struct run *run, const struct machine *machine)
{
    const struct spotnik_group *group = &run->fleet->groups[machine->group];
    double usd_per_h = group->spot ? group->offer->spot_usd_per_h : group->offer->on_demand_usd_per_h;

    run->result.cost_usd += (run->now_s - machine->added_s) / 3600 * usd_per_h;
}

static void machine_remove(struct run *run, struct machine *machine)
{
    if (!machine->held)
        return;
    machine_bill(run, machine);
    machine->held = false;
    if (!machine->up)
        return;
    machine->up = false;
    run->alive[machine->group]--;
    run->result.losses++;
    run->stalled_until_s = fmax(run->stalled_until_s, run->now_s + run->profile->recover_s);
    if (isinf(spotnik_fleet_step_s(run->profile, run->fleet, run->alive)))
        run->left = run->kept; /* nobody is left */
}

/* Those of the beginning find each other; later ones join a running job. */
static void machine_up(struct run *run, struct machine *machine)
{
    bool first = true;

    for (size_t i = 0; i < run->fleet->group_count; i++)
        first = first && !run->alive[i];
    machine->up = true;
    run->alive[machine->group]++;
    if (!first && machine->added_s > 0)
        run->stalled_until_s = fmax(run->stalled_until_s, run->now_s + run->profile->join_s);
}

/* The machines of the fleet; node j of the trace is the j-th spot one. Those without a node start at once. */
static void machines_make(struct run *run, const struct spotnik_churn *churn, struct machine **of_node)
{
    unsigned spot = 0;

    for (size_t i = 0; i < run->fleet->group_count; i++) {
        const struct spotnik_group *group = &run->fleet->groups[i];
        for (unsigned j = 0; j < group->machines && run->count < MACHINES_MAX; j++) {
            struct machine *machine = &run->machines[run->count++];
            *machine = (struct machine){ .group = i };
            if (group->spot && spot < churn->nodes)
                of_node[spot++] = machine;
            else
                machine_add(machine, 0, group->running ? 0 : run->profile->startup_s);
        }
    }
}

/* Steps until `until_s`, or until the work is done; true when it is. */
static bool run_until(struct run *run, double until_s)
{
    double step_s = spotnik_fleet_step_s(run->profile, run->fleet, run->alive) * run->slowness;
    double begins_s = fmax(run->now_s, run->stalled_until_s);

    if (isfinite(step_s) && begins_s + run->left * step_s <= until_s) {
        run->now_s = begins_s + run->left * step_s;
        return true;
    }
    double mark_s = floor(until_s / run->profile->checkpoint_every_s) * run->profile->checkpoint_every_s;
    if (mark_s > run->now_s && isfinite(mark_s))
        run->kept = isfinite(step_s) ? run->left - fmax(0, mark_s - begins_s) / step_s : run->left;
    if (isfinite(step_s))
        run->left -= fmax(0, until_s - begins_s) / step_s;
    run->now_s = until_s;
    return false;
}

static struct machine *next_up(struct run *run)
{
    struct machine *next = NULL;

    for (unsigned i = 0; i < run->count; i++) {
        struct machine *machine = &run->machines[i];
        if (machine->held && !machine->up && (!next || machine->up_s < next->up_s))
            next = machine;
    }
    return next;
}

static void bill_all(struct run *run)
{
    for (unsigned i = 0; i < run->count; i++)
        if (run->machines[i].held)
            machine_bill(run, &run->machines[i]);
    run->result.time_s = run->now_s;
}

struct spotnik_replay spotnik_fleet_replay(const struct spotnik_profile *profile,
                                           const struct spotnik_fleet *fleet,
                                           const struct spotnik_churn *churn, double steps, double slowness)
{
    struct machine *of_node[MACHINES_MAX] = { NULL };
    struct run run = {
        .profile = profile, .fleet = fleet, .left = steps, .kept = steps, .slowness = slowness
    };
    size_t at = 0;

    machines_make(&run, churn, of_node);
    for (;;) {
        struct machine *up = next_up(&run);
        double event_s = at < churn->count ? churn->events[at].at_s : INFINITY;
        double until_s = fmin(event_s, up ? up->up_s : INFINITY);
        if (run_until(&run, until_s))
            break;
        if (isinf(until_s)) {
            run.result.time_s = run.result.cost_usd = INFINITY;
            return run.result;
        }
        if (up && up->up_s <= event_s) {
            machine_up(&run, up);
            continue;
        }
        const struct spotnik_churn_event *event = &churn->events[at++];
        struct machine *machine = event->node < MACHINES_MAX ? of_node[event->node] : NULL;
        if (machine && event->add)
            machine_add(machine, event->at_s, profile->startup_s);
        else if (machine)
            machine_remove(&run, machine);
    }
    bill_all(&run);
    return run.result;
}
