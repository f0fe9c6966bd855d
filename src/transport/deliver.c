/* SPDX-License-Identifier: Apache-2.0 */
/* Results, and how they get to the caller: at the commit, or piece by piece before it where the
 * wire leaves time (early.h). Decides which buckets that is worth it for; the bookkeeping is
 * early.c's. */
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/dtype.h"
#include "base/fingerprint.h"
#include "transport/inside.h"
#include "transport/share.h"
#include "reduce/reduce.h"

#define PIECE_BYTES (128u * 1024) /* with the lock held: some ten microseconds */

uint32_t spotnik_transport_result(const struct spotnik_transport *transport, uint64_t step,
                                  struct spotnik_bucket_result *result)
{
    unsigned half = step & 1;
    uint32_t count = 0;
    for (uint32_t i = 0; i < transport->bucket_count; i++) {
        const struct spotnik_bucket_memory *bucket = &transport->bucket[i];
        result[i] = (struct spotnik_bucket_result){ .data = NULL };
        if (bucket->step[half] != step)
            continue;
        /* An empty bucket is used all the same. */
        const void *shared = spotnik_share_result(transport, i, step);
        const uint8_t *out = spotnik_bucket_out(bucket, half);
        const void *data = out != NULL ? out : transport->sink;
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

static struct spotnik_early *early_of(struct spotnik_bucket_memory *bucket)
{
    if (bucket->early == NULL)
        bucket->early = calloc(1, sizeof *bucket->early);
    return bucket->early;
}

static bool is_lent(const struct spotnik_bucket_memory *bucket, uint64_t step)
{
    return bucket->early != NULL && bucket->early->step == step && bucket->early->lent != NULL;
}

/* A copy of the input of the running step lies in our shared memory, where it is final as far as
 * the result is. */
void spotnik_deliver_lend(struct spotnik_transport *transport, uint32_t number, uint64_t step,
                          const void *input)
{
    struct spotnik_bucket_memory *bucket = &transport->bucket[number];

    if (!bucket->kept && bytes_of(bucket, step & 1) >= SPOTNIK_EARLY_LEAST
        && early_of(bucket) != NULL)
        spotnik_early_lend(bucket->early, step, input);
}

/* A chunk is in place, and final. */
void spotnik_deliver_final(struct spotnik_transport *transport,
                           const struct spotnik_chunk_header *header,
                           const struct spotnik_placement *placement)
{
    struct spotnik_bucket_memory *bucket = &transport->bucket[header->bucket];
    unsigned half = header->step & 1;
    size_t one = spotnik_dtype_size((enum spotnik_dtype)header->dtype);

    if (bucket->kept || header->handover || header->schedule != SPOTNIK_SCHEDULE_RING
        || bytes_of(bucket, half) < SPOTNIK_EARLY_LEAST)
        return;
    if (bucket->spread[half] != NULL)
        spotnik_share_show(transport, header->bucket, header->step, header->sequence + 1);
    if (bucket->spread[half] != NULL ? is_lent(bucket, header->step)
                                     : transport->far && early_of(bucket) != NULL)
        spotnik_early_add(bucket->early, header->step, placement->offset * one,
                          (placement->offset + placement->count) * one);
}

/* The holder of our host shows more of the result. */
void spotnik_deliver_shown(struct spotnik_transport *transport, uint32_t number, uint64_t step)
{
    struct spotnik_bucket_memory *bucket = &transport->bucket[number];
    size_t one = spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[step & 1]);

    if (!is_lent(bucket, step))
        return;
    for (uint64_t until = spotnik_flat_shown(&transport->share->flat, number);
         bucket->early->shown < until; bucket->early->shown++) {
        struct spotnik_ring_chunk chunk =
            spotnik_flat_shown_chunk(&transport->share->flat, number, bucket->early->shown);
        spotnik_early_add(bucket->early, step, chunk.offset * one,
                          (chunk.offset + chunk.count) * one);
    }
}

static bool overlap(const uint8_t *one, size_t one_bytes, const uint8_t *other, size_t other_bytes)
{
    return one < other + other_bytes && other < one + one_bytes;
}

/* Does another bucket of the step read what this one would write? */
static bool is_shared(const struct spotnik_transport *transport,
                      const struct spotnik_bucket_memory *bucket, unsigned half)
{
    for (uint32_t i = 0; i < transport->bucket_count; i++) {
        const struct spotnik_bucket_memory *other = &transport->bucket[i];
        if (other != bucket && other->step[half] == bucket->step[half]
            && overlap(bucket->in, bytes_of(bucket, half), other->in, bytes_of(other, half)))
            return true;
    }
    return false;
}

/* The bytes that we read in another's memory may have been overwritten meanwhile. Then a view has
 * been made without us, or is about to be, and the input comes back. */
static void move_one(struct spotnik_transport *transport, uint32_t number, unsigned half)
{
    struct spotnik_bucket_memory *bucket = &transport->bucket[number];
    const void *shown = spotnik_share_shown(transport, number, transport->stand->begun_step);

    spotnik_early_move(bucket->early, bucket->in,
                       shown != NULL ? shown : spotnik_bucket_out(bucket, half),
                       bytes_of(bucket, half), PIECE_BYTES);
    if (shown != NULL && !spotnik_flat_shown_stands(&transport->share->flat, number))
        bucket->early->refused = true;
}

/* One piece, where there is one. All buckets of the step are known by now: the caller has sealed
 * it. */
bool spotnik_transport_early(struct spotnik_transport *transport)
{
    unsigned half = transport->stand->begun_step & 1;

    if (!transport->stand->sealed || transport->stand->committed >= transport->stand->begun_step)
        return false;
    for (uint32_t i = 0; i < transport->bucket_count; i++) {
        struct spotnik_bucket_memory *bucket = &transport->bucket[i];
        if (bucket->early == NULL
            || !spotnik_early_is_due(bucket->early, transport->stand->begun_step))
            continue;
        if (is_shared(transport, bucket, half))
            bucket->early->refused = true;
        else
            move_one(transport, i, half);
        return true;
    }
    return false;
}

/* The step will be reduced again, or is not to be the caller's: its inputs are what they were. Does
 * nothing to a committed one. */
void spotnik_transport_undo(struct spotnik_transport *transport)
{
    if (!transport->stand->begun || transport->stand->committed >= transport->stand->begun_step)
        return;
    for (uint32_t i = 0; i < transport->bucket_count; i++) {
        struct spotnik_bucket_memory *bucket = &transport->bucket[i];
        if (bucket->early != NULL && bucket->early->step == transport->stand->begun_step)
            spotnik_early_undo(bucket->early, bucket->in);
    }
}

static void hand_over(struct spotnik_bucket_memory *bucket, uint64_t step, const void *result,
                      size_t bytes)
{
    if (bucket->early != NULL && bucket->early->step == step)
        spotnik_early_finish(bucket->early, bucket->in, result, bytes);
    else
        spotnik_copy(bucket->in, result, bytes, bytes);
}

/* What the caller has now, to be compared with what others have. */
static uint64_t fingerprint(const struct spotnik_transport *transport, uint64_t step,
                            const struct spotnik_bucket_result *result, uint32_t count)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct spotnik_bucket_memory *bucket = &transport->bucket[i];
        if (bucket->step[step & 1] == step)
            digest =
                spotnik_fingerprint_add(digest, i, step, bucket->kept ? result[i].data : bucket->in,
                                        bytes_of(bucket, step & 1));
    }
    return digest;
}

/* Without the lock: until the caller starts buckets again, nobody writes these results and nobody
 * reads the inputs. */
bool spotnik_transport_deliver(struct spotnik_transport *transport, uint64_t step,
                               const struct spotnik_bucket_result *result, uint32_t count,
                               uint64_t *ret_digest)
{
    bool stand = true;
    for (uint32_t i = 0; i < count; i++) {
        size_t one = spotnik_dtype_size((enum spotnik_dtype)result[i].dtype);
        bool kept = transport->bucket[i].kept;
        if (transport->bucket[i].step[step & 1] != step)
            /* left out in this step: what is shown, and where it went, are of an earlier one */
            continue;
        if (spotnik_share_result(transport, i, step) != NULL)
            stand &=
                spotnik_share_deliver(transport, i, step, kept ? NULL : transport->bucket[i].in);
        else if (kept)
            continue;
        else if (result[i].data != NULL && result[i].count > 0)
            hand_over(&transport->bucket[i], step, result[i].data, result[i].count * one);
    }
    *ret_digest = fingerprint(transport, step, result, count);
    spotnik_share_neighbours(transport);
    return stand;
}
