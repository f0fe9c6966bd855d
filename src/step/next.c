/* SPDX-License-Identifier: Apache-2.0 */
/* Which chunk to send next: the remainder of the committed step, then the running step, lowest
 * bucket first; and the handover of a finished step. Any order is correct, since frames name what
 * they carry; this one is the soonest useful. */
#include "base/assert.h"
#include "step/transaction.h"

static bool next_small(struct spotnik_bucket *bucket, uint32_t to, uint64_t *ret_sequence)
{
    if (!spotnik_transaction_owes(bucket, to))
        return false;
    spotnik_transaction_tell(bucket, to);
    *ret_sequence = spotnik_transaction_small_sequence(bucket, bucket->rank, to);
    return true;
}

static bool next_round(struct spotnik_bucket *bucket, uint64_t *ret_sequence)
{
    if (bucket->sent < bucket->ring.chunks && bucket->sent >= bucket->ready)
        return false; /* the sum of our host, and it is not there yet */
    uint64_t received = bucket->complete ? spotnik_ring_total(&bucket->ring) : bucket->received;
    if (!spotnik_ring_ready(&bucket->ring, bucket->sent, received))
        return false;
    *ret_sequence = bucket->sent++;
    return true;
}

static bool next_of(struct spotnik_transaction *step, uint64_t number,
                    const struct spotnik_towards *towards, uint32_t *ret_bucket,
                    uint64_t *ret_sequence)
{
    for (uint32_t i = step->first[number & 1]; i < step->last[number & 1]; i++) {
        struct spotnik_bucket *bucket = spotnik_transaction_bucket(step, number, i);
        bool small = bucket->schedule != SPOTNIK_SCHEDULE_RING;
        bool round = bucket->hosts ? towards->next_host : towards->successor;
        *ret_bucket = i;
        if (bucket->used && small
                ? next_small(bucket, bucket->hosts ? towards->to_host : towards->to, ret_sequence)
                : bucket->used && round && next_round(bucket, ret_sequence))
            return true;
    }
    return false;
}

bool spotnik_transaction_next(struct spotnik_transaction *step,
                              const struct spotnik_towards *towards, uint64_t *ret_step,
                              uint32_t *ret_bucket, uint64_t *ret_sequence)
{
    for (uint64_t number = step->committed; number <= step->committed + step->begun; number++)
        if (next_of(step, number, towards, ret_bucket, ret_sequence)) {
            *ret_step = number;
            return true;
        }
    return false;
}

bool spotnik_transaction_next_handover(struct spotnik_transaction *step, uint64_t number,
                                       uint32_t chunk_bytes, uint32_t *ret_bucket,
                                       uint64_t *ret_sequence)
{
    SPOTNIK_ASSERT(number == step->committed || number == step->committed + 1);
    if (number == step->committed + 1 && !step->begun)
        return false; /* a laggard whose caller has not begun the step has nothing to pass on yet */
    for (uint32_t i = step->first[number & 1]; i < step->last[number & 1]; i++) {
        struct spotnik_bucket *bucket = spotnik_transaction_bucket(step, number, i);
        uint64_t have = bucket->complete ? spotnik_transaction_handover_total(bucket, chunk_bytes)
                                         : bucket->handover_received;
        if (!bucket->used || bucket->handed >= have)
            continue;
        *ret_bucket = i;
        *ret_sequence = bucket->handed++;
        return true;
    }
    return false;
}
