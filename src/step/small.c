/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets too small for the ring (docs/design/0011-small-buckets.md): whole inputs to those who add up, and the result from the hub.
 * Decides who still owes whom what; a bucket's progress is two sets of ranks. */
#include "base/assert.h"
#include "step/step.h"

#define HUB 0 /* its rank */

static bool adds_up(const struct spotnik_bucket *bucket, uint32_t rank)
{
    return bucket->schedule == SPOTNIK_SCHEDULE_DIRECT || rank == HUB;
}

static uint64_t bit(uint32_t rank)
{
    return UINT64_C(1) << rank;
}

void spotnik_transaction_start_small(struct spotnik_transaction *step, struct spotnik_bucket *bucket,
                                     enum spotnik_schedule schedule, uint32_t size, uint32_t rank)
{
    SPOTNIK_ASSERT(size >= 2);
    SPOTNIK_ASSERT(size <= SPOTNIK_SMALL_MEMBERS_MAX);
    spotnik_transaction_start_flat(step, bucket); /* nothing of it goes round */
    bucket->flat = false;
    bucket->schedule = schedule;
    bucket->size = size;
    bucket->rank = rank;
    bucket->heard = bucket->told = bit(rank);
}

bool spotnik_transaction_owes(const struct spotnik_bucket *bucket, uint32_t to)
{
    if (bucket->told & bit(to))
        return false;
    return adds_up(bucket, to) || (bucket->rank == HUB && bucket->complete);
}

bool spotnik_transaction_awaits(const struct spotnik_bucket *bucket, uint32_t from)
{
    if (adds_up(bucket, bucket->rank))
        return !(bucket->heard & bit(from));
    return from == HUB && !bucket->complete;
}

uint64_t spotnik_transaction_small_sequence(const struct spotnik_bucket *bucket, uint32_t from, uint32_t to)
{
    return adds_up(bucket, to) ? from : bucket->size;
}

bool spotnik_transaction_receive_small(struct spotnik_transaction *step, struct spotnik_bucket *bucket, uint32_t from)
{
    SPOTNIK_ASSERT(spotnik_transaction_awaits(bucket, from));
    bucket->heard |= bit(from);
    if (adds_up(bucket, bucket->rank) && bucket->heard != bit(bucket->size) - 1)
        return false;
    bucket->complete = true;
    step->completed++;
    return true;
}
