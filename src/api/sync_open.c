/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a model under a strategy: settings, memory, what is registered, and which strategies
 * a name stands for. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/key.h"
#include "api/sync.h"
#include "base/error.h"
#include "spotnik/state.h"
#include "base/hash.h"

#define STRATEGIES                                                                                 \
    "ssgd, sma, easgd, localsgd, lookahead, lookahead+NAME around another of these, adpsgd, "      \
    "asp, hogwild"
#define WRAPPER "lookahead"

void spotnik_sync_config_init_sized(spotnik_sync_config *config, size_t size)
{
    const char *named = getenv("SPOTNIK_SYNC");
    spotnik_sync_config all = {
        .size = size < sizeof all ? size : sizeof all,
        .strategy = named && *named ? named : "ssgd",
        .average_period = 64,
    };

    if (config && size >= sizeof all.size)
        memcpy(config, &all, all.size);
}

static int slow_make(struct spotnik_sync *sync)
{
    size_t count = (size_t)sync->replica.count;

    if (sync->replica.slow)
        return 0;
    sync->replica.slow = calloc(count, sizeof(float));
    if (!sync->replica.slow)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %zu slow weights", count);
    return spotnik_state_add(sync->job, "sync.slow", sync->replica.slow, count, SPOTNIK_F32);
}

static int unknown(const char *name)
{
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                "there is no strategy \"%s\" (SPOTNIK_SYNC): say one of %s", name,
                                STRATEGIES);
}

/* Lookahead with the options of what it wraps, and of its own. */
static int wrap(struct spotnik_sync *sync, const struct spotnik_sync_strategy *inner)
{
    struct spotnik_sync_strategy *wrapped = &sync->wrapped;

    *wrapped = spotnik_sync_lookahead;
    wrapped->options.alpha = inner->options.alpha;
    wrapped->options.period = inner->options.period;
    wrapped->options.inner = inner;
    wrapped->same_bits = inner->same_bits;
    wrapped->early = inner->early;
    wrapped->local = inner->local;
    snprintf(sync->wrapped_name, sizeof sync->wrapped_name, "%s+%s", WRAPPER, inner->name);
    if (inner == &spotnik_sync_ssgd)
        sync->wrapped_name[strlen(WRAPPER)] = 0;
    sync->of[SPOTNIK_SYNC_SYNCHRONOUS] = wrapped;
    return slow_make(sync);
}

int spotnik_sync_named(const char *name, const struct spotnik_sync_strategy **ret_found,
                       bool *ret_around)
{
    size_t prefix = strlen(WRAPPER);
    bool around = strncmp(name, WRAPPER, prefix) == 0 && (name[prefix] == '+' || !name[prefix]);
    const char *inside = !around ? name : name[prefix] ? name + prefix + 1 : "ssgd";
    const struct spotnik_sync_strategy *found = spotnik_sync_find(inside);

    if (!found || (around && (found == &spotnik_sync_lookahead || !found->synchronous)))
        return unknown(name);
    *ret_found = found;
    *ret_around = around;
    return 0;
}

int spotnik_sync_choose(struct spotnik_sync *sync, const char *name)
{
    const struct spotnik_sync_strategy *found = NULL;
    bool around = false;
    int rc = spotnik_sync_named(name, &found, &around);

    if (rc)
        return rc;
    if (around)
        return wrap(sync, found);
    sync->of[found->synchronous ? SPOTNIK_SYNC_SYNCHRONOUS : SPOTNIK_SYNC_ASYNCHRONOUS] = found;
    return 0;
}

/* Only one of the two: that is how the job runs from the first step to the last. */
static void start_mode(struct spotnik_sync *sync)
{
    if (!sync->of[sync->sw.mode])
        sync->sw.mode = 1 - sync->sw.mode;
}

static uint64_t identity_of(const struct spotnik_sync *sync)
{
    struct spotnik_hash hash;

    spotnik_hash_begin(&hash);
    for (int mode = 0; mode < 2; mode++) {
        const struct spotnik_sync_strategy *strategy = sync->of[mode];
        const char *inner =
            strategy && strategy->options.inner ? strategy->options.inner->name : "";

        if (strategy)
            spotnik_hash_add(&hash, strategy->name, strlen(strategy->name) + 1);
        spotnik_hash_add(&hash, inner, strlen(inner) + 1);
    }
    spotnik_hash_add(&hash, &sync->config.alpha, sizeof sync->config.alpha);
    spotnik_hash_add(&hash, &sync->config.period, sizeof sync->config.period);
    spotnik_hash_add(&hash, &sync->config.lookahead_alpha, sizeof sync->config.lookahead_alpha);
    spotnik_hash_add(&hash, &sync->config.lookahead_period, sizeof sync->config.lookahead_period);
    spotnik_hash_add(&hash, &sync->config.average_period, sizeof sync->config.average_period);
    return spotnik_hash_end(&hash);
}

/* The strategies are chosen. */
static int settle(struct spotnik_sync *sync)
{
    int rc = spotnik_sync_use_check(sync);

    if (rc)
        return rc;
    start_mode(sync);
    sync->identity = sync->own_identity = identity_of(sync);
    return 0;
}

static int strategies_take(struct spotnik_sync *sync, const char *name)
{
    bool mine = false;
    int rc = spotnik_sync_policy_open(sync, name, &mine);

    if (!rc && !mine)
        rc = spotnik_sync_choose(sync, name);
    return rc ? rc : settle(sync);
}

static int config_take(struct spotnik_sync *sync, const spotnik_sync_config *config,
                       const char **ret_name)
{
    spotnik_sync_config_init(&sync->config);
    if (config && (config->size < sizeof config->size || config->size > sizeof sync->config))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "fill the settings with spotnik_sync_config_init() first");
    if (config)
        memcpy(&sync->config, config, config->size);
    if (!(sync->config.alpha >= 0 && sync->config.alpha <= 1 && sync->config.lookahead_alpha >= 0
          && sync->config.lookahead_alpha <= 1))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "alpha and lookahead_alpha are parts: 0 (the usual) to 1");
    *ret_name = sync->config.strategy ? sync->config.strategy : "ssgd";
    sync->config.strategy = NULL;
    if (sync->config.average_period == 0)
        sync->config.average_period = 64;
    return 0;
}

static int memory_make(struct spotnik_sync *sync, float *model, size_t count)
{
    uint64_t seed = 0;
    int seeded = spotnik_key_random(&seed, sizeof seed);

    if (seeded)
        return seeded;
    sync->replica.model = model;
    sync->replica.count = count;
    spotnik_prng_seed(&sync->replica.prng, seed);
    sync->replica.scratch = calloc(count, sizeof(float));
    sync->replica.centre = calloc(count, sizeof(float));
    if (!sync->replica.scratch || !sync->replica.centre)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                    "no memory for two more models of %zu elements", count);
    int rc = spotnik_state_add(sync->job, "sync.centre", sync->replica.centre, count, SPOTNIK_F32);

    if (!rc)
        rc = spotnik_state_add(sync->job, "sync.switch", &sync->sw, sizeof sync->sw, SPOTNIK_U8);
    return rc ? rc : spotnik_state_add(sync->job, "sync.identity", &sync->identity, 1, SPOTNIK_U64);
}

int spotnik_sync_open(spotnik_job *job, const spotnik_sync_config *config, float *model,
                      size_t count,
                      void (*apply)(void *context, float *model, const float *gradient,
                                    size_t count),
                      void *context, spotnik_sync **ret_sync)
{
    const char *name = NULL;

    if (!job || !model || !count || !apply || !ret_sync)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "a job, a model, apply and a place for the result are needed");
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->sync || job->sealed)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "one strategy for a job, chosen before its first step");
    struct spotnik_sync *sync = calloc(1, sizeof *sync);

    if (!sync)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a strategy");
    job->sync = sync; /* refused or not: what it has registered lives as long as the job */
    sync->job = job;
    sync->apply = apply;
    sync->apply_context = context;
    rc = config_take(sync, config, &name);
    if (!rc)
        rc = memory_make(sync, model, count);
    if (!rc)
        rc = strategies_take(sync, name);
    if (rc)
        return rc;
    spotnik_sync_use_fill(sync);
    *ret_sync = sync;
    return 0;
}

void spotnik_sync_free(struct spotnik_sync *sync)
{
    if (!sync)
        return;
    if (sync->hooks.free)
        sync->hooks.free(sync->hooks.context);
    free(sync->incoming);
    free(sync->replica.scratch);
    free(sync->replica.centre);
    free(sync->replica.slow);
    free(sync);
}

int spotnik_sync_state_add(spotnik_sync *sync, const char *name, void *data, size_t count,
                           enum spotnik_dtype dtype)
{
    if (!sync)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no strategy was given");
    if (sync->state_count == SPOTNIK_SYNC_STATES)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "at most %d pieces of optimiser state: put them into one",
                                    SPOTNIK_SYNC_STATES);
    int rc = spotnik_state_add(sync->job, name, data, count, dtype);

    if (!rc)
        sync->state[sync->state_count++] = (struct spotnik_sync_state){ data, count, dtype };
    return rc;
}

/* A rule of the program runs as a strategy whose functions call the program's. */
static struct spotnik_sync *owner(struct spotnik_sync_replica *replica)
{
    return (struct spotnik_sync *)(void *)((char *)replica
                                           - offsetof(struct spotnik_sync, replica));
}

static spotnik_sync_view view_of(const struct spotnik_sync_replica *replica)
{
    return (spotnik_sync_view){
        .count = (size_t)replica->count,
        .model = replica->model,
        .gradient = replica->gradient,
        .scratch = replica->scratch,
        .centre = replica->centre,
        .slow = replica->slow,
        .step = replica->step,
        .rank = replica->rank,
        .size = replica->size,
        .arrived = replica->arrived,
    };
}

static void rule_begin(struct spotnik_sync_replica *replica,
                       const struct spotnik_sync_primitives *use)
{
    struct spotnik_sync *sync = owner(replica);
    spotnik_sync_view view = view_of(replica);

    (void)use;
    sync->rule_begin(sync->rule_context, sync, &view);
}

static void rule_finish(struct spotnik_sync_replica *replica,
                        const struct spotnik_sync_primitives *use)
{
    struct spotnik_sync *sync = owner(replica);
    spotnik_sync_view view = view_of(replica);

    (void)use;
    sync->rule_finish(sync->rule_context, sync, &view);
}

int spotnik_sync_rule_set(spotnik_sync *sync, const char *name, uint32_t promises,
                          void (*begin)(void *context, spotnik_sync *sync,
                                        const spotnik_sync_view *view),
                          void (*finish)(void *context, spotnik_sync *sync,
                                         const spotnik_sync_view *view),
                          void *context)
{
    const uint32_t all = SPOTNIK_RULE_SYNCHRONOUS | SPOTNIK_RULE_SAME_BITS | SPOTNIK_RULE_EARLY;

    if (!sync || !name || !*name || !begin || !finish || (promises & ~all))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "a rule has a name, known promises, begin and finish");
    if (sync->job->sealed || sync->hooks.decide)
        return spotnik_error_return(
            SPOTNIK_ERR_STATE, "a rule is set before the first step, in place of one strategy");
    sync->wrapped = (struct spotnik_sync_strategy){
        .name = name,
        .synchronous = promises & SPOTNIK_RULE_SYNCHRONOUS,
        .same_bits = promises & SPOTNIK_RULE_SAME_BITS,
        .early = promises & SPOTNIK_RULE_EARLY,
        .options = { .period = 1 },
        .begin = rule_begin,
        .finish = rule_finish,
    };
    sync->rule_begin = begin;
    sync->rule_finish = finish;
    sync->rule_context = context;
    sync->of[0] = sync->of[1] = NULL;
    sync->of[sync->wrapped.synchronous ? SPOTNIK_SYNC_SYNCHRONOUS : SPOTNIK_SYNC_ASYNCHRONOUS] =
        &sync->wrapped;
    int rc = slow_make(sync);

    if (!rc) /* begin is the program's, and may change slow weights */
        rc = spotnik_state_changed(sync->job);
    return rc ? rc : settle(sync);
}

const char *spotnik_sync_name(const spotnik_sync *sync)
{
    if (!sync)
        return "";
    const struct spotnik_sync_strategy *running = spotnik_sync_running(sync);

    return running == &sync->wrapped && running->options.inner ? sync->wrapped_name : running->name;
}
