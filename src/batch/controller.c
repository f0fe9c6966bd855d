/* SPDX-License-Identifier: Apache-2.0 */
/* The proportional controller of controller.h. One adjustment: candidates by the rule, made whole within
 * the bounds, and taken if any of them leaves the dead-band. */
#include "batch/controller.h"

#include <string.h>

#include "base/assert.h"
#include "sync/agreed.h"
#include "spotnik/spotnik.h"

typedef struct spotnik_batch_controller controller_t;

void spotnik_batch_config_init(struct spotnik_batch_config *config, uint64_t batch)
{
    *config = (struct spotnik_batch_config){
        .batch = batch,
        .least = 1,
        .window = 5,
        .smoothing = 0.5,
        .dead_band = SPOTNIK_BATCH_DEAD_BAND,
        .fall_band = SPOTNIK_BATCH_DEAD_BAND,
    };
}

static bool is_valid(const struct spotnik_batch_config *config, uint32_t size)
{
    return size >= 1 && size <= SPOTNIK_BATCH_MEMBERS_MAX && config->batch <= SPOTNIK_BATCH_TOTAL_MAX
           && config->least >= 1 && config->window >= 1 && config->smoothing > 0 && config->smoothing <= 1
           && config->dead_band >= 0 && config->fall_band >= 0 && config->fall_band < 1;
}

static uint64_t most_of(const struct spotnik_batch_config *config)
{
    return config->most ? config->most : config->batch;
}

static bool is_time(double time_s)
{
    return time_s > 0 && time_s < 1e300;
}

/* Divide the batch by weight within the bounds; where learnt bounds forbid it, they are forgotten. */
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

int spotnik_batch_controller_init(controller_t *c, const struct spotnik_batch_config *config, uint32_t size,
                                  const double *speed)
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

static void smooth(const struct spotnik_batch_config *config, struct spotnik_batch_member *member,
                   double time_s)
{
    if (!is_time(time_s))
        return;
    member->time_s = is_time(member->time_s)
                         ? config->smoothing * time_s + (1 - config->smoothing) * member->time_s
                         : time_s;
}

/* tbar; 0 while somebody has not been timed since the last change. */
static double mean_time(const controller_t *c)
{
    double sum = 0;

    for (uint32_t i = 0; i < c->size; i++) {
        if (!is_time(c->member[i].time_s))
            return 0;
        sum += c->member[i].time_s;
    }
    return sum / c->size;
}

/* Slower after the increase than before it: the batch before it is as much as this member takes with
 * profit (a cache, a memory, a saturated device). */
static void learn_bound(const struct spotnik_batch_config *config, struct spotnik_batch_member *member)
{
    double speed = (double)member->samples / member->time_s;
    bool grew = member->samples > member->samples_before;

    if (member->speed_before > 0 && grew && speed < member->speed_before * (1 - config->fall_band))
        member->most = member->samples_before > config->least ? member->samples_before : config->least;
    member->speed_before = 0;
}

static bool leaves_dead_band(const controller_t *c, const uint64_t *samples)
{
    for (uint32_t i = 0; i < c->size; i++) {
        double before = (double)c->member[i].samples, change = (double)samples[i] - before;
        if ((change < 0 ? -change : change) > c->config.dead_band * before)
            return true;
    }
    return false;
}

static void adjust(controller_t *c, const uint64_t *samples)
{
    for (uint32_t i = 0; i < c->size; i++) {
        struct spotnik_batch_member *member = &c->member[i];
        member->speed_before = (double)member->samples / member->time_s;
        member->samples_before = member->samples;
        member->samples = samples[i];
        member->time_s = 0;
    }
    c->observed = 0;
    c->adjustments++;
}

bool spotnik_batch_controller_observe(controller_t *c, const double *time_s)
{
    double weight[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };
    uint64_t samples[SPOTNIK_BATCH_MEMBERS_MAX] = { 0 };

    for (uint32_t i = 0; i < c->size; i++)
        smooth(&c->config, &c->member[i], time_s[i]);
    c->observed += c->observed < UINT32_MAX;
    double mean_s = mean_time(c);
    if (c->observed < c->config.window || !is_time(mean_s))
        return false;
    for (uint32_t i = 0; i < c->size; i++) {
        struct spotnik_batch_member *member = &c->member[i];
        learn_bound(&c->config, member);
        weight[i] = (double)member->samples * mean_s / member->time_s;
    }
    if (!divide(c, weight, samples) || !leaves_dead_band(c, samples))
        return false;
    adjust(c, samples);
    return true;
}

/* What a newcomer starts with, before the batch is divided again. */
static struct spotnik_batch_member newcomer(const controller_t *old, uint32_t size, const uint32_t *from,
                                            double *ret_weight)
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
        next.member[i].time_s = next.member[i].speed_before = 0;
        weight[i] = is_new ? usual : (double)next.member[i].samples;
    }
    if (!divide(&next, weight, samples))
        return SPOTNIK_ERR_LIMIT;
    for (uint32_t i = 0; i < size; i++)
        next.member[i].samples = samples[i];
    memcpy(c, &next, sizeof next - (SPOTNIK_BATCH_MEMBERS_MAX - size) * sizeof next.member[0]);
    return SPOTNIK_OK;
}

double spotnik_batch_lambda(const controller_t *c, uint32_t member)
{
    SPOTNIK_ASSERT(member < c->size);
    return (double)c->member[member].samples / (double)c->config.batch;
}
