/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of strategies, on the real job: averages are buckets of the running step, so they
 * survive losses as every bucket does. What is exchanged between two is no part of a step. The
 * optimiser is the caller's. Decides whose gradient counts: none where there was no share. */
#include <stdlib.h>

#include "api/sync.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"

#define TOPIC "spotnik sync"
/* for an update to be with all copies, or all parts to be here */
#define STORE_NS (10 * SPOTNIK_S)
#define STORE_COPIES 2
#define CATCH_UP_NS (2 * SPOTNIK_S) /* a joiner's, for the model of one of the others */

static bool is_average(const struct spotnik_sync *sync, const float *data)
{
    for (uint32_t i = 0; i < sync->averaged_count; i++)
        if (sync->averaged[i] == data)
            return true;
    return false;
}

void spotnik_sync_use_average(struct spotnik_sync *sync, float *data)
{
    uint32_t number = sync->averaged_count;
    int rc = number < SPOTNIK_SYNC_VECTORS ? 0 : SPOTNIK_ERR_LIMIT;

    if (rc)
        rc = spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                  "a strategy averages %d vectors in a step at most",
                                  SPOTNIK_SYNC_VECTORS);
    else
        rc = spotnik_job_reduce(sync->job, SPOTNIK_SYNC_BUCKET_VECTOR - number, data,
                                (size_t)sync->replica.count, SPOTNIK_F32, SPOTNIK_MEAN, false);
    if (rc && !sync->error)
        sync->error = rc;
    if (!rc)
        sync->averaged[sync->averaged_count++] = data;
}

static void average(void *context, float *data, uint64_t count)
{
    (void)count;
    spotnik_sync_use_average(context, data);
}

/* The own gradient of a member without a share is nothing that was computed. The optimiser's state
 * is registered: before the commit it may be copied for others. */
static void apply(void *context, float *model, const float *gradient, uint64_t count)
{
    struct spotnik_sync *sync = context;

    if (sync->begun)
        spotnik_job_copies_settle(sync->job);
    if (spotnik_sync_contributes(sync) || is_average(sync, gradient))
        sync->apply(sync->apply_context, model, gradient, (size_t)count);
}

/* Publish what others pull. It does not block: it fails only without memory. */
static void publish(void *context, const float *model, uint64_t count)
{
    struct spotnik_sync *sync = context;
    int rc = spotnik_publish(sync->job, TOPIC, model, (size_t)count, SPOTNIK_F32, ++sync->version);

    if (rc && !sync->error)
        sync->error = rc;
}

/* One at a time, and as long as it takes: where links are slow a step does not wait for what was
 * asked in it. What comes is kept apart until a finish can take it. */
static void ask(struct spotnik_sync *sync, uint32_t rank)
{
    size_t count;

    SPOTNIK_ASSERT(sync);
    count = (size_t)sync->replica.count;
    if (sync->request)
        return;
    if (!sync->incoming)
        sync->incoming = malloc(count * sizeof *sync->incoming);
    int rc = sync->incoming
                 ? 0
                 : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for another's model");

    if (!rc)
        rc = spotnik_pull(sync->job, TOPIC, rank, 0, sync->incoming, count, SPOTNIK_F32, 0,
                          &sync->request);
    if (rc && !sync->error)
        sync->error = rc;
}

static void pull(void *context, uint32_t rank, float *ret, uint64_t count)
{
    (void)ret;
    (void)count;
    ask(context, rank);
}

/* The update counts once, whatever member dies; the fetch then includes it. Both belong to this
 * step, which waits for them. */
static void push(void *context, const float *update, uint64_t count)
{
    struct spotnik_sync *sync = context;
    int rc = 0;

    spotnik_sync_use_end(sync);
    if (spotnik_sync_contributes(sync))
        rc = spotnik_push(sync->job, TOPIC, update, (size_t)count, STORE_NS, &sync->request);
    if (!rc && sync->request)
        rc = spotnik_request_wait(sync->request, UINT64_MAX, NULL);
    spotnik_sync_use_end(sync);
    if (rc && !sync->error)
        sync->error = rc;
}

static void fetch(void *context, float *ret, uint64_t count)
{
    struct spotnik_sync *sync = context;
    int rc = spotnik_fetch(sync->job, TOPIC, ret, (size_t)count, STORE_NS, &sync->request);
    spotnik_arrival arrival = { .size = sizeof arrival };

    if (!rc)
        rc = spotnik_request_wait(sync->request, UINT64_MAX, &arrival);
    spotnik_sync_use_end(sync);
    sync->fetched = !rc && arrival.version > 0;
    if (rc && !sync->error)
        sync->error = rc;
}

/* What the members of this host have in common; asked for once. */
static float *common(void *context, const float *initial, uint64_t count)
{
    struct spotnik_sync *sync = context;
    float *memory = sync->replica.common;
    int rc = memory ? 0 : spotnik_common(sync->job, TOPIC, initial, (size_t)count, &memory);

    if (rc && !sync->error)
        sync->error = rc;
    return rc ? NULL : memory;
}

void spotnik_sync_use_fill(struct spotnik_sync *sync)
{
    sync->use = (struct spotnik_sync_primitives){ .context = sync,
                                                  .average = average,
                                                  .pull = pull,
                                                  .publish = publish,
                                                  .push = push,
                                                  .fetch = fetch,
                                                  .common = common,
                                                  .apply = apply };
}

void spotnik_sync_use_end(struct spotnik_sync *sync)
{
    if (!sync)
        return;
    spotnik_request_free(sync->request);
    sync->request = NULL;
}

/* Has something come? Into `to`, then. */
static bool take(struct spotnik_sync *sync, float *to, uint64_t patience_ns)
{
    spotnik_arrival arrival = { .size = sizeof arrival };

    if (!sync->request)
        return false;
    int rc = spotnik_request_wait(sync->request, patience_ns, &arrival);

    if (rc == SPOTNIK_ERR_AGAIN)
        return false;
    spotnik_sync_use_end(sync);
    if (rc && !sync->error)
        sync->error = rc;
    if (!rc && arrival.version)
        spotnik_sync_copy(to, sync->incoming, sync->replica.count);
    return !rc && arrival.version;
}

void spotnik_sync_use_wait(struct spotnik_sync *sync)
{
    sync->replica.arrived = sync->fetched || take(sync, sync->replica.scratch, 0);
    sync->fetched = false;
}

static bool shares(const struct spotnik_sync *sync)
{
    return sync->of[SPOTNIK_SYNC_ASYNCHRONOUS] && sync->of[SPOTNIK_SYNC_ASYNCHRONOUS]->shares;
}

/* What others of this host have done since we looked last counts with our model. A joiner that
 * repeats the step looks at nothing. */
static void settle_common(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;

    if (!shares(sync) || sync->step.replay)
        return;
    replica->common = common(sync, replica->model, replica->count);
    if (replica->common)
        spotnik_sync_common_read(replica->common, replica->model, replica->count);
}

bool spotnik_sync_use_meet(struct spotnik_sync *sync)
{
    struct spotnik_sync_replica *replica = &sync->replica;

    if (!shares(sync) || !replica->common || sync->step.replay)
        return false;
    for (uint64_t i = 0; i < replica->count; i++)
        replica->scratch[i] -= replica->model[i];
    spotnik_sync_common_add(replica->common, replica->scratch,
                            1 / (float)spotnik_p2p_neighbours(sync->job->p2p), replica->count);
    return true;
}

void spotnik_sync_use_settle(struct spotnik_sync *sync)
{
    settle_common(sync);
    spotnik_sync_use_end(sync);
}

void spotnik_sync_use_catch_up(struct spotnik_sync *sync)
{
    spotnik_sync_use_end(sync);
    if (sync->step.size < 2)
        return;
    ask(sync, (sync->step.rank + 1) % sync->step.size);
    if (take(sync, sync->replica.scratch, CATCH_UP_NS))
        spotnik_sync_copy(sync->replica.model, sync->replica.scratch, sync->replica.count);
    spotnik_sync_use_end(sync);
}

void spotnik_sync_use_resumed(struct spotnik_sync *sync)
{
    if (sync->of[SPOTNIK_SYNC_ASYNCHRONOUS] == &spotnik_sync_asp)
        spotnik_p2p_store_set(sync->job->p2p, TOPIC, sync->replica.centre);
}

void spotnik_sync_use_leave(struct spotnik_sync *sync)
{
    sync->replica.common = NULL;
    if (shares(sync))
        spotnik_p2p_common_leave(sync->job->p2p, TOPIC);
}

int spotnik_sync_use_check(struct spotnik_sync *sync)
{
    if (shares(sync) && sync->of[SPOTNIK_SYNC_SYNCHRONOUS])
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "hogwild keeps one model for the members of a host from the first step "
            "on: run it alone, not under a policy");
    if (shares(sync) && !spotnik_runtime_is_sharing(sync->job->runtime))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "hogwild needs memory that members of one host share, and "
                                    "there is none (SPOTNIK_TRANSPORT=tcp, "
                                    "or a system without memfd); use adpsgd instead");
    if (sync->of[SPOTNIK_SYNC_ASYNCHRONOUS] != &spotnik_sync_asp)
        return 0;
    if (sync->of[SPOTNIK_SYNC_SYNCHRONOUS])
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "asp keeps its store from the first step on: run it alone, not under a policy");
    return spotnik_store_open(sync->job, TOPIC, sync->replica.model, (size_t)sync->replica.count,
                              STORE_COPIES);
}

void spotnik_sync_average(spotnik_sync *sync, float *data)
{
    if (sync && data)
        average(sync, data, sync->replica.count);
}

void spotnik_sync_apply(spotnik_sync *sync, float *model, const float *gradient)
{
    if (sync && model && gradient)
        apply(sync, model, gradient, sync->replica.count);
}

/* Called before any other member is there. So the job may choose its strategy anew, and its store
 * begins with what was saved. */
void spotnik_sync_resumed(struct spotnik_sync *sync)
{
    if (sync->identity != sync->own_identity) {
        sync->identity = sync->own_identity;
        sync->sw.act = SPOTNIK_SYNC_ACT_RUN;
        if (sync->sw.mode > SPOTNIK_SYNC_ASYNCHRONOUS || !sync->of[sync->sw.mode])
            sync->sw.mode = SPOTNIK_SYNC_SYNCHRONOUS;
        if (!sync->of[sync->sw.mode])
            sync->sw.mode = SPOTNIK_SYNC_ASYNCHRONOUS;
    }
    spotnik_sync_use_resumed(sync);
}
