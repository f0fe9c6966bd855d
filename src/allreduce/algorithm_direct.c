/* SPDX-License-Identifier: Apache-2.0 */
/* One or two hops (docs/design/0007-data-path.md): every member sends its input to all others, or
 * to rank 0 and gets the result. The table of src/ring/choice.h says when. src/step/small.c has
 * the open transfers. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

/* Every member of a view comes to the same answer: it depends on the view, on the step, on the
 * bucket, and on the table of this version. */
enum spotnik_schedule allreduce_small_choose(const struct spotnik_core *core,
                                             const struct spotnik_bucket *bucket)
{
    uint64_t bytes = bucket->count * bucket->element_bytes;

    SPOTNIK_ASSERT(bucket->used && bucket->element_bytes > 0);
    if (core->view.size < 2 || bytes > core->limits.chunk_bytes)
        return SPOTNIK_SCHEDULE_RING;
    return spotnik_choice_take(core->limits.choice, core->view.size, core->allreduce->near, bytes);
}

static bool takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    enum spotnik_schedule schedule = allreduce_small_choose(core, bucket);

    return schedule == SPOTNIK_SCHEDULE_DIRECT || schedule == SPOTNIK_SCHEDULE_HUB;
}

/* Our input is sent from a copy where others may lack it still when we have committed; to the hub
 * it has gone by then. */
static void start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    enum spotnik_schedule schedule = allreduce_small_choose(core, bucket);

    SPOTNIK_ASSERT(core->view.size >= 2 && core->view.size <= SPOTNIK_SMALL_MEMBERS_MAX);
    spotnik_transaction_start_small(&core->step, bucket, schedule, core->view.size, core->rank);
    bucket->sharing = core->allreduce->flat.ours;
    if (schedule == SPOTNIK_SCHEDULE_DIRECT)
        queue_work(core, SPOTNIK_ACTION_OFFER, number, core->step.committed + 1)->offer.count =
            bucket->count;
}

static void next(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                 struct spotnik_transfer *ret)
{
    bool result = spotnik_transaction_is_result(bucket, ret->header.sequence);

    SPOTNIK_ASSERT(bucket->used);
    (void)core;
    allreduce_whole_next(bucket, result ? 0 : bucket->weight, ret);
    ret->source = result                                        ? SPOTNIK_SOURCE_OUT
                  : bucket->schedule == SPOTNIK_SCHEDULE_DIRECT ? SPOTNIK_SOURCE_OFFER
                                                                : SPOTNIK_SOURCE_IN;
}

static struct spotnik_placement place(const struct spotnik_core *core,
                                      const struct spotnik_bucket *bucket, uint32_t rank,
                                      const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    (void)core;
    return allreduce_whole_place(bucket, rank, header);
}

static bool awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                   uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    (void)core;
    return spotnik_transaction_awaits(bucket, rank);
}

static void sum(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket)
{
    struct spotnik_work *work =
        queue_work(core, SPOTNIK_ACTION_SUM, number, core->step.committed + 1);

    SPOTNIK_ASSERT(bucket->size >= 2 && bucket->size == core->view.size);
    work->sum.rank = core->rank;
    work->sum.members = bucket->size;
    work->sum.weight = bucket->weight;
}

static void receive(struct spotnik_core *core, struct spotnik_bucket *bucket,
                    const struct spotnik_chunk_header *header)
{
    bool result = spotnik_transaction_is_result(bucket, header->sequence);
    uint32_t from = spotnik_transaction_small_source(bucket, header->sequence);

    SPOTNIK_ASSERT(bucket->used && bucket->size == core->view.size);
    if (!spotnik_transaction_awaits(bucket, from))
        return;
    bucket->sharing = result ? header->sharing : bucket->sharing && header->sharing;
    if (SPOTNIK_IS_PLANTED(core, SMALL_EARLY) && !result && from == bucket->size - 1)
        bucket->heard |= (UINT64_C(1) << from) - 1;
    if (!spotnik_transaction_receive_small(&core->step, bucket, from))
        return;
    if (!result)
        sum(core, header->bucket, bucket);
    allreduce_whole_complete(core, bucket, header);
}

const struct algorithm algorithm_direct = { .takes = takes,
                                            .start = start,
                                            .next = next,
                                            .place = place,
                                            .awaits = awaits,
                                            .receive = receive };
