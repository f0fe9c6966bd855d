/* SPDX-License-Identifier: Apache-2.0 */
/* What algorithms have in common that send a whole bucket as one frame. Rules:
 * docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

void allreduce_whole_next(const struct spotnik_bucket *bucket, uint64_t weight,
                          struct spotnik_transfer *ret)
{
    SPOTNIK_ASSERT(bucket->used && bucket->schedule != SPOTNIK_SCHEDULE_RING);
    ret->header.weight = weight;
    ret->header.sharing = bucket->sharing;
    ret->offset = 0;
    ret->count = bucket->count;
}

struct spotnik_placement allreduce_whole_place(const struct spotnik_bucket *bucket, uint32_t from,
                                               const struct spotnik_chunk_header *header)
{
    bool expected =
        header->sequence == spotnik_transaction_small_sequence(bucket, from, bucket->rank);

    SPOTNIK_ASSERT(bucket->used && bucket->schedule != SPOTNIK_SCHEDULE_RING);
    if (!expected || !spotnik_transaction_awaits(bucket, from))
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    bool result = spotnik_transaction_is_result(bucket, header->sequence);
    return (struct spotnik_placement){ .verdict = SPOTNIK_VERDICT_TAKE,
                                       .kind = result ? SPOTNIK_RING_COPY : SPOTNIK_RING_KEEP,
                                       .count = bucket->count };
}

void allreduce_whole_complete(struct spotnik_core *core, struct spotnik_bucket *bucket,
                              const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(bucket->complete);
    core->allreduce->flat.agreed[header->step & 1] = bucket->sharing; /* the word of all is in it */
    flat_spread(core, header->bucket, bucket, header->step);
}
