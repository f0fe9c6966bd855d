/* SPDX-License-Identifier: Apache-2.0 */
/* Futures of a pool. */
#include "plan/pool.h"
#include "plan/draw.h"

#include <limits.h>
#include <math.h>

static void sky_read(struct spotnik_sky *sky)
{
    const struct spotnik_trace *trace = sky->pool->trace;
    double stays_s;

    if (trace->start_given && sky->trace_at_s >= trace->start_s + trace->length_s - 1e-6) {
        /* as `spotnik run --churn`: after its end nobody comes or goes */
        sky->changes_s = INFINITY;
        return;
    }
    unsigned machines = spotnik_trace_at(trace, sky->trace_at_s, &stays_s);

    sky->machines = trace->on_off && machines ? UINT_MAX : machines;
    sky->trace_at_s += stays_s;
    sky->changes_s += fmax(stays_s, 1e-6);
}

/* Rates of a band are as likely in every decade; a band may also be wrong altogether. */
static bool capacity_is_modelled(struct spotnik_sky *sky, struct spotnik_prng *prng)
{
    const struct spotnik_pool *pool = sky->pool;

    if (pool->kind == SPOTNIK_POOL_SEEN)
        sky->losses_per_h = pool->high_per_h;
    if (pool->kind == SPOTNIK_POOL_UNKNOWN || pool->kind == SPOTNIK_POOL_SEEN)
        return true;
    if (pool->kind == SPOTNIK_POOL_BAND && spotnik_draw_uniform(prng) < pool->doubt)
        return true;
    sky->losses_per_h =
        pool->high_per_h > pool->low_per_h
            ? pool->low_per_h * pow(pool->high_per_h / pool->low_per_h, spotnik_draw_uniform(prng))
            : pool->high_per_h;
    return false;
}

void spotnik_sky_start(struct spotnik_sky *sky, const struct spotnik_pool *pool, double from_s,
                       struct spotnik_prng *prng)
{
    *sky = (struct spotnik_sky){ .pool = pool, .machines = UINT_MAX, .changes_s = INFINITY };
    if (pool->kind == SPOTNIK_POOL_REPLAY) {
        const struct spotnik_trace *trace = pool->trace;
        sky->trace_at_s = !isnan(from_s)       ? from_s
                          : trace->start_given ? trace->start_s
                                               : spotnik_draw_uniform(prng) * trace->length_s;
        sky->changes_s = 0;
        sky_read(sky);
    } else if (capacity_is_modelled(sky, prng)) {
        spotnik_path_start(&sky->path, pool->availability, &pool->belief, prng);
        sky->machines = sky->path.up ? UINT_MAX : 0;
        sky->changes_s = spotnik_path_next_s(&sky->path, prng);
    }
}

void spotnik_sky_change(struct spotnik_sky *sky, struct spotnik_prng *prng)
{
    if (sky->pool->kind == SPOTNIK_POOL_REPLAY) {
        sky_read(sky);
        return;
    }
    sky->machines = sky->path.up ? UINT_MAX : 0;
    sky->changes_s += spotnik_path_next_s(&sky->path, prng);
}

/* The age by which a share of all machines is lost; infinite when fewer are. */
static double age_of(const struct spotnik_survival *lives, double lost)
{
    size_t low = 0, high = lives->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (1 - lives->alive[middle] >= lost)
            high = middle;
        else
            low = middle + 1;
    }
    return low < lives->count ? lives->age_s[low] : INFINITY;
}

double spotnik_sky_life_s(const struct spotnik_sky *sky, struct spotnik_prng *prng)
{
    const struct spotnik_pool *pool = sky->pool;
    double life_s = pool->cap_s > 0 ? pool->cap_s : INFINITY;

    if (pool->lives)
        life_s = fmin(life_s, age_of(pool->lives, spotnik_draw_uniform(prng)));
    if (sky->losses_per_h > 0)
        life_s = fmin(life_s, -log(spotnik_draw_uniform(prng)) / sky->losses_per_h * 3600);
    return life_s;
}

double spotnik_sky_wait_s(const struct spotnik_sky *sky, struct spotnik_prng *prng)
{
    struct spotnik_belief belief = spotnik_belief_unknown(sky->pool->availability);
    struct spotnik_path path;

    belief.up_known = true;
    belief.up = false;
    spotnik_path_start(&path, sky->pool->availability, &belief, prng);
    return spotnik_path_next_s(&path, prng);
}
