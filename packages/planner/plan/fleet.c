/* SPDX-License-Identifier: Apache-2.0 */
/* Speed and closed-form estimates of one fleet. Which fleets to look at is planner.c's business,
 * runs are fleet_run.c's. */
#include "plan/fleet.h"
#include "plan/ring_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINK_GBPS_UNKNOWN 5.0
/* Relative standard error that each doubling of the devices adds, beyond what was measured:
 * research/figures/plan_intervals.py */
#define DOUBLING_ERROR 0.13

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
    return group->offer->accelerators > 0 ? group->offer->accelerators
                                          : fmax(1, group->offer->vcpus);
}

static double link_of(const struct spotnik_profile *profile, const struct spotnik_group *group)
{
    double gbps = isnan(group->offer->link_gbps) ? LINK_GBPS_UNKNOWN : group->offer->link_gbps;

    return profile->link_bytes_per_s > 0 ? profile->link_bytes_per_s : gbps * 1e9 / 8;
}

/* The kind of all machines; NULL when they are of several. */
static const char *kind_of(const struct spotnik_fleet *fleet, const unsigned *alive)
{
    const char *kind = NULL;

    for (size_t i = 0; i < fleet->group_count; i++) {
        const char *own = fleet->groups[i].device->accelerator;
        if (alive[i] && kind && strcmp(kind, own))
            return NULL;
        kind = alive[i] ? own : kind;
    }
    return kind;
}

double spotnik_fleet_devices(const struct spotnik_fleet *fleet, const unsigned *alive)
{
    double devices = 0;

    for (size_t i = 0; i < fleet->group_count; i++)
        devices += alive[i] * devices_of(&fleet->groups[i]);
    return devices;
}

/* A step that was measured with as many devices of one machine; NAN when none was. */
static double measured_of(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
                          const unsigned *alive)
{
    const char *kind = kind_of(fleet, alive);

    return kind ? spotnik_profile_measured_s(profile, kind, spotnik_fleet_devices(fleet, alive),
                                             fleet->batch)
                : NAN;
}

/* Members of one machine add up in its memory: each writes, reads and copies what it reduces. */
static double host_s(const struct spotnik_profile *profile, double devices)
{
    return devices > 1 ? devices * profile->gradient_bytes / profile->host_bytes_per_s : 0;
}

static double predicted_step_s(const struct spotnik_profile *profile,
                               const struct spotnik_fleet *fleet, const unsigned *alive)
{
    double rate = 0, fixed_s = 0, room = 0, link = INFINITY, memory_s = 0;
    unsigned machines = 0;

    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_group *group = &fleet->groups[i];
        if (!alive[i])
            continue;
        double each = devices_of(group), slower = 1 + group->device->contention * (each - 1);
        rate += alive[i] * each / (group->device->sample_s * slower);
        room += alive[i] * each * group->device->batch_most;
        fixed_s = fmax(fixed_s, group->device->fixed_s * slower);
        link = fmin(link, link_of(profile, group));
        memory_s = fmax(memory_s, host_s(profile, each));
        machines += alive[i];
    }
    if (!machines)
        return INFINITY;
    /* a batch that does not fit is run in as many rounds as it takes */
    double rounds = fmax(1, ceil(fleet->batch / room - 1e-9)),
           compute_s = rounds * fixed_s + fleet->batch / rate,
           between_s =
               spotnik_ring_allreduce_s(profile->gradient_bytes, machines, link, profile->hop_s);
    /* memory and ring work on different pieces at a time */
    double step_s = spotnik_ring_step_s(compute_s, fmax(memory_s, between_s), profile->overlap)
                    + profile->skew_s * spotnik_skew_growth(spotnik_fleet_devices(fleet, alive)),
           measured_s = measured_of(profile, fleet, alive);
    return isnan(measured_s) ? step_s : machines == 1 ? measured_s : fmax(measured_s, step_s);
}

double spotnik_fleet_doublings(const struct spotnik_profile *profile,
                               const struct spotnik_fleet *fleet)
{
    unsigned all[SPOTNIK_FLEET_GROUPS];
    double measured = profile->paced_devices;

    for (size_t i = 0; i < fleet->group_count; i++) {
        all[i] = fleet->groups[i].machines;
        measured =
            fmax(measured,
                 spotnik_profile_measured_most(profile, fleet->groups[i].device->accelerator));
    }
    return fmax(0, log2(spotnik_fleet_devices(fleet, all) / measured));
}

double spotnik_fleet_error(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet)
{
    return hypot(profile->error, DOUBLING_ERROR * sqrt(spotnik_fleet_doublings(profile, fleet)));
}

double spotnik_fleet_step_s(const struct spotnik_profile *profile,
                            const struct spotnik_fleet *fleet, const unsigned *alive)
{
    return predicted_step_s(profile, fleet, alive) * (profile->pace > 0 ? profile->pace : 1);
}

void spotnik_group_pool(const struct spotnik_group *group, const struct spotnik_work *work,
                        struct spotnik_pool *pool_out)
{
    const struct spotnik_offer *offer = group->offer;
    struct spotnik_pool pool = { .lives = work->lives,
                                 .cap_s = work->cap_s,
                                 .doubt = offer->losses_doubt };

    pool.availability = work->availability        ? work->availability
                        : offer->accelerators > 0 ? &spotnik_availability_accelerators
                                                  : &spotnik_availability_processors;
    pool.belief = spotnik_belief_unknown(pool.availability);
    if (work->churn) {
        pool.kind = SPOTNIK_POOL_REPLAY;
        pool.trace = work->churn;
    } else if (offer->pool) {
        pool.kind = offer->pool->kind;
        pool.availability = offer->pool->availability;
        pool.belief = offer->pool->belief;
        pool.trace = offer->pool->trace;
        pool.low_per_h = offer->pool->low_per_h;
        pool.high_per_h = offer->pool->high_per_h;
        pool.doubt = offer->pool->doubt;
    } else if (!isnan(offer->losses_per_h)) {
        pool.kind = offer->losses_most_per_h > 0 ? SPOTNIK_POOL_BAND : SPOTNIK_POOL_RATE;
        pool.low_per_h = offer->losses_per_h;
        pool.high_per_h = fmax(offer->losses_per_h, offer->losses_most_per_h);
    } else if (!isnan(work->losses_per_h)) {
        pool.kind = SPOTNIK_POOL_RATE;
        pool.low_per_h = pool.high_per_h = work->losses_per_h;
    }
    *pool_out = pool;
}

double spotnik_fleet_steps(const struct spotnik_profile *profile, const struct spotnik_fleet *fleet,
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

/* How many regions of the fleet are not `home`. */
static unsigned regions_beside(const struct spotnik_fleet *fleet, const char *home)
{
    unsigned regions = 0;

    for (size_t i = 0; home && i < fleet->group_count; i++) {
        const char *region = fleet->groups[i].offer->region;
        bool again = !strcasecmp(region, home);
        for (size_t j = 0; j < i; j++)
            again = again || !strcasecmp(region, fleet->groups[j].offer->region);
        regions += !again;
    }
    return regions;
}

double spotnik_fleet_extra_usd(const struct spotnik_profile *profile,
                               const struct spotnik_fleet *fleet, const struct spotnik_work *work,
                               double time_s)
{
    double kept_usd = SPOTNIK_CHECKPOINTS_KEPT * profile->state_bytes / 1e9
                      * work->storage_usd_per_gb_month * time_s / (730 * 3600);
    double data_gb = regions_beside(fleet, work->data_region) * work->data_gb;
    double state_gb = regions_beside(fleet, work->state_region) * profile->state_bytes / 1e9;

    return kept_usd + (data_gb + state_gb) * work->egress_usd_per_gb;
}

double spotnik_fleet_move_s(const struct spotnik_profile *profile,
                            const struct spotnik_fleet *fleet, const struct spotnik_work *work)
{
    for (size_t i = 0; work->state_region && i < fleet->group_count; i++)
        if (!strcasecmp(fleet->groups[i].offer->region, work->state_region))
            return 0;
    return work->state_region ? profile->state_bytes / 1e9 * SPOTNIK_MOVE_S_PER_GB : 0;
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
    e.steps = spotnik_fleet_steps(profile, fleet, work);
    e.time_s = e.steps * e.step_s + startup_of(profile, fleet)
               + spotnik_fleet_move_s(profile, fleet, work);
    e.usd_per_h = spotnik_fleet_usd_per_h(fleet);
    e.cost_usd =
        e.time_s / 3600 * e.usd_per_h + spotnik_fleet_extra_usd(profile, fleet, work, e.time_s);
    return e;
}
