/* SPDX-License-Identifier: Apache-2.0 */
/* A model under a strategy (include/spotnik/sync.h): the strategies of src/adapt on the real
 * primitives. Strategies decide what travels and how the model changes, adapt/switch.h when modes
 * change, the hooks (a policy) which mode to wish for. This file has only the order of calls.
 * Everything belongs to the caller's thread.
 *
 *     begin   spotnik_step_begin -> take over a state that was loaded -> [rounds: tell] -> [early:
 *             strategy begin]
 *     step    [strategy begin] -> tell -> wait for peers -> commit -> strategy finish -> agree ->
 *             hooks -> switch
 *
 * Registered, hence the same bits on every member: the centre, slow weights, and the state of the
 * switch. The model is not: in most strategies it is each member's own. */
#ifndef SPOTNIK_API_SYNC_H
#define SPOTNIK_API_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/job.h"
#include "spotnik/sync.h"
#include "adapt/strategy.h"
#include "adapt/switch.h"

#define SPOTNIK_SYNC_VECTORS 4 /* averages in one step; buckets VECTOR, VECTOR - 1, ... */
#define SPOTNIK_SYNC_BUCKET_VECTOR 250
#define SPOTNIK_SYNC_BUCKET_TELL 246
#define SPOTNIK_SYNC_STATES 16 /* of the optimiser; buckets STATE, STATE - 1, ... */
#define SPOTNIK_SYNC_BUCKET_STATE 245

/* A policy, which may wish for another mode. */
struct spotnik_sync_hooks {
    void *context;
    /* After every commit, those a joiner repeats included, in order, when the agreed numbers of the
     * step are at hand: the mode wanted. */
    enum spotnik_sync_mode (*decide)(void *context, uint64_t step);
    void (*free)(void *context); /* NULL: nothing to do */
};

/* What the running step does. */
enum spotnik_sync_deed {
    SPOTNIK_SYNC_DEED_STRATEGY, /* what the strategy says */
    SPOTNIK_SYNC_DEED_REFRESH,  /* asynchronous: the models are replaced by their average */
    /* asynchronous to synchronous: model, gradient and optimiser are averaged */
    SPOTNIK_SYNC_DEED_MEET,
};

struct spotnik_sync_state {
    void *data;
    size_t count;
    enum spotnik_dtype dtype;
};

struct spotnik_sync {
    spotnik_job *job;
    struct spotnik_sync_replica replica;
    struct spotnik_sync_primitives use;
    const struct spotnik_sync_strategy *of[2]; /* by mode; NULL: there is none */
    /* Lookahead around another, or a rule of the program */
    struct spotnik_sync_strategy wrapped;
    char wrapped_name[32];             /* "lookahead+NAME" */
    struct spotnik_sync_config config; /* strategy: NULL, it was borrowed */
    struct spotnik_sync_hooks hooks;
    struct spotnik_sync_switch sw; /* registered */
    uint64_t identity;             /* registered: which strategies the job runs */
    uint64_t own_identity;         /* and which this member was given */
    void (*apply)(void *context, float *model, const float *gradient, size_t count);
    void *apply_context;
    void (*rule_begin)(void *context, spotnik_sync *sync, const spotnik_sync_view *view);
    void (*rule_finish)(void *context, spotnik_sync *sync, const spotnik_sync_view *view);
    void *rule_context;
    struct spotnik_sync_state state[SPOTNIK_SYNC_STATES];
    uint32_t state_count;
    /* the running step */
    spotnik_step step;
    enum spotnik_sync_deed deed;
    bool begun;               /* spotnik_sync_begin() has returned */
    bool started;             /* the strategy's begin has run */
    bool told;                /* the bucket of numbers is under way */
    bool complete;            /* the gradient is here: on to the commit */
    spotnik_request *request; /* a pull or exchange under way, perhaps for steps; NULL: none */
    float *incoming;          /* its memory */
    bool fetched;             /* the store's content has come in this step */
    uint64_t version;         /* published last */
    float *averaged[SPOTNIK_SYNC_VECTORS];
    uint32_t averaged_count;
    int error; /* of a primitive */
    /* [0]: contributors; sum: in the bucket */
    double tell[1 + SPOTNIK_SYNC_TELL_MAX], sum[1 + SPOTNIK_SYNC_TELL_MAX];
    double heard[1 + SPOTNIK_SYNC_TELL_MAX]; /* of the last commit */
    uint64_t loads;                          /* of the registered state, as far as taken over */
    bool entered;
    bool behind; /* a joiner that has not yet looked at the models of members that run apart */
};

static inline const struct spotnik_sync_strategy *
spotnik_sync_running(const struct spotnik_sync *sync)
{
    return sync->of[sync->sw.mode];
}

/* Are models equal after every finish of `strategy`? */
static inline bool spotnik_sync_keeps_equal(const struct spotnik_sync_strategy *strategy)
{
    return strategy->synchronous && strategy->same_bits;
}

/* Does this member contribute to the running step? A joiner's repeat has no share, and a member
 * without samples, in a job that has some, has no gradient. */
static inline bool spotnik_sync_contributes(const struct spotnik_sync *sync)
{
    const spotnik_step *step = &sync->step;

    return !step->replay && step->share < step->shares
           && (!sync->job->config.samples || step->sample_count > 0);
}

/* Set sync->use. */
void spotnik_sync_use_fill(struct spotnik_sync *sync);

/* Start to average a vector, F32; a refused one leaves sync->error. */
void spotnik_sync_use_average(struct spotnik_sync *sync, float *data);

/* Take in what others of this host have done, and give up what is under way. */
void spotnik_sync_use_settle(struct spotnik_sync *sync);

/* Strategies whose members share a model: our part of the way from it to the average of all, which
 * is in scratch. False: not so here. */
bool spotnik_sync_use_meet(struct spotnik_sync *sync);

/* We are a new member now, with another model: release what was shared. */
void spotnik_sync_use_leave(struct spotnik_sync *sync);

/* Look for what was asked of single members. Sets replica.arrived. */
void spotnik_sync_use_wait(struct spotnik_sync *sync);

/* The model of another member in place of ours, if one comes: a joiner among members that run
 * apart. */
void spotnik_sync_use_catch_up(struct spotnik_sync *sync);

/* The centre was loaded from a checkpoint, by the only member there is. The store begins with it,
 * and not with what the program began with. */
void spotnik_sync_use_resumed(struct spotnik_sync *sync);

/* What the strategies of this member need is there, or is made: the store of ASP. 0, ARGUMENT, or
 * as spotnik_store_open(). */
int spotnik_sync_use_check(struct spotnik_sync *sync);

/* The strategy `name`, or the one it puts Lookahead around. 0 or ARGUMENT. */
int spotnik_sync_named(const char *name, const struct spotnik_sync_strategy **ret_found,
                       bool *ret_around);

/* The strategies that `name` stands for, into sync->of. 0 or ARGUMENT. */
int spotnik_sync_choose(struct spotnik_sync *sync, const char *name);

/* Is `name` that of a policy? Then, before the first step: its state is registered, its hooks and
 * strategies are set. */
int spotnik_sync_policy_open(struct spotnik_sync *sync, const char *name, bool *ret_mine);

/* For our status: the strategy since the last finished step. */
void spotnik_sync_show(struct spotnik_sync *sync);

#endif
