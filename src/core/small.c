/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets that do not go round the ring because they are small (docs/design/0011-small-buckets.md): where a frame of one belongs, what it
 * completes, and which way a bucket goes at all. Who owes whom what is in src/step/small.c; the table in src/ring/choice.h. */
#include <string.h>

#include "core/state.h"

/* Do all members of the view have one address? */
static bool near(const struct spotnik_view *view)
{
    for (uint32_t rank = 1; rank < view->size; rank++)
        if (memcmp(view->entry[rank].member.address, view->entry[0].member.address, sizeof(view->entry[0].member.address)) != 0)
            return false;
    return true;
}

/* Every member of a view comes to the same answer: it depends on the view, on the bucket, and on the table of this version. */
enum spotnik_schedule small_choose(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    uint64_t bytes = bucket->count * bucket->element_bytes;

    if (core->view.size < 2 || core->view.size > SPOTNIK_SMALL_MEMBERS_MAX || bytes > core->limits.chunk_bytes)
        return SPOTNIK_SCHEDULE_RING;
    return spotnik_choice_take(core->limits.choice, core->view.size, near(&core->view), bytes);
}

/* Our input is sent from a copy where others may lack it still when we have committed; to the hub it has gone by then. */
bool small_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    enum spotnik_schedule schedule = small_choose(core, bucket);

    if (schedule == SPOTNIK_SCHEDULE_RING)
        return false;
    spotnik_transaction_start_small(&core->step, bucket, schedule, core->view.size, core->rank);
    bucket->sharing = core->flat.ours;
    if (schedule != SPOTNIK_SCHEDULE_DIRECT)
        return true;
    struct spotnik_action *action = queue_action(core, SPOTNIK_ACTION_OFFER);
    action->bucket = number;
    action->step = core->step.committed + 1;
    action->count = bucket->count;
    return true;
}

/* `ret` has the header but for what is ours to say. */
void small_next(const struct spotnik_bucket *bucket, struct spotnik_transfer *ret)
{
    bool result = ret->header.sequence == bucket->size;

    ret->header.weight = result ? 0 : bucket->weight;
    ret->header.sharing = bucket->sharing;
    ret->source = result                                        ? SPOTNIK_SOURCE_OUT
                  : bucket->schedule == SPOTNIK_SCHEDULE_DIRECT ? SPOTNIK_SOURCE_OFFER
                                                                : SPOTNIK_SOURCE_IN;
    ret->offset = 0;
    ret->count = bucket->count;
}

struct spotnik_placement small_place(const struct spotnik_core *core, const struct spotnik_bucket *bucket, uint32_t from,
                                     const struct spotnik_chunk_header *header)
{
    bool expected = header->sequence == spotnik_transaction_small_sequence(bucket, from, core->rank);

    if (!expected || !spotnik_transaction_awaits(bucket, from))
        return (struct spotnik_placement){.verdict = SPOTNIK_VERDICT_BAD};
    return (struct spotnik_placement){.verdict = SPOTNIK_VERDICT_TAKE,
                                      .kind = header->sequence == bucket->size ? SPOTNIK_RING_COPY : SPOTNIK_RING_KEEP,
                                      .count = bucket->count};
}

static void sum(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket)
{
    struct spotnik_action *action = queue_action(core, SPOTNIK_ACTION_SUM);

    action->bucket = number;
    action->step = core->step.committed + 1;
    action->offset = core->rank;
    action->count = bucket->size;
    action->weight = bucket->weight;
}

/* A frame that small_place() took is in place. */
void small_receive(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header)
{
    bool result = header->sequence == bucket->size;
    uint32_t from = result ? 0 : (uint32_t)header->sequence;

    if (!spotnik_transaction_awaits(bucket, from))
        return;
    bucket->sharing = result ? header->sharing : bucket->sharing && header->sharing;
    bool early = (core->bugs & SPOTNIK_BUG_SMALL_EARLY) && !result && from == bucket->size - 1;
    if (early)
        bucket->heard |= (UINT64_C(1) << from) - 1;
    if (!spotnik_transaction_receive_small(&core->step, bucket, from))
        return;
    core->flat.agreed[header->step & 1] = bucket->sharing; /* everybody's word is in it */
    if (!result)
        sum(core, header->bucket, bucket);
}
