/* SPDX-License-Identifier: Apache-2.0 */
/* Results, and how they get to the caller: at the commit, or piece by piece before it where the wire leaves time (early.h). Decides
 * which buckets that is worth it for; the bookkeeping is early.c's. */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/dtype.h"
#include "net/share.h"
#include "net/state.h"
#include "reduce/reduce.h"

#define PIECE_BYTES (128u * 1024) /* with the lock held: some ten microseconds */

uint32_t spotnik_engine_results(const struct spotnik_engine *engine, uint64_t step,
                                struct spotnik_bucket_result *result)
{
    unsigned half = step & 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < engine->bucket_count; i++) {
        const struct spotnik_bucket_memory *bucket = &engine->bucket[i];
        result[i] = (struct spotnik_bucket_result){ .data = NULL };
        if (bucket->step[half] != step)
            continue;
        /* An empty bucket is used all the same. */
        const void *shared = spotnik_share_result(engine, i, step);
        const uint8_t *out = spotnik_bucket_out(bucket, half);
        const void *data = out != NULL ? out : engine->sink;
        result[i] = (struct spotnik_bucket_result){ .data = shared != NULL ? shared : data,
                                                    .count = bucket->count[half],
                                                    .dtype = bucket->dtype[half],
                                                    .op = bucket->op[half] };
        count = i + 1;
    }
    return count;
}

static size_t bytes_of(const struct spotnik_bucket_memory *bucket, unsigned half)
{
    return bucket->count[half] * spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[half]);
}

/* A chunk is in place that nobody will change any more. */
void spotnik_deliver_final(struct spotnik_engine *engine, const struct spotnik_chunk_header *header,
                           const struct spotnik_placement *placement)
{
    struct spotnik_bucket_memory *bucket = &engine->bucket[header->bucket];
    unsigned half = header->step & 1;
    size_t one = spotnik_dtype_size((enum spotnik_dtype)header->dtype);

    if (!engine->attend.far || bucket->kept || header->handover || bucket->spread[half] != NULL
        || header->schedule != SPOTNIK_SCHEDULE_RING || bytes_of(bucket, half) < SPOTNIK_EARLY_LEAST)
        return;
    if (bucket->early == NULL)
        bucket->early = calloc(1, sizeof *bucket->early);
    if (bucket->early != NULL)
        spotnik_early_add(bucket->early, header->step, placement->offset * one,
                          (placement->offset + placement->count) * one);
}

static bool overlap(const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes)
{
    return one < other + other_bytes && other < one + one_bytes;
}

/* Does another bucket of the step read what this one would write? */
static bool is_shared(const struct spotnik_engine *engine, const struct spotnik_bucket_memory *bucket, unsigned half)
{
    for (uint32_t i = 0; i < engine->bucket_count; i++) {
        const struct spotnik_bucket_memory *other = &engine->bucket[i];
        if (other != bucket && other->step[half] == bucket->step[half]
            && overlap(bucket->in, bytes_of(bucket, half), other->in, bytes_of(other, half)))
            return true;
    }
    return false;
}

/* One piece, where there is one. All buckets of the step are known by now: the caller has sealed it. */
bool spotnik_deliver_early(struct spotnik_engine *engine)
{
    unsigned half = engine->begun_step & 1;

    if (!engine->attend.far || !engine->sealed || engine->committed >= engine->begun_step)
        return false;
    for (uint32_t i = 0; i < engine->bucket_count; i++) {
        struct spotnik_bucket_memory *bucket = &engine->bucket[i];
        if (bucket->early == NULL || !spotnik_early_is_due(bucket->early, engine->begun_step))
            continue;
        if (is_shared(engine, bucket, half))
            bucket->early->refused = true;
        else
            spotnik_early_move(bucket->early, bucket->in, spotnik_bucket_out(bucket, half), bytes_of(bucket, half),
                               PIECE_BYTES);
        return true;
    }
    return false;
}

/* The step will be reduced again, or is not to be the caller's: its inputs are what they were. Does nothing to a committed one. */
void spotnik_deliver_undo(struct spotnik_engine *engine)
{
    if (!engine->begun || engine->committed >= engine->begun_step)
        return;
    for (uint32_t i = 0; i < engine->bucket_count; i++) {
        struct spotnik_bucket_memory *bucket = &engine->bucket[i];
        if (bucket->early != NULL && bucket->early->step == engine->begun_step)
            spotnik_early_undo(bucket->early, bucket->in);
    }
}

static void hand_over(struct spotnik_bucket_memory *bucket, uint64_t step, const void *result, size_t bytes)
{
    if (bucket->early != NULL && bucket->early->step == step)
        spotnik_early_finish(bucket->early, bucket->in, result, bytes);
    else
        spotnik_copy(bucket->in, result, bytes, bytes);
}

/* Without the lock: until the caller starts buckets again, nobody writes these results and nobody reads
 * the inputs. */
bool spotnik_deliver(struct spotnik_engine *engine, uint64_t step)
{
    bool stand = true;
    struct spotnik_bucket_result result[SPOTNIK_BUCKET_BARRIER];
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    uint32_t count = spotnik_engine_results(engine, step, result);
    if (hooks->committed != NULL)
        hooks->committed(hooks->context, step, count, result);
    for (uint32_t i = 0; i < count; i++) {
        size_t one = spotnik_dtype_size((enum spotnik_dtype)result[i].dtype);
        bool kept = engine->bucket[i].kept;
        if (engine->bucket[i].step[step & 1] != step)
            continue; /* left out in this step: what is shown, and where it went, are of an earlier one */
        if (spotnik_share_result(engine, i, step) != NULL)
            stand &= spotnik_share_deliver(engine, i, step, kept ? NULL : engine->bucket[i].in);
        else if (kept)
            continue;
        else if (result[i].data != NULL && result[i].count > 0)
            hand_over(&engine->bucket[i], step, result[i].data, result[i].count * one);
    }
    return stand;
}
