/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a place, and futures drawn from that. Learning is in availability_learn.c. */
#include "plan/availability.h"
#include "plan/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HOURS_DOUBT 2.0 /* ends that count as much as what regimes say of a part of the day */
#define HOURS_ROUNDS 3  /* the filter needs the hours, and the hours its beliefs */
/* Deviation of places, in log odds, by the square root of hours; and the longest that was measured
 * (docs/results/plan.md). */
#define PLACES_DIFFER 0.12
#define PLACES_MOST_H 36.0
#define NINE_OF_TEN 1.645
#define SWITCHES_MAX 100000 /* changes of regime in one stretch without a change of capacity */

const unsigned spotnik_availability_ages[SPOTNIK_AGES - 1] = { 2, 4, 8, 18, 48 };

size_t spotnik_availability_bucket(unsigned age_ticks)
{
    size_t bucket = 0;

    while (bucket < SPOTNIK_AGES - 1 && age_ticks >= spotnik_availability_ages[bucket])
        bucket++;
    return bucket;
}

unsigned char *spotnik_availability_ticks(const struct spotnik_trace *trace, unsigned machines,
                                          double until_s, size_t *count_out)
{
    size_t count = (size_t)(fmin(until_s, trace->length_s - 1e-3) / SPOTNIK_AVAILABILITY_TICK_S)
                   + 1; /* the last instant too */
    unsigned char *ticks = malloc(count + 1);
    double stays_s;

    for (size_t i = 0; ticks && i < count; i++)
        ticks[i] =
            spotnik_trace_at(trace, (double)i * SPOTNIK_AVAILABILITY_TICK_S, &stays_s) >= machines;
    *count_out = ticks ? count : 0;
    return ticks;
}

struct spotnik_belief spotnik_belief_unknown(const struct spotnik_availability *availability)
{
    struct spotnik_belief belief = { .up_known = false };

    memcpy(belief.chance, availability->share, sizeof(belief.chance));
    for (size_t i = 0; i < SPOTNIK_HOURS; i++)
        belief.hours[0][i] = belief.hours[1][i] = 1;
    return belief;
}

static size_t hours_of(unsigned tick_of_day)
{
    return tick_of_day % SPOTNIK_TICKS_A_DAY * SPOTNIK_HOURS / SPOTNIK_TICKS_A_DAY;
}

static double by_hours(double end, double factor)
{
    return factor == 1 ? end : -expm1(log1p(-end) * factor);
}

/* Ends that were seen, and that the regimes would have had, by part of the day. */
struct day {
    double seen[2][SPOTNIK_HOURS], expected[2][SPOTNIK_HOURS];
};

static void day_count(struct day *day, const struct spotnik_availability *availability,
                      const double *belief, unsigned tick, bool up, unsigned age, bool ended)
{
    size_t hours = hours_of(tick), bucket = spotnik_availability_bucket(age);

    day->seen[up][hours] += ended;
    for (size_t r = 0; r < availability->regimes; r++)
        day->expected[up][hours] += belief[r] * availability->end[r][up][bucket];
}

/* One tick of the filter: what happened at its end, then where the regime may have gone. Ends are
 * `factor` times as likely in this part of the day. */
static void follow(const struct spotnik_availability *availability, double *belief, bool up,
                   unsigned age, bool ended, double factor)
{
    double next[SPOTNIK_REGIMES_MAX] = { 0 }, total = 0;
    size_t bucket = spotnik_availability_bucket(age);

    for (size_t r = 0; r < availability->regimes; r++) {
        double end = by_hours(availability->end[r][up][bucket], factor),
               weight = belief[r] * (ended ? end : 1 - end);
        for (size_t to = 0; to < availability->regimes; to++)
            next[to] += weight * availability->go[r][to];
        total += weight;
    }
    for (size_t r = 0; r < availability->regimes; r++)
        belief[r] = total > 0 ? next[r] / total : availability->share[r];
}

/* Follows the ticks with the hours of `belief`, and counts what its regimes expected without
 * them. */
static void follow_all(const struct spotnik_availability *availability, const unsigned char *ticks,
                       size_t count, struct spotnik_belief *belief, struct day *day)
{
    unsigned age = 0;

    memcpy(belief->chance, availability->share, sizeof(belief->chance));
    for (size_t i = 0; i + 1 < count; i++) {
        bool up = ticks[i], ended = ticks[i + 1] != ticks[i];
        unsigned tick = (unsigned)(i % SPOTNIK_TICKS_A_DAY);
        day_count(day, availability, belief->chance, tick, up, age, ended);
        follow(availability, belief->chance, up, age, ended, belief->hours[up][hours_of(tick)]);
        age = ended ? 0 : age + 1;
    }
    belief->up_known = true;
    belief->up = ticks[count - 1];
    belief->age_ticks = age;
    belief->tick_of_day = (unsigned)((count - 1) % SPOTNIK_TICKS_A_DAY);
}

struct spotnik_belief spotnik_belief_after(const struct spotnik_availability *availability,
                                           const struct spotnik_trace *trace, unsigned machines,
                                           double until_s)
{
    struct spotnik_belief belief = spotnik_belief_unknown(availability);
    size_t count;
    unsigned char *ticks = spotnik_availability_ticks(trace, machines, until_s, &count);

    for (unsigned round = 0; count && round < HOURS_ROUNDS; round++) {
        struct day day = { 0 };
        follow_all(availability, ticks, count, &belief, &day);
        for (size_t up = 0; up < 2; up++)
            for (size_t i = 0; i < SPOTNIK_HOURS; i++)
                belief.hours[up][i] =
                    (day.seen[up][i] + HOURS_DOUBT) / (day.expected[up][i] + HOURS_DOUBT);
    }
    free(ticks);
    return belief;
}

void spotnik_belief_range(double chance, double ahead_s, double *low_out, double *high_out)
{
    double apart = NINE_OF_TEN * PLACES_DIFFER * sqrt(fmin(ahead_s / 3600, PLACES_MOST_H));
    double odds = chance / (1 - chance);

    *low_out = chance < 1 ? odds / (odds + exp(apart)) : 1;
    *high_out = chance < 1 ? odds / (odds + exp(-apart)) : 1;
}

void spotnik_path_start(struct spotnik_path *path, const struct spotnik_availability *availability,
                        const struct spotnik_belief *belief, struct spotnik_prng *prng)
{
    path->availability = availability;
    path->regime = spotnik_draw_index(prng, belief->chance, availability->regimes);
    path->up =
        belief->up_known ? belief->up : spotnik_draw_uniform(prng) < availability->up[path->regime];
    path->age_ticks = belief->age_ticks;
    path->tick_of_day = belief->tick_of_day;
    path->belief = belief;
}

double spotnik_path_next_s(struct spotnik_path *path, struct spotnik_prng *prng)
{
    const struct spotnik_availability *availability = path->availability;
    double ticks = 0;

    for (unsigned i = 0; i < SWITCHES_MAX; i++) {
        size_t bucket = spotnik_availability_bucket(path->age_ticks),
               hours = hours_of(path->tick_of_day);
        double room = bucket < SPOTNIK_AGES - 1
                          ? spotnik_availability_ages[bucket] - path->age_ticks
                          : INFINITY;
        double chance = availability->end[path->regime][path->up][bucket],
               factor = path->belief->hours[path->up][hours];
        if (factor != 1) {
            chance = by_hours(chance, factor);
            room = fmin(room, (double)((hours + 1) * SPOTNIK_TICKS_A_DAY / SPOTNIK_HOURS
                                       - path->tick_of_day));
        }
        double end = spotnik_draw_trials(prng, chance);
        double go = spotnik_draw_trials(prng, 1 - availability->go[path->regime][path->regime]);
        double pass = fmin(fmin(end, go), room);
        if (isinf(pass))
            return INFINITY;
        ticks += pass;
        path->age_ticks += (unsigned)fmin(pass, 1e6);
        path->tick_of_day = (path->tick_of_day + (unsigned)fmin(pass, 1e6)) % SPOTNIK_TICKS_A_DAY;
        if (go <= pass) {
            double others[SPOTNIK_REGIMES_MAX];
            memcpy(others, availability->go[path->regime], sizeof(others));
            others[path->regime] = 0;
            path->regime = spotnik_draw_index(prng, others, availability->regimes);
        }
        if (end <= pass) {
            path->up = !path->up;
            path->age_ticks = 0;
            return ticks * SPOTNIK_AVAILABILITY_TICK_S;
        }
    }
    return INFINITY;
}
