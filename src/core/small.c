/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets that do not go round the ring because they are small (docs/design/0011-small-buckets.md): the place of a frame, what it
 * completes, and the way of a bucket. src/step/small.c has the open transfers, src/ring/choice.h the table, tree.c what is particular
 * to trees. */
#include <string.h>

#include "core/state.h"

/* Do all members of the view have one address? */
bool small_is_near(const struct spotnik_core *core)
{
    const struct spotnik_view *view = &core->view;

    for (uint32_t rank = 1; rank < view->size; rank++)
        if (memcmp(view->entry[rank].member.address, view->entry[0].member.address, sizeof(view->entry[0].member.address)) != 0)
            return false;
    return true;
}

/* Every member of a view comes to the same answer: it depends on the view, on the step, on the bucket, and on the table of this version. */
enum spotnik_schedule small_choose(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    uint64_t bytes = bucket->count * bucket->element_bytes;

    if (core->view.size < 2 || bytes > core->limits.chunk_bytes || core->view.detour)
        return SPOTNIK_SCHEDULE_RING;
    enum spotnik_schedule schedule = spotnik_choice_take(core->limits.choice, core->view.size, small_is_near(core), bytes);
    return schedule == SPOTNIK_SCHEDULE_TREE && !tree_is_ready(core) ? SPOTNIK_SCHEDULE_RING : schedule;
}

/* Our input is sent from a copy where others may lack it still when we have committed; to the hub it has gone by then. */
bool small_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    enum spotnik_schedule schedule = small_choose(core, bucket);

    if (schedule == SPOTNIK_SCHEDULE_RING)
        return false;
    if (schedule == SPOTNIK_SCHEDULE_TREE) {
        tree_start(core, number, bucket, false);
        return true;
    }
    spotnik_transaction_start_small(&core->step, bucket, schedule, core->view.size, core->rank);
    bucket->sharing = core->flat.ours;
    if (schedule == SPOTNIK_SCHEDULE_DIRECT)
        queue_work(core, SPOTNIK_ACTION_OFFER, number, core->step.committed + 1)->offer.count = bucket->count;
    return true;
}

/* Ours goes out as the caller put it in: nothing is added to it before, nor is it weighted. */
static bool is_plain(const struct spotnik_bucket *bucket)
{
    if (bucket->schedule != SPOTNIK_SCHEDULE_TREE)
        return true;
    return spotnik_tree_children(&bucket->tree) == 0 && !bucket->summed && (bucket->op != SPOTNIK_MEAN || bucket->weight <= 1);
}

/* `ret` has the header but for what is ours to say. */
void small_next(const struct spotnik_bucket *bucket, struct spotnik_transfer *ret)
{
    bool result = spotnik_transaction_is_result(bucket, ret->header.sequence);

    ret->header.weight = result                                      ? 0
                         : bucket->schedule == SPOTNIK_SCHEDULE_TREE ? bucket->tree_weight
                                                                     : bucket->weight;
    ret->header.sharing = bucket->sharing;
    ret->source = result || !is_plain(bucket)                    ? SPOTNIK_SOURCE_OUT
                  : bucket->schedule == SPOTNIK_SCHEDULE_DIRECT ? SPOTNIK_SOURCE_OFFER
                                                                : SPOTNIK_SOURCE_IN;
    ret->offset = 0;
    ret->count = bucket->count;
}

/* `from`: its rank, or its place in the tree. */
struct spotnik_placement small_place(const struct spotnik_bucket *bucket, uint32_t from, const struct spotnik_chunk_header *header)
{
    bool expected = header->sequence == spotnik_transaction_small_sequence(bucket, from, bucket->rank);

    if (!expected || !spotnik_transaction_awaits(bucket, from))
        return (struct spotnik_placement){.verdict = SPOTNIK_VERDICT_BAD};
    bool result = spotnik_transaction_is_result(bucket, header->sequence);
    return (struct spotnik_placement){.verdict = SPOTNIK_VERDICT_TAKE,
                                      .kind = result ? SPOTNIK_RING_COPY : SPOTNIK_RING_KEEP,
                                      .count = bucket->count};
}

static void sum(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket)
{
    struct spotnik_work *work = queue_work(core, SPOTNIK_ACTION_SUM, number, core->step.committed + 1);

    work->sum.rank = core->rank;
    work->sum.members = bucket->size;
    work->sum.weight = bucket->weight;
}

/* A frame that small_place() took is in place. */
void small_receive(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header)
{
    bool tree = bucket->schedule == SPOTNIK_SCHEDULE_TREE, result = spotnik_transaction_is_result(bucket, header->sequence);
    uint32_t from = spotnik_transaction_small_source(bucket, header->sequence);

    if (!spotnik_transaction_awaits(bucket, from))
        return;
    bucket->sharing = result ? header->sharing : bucket->sharing && header->sharing;
    bool early = SPOTNIK_IS_PLANTED(core, SMALL_EARLY) && !tree && !result && from == bucket->size - 1;
    if (early)
        bucket->heard |= (UINT64_C(1) << from) - 1;
    if (SPOTNIK_IS_PLANTED(core, TREE_EARLY) && tree && !result)
        bucket->heard = ~(UINT64_C(1) | UINT64_C(1) << header->sequence);
    bool all = spotnik_transaction_receive_small(&core->step, bucket, from);
    if (tree && !result)
        tree_receive(core, header->bucket, bucket, header->weight);
    if (!all)
        return;
    core->flat.agreed[header->step & 1] = bucket->sharing; /* everybody's word is in it */
    if (!tree && !result)
        sum(core, header->bucket, bucket);
    flat_spread(core, header->bucket, bucket, header->step);
}
