/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets too small for the ring: whole inputs to the adding members, and the result from the hub
 * (docs/design/0007-data-path.md), or sums up a tree, and the result down.
 * Decides the open transfers. A bucket's progress is two sets: of ranks, in a tree of slots. */
#include "base/assert.h"
#include "step/transaction.h"

#define HUB 0 /* its rank */

static bool is_tree(const struct spotnik_bucket *bucket)
{
    return bucket->schedule == SPOTNIK_SCHEDULE_TREE;
}

static bool adds_up(const struct spotnik_bucket *bucket, uint32_t rank)
{
    return bucket->schedule == SPOTNIK_SCHEDULE_DIRECT || rank == HUB;
}

static uint64_t bit(uint32_t rank)
{
    return UINT64_C(1) << rank;
}

static void start(struct spotnik_transaction *step, struct spotnik_bucket *bucket,
                  enum spotnik_schedule schedule, uint32_t size, uint32_t rank)
{
    SPOTNIK_ASSERT(size >= 2);
    spotnik_transaction_start_flat(step, bucket); /* nothing of it goes round */
    bucket->flat = false;
    bucket->schedule = schedule;
    bucket->size = size;
    bucket->rank = rank;
}

void spotnik_transaction_start_small(struct spotnik_transaction *step,
                                     struct spotnik_bucket *bucket, enum spotnik_schedule schedule,
                                     uint32_t size, uint32_t rank)
{
    SPOTNIK_ASSERT(size <= SPOTNIK_SMALL_MEMBERS_MAX);
    start(step, bucket, schedule, size, rank);
    bucket->heard = bucket->told = bit(rank);
}

void spotnik_transaction_start_tree(struct spotnik_transaction *step, struct spotnik_bucket *bucket,
                                    const struct spotnik_tree *tree)
{
    SPOTNIK_ASSERT(tree->fan >= 1 && tree->fan <= SPOTNIK_TREE_FAN_MAX);
    start(step, bucket, SPOTNIK_SCHEDULE_TREE, tree->size, tree->place);
    bucket->tree = *tree;
    bucket->heard = bucket->told = 0;
    bucket->tree_weight = bucket->ring_weight;
}

bool spotnik_transaction_gathered(const struct spotnik_bucket *bucket)
{
    uint64_t below = (bit(spotnik_tree_children(&bucket->tree)) - 1) << 1;
    return (bucket->heard & below) == below;
}

/* What came from below, with ours, to the parent; the result to the children. */
static bool tree_owes(const struct spotnik_bucket *bucket, uint32_t to)
{
    uint32_t slot = spotnik_tree_slot(&bucket->tree, to);

    if (slot == SPOTNIK_TREE_STRANGER || (bucket->told & bit(slot)))
        return false;
    return slot == 0 ? spotnik_transaction_gathered(bucket) : bucket->complete;
}

static bool tree_awaits(const struct spotnik_bucket *bucket, uint32_t from)
{
    uint32_t slot = spotnik_tree_slot(&bucket->tree, from);
    return slot != SPOTNIK_TREE_STRANGER && !(bucket->heard & bit(slot)) && !bucket->complete;
}

bool spotnik_transaction_owes(const struct spotnik_bucket *bucket, uint32_t to)
{
    if (is_tree(bucket))
        return tree_owes(bucket, to);
    if (bucket->told & bit(to))
        return false;
    return adds_up(bucket, to) || (bucket->rank == HUB && bucket->complete);
}

void spotnik_transaction_tell(struct spotnik_bucket *bucket, uint32_t to)
{
    SPOTNIK_ASSERT(spotnik_transaction_owes(bucket, to));
    bucket->told |= bit(is_tree(bucket) ? spotnik_tree_slot(&bucket->tree, to) : to);
}

bool spotnik_transaction_awaits(const struct spotnik_bucket *bucket, uint32_t from)
{
    if (is_tree(bucket))
        return tree_awaits(bucket, from);
    if (adds_up(bucket, bucket->rank))
        return !(bucket->heard & bit(from));
    return from == HUB && !bucket->complete;
}

uint64_t spotnik_transaction_small_sequence(const struct spotnik_bucket *bucket, uint32_t from,
                                            uint32_t to)
{
    if (is_tree(bucket))
        return from < to ? 0 : spotnik_tree_order(&bucket->tree, from);
    return adds_up(bucket, to) ? from : bucket->size;
}

bool spotnik_transaction_is_result(const struct spotnik_bucket *bucket, uint64_t sequence)
{
    return sequence == (is_tree(bucket) ? 0 : bucket->size);
}

uint32_t spotnik_transaction_small_source(const struct spotnik_bucket *bucket, uint64_t sequence)
{
    if (is_tree(bucket))
        return spotnik_tree_at(&bucket->tree, (uint32_t)sequence);
    return sequence == bucket->size ? HUB : (uint32_t)sequence;
}

/* Whether that was all of it. */
static bool is_last(struct spotnik_bucket *bucket, uint32_t from)
{
    if (is_tree(bucket)) {
        uint32_t slot = spotnik_tree_slot(&bucket->tree, from);
        bucket->heard |= bit(slot);
        return slot == 0 || (bucket->rank == 0 && spotnik_transaction_gathered(bucket));
    }
    bucket->heard |= bit(from);
    return !adds_up(bucket, bucket->rank) || bucket->heard == bit(bucket->size) - 1;
}

bool spotnik_transaction_receive_small(struct spotnik_transaction *step,
                                       struct spotnik_bucket *bucket, uint32_t from)
{
    SPOTNIK_ASSERT(spotnik_transaction_awaits(bucket, from));
    if (!is_last(bucket, from))
        return false;
    bucket->complete = true;
    step->completed++;
    return true;
}
