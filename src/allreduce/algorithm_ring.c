/* SPDX-License-Identifier: Apache-2.0 */
/* Round the ring of all members: segments go from each member to its successor (src/ring/ring.h).
 * Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

bool allreduce_is_weighted(uint8_t op)
{
    return op == SPOTNIK_MEAN;
}

static bool takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    (void)core, (void)bucket;
    return true;
}

/* What we put into the ring at hop 0. */
void allreduce_ring_scale(struct spotnik_core *core, uint32_t number,
                          const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    struct spotnik_ring_chunk own = spotnik_ring_own(&bucket->ring);
    bool alone = core->view.size == 1;
    if (!alone && (bucket->op != SPOTNIK_MEAN || bucket->weight <= 1 || !own.count))
        return;
    struct spotnik_work *work =
        queue_work(core, alone ? SPOTNIK_ACTION_COPY_OWN : SPOTNIK_ACTION_SCALE, number,
                   core->step.committed + 1);
    if (alone) {
        work->copy_own.weight = bucket->weight;
        return;
    }
    work->scale.offset = own.offset;
    work->scale.count = own.count;
    work->scale.weight = bucket->weight;
}

static void start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->rank < core->view.size);
    spotnik_transaction_start(&core->step, bucket, core->view.size, core->rank,
                              core->limits.chunk_bytes);
    allreduce_ring_scale(core, number, bucket);
}

void allreduce_ring_next(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                         struct spotnik_transfer *ret)
{
    unsigned generation = ret->header.step & 1;
    struct spotnik_ring_chunk chunk = spotnik_ring_sent(&bucket->ring, ret->header.sequence);
    bool scaled = bucket->summed || (allreduce_is_weighted(bucket->op) && bucket->weight > 1);

    SPOTNIK_ASSERT(ret->header.sequence < spotnik_ring_total(&bucket->ring));
    ret->header.weight =
        chunk.hop == 0
            ? bucket->ring_weight
            : core->allreduce
                  ->carried[generation][allreduce_is_weighted(bucket->op)][chunk.hop - 1];
    ret->header.sharing = chunk.hop == 0 ? core->allreduce->flat.ours
                                         : core->allreduce->flat.carried[generation][chunk.hop - 1];
    ret->source = chunk.hop == 0 && !scaled ? SPOTNIK_SOURCE_IN : SPOTNIK_SOURCE_OUT;
    ret->offset = chunk.offset;
    ret->count = chunk.count;
}

/* Where a frame of our stream belongs. */
struct spotnik_placement allreduce_ring_place(const struct spotnik_bucket *bucket,
                                              const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(bucket->used);
    if (header->sequence != bucket->received
        || bucket->received >= spotnik_ring_total(&bucket->ring))
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    struct spotnik_ring_chunk chunk = spotnik_ring_received(&bucket->ring, header->sequence);
    if (chunk.kind != SPOTNIK_RING_COPY && header->sequence % bucket->ring.chunks >= bucket->ready)
        return allreduce_verdict(SPOTNIK_VERDICT_WAIT); /* until this part of it is there */
    return (struct spotnik_placement){ .verdict = SPOTNIK_VERDICT_TAKE,
                                       .kind = chunk.kind,
                                       .offset = chunk.offset,
                                       .count = chunk.count,
                                       .weight = bucket->ring_weight,
                                       .weight_total = header->weight + bucket->ring_weight,
                                       .summed = bucket->summed };
}

static struct spotnik_placement place(const struct spotnik_core *core,
                                      const struct spotnik_bucket *bucket, uint32_t rank,
                                      const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    if (rank != predecessor_rank(core))
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    return allreduce_ring_place(bucket, header);
}

static bool awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                   uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return !bucket->complete
           && (rank == predecessor_rank(core) || SPOTNIK_IS_PLANTED(core, JUDGE_ANY_CHANNEL));
}

void allreduce_ring_receive(struct spotnik_core *core, struct spotnik_bucket *bucket,
                            const struct spotnik_chunk_header *header)
{
    unsigned generation = header->step & 1;

    SPOTNIK_ASSERT(bucket->received < spotnik_ring_total(&bucket->ring));
    SPOTNIK_ASSERT(core->step.begun);
    if (header->sequence != bucket->received)
        return;
    struct spotnik_ring_chunk chunk = spotnik_ring_received(&bucket->ring, header->sequence);
    core->allreduce->carried[generation][allreduce_is_weighted(bucket->op)][chunk.hop] =
        header->weight + (chunk.kind == SPOTNIK_RING_COPY ? 0 : bucket->ring_weight);
    bool sharing =
        header->sharing && (chunk.kind == SPOTNIK_RING_COPY || core->allreduce->flat.ours);
    core->allreduce->flat.carried[generation][chunk.hop] = sharing;
    if (chunk.kind != SPOTNIK_RING_REDUCE) /* the word of all is in it */
        core->allreduce->flat.agreed[generation] = sharing;
    if (spotnik_transaction_receive(&core->step, bucket))
        flat_spread(core, header->bucket, bucket, header->step);
}

const struct algorithm algorithm_ring = { .takes = takes,
                                          .start = start,
                                          .next = allreduce_ring_next,
                                          .place = place,
                                          .awaits = awaits,
                                          .receive = allreduce_ring_receive };
