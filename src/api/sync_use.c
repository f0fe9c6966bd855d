/* SPDX-License-Identifier: Apache-2.0 */
/* The primitives of strategies, on the real job: averages are buckets of the running step, so they survive losses as every bucket
 * does; the optimiser is the caller's. Decides whose gradient counts: none where there was no share. */
#include "api/sync.h"
#include "base/error.h"

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
        rc = spotnik_error_return(SPOTNIK_ERR_LIMIT, "a strategy averages %d vectors in a step at most",
                                  SPOTNIK_SYNC_VECTORS);
    else
        rc = spotnik_job_reduce(sync->job, SPOTNIK_SYNC_BUCKET_VECTOR - number, data, (size_t)sync->replica.count,
                                SPOTNIK_F32, SPOTNIK_MEAN, false);
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

/* The own gradient of a member without a share is nothing that was computed. */
static void apply(void *context, float *model, const float *gradient, uint64_t count)
{
    struct spotnik_sync *sync = context;

    if (spotnik_sync_contributes(sync) || is_average(sync, gradient))
        sync->apply(sync->apply_context, model, gradient, (size_t)count);
}

static void publish(void *context, const float *model, uint64_t count)
{
    (void)context;
    (void)model;
    (void)count;
}

void spotnik_sync_use_fill(struct spotnik_sync *sync)
{
    sync->use = (struct spotnik_sync_primitives){
        .context = sync, .average = average, .publish = publish, .apply = apply
    };
}

void spotnik_sync_use_free(struct spotnik_sync *sync)
{
    (void)sync;
}

void spotnik_sync_use_settle(struct spotnik_sync *sync)
{
    (void)sync;
}

void spotnik_sync_use_wait(struct spotnik_sync *sync)
{
    sync->replica.arrived = false;
}

void spotnik_sync_use_catch_up(struct spotnik_sync *sync)
{
    (void)sync;
}

int spotnik_sync_use_check(const struct spotnik_sync *sync)
{
    if (sync->of[SPOTNIK_SYNC_ASYNCHRONOUS] && !sync->of[SPOTNIK_SYNC_ASYNCHRONOUS]->synchronous)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s needs exchanges between single members",
                                    sync->of[SPOTNIK_SYNC_ASYNCHRONOUS]->name);
    return 0;
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
