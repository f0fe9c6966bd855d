/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop in each simulated process: begin, compute for a while, start the buckets in any
 * order, seal, and on commit apply the result. What src/api does on the caller's thread. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/fingerprint.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

void spotnik_sim_app_init(struct sim_world *world, struct sim_process *process)
{
    struct sim_app *app = &process->app;

    for (uint32_t i = 0; i < world->options.buckets; i++) {
        size_t bytes = spotnik_sim_bucket_bytes(&world->bucket[i]);
        app->in[i] = spotnik_sim_alloc(bytes + 1);
        app->out[0][i] = spotnik_sim_alloc(bytes + 1);
        app->out[1][i] = spotnik_sim_alloc(bytes + 1);
        app->offer[0][i] = spotnik_sim_alloc(bytes + 1);
        app->offer[1][i] = spotnik_sim_alloc(bytes + 1);
        app->tray[i] = spotnik_sim_alloc(SPOTNIK_SMALL_MEMBERS_MAX * bytes + 1);
    }
    app->state_vector = spotnik_sim_alloc((world->state_count + 1) * sizeof(float));
    for (uint32_t i = 0; i < world->state_count; i++)
        app->state_vector[i] = 1.0f / (float)(i + 1);
    spotnik_sim_strategy_init(process);
}

void spotnik_sim_app_free(struct sim_process *process)
{
    struct sim_app *app = &process->app;

    for (uint32_t i = 0; i < SIM_BUCKETS; i++) {
        free(app->in[i]);
        free(app->out[0][i]);
        free(app->out[1][i]);
        free(app->offer[0][i]);
        free(app->offer[1][i]);
        free(app->tray[i]);
        app->in[i] = app->out[0][i] = app->out[1][i] = app->offer[0][i] = app->offer[1][i] =
            app->tray[i] = NULL;
    }
    for (uint32_t i = 0; i < SIM_RESULTS_KEPT; i++) {
        free(app->kept[i].bytes);
        app->kept[i] = (struct sim_result){ 0 };
    }
    free(app->state_vector);
    app->state_vector = NULL;
    app->state = SIM_APP_OFF;
    app->serial++;
}

void spotnik_sim_app_later(struct sim_world *world, struct sim_process *process, uint64_t delay_ns)
{
    spotnik_sim_push(world, SIM_APP, delay_ns, process->index, ++process->app.serial, NULL);
}

static void call(struct sim_world *world, struct sim_process *process, enum spotnik_event_kind kind)
{
    struct spotnik_event event = { .kind = kind };
    spotnik_sim_core_step(world, process, &event);
}

/* As the driver: what the caller got is told before it begins the next step. */
static void tell_result(struct sim_world *world, struct sim_process *process)
{
    struct sim_app *app = &process->app;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_RESULT,
                                   .result.committed = app->committed };

    if (app->told_step == app->committed)
        return;
    app->told_step = app->committed;
    for (uint32_t i = 0; i < world->options.buckets; i++)
        event.result.digest = spotnik_fingerprint_add(event.result.digest, i, app->committed,
                                                      app->out[app->committed & 1][i],
                                                      spotnik_sim_bucket_bytes(&world->bucket[i]));
    spotnik_sim_core_step(world, process, &event);
}

static void begin_or_leave(struct sim_world *world, struct sim_process *process)
{
    struct sim_app *app = &process->app;

    tell_result(world, process);
    if (!sim_live(process))
        return;
    app->state = app->leave ? SIM_APP_LEAVING : SIM_APP_WAIT_BEGUN;
    call(world, process, app->leave ? SPOTNIK_EVENT_LEAVE : SPOTNIK_EVENT_STEP_BEGIN);
}

/* Without samples there is little to do, unless the program takes its time all the same. */
static uint64_t computing(struct sim_world *world, const struct sim_app *app)
{
    uint64_t longest_ns = world->options.compute_max_ns;

    if (!app->replay)
        return 1 + spotnik_prng_below(&world->app, longest_ns);
    return world->options.slow_replay ? longest_ns : 100 * SPOTNIK_US;
}

void spotnik_sim_app_begun(struct sim_world *world, struct sim_process *process,
                           const struct spotnik_action *action)
{
    struct sim_app *app = &process->app;

    if (app->state != SIM_APP_WAIT_BEGUN || action->begun.step != app->committed + 1)
        spotnik_sim_fail(world, "driver", "%u: step %llu begins unasked", process->index,
                         (unsigned long long)action->begun.step);
    app->state = SIM_APP_COMPUTE;
    app->step = action->begun.step;
    app->replay = action->begun.replay;
    app->samples = spotnik_core_share(process->core, app->range, &app->range_count);
    spotnik_check_begun(world, process);
    spotnik_sim_app_later(world, process, computing(world, app));
}

static void shuffle(struct sim_world *world, struct sim_app *app)
{
    uint32_t count = world->options.buckets;
    for (uint32_t i = 0; i < count; i++)
        app->order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = (uint32_t)spotnik_prng_below(&world->app, i), swap = app->order[k];
        app->order[k] = app->order[i - 1];
        app->order[i - 1] = swap;
    }
}

/* In one world of three every fourth step is a collective beside the training. Not drawn: seeds
 * keep their histories. */
static void decline(struct sim_world *world, struct sim_process *process)
{
    struct sim_app *app = &process->app;

    app->declined = world->options.samples && world->options.seed % 3 == 0 && app->step % 4 == 2;
    if (!app->declined)
        return;
    call(world, process, SPOTNIK_EVENT_DECLINE);
    app->samples = spotnik_core_share(process->core, app->range, &app->range_count);
}

static void computed(struct sim_world *world, struct sim_process *process)
{
    struct sim_app *app = &process->app;

    decline(world, process);
    for (uint32_t i = 0; i < world->options.buckets; i++)
        spotnik_sim_gradient(world, process, i);
    spotnik_sim_strategy_input(world, process);
    shuffle(world, app);
    app->state = SIM_APP_START;
    app->started = 0;
    app->weight = UINT64_MAX;
    if (!app->replay && spotnik_prng_chance(&world->app, 1, 8)) {
        app->weight = spotnik_prng_below(&world->app, 6);
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_WEIGHT, .weight = app->weight };
        spotnik_sim_core_step(world, process, &event);
    }
    spotnik_check_input(world, process);
    if (sim_live(process))
        spotnik_sim_app_later(world, process, 0);
}

static void start_next(struct sim_world *world, struct sim_process *process)
{
    struct sim_app *app = &process->app;

    if (app->started == world->options.buckets) {
        app->state = SIM_APP_WAIT_COMMIT;
        spotnik_sim_flat_seal(world, process);
        call(world, process, SPOTNIK_EVENT_STEP_SEAL);
        return;
    }
    uint32_t number = app->order[app->started++];
    const struct sim_bucket *bucket = &world->bucket[number];
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_BUCKET_START,
                                   .start = { .bucket = number,
                                              .count = bucket->count,
                                              .dtype = bucket->dtype,
                                              .op = bucket->op,
                                              .element_bytes = bucket->element_bytes } };
    spotnik_sim_app_later(world, process,
                          spotnik_prng_below(&world->app, 1 + world->options.compute_max_ns / 8));
    spotnik_sim_core_step(world, process, &event);
}

void spotnik_sim_app_happens(struct sim_world *world, struct sim_process *process)
{
    switch (process->app.state) {
    case SIM_APP_IDLE:
        begin_or_leave(world, process);
        break;
    case SIM_APP_COMPUTE:
        computed(world, process);
        break;
    case SIM_APP_START:
        start_next(world, process);
        break;
    case SIM_APP_OFF:
    case SIM_APP_WAIT_BEGUN:
    case SIM_APP_WAIT_COMMIT:
    case SIM_APP_LEAVING:
        break;
    }
}

/* Asked to leave: a step under way is finished first; a wait for the next one ends now. */
void spotnik_sim_app_notice(struct sim_world *world, struct sim_process *process)
{
    if (process->app.state == SIM_APP_WAIT_BEGUN && !process->stopped)
        begin_or_leave(world, process);
}

/* After a stop: what should have happened meanwhile happens now. */
void spotnik_sim_app_resume(struct sim_world *world, struct sim_process *process)
{
    enum sim_app_state state = process->app.state;
    if (process->app.leave && state == SIM_APP_WAIT_BEGUN)
        spotnik_sim_app_notice(world, process);
    if (state == SIM_APP_IDLE || state == SIM_APP_COMPUTE || state == SIM_APP_START)
        spotnik_sim_app_later(world, process, 0);
}

static void keep_result(struct sim_world *world, struct sim_process *process, uint64_t step)
{
    struct sim_result *result = &process->app.kept[step % SIM_RESULTS_KEPT];
    size_t at = 0;

    if (world->scale)
        return;
    if (!result->bytes)
        result->bytes = spotnik_sim_alloc(spotnik_sim_result_bytes(world) + 1);
    result->step = step;
    for (uint32_t i = 0; i < world->options.buckets; i++) {
        size_t bytes = spotnik_sim_bucket_bytes(&world->bucket[i]);
        memcpy(result->bytes + at, process->app.out[step & 1][i], bytes);
        at += bytes;
    }
}

/* Weights are made of the step's number, as a driver makes them of its results: the same on every
 * member. Some are far apart, some 0, and in some steps there are too few, or all are 0. */
void spotnik_sim_app_deal(struct sim_world *world, struct sim_process *process)
{
    uint32_t weight[SIM_DEAL_SHARES], count = SIM_DEAL_SHARES;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, world->options.seed ^ (process->app.step << 20));
    uint64_t most = UINT64_C(1) << spotnik_prng_below(&prng, 12);
    bool zeros = spotnik_prng_chance(&prng, 1, 4);
    if (spotnik_prng_chance(&prng, 1, 8))
        count = 0;
    for (uint32_t i = 0; i < SIM_DEAL_SHARES; i++)
        weight[i] = zeros && spotnik_prng_chance(&prng, 1, 2)
                        ? 0
                        : (uint32_t)spotnik_prng_below(&prng, most) + !zeros;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_DEAL,
                                   .now_ns = world->now_ns,
                                   .deal = { weight, count } };
    spotnik_sim_story_event(world, process, &event);
    spotnik_sim_mix(world, (uint64_t)event.kind << 40 | process->index);
    spotnik_core_step(process->core, &event);
    spotnik_sim_story_moves(world, process);
}

void spotnik_sim_app_committed(struct sim_world *world, struct sim_process *process, uint64_t step)
{
    struct sim_app *app = &process->app;

    if (app->state != SIM_APP_WAIT_COMMIT || step != app->step)
        spotnik_sim_fail(world, "driver", "%u: step %llu commits unasked", process->index,
                         (unsigned long long)step);
    app->committed = step;
    keep_result(world, process, step);
    spotnik_sim_memory_apply(world, process, step);
    spotnik_sim_strategy_committed(world, process, step);
    spotnik_check_commit(world, process, step);
    app->state = SIM_APP_IDLE;
    spotnik_sim_app_later(world, process,
                          spotnik_prng_below(&world->app, 1 + world->options.compute_max_ns / 16));
}
