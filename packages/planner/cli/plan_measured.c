/* SPDX-License-Identifier: Apache-2.0 */
/* A status knows the size of the view, and of the last changes when they came and whom they took.
 * So sizes are found from now backwards. */
#include "plan_measured.h"
#include "common/jsonfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* steps_per_s is of the last second or two: before that, another view counted */
#define RATE_S 2.0
#define DOUBT 1.0          /* what was predicted counts as much as this many recoveries */
#define MACHINE_H_DOUBT 10 /* of single losses: as if 10 hours had passed without one */
#define RATES 60           /* of a band */
#define ANY_LEAST_PER_H 1e-4
#define ANY_MOST_PER_H 5.0

struct change {
    double at_s, took_s; /* at_s: after the member came */
    double lost, joined, left;
};

static double number(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static struct change change_of(const json_t *item, double now_s, double uptime_s, double clock)
{
    double detected_s = number(item, "detected_ns") / 1e9,
           committed_s = number(item, "committed_ns") / 1e9;
    double at_s = detected_s > 0 ? detected_s : committed_s;

    return (struct change){ .at_s = fmax(0, uptime_s - (now_s - at_s) * clock),
                            .took_s = committed_s > detected_s && detected_s > 0
                                          ? (committed_s - detected_s) * clock
                                          : NAN,
                            .lost = number(item, "lost"),
                            .joined = number(item, "joined"),
                            .left = number(item, "left") };
}

/* Means of what a loss, and a newcomer, held the others up. */
static void costs_count(struct spotnik_job_measured *m, const struct change *changes, size_t count)
{
    double recover_s = 0, join_s = 0;

    for (size_t i = 0; i < count; i++) {
        const struct change *c = &changes[i];
        if (isnan(c->took_s))
            continue;
        recover_s += c->lost > 0 ? c->took_s : 0;
        m->recoveries += c->lost > 0;
        join_s += !(c->lost > 0) && c->joined > 0 ? c->took_s : 0;
        m->joins += !(c->lost > 0) && c->joined > 0;
    }
    m->recover_s = m->recoveries ? recover_s / m->recoveries : 0;
    m->join_s = m->joins ? join_s / m->joins : 0;
}

static int spot_append(struct spotnik_job_measured *m, double at_s, double size, double on_demand,
                       struct spotnik_fault *fault)
{
    return spotnik_trace_append(&m->spot, at_s, (unsigned)fmax(0, size - on_demand), fault);
}

/* Sizes over time, and what follows from them. `changes[i].lost` is what single losses took: none
 * when nobody of the place was left. */
static int sizes_follow(struct spotnik_job_measured *m, const struct change *changes, size_t count,
                        double on_demand, struct spotnik_fault *fault)
{
    double size = m->members, at_s = 0;

    for (size_t i = count; i-- > 0;)
        size += changes[i].lost + changes[i].left - changes[i].joined;
    size = fmax(size, 1); /* the member that answered */
    int rc = spot_append(m, 0, size, on_demand, fault);
    for (size_t i = 0; !rc && i <= count; i++) {
        double until_s = i < count ? fmax(at_s, changes[i].at_s) : m->uptime_s;
        m->machine_s += size * (until_s - at_s);
        m->spot_machine_s += fmax(0, size - on_demand) * (until_s - at_s);
        at_s = until_s;
        if (i == count)
            break;
        size = fmax(1, size - changes[i].lost - changes[i].left + changes[i].joined);
        m->losses += size > on_demand ? changes[i].lost : 0;
        rc = spot_append(m, at_s, size, on_demand, fault);
    }
    m->spot.length_s = fmax(m->uptime_s, at_s);
    return rc;
}

/* Since the founding, by the clocks of founder and reader; a status is read when it is written, or
 * keeps its time. */
static double since_founding_s(const char *path, const json_t *json, double clock)
{
    double born_s = number(json_object_get(json, "lineage"), "born_ms") / 1e3;
    struct stat file;

    return born_s > 0 && !stat(path, &file) ? ((double)file.st_mtime - born_s) * clock : 0;
}

int spotnik_measured_read(const char *path, const json_t *json, double on_demand, double clock,
                          struct spotnik_job_measured *measured_out, struct spotnik_fault *fault)
{
    struct spotnik_job_measured m = { 0 };
    json_t *list = json_object_get(json, "recoveries");
    size_t count = json_array_size(list);
    double rate, uptime_ns, last_s = -INFINITY;
    int rc;

    if (spotnik_json_number(path, json, "step_committed", 0, 1e18, NAN, &m.steps, fault)
        || spotnik_json_number(path, json, "size", 0, 1e6, NAN, &m.members, fault)
        || spotnik_json_number(path, json, "uptime_ns", 0, 1e20, 0, &uptime_ns, fault)
        || spotnik_json_number(path, json, "batch", 0, 1e15, 0, &m.batch, fault)
        || spotnik_json_number(path, json, "steps_per_s", 0, 1e9, 0, &rate, fault)
        || spotnik_json_number(path, json, "dollars_per_hour", 0, 1e9, 0, &m.usd_per_h, fault))
        return -1;
    struct change *changes = calloc(count + 1, sizeof(*changes));
    if (!changes)
        return spotnik_fault_set(fault, "out of memory");
    m.uptime_s = uptime_ns / 1e9 * clock;
    m.elapsed_s = fmax(m.uptime_s, since_founding_s(path, json, clock));
    for (size_t i = 0; i < count; i++) {
        changes[i] =
            change_of(json_array_get(list, i), number(json, "now_ns") / 1e9, m.uptime_s, clock);
        last_s = fmax(last_s, changes[i].at_s + (isnan(changes[i].took_s) ? 0 : changes[i].took_s));
    }
    if (rate > 0 && m.uptime_s - last_s >= RATE_S * clock
        && !json_is_true(json_object_get(json, "joining")))
        m.step_s = clock / rate;
    costs_count(&m, changes, count);
    rc = sizes_follow(&m, changes, count, on_demand, fault);
    free(changes);
    if (rc)
        spotnik_trace_free(&m.spot);
    *measured_out = m;
    return rc;
}

void spotnik_measured_end(const char *path, double clock, struct spotnik_job_measured *m)
{
    struct stat file;

    m->step_s = 0;
    if (!stat(path, &file))
        m->elapsed_s += fmax(0, (double)(time(NULL) - file.st_mtime)) * clock;
}

static double with_prior(double predicted, double mean, unsigned count)
{
    return count ? (DOUBT * predicted + mean * count) / (DOUBT + count) : predicted;
}

void spotnik_measured_teach_profile(struct spotnik_job_measured *m, const struct spotnik_wish *wish,
                                    struct spotnik_profile *profile)
{
    struct spotnik_fleet fleet = { .batch = wish->kept_batch };
    unsigned alive[SPOTNIK_FLEET_GROUPS] = { 0 };

    for (size_t i = 0; i < wish->kept_count; i++) {
        fleet.groups[fleet.group_count] = wish->kept[i];
        alive[fleet.group_count++] = wish->kept[i].running;
    }
    m->predicted_s = spotnik_fleet_step_s(profile, &fleet, alive);
    if (m->step_s > 0 && isfinite(m->predicted_s) && m->predicted_s > 0) {
        profile->pace = m->step_s / m->predicted_s;
        profile->paced_devices = spotnik_fleet_devices(&fleet, alive);
    }
    profile->recover_s = with_prior(profile->recover_s, m->recover_s, m->recoveries);
    profile->join_s = with_prior(profile->join_s, m->join_s, m->joins);
}

/* A rate that was told counts as one loss in the time that it means. */
static double rate_after(double told_per_h, double losses, double machine_h)
{
    return told_per_h > 0 ? (1 + losses) / (1 / told_per_h + machine_h)
           : losses > 0   ? losses / (MACHINE_H_DOUBT + machine_h)
                          : 0;
}

static double weight_of(double per_h, double losses, double machine_h)
{
    return exp(losses * log(per_h * fmax(machine_h, 1e-9)) - per_h * machine_h);
}

/* Rates between `low` and `high`, as likely in every decade, after the losses that were seen: the
 * middle nine tenths. Returns how likely those losses were. */
static double band_after(double losses, double machine_h, double *low, double *high)
{
    double rates[RATES], weights[RATES], total = 0, sum = 0, least = *low, most = *high;

    for (size_t i = 0; i < RATES; i++) {
        rates[i] = least * pow(most / least, (i + 0.5) / RATES);
        total += weights[i] = weight_of(rates[i], losses, machine_h);
    }
    for (size_t i = 0; i < RATES && total > 0; i++) {
        if (sum < 0.05 * total)
            *low = rates[i];
        if (sum < 0.95 * total)
            *high = rates[i];
        sum += weights[i];
    }
    return total / RATES;
}

static void band_teach(double losses, double machine_h, struct spotnik_pool *pool)
{
    double any_low = ANY_LEAST_PER_H, any_high = ANY_MOST_PER_H;
    double band =
        band_after(losses, machine_h, &pool->low_per_h, &pool->high_per_h) * (1 - pool->doubt);
    double any = band_after(losses, machine_h, &any_low, &any_high) * pool->doubt;

    if (band + any > 0)
        pool->doubt = any / (band + any);
}

void spotnik_measured_teach_place(const struct spotnik_job_measured *m,
                                  const struct spotnik_work *work, unsigned running,
                                  unsigned wanted, struct spotnik_offer *offer,
                                  struct spotnik_pool *pool)
{
    struct spotnik_group group = { .offer = offer, .spot = true };
    double machine_h = m->spot_machine_s / 3600;

    spotnik_group_pool(&group, work, pool);
    if (pool->kind == SPOTNIK_POOL_REPLAY)
        return;
    if (pool->kind == SPOTNIK_POOL_RATE)
        pool->low_per_h = pool->high_per_h = rate_after(pool->high_per_h, m->losses, machine_h);
    else if (pool->kind == SPOTNIK_POOL_BAND)
        band_teach(m->losses, machine_h, pool);
    else {
        pool->low_per_h = pool->high_per_h = rate_after(0, m->losses, machine_h);
        bool own = pool->kind == SPOTNIK_POOL_UNKNOWN;
        if (own && m->uptime_s >= SPOTNIK_AVAILABILITY_TICK_S)
            pool->belief = spotnik_belief_after(pool->availability, &m->spot, 1, INFINITY);
        pool->kind = SPOTNIK_POOL_SEEN;
        if (own && wanted && !running) { /* they are asked for, and do not come */
            pool->belief.up_known = true;
            pool->belief.up = false;
            pool->belief.age_ticks = 0;
        }
        /* what runs shows that there is capacity, whatever a trace ends with */
        if (running && !(pool->belief.up_known && pool->belief.up)) {
            pool->belief.up_known = pool->belief.up = true;
            pool->belief.age_ticks = 0;
        }
    }
    offer->pool = pool;
}
