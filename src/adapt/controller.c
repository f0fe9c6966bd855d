/* SPDX-License-Identifier: Apache-2.0 */
/* The proportional controller of controller.h. One adjustment: candidates by the rule, made whole
 * within the bounds, and taken if any of them leaves the dead-band. */
#include "adapt/controller.h"

#include <string.h>

#include "base/assert.h"
#include "adapt/async.h"
#include "adapt/same_bits.h"
#include "spotnik/spotnik.h"

/* of a sample that an exact share is away from the whole one before that moves alone */
#define ROUNDING 0.75

typedef struct spotnik_batch_controller controller_t;

void spotnik_batch_config_init(struct spotnik_batch_config *config, uint64_t batch)
{
    *config = (struct spotnik_batch_config){
        .batch = batch,
        .least = 1,
        .window = 5,
        .smoothing = 0.2,
        .dead_band = SPOTNIK_BATCH_DEAD_BAND,
        .caution = 4,
        .fall_band = SPOTNIK_BATCH_DEAD_BAND,
    };
}

static bool is_valid(const struct spotnik_batch_config *config, uint32_t size)
{
    return size >= 1 && size <= SPOTNIK_BATCH_MEMBERS_MAX
           && config->batch <= SPOTNIK_BATCH_TOTAL_MAX && config->least >= 1 && config->window >= 1
           && config->smoothing > 0 && config->smoothing <= 1 && config->dead_band >= 0
           && config->caution >= 0 && config->fall_band >= 0 && config->fall_band < 1;
}

static uint64_t most_of(const struct spotnik_batch_config *config)
{
    return config->most ? config->most : config->batch;
}

static bool is_time(double time_s)
{
    return time_s > 0 && time_s < 1e300;
}

/* Divide the batch by weight within the bounds; where learnt bounds forbid it, they are
 * forgotten. */
static bool divide(controller_t *c, const double *weight, uint64_t *ret)
{
    uint64_t least[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 }, most[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };

    for (uint32_t i = 0; i < c->size; i++) {
        least[i] = c->config.least;
        most[i] = c->member[i].most;
    }
    if (spotnik_batch_apportion(c->config.batch, c->size, weight, least, most, ret))
        return true;
    for (uint32_t i = 0; i < c->size; i++)
        most[i] = most_of(&c->config);
    if (!spotnik_batch_apportion(c->config.batch, c->size, weight, least, most, ret))
        return false;
    for (uint32_t i = 0; i < c->size; i++)
        c->member[i].most = most[i];
    return true;
}

int spotnik_batch_controller_init(controller_t *c, const struct spotnik_batch_config *config,
                                  uint32_t size, const double *speed)
{
    double weight[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };
    uint64_t samples[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };

    if (!is_valid(config, size))
        return SPOTNIK_ERR_ARGUMENT;
    memset(c, 0, sizeof *c);
    c->config = *config;
    c->size = size;
    for (uint32_t i = 0; i < size; i++) {
        weight[i] = speed ? speed[i] : 1;
        c->member[i].most = most_of(config);
        if (!is_time(weight[i]))
            return SPOTNIK_ERR_ARGUMENT;
    }
    if (!divide(c, weight, samples))
        return SPOTNIK_ERR_LIMIT;
    for (uint32_t i = 0; i < size; i++)
        c->member[i].samples = samples[i];
    return SPOTNIK_OK;
}

/* tbar; 0 while one member has not been timed since the last change. */
static double mean_time(const controller_t *c)
{
    double sum = 0;

    for (uint32_t i = 0; i < c->size; i++) {
        if (!is_time(c->member[i].timing.time_s))
            return 0;
        sum += c->member[i].timing.time_s;
    }
    return sum / c->size;
}

/* Slower after the increase than before it. So a larger batch than the one before does not pay for
 * this member (a cache, a memory, a saturated device). */
static void learn_bound(const struct spotnik_batch_config *config,
                        struct spotnik_batch_member *member)
{
    double speed = (double)member->samples / member->timing.time_s;
    bool grew = member->samples > member->samples_before;

    if (member->speed_before > 0 && grew && speed < member->speed_before * (1 - config->fall_band))
        member->most =
            member->samples_before > config->least ? member->samples_before : config->least;
    member->speed_before = 0;
}

/* Relative variance of every member's time. The mean noise of all is a member's least: its own is
 * known from a few steps alone. */
static void doubts(const controller_t *c, double *ret_doubt2)
{
    double noise = 0;
    uint32_t heard = 0;

    for (uint32_t i = 0; i < c->size; i++) {
        heard += c->member[i].timing.heard > 0;
        noise += c->member[i].timing.noise;
    }
    noise = heard ? noise / heard : 0;
    for (uint32_t i = 0; i < c->size; i++) {
        const struct spotnik_batch_timing *timing = &c->member[i].timing;
        double own = timing->noise > noise ? timing->noise : noise;
        ret_doubt2[i] = own * own * timing->doubt2;
    }
}

/* Does anything move but by rounding? `wanted` is exact, but for the batch as a whole. */
static bool moves(const controller_t *c, const double *wanted, const uint64_t *samples)
{
    double sum = 0, batch = (double)c->config.batch;

    for (uint32_t i = 0; i < c->size; i++)
        sum += wanted[i];
    for (uint32_t i = 0; i < c->size; i++) {
        double before = (double)c->member[i].samples, change = (double)samples[i] - before;
        double exact = wanted[i] * batch / sum - before;
        if (change * change > 1 || (change * exact > ROUNDING && c->config.dead_band > 0)
            || (change * change > 0 && !(c->config.dead_band > 0)))
            return true;
    }
    return false;
}

/* By how much the longest time is above the shortest follows from how much shares are to grow. A
 * share is speed_k / sum of speeds, so that the quotient of two of them has the relative variance
 * d_a + d_b. */
static bool leaves_dead_band(const controller_t *c, const uint64_t *samples)
{
    double doubt2[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 }, growth[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };
    double caution = c->config.dead_band > 0 ? c->config.caution : 0;
    uint32_t least = 0, most = 0;

    for (uint32_t i = 0; i < c->size; i++) {
        growth[i] = (double)samples[i] / (double)c->member[i].samples;
        least = growth[i] < growth[least] ? i : least;
        most = growth[i] > growth[most] ? i : most;
        if (c->member[i].samples > c->member[i].most) /* what a bound takes away is not measured */
            caution = 0;
    }
    doubts(c, doubt2);
    double quotient = growth[least] / growth[most], apart = 1 - quotient;
    double variance = quotient * quotient * (doubt2[least] + doubt2[most]);
    return apart > c->config.dead_band && apart * apart > caution * caution * variance;
}

static void adjust(controller_t *c, const uint64_t *samples)
{
    for (uint32_t i = 0; i < c->size; i++) {
        struct spotnik_batch_member *member = &c->member[i];
        member->speed_before = (double)member->samples / member->timing.time_s;
        member->samples_before = member->samples;
        member->samples = samples[i];
        spotnik_batch_timing_restart(&member->timing);
    }
    c->observed = 0;
    c->adjustments++;
}

static void times_add(controller_t *c, const double *time_s)
{
    struct spotnik_batch_pace pace = { .block = c->config.window,
                                       .smoothing = c->config.smoothing,
                                       .band = c->config.dead_band };

    if (pace.block > SPOTNIK_BATCH_BLOCK)
        pace.block = SPOTNIK_BATCH_BLOCK;
    for (uint32_t i = 0; i < c->size; i++)
        if (is_time(time_s[i]))
            spotnik_batch_timing_add(&c->member[i].timing, &pace, time_s[i]);
}

bool spotnik_batch_controller_observe(controller_t *c, const double *time_s)
{
    double weight[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };
    uint64_t samples[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };

    times_add(c, time_s);
    c->observed += c->observed < UINT32_MAX;
    double mean_s = mean_time(c);
    if (c->observed < c->config.window || !is_time(mean_s))
        return false;
    for (uint32_t i = 0; i < c->size; i++) {
        struct spotnik_batch_member *member = &c->member[i];
        learn_bound(&c->config, member);
        weight[i] = (double)member->samples * mean_s / member->timing.time_s;
    }
    if (!divide(c, weight, samples) || !moves(c, weight, samples) || !leaves_dead_band(c, samples))
        return false;
    adjust(c, samples);
    return true;
}

/* May member i change to `wanted`, as far as noise is concerned? */
static bool is_sure(const controller_t *c, uint32_t i, const double *doubt2, uint64_t wanted)
{
    double before = (double)c->member[i].samples, change = (double)wanted - before;
    double caution = c->config.dead_band > 0 ? c->config.caution : 0;

    return change * change > caution * caution * doubt2[i] * before * before;
}

bool spotnik_batch_controller_observe_apart(controller_t *c, const uint64_t *samples,
                                            const double *time_s)
{
    struct spotnik_batch_published published[SPOTNIK_BATCH_MEMBERS_MAX];
    double of_batch_s[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 }, doubt2[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };
    bool changed = false;

    for (uint32_t i = 0; i < c->size; i++)
        of_batch_s[i] =
            samples[i] ? time_s[i] * (double)c->member[i].samples / (double)samples[i] : 0;
    times_add(c, of_batch_s);
    c->observed += c->observed < UINT32_MAX;
    if (c->observed < c->config.window)
        return false;
    doubts(c, doubt2);
    for (uint32_t i = 0; i < c->size; i++)
        published[i] =
            (struct spotnik_batch_published){ c->member[i].samples, c->member[i].timing.time_s };
    for (uint32_t i = 0; i < c->size; i++) {
        if (!is_time(published[i].time_s))
            continue;
        uint64_t wanted = spotnik_batch_async(&c->config, published, c->size, i);
        if (wanted == published[i].samples || !is_sure(c, i, doubt2, wanted))
            continue;
        c->member[i].samples = wanted;
        c->member[i].speed_before = 0;
        spotnik_batch_timing_restart(&c->member[i].timing);
        changed = true;
    }
    c->observed = changed ? 0 : c->observed;
    c->adjustments += changed;
    return changed;
}

bool spotnik_batch_controller_is_whole(const controller_t *c)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->size; i++)
        sum += c->member[i].samples;
    return sum == c->config.batch;
}

/* What a newcomer starts with, before the batch is divided again. */
static struct spotnik_batch_member newcomer(const controller_t *old, uint32_t size,
                                            const uint32_t *from, double *ret_weight)
{
    uint32_t survivors = 0;
    double sum = 0;

    for (uint32_t i = 0; i < size; i++) {
        if (from[i] == SPOTNIK_BATCH_NEWCOMER)
            continue;
        SPOTNIK_ASSERT(from[i] < old->size);
        sum += (double)old->member[from[i]].samples;
        survivors++;
    }
    *ret_weight = survivors ? sum / survivors : 1;
    return (struct spotnik_batch_member){ .most = most_of(&old->config) };
}

int spotnik_batch_controller_view(controller_t *c, uint32_t size, const uint32_t *from)
{
    double weight[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 }, usual;
    uint64_t samples[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };
    controller_t next;

    if (!is_valid(&c->config, size))
        return SPOTNIK_ERR_ARGUMENT;
    next.config = c->config;
    next.size = size;
    next.observed = 0;
    next.adjustments = c->adjustments;
    struct spotnik_batch_member fresh = newcomer(c, size, from, &usual);
    for (uint32_t i = 0; i < size; i++) {
        bool is_new = from[i] == SPOTNIK_BATCH_NEWCOMER;
        next.member[i] = is_new ? fresh : c->member[from[i]];
        next.member[i].speed_before = 0;
        spotnik_batch_timing_restart(&next.member[i].timing);
        weight[i] = is_new ? usual : (double)next.member[i].samples;
    }
    if (!divide(&next, weight, samples))
        return SPOTNIK_ERR_LIMIT;
    for (uint32_t i = 0; i < size; i++)
        next.member[i].samples = samples[i];
    memcpy(c, &next, sizeof next - (SPOTNIK_BATCH_MEMBERS_MAX - size) * sizeof next.member[0]);
    return SPOTNIK_OK;
}
