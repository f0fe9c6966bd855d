/* SPDX-License-Identifier: Apache-2.0 */
/* One step of a model under a strategy, in the order that sync.h draws. */
#include <string.h>

#include "api/sync.h"
#include "base/error.h"
#include "base/hash.h"
#include "transfer/thread.h"

#define CONTRIBUTORS 0 /* place in tell[] */

static void options_set(struct spotnik_sync *sync)
{
    struct spotnik_sync_options *options = &sync->replica.options;
    const struct spotnik_sync_config *said = &sync->config;

    *options = spotnik_sync_running(sync)->options;
    options->alpha = said->alpha > 0 ? said->alpha : options->alpha;
    options->period = said->period > 0 ? said->period : options->period;
    options->lookahead_alpha =
        said->lookahead_alpha > 0 ? said->lookahead_alpha : options->lookahead_alpha;
    options->lookahead_period =
        said->lookahead_period > 0 ? said->lookahead_period : options->lookahead_period;
}

/* From the next step on this strategy; what is agreed stays. */
static void enter(struct spotnik_sync *sync)
{
    options_set(sync);
    if (spotnik_sync_running(sync)->enter)
        spotnik_sync_running(sync)->enter(&sync->replica, &sync->use);
}

/* Before the first step_begin: a joiner may ask for a copy in it. */
static void first_state(struct spotnik_sync *sync)
{
    if (sync->entered || sync->job->sealed)
        return;
    spotnik_sync_copy(sync->replica.centre, sync->replica.model, sync->replica.count);
    if (sync->replica.slow)
        spotnik_sync_copy(sync->replica.slow, sync->replica.model, sync->replica.count);
}

static int identity_check(struct spotnik_sync *sync)
{
    if (sync->identity == sync->own_identity)
        return 0;
    return spotnik_error_return(
        SPOTNIK_ERR_MISMATCH,
        "the job runs another strategy than this member, or the same with other "
        "settings: give every member the same (SPOTNIK_SYNC)");
}

/* The registered memory was replaced: go on from what is agreed. */
static int adopt(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;
    int rc = identity_check(sync);

    if (rc)
        return rc;
    if (sync->sw.mode > SPOTNIK_SYNC_ASYNCHRONOUS || !sync->of[sync->sw.mode])
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                    "the job is in a mode for which this member has no strategy");
    sync->loads = spotnik_state_loads(sync->job);
    spotnik_job_copies_settle(sync->job); /* another joiner's, of slow weights */
    spotnik_sync_use_leave(sync);
    spotnik_sync_copy(replica->model, replica->centre, replica->count);
    if (replica->slow && !spotnik_sync_keeps_equal(spotnik_sync_running(sync)))
        spotnik_sync_copy(replica->slow, replica->centre, replica->count);
    options_set(sync);
    sync->behind = !spotnik_sync_running(sync)->synchronous;
    sync->entered = true;
    return 0;
}

static enum spotnik_sync_deed deed_of(const struct spotnik_sync *sync)
{
    if (sync->sw.act == SPOTNIK_SYNC_ACT_AVERAGE)
        return SPOTNIK_SYNC_DEED_MEET;
    if (!spotnik_sync_running(sync)->synchronous
        && sync->step.number % sync->config.average_period == 0)
        return SPOTNIK_SYNC_DEED_REFRESH;
    return SPOTNIK_SYNC_DEED_STRATEGY;
}

/* What members that run apart did in a step is not in it: a joiner that repeats it finds nothing to
 * do. */
static bool is_nothing(const struct spotnik_sync *sync)
{
    return sync->step.replay && sync->deed == SPOTNIK_SYNC_DEED_STRATEGY
           && !spotnik_sync_running(sync)->synchronous;
}

static void strategy_begin(struct spotnik_sync *sync)
{
    sync->started = true;
    if (!is_nothing(sync))
        spotnik_sync_running(sync)->begin(&sync->replica, &sync->use);
}

/* Steps of members that run apart are rounds: everybody says at once that it is there, and is
 * free. */
static void numbers_start(struct spotnik_sync *sync)
{
    sync->tell[CONTRIBUTORS] = spotnik_sync_contributes(sync);
    memcpy(sync->sum, sync->tell, sizeof sync->sum);
    int rc =
        spotnik_job_reduce(sync->job, SPOTNIK_SYNC_BUCKET_TELL, sync->sum,
                           sizeof sync->sum / sizeof *sync->sum, SPOTNIK_F64, SPOTNIK_SUM, false);

    sync->told = true;
    if (!rc)
        rc = spotnik_step_stats_start(sync->job);
    if (rc && !sync->error)
        sync->error = rc;
}

static void step_arm(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;

    replica->step = sync->step.number;
    replica->rank = sync->step.rank;
    replica->size = sync->step.size;
    replica->gradient = NULL;
    replica->arrived = false;
    sync->begun = true;
    sync->started = sync->told = sync->complete = false;
    sync->averaged_count = 0;
    sync->error = 0;
    sync->deed = deed_of(sync);
}

/* A joiner among members that run apart, in its first step of its own: the average that it has
 * copied is of a while ago. */
static void catch_up(struct spotnik_sync *sync)
{
    sync->behind = false;
    if (spotnik_sync_running(sync)->synchronous)
        return;
    spotnik_sync_use_catch_up(sync);
    enter(sync);
}

int spotnik_sync_begin(spotnik_sync *sync, spotnik_step *ret_step)
{
    if (!sync || !ret_step)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no strategy or no step was given");
    int rc = spotnik_job_handle_check(sync->job);

    if (rc)
        return rc;
    first_state(sync);
    rc = spotnik_step_begin(sync->job, &sync->step);

    if (!rc && spotnik_state_loads(sync->job) != sync->loads)
        rc = adopt(sync);
    if (rc)
        return rc;
    if (!sync->entered)
        enter(sync);
    sync->entered = true;
    step_arm(sync);
    if (sync->deed == SPOTNIK_SYNC_DEED_STRATEGY && !spotnik_sync_running(sync)->synchronous)
        numbers_start(sync);
    if (sync->behind && !sync->step.replay)
        catch_up(sync);
    if (sync->deed == SPOTNIK_SYNC_DEED_STRATEGY && spotnik_sync_running(sync)->early)
        strategy_begin(sync);
    *ret_step = sync->step;
    return 0;
}

/* All models in place of each; and of the optimisers, where from now on all must be equal. */
static void average_all(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;

    spotnik_sync_use_settle(sync);
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    spotnik_sync_use_average(sync, replica->scratch);
    if (sync->deed != SPOTNIK_SYNC_DEED_MEET)
        return;
    spotnik_sync_use_average(sync, replica->gradient);
    spotnik_job_copies_settle(sync->job); /* of the state, which the commit overwrites */
    for (uint32_t i = 0; i < sync->state_count; i++) {
        const struct spotnik_sync_state *state = &sync->state[i];
        int rc = 0;

        if (state->dtype == SPOTNIK_F32 || state->dtype == SPOTNIK_F64)
            rc = spotnik_job_reduce(sync->job, SPOTNIK_SYNC_BUCKET_STATE - i, state->data,
                                    state->count, state->dtype, SPOTNIK_MEAN, false);
        if (rc && !sync->error)
            sync->error = rc;
    }
}

/* A member with more samples than others moves the model by as much more. Where gradients or models
 * are averaged, samples are weights already. */
static void weigh(struct spotnik_sync *sync, float *gradient)
{
    float scale = (float)spotnik_batching_lambda(sync->job);

    if (spotnik_sync_running(sync)->synchronous || sync->deed != SPOTNIK_SYNC_DEED_STRATEGY
        || scale == 1)
        return;
    for (uint64_t i = 0; i < sync->replica.count; i++)
        gradient[i] *= scale;
}

static void start(struct spotnik_sync *sync, float *gradient)
{
    spotnik_job_turn(sync->job, SPOTNIK_PACE_COMMIT); /* what follows is waiting, not computing */
    weigh(sync, gradient);
    sync->replica.gradient = gradient;
    if (!sync->told)
        numbers_start(sync);
    if (sync->deed != SPOTNIK_SYNC_DEED_STRATEGY)
        average_all(sync);
    else if (!sync->started)
        strategy_begin(sync);
    sync->complete = true;
    spotnik_sync_use_wait(sync);
}

static void finish_average(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;

    spotnik_sync_copy(replica->centre, replica->scratch, replica->count);
    if (spotnik_sync_use_meet(sync)) {
        spotnik_sync_running(sync)->finish(replica, &sync->use);
        return;
    }
    spotnik_sync_copy(replica->model, replica->scratch, replica->count);
    sync->use.apply(sync->use.context, replica->model, replica->gradient, replica->count);
    enter(sync);
}

/* What is agreed follows from averages alone, so it is the same bits on every member; and so is the
 * rest of it. */
static void finish(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;
    const struct spotnik_sync_strategy *running = spotnik_sync_running(sync);
    bool equal = spotnik_sync_keeps_equal(running);

    if (sync->deed != SPOTNIK_SYNC_DEED_STRATEGY)
        finish_average(sync);
    else if (!is_nothing(sync))
        running->finish(replica, &sync->use);
    if (equal)
        spotnik_sync_copy(replica->centre, replica->model, replica->count);
    if (equal || !sync->step.replay)
        return;
    spotnik_sync_copy(replica->model, replica->centre, replica->count);
    if (replica->slow)
        spotnik_sync_copy(replica->slow, replica->centre, replica->count);
}

/* Every member has the same numbers now, and gets the same answer. */
static void look_ahead(struct spotnik_sync *sync)
{
    enum spotnik_sync_mode was = sync->sw.mode, wanted = was;
    uint64_t step = sync->step.number;

    if (sync->hooks.decide)
        wanted = sync->hooks.decide(sync->hooks.context, step);
    if (!sync->of[wanted])
        wanted = was;
    sync->sw.committed = step - 1; /* barriers took numbers, too */
    enum spotnik_sync_act act = spotnik_sync_switch_commit(&sync->sw, step, wanted);

    if (act == SPOTNIK_SYNC_ACT_PART)
        enter(sync);
    spotnik_sync_show(sync);
}

int spotnik_sync_step(spotnik_sync *sync, float *gradient)
{
    if (!sync || !gradient)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no strategy or no gradient was given");
    int rc = spotnik_job_handle_check(sync->job);

    if (rc)
        return rc;
    if (!sync->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "no step was begun with spotnik_sync_begin()");
    if (!sync->complete)
        start(sync, gradient);
    if (sync->error)
        return sync->error;
    rc = spotnik_step_commit(sync->job);

    if (rc == SPOTNIK_ERR_AGAIN || rc == SPOTNIK_ERR_PARKED)
        return rc;
    sync->begun = false;
    if (rc && rc != SPOTNIK_ERR_ROOT)
        return rc;
    memcpy(sync->heard, sync->sum, sizeof sync->heard);
    /* without samples there is no mean */
    if (sync->averaged_count == 0 || sync->heard[CONTRIBUTORS] > 0)
        finish(sync);
    look_ahead(sync);
    return rc;
}

int spotnik_sync_is_same_bits(const spotnik_sync *sync)
{
    return sync && spotnik_sync_keeps_equal(spotnik_sync_running(sync));
}

int spotnik_sync_is_local(const spotnik_sync *sync, uint64_t step)
{
    if (!sync || !sync->entered)
        return 0;
    const struct spotnik_sync_strategy *running = spotnik_sync_running(sync);
    const struct spotnik_sync_options *options = &sync->replica.options;
    bool alone = !sync->of[1 - sync->sw.mode]; /* a policy may have the model published */
    bool is_back = options->inner && step % options->lookahead_period == 0;

    return alone && running->local && step % options->period != 0 && !is_back;
}

const float *spotnik_sync_agreed(const spotnik_sync *sync)
{
    return sync ? sync->replica.centre : NULL;
}

uint64_t spotnik_sync_digest(const spotnik_sync *sync)
{
    return sync ? spotnik_hash_bytes(sync->replica.centre,
                                     (size_t)sync->replica.count * sizeof(float))
                : 0;
}

int spotnik_sync_tell(spotnik_sync *sync, uint32_t index, double value)
{
    if (!sync || index >= SPOTNIK_SYNC_TELL_MAX)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "numbers to tell are counted from 0 to %d",
                                    SPOTNIK_SYNC_TELL_MAX - 1);
    sync->tell[1 + index] = value;
    return 0;
}

double spotnik_sync_told(const spotnik_sync *sync, uint32_t index)
{
    return sync && index < SPOTNIK_SYNC_TELL_MAX ? sync->heard[1 + index] : 0;
}
