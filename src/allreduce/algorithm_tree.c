/* SPDX-License-Identifier: Apache-2.0 */
/* Small buckets of large views: sums go up a tree, and the result comes down
 * (docs/design/0007-data-path.md), among all members; or among hosts, for algorithm_hosts.c.
 * Decides the tree, the place of each member, and when to add. src/step/small.c has the open
 * transfers. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

/* The first step of a view goes round the ring where members might agree by it to reduce in memory
 * from the next one on: then no connection is opened for one step. */
static bool is_ready(const struct spotnik_core *core)
{
    return core->allreduce->holders == core->view.size
           || core->step.committed > core->view.settled_step;
}

static struct spotnik_tree tree_of(const struct spotnik_core *core, bool hosts)
{
    SPOTNIK_ASSERT(core->view.size >= 1);
    return (struct spotnik_tree){ .size = hosts ? core->allreduce->hosts.count : core->view.size,
                                  .place = hosts ? core->allreduce->hosts.index : core->rank,
                                  .fan = core->limits.fan };
}

static uint32_t rank_at(const struct spotnik_core *core, const struct spotnik_tree *tree,
                        bool hosts, uint32_t slot)
{
    SPOTNIK_ASSERT(slot <= spotnik_tree_children(tree));
    uint32_t place = spotnik_tree_at(tree, slot);
    return hosts ? core->allreduce->holder[place] : place;
}

/* The place of a member in the tree of hosts, if it is a neighbour of ours. */
uint32_t allreduce_tree_of_hosts(const struct spotnik_core *core, uint32_t rank)
{
    struct spotnik_tree tree = tree_of(core, true);

    SPOTNIK_ASSERT(rank < core->view.size);
    for (uint32_t slot = tree.place == 0; slot <= spotnik_tree_children(&tree); slot++)
        if (rank_at(core, &tree, true, slot) == rank)
            return spotnik_tree_at(&tree, slot);
    return SPOTNIK_NO_RANK;
}

/* Under which number such a bucket knows a member. */
static uint32_t place_of(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                         uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return bucket->hosts ? allreduce_tree_of_hosts(core, rank) : rank;
}

static bool is_linked(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    uint32_t ahead = (rank + core->view.size - core->rank) % core->view.size,
             back = core->view.size - ahead;
    return ahead <= core->limits.warm_count || back <= core->limits.warm_count;
}

/* Data connections to all neighbours in the tree. A control link as well, on which the driver tells
 * a broken one from a death: the child opens it. */
static void expect_channels(struct spotnik_core *core, bool hosts)
{
    struct spotnik_tree tree = tree_of(core, hosts);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->allreduce->tree_epoch[hosts] == core->view.epoch)
        return;
    core->allreduce->tree_epoch[hosts] = core->view.epoch;
    for (uint32_t slot = tree.place == 0; slot <= spotnik_tree_children(&tree); slot++) {
        uint32_t rank = rank_at(core, &tree, hosts, slot);
        const struct spotnik_member *member = &core->view.entry[rank].member;
        if (slot == 0 && !is_linked(core, rank))
            peer_dial(core, peer_want(core, member));
        queue_peer(core, SPOTNIK_ACTION_LINK_EXPECT, member);
    }
}

/* A new view: if the one before used a tree, and this one may, its connections are opened at once,
 * and those that it had are kept. */
void flat_channels_again(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->view.size < 2
        || (core->allreduce->tree_epoch[0] == 0 && core->allreduce->tree_epoch[1] == 0))
        return;
    if (flat_by_hosts(core) ? flat_streams(core) && core->allreduce->hosts.count > 2
                            : !core->allreduce->flat.on)
        expect_channels(core, flat_by_hosts(core));
}

static void gather(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket)
{
    struct spotnik_work *work =
        queue_work(core, SPOTNIK_ACTION_GATHER, number, core->step.committed + 1);

    SPOTNIK_ASSERT(bucket->used);
    SPOTNIK_ASSERT(core->step.begun);
    work->gather.children = spotnik_tree_children(&bucket->tree);
    work->gather.summed = bucket->summed;
    work->gather.finishes = bucket->rank == 0;
    work->gather.weight = bucket->ring_weight;
}

void allreduce_tree_begin(struct spotnik_core *core, struct spotnik_bucket *bucket, bool hosts)
{
    struct spotnik_tree tree = tree_of(core, hosts);

    SPOTNIK_ASSERT(bucket->used);
    spotnik_transaction_start_tree(&core->step, bucket, &tree);
    bucket->hosts = hosts;
    bucket->sharing = core->allreduce->flat.ours;
    expect_channels(core, hosts);
}

/* Our input goes up weighted. */
void allreduce_tree_weigh(struct spotnik_core *core, uint32_t number,
                          const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->schedule == SPOTNIK_SCHEDULE_TREE);
    if (spotnik_tree_children(&bucket->tree) == 0 && bucket->op == SPOTNIK_MEAN
        && bucket->weight > 1)
        gather(core, number, bucket);
}

static bool takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    return allreduce_small_choose(core, bucket) == SPOTNIK_SCHEDULE_TREE && is_ready(core);
}

static void start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    allreduce_tree_begin(core, bucket, false);
    allreduce_tree_weigh(core, number, bucket);
}

/* Ours goes out as the caller put it in: nothing is added to it before, nor is it weighted. */
static bool is_plain(const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->schedule == SPOTNIK_SCHEDULE_TREE);
    return spotnik_tree_children(&bucket->tree) == 0 && !bucket->summed
           && (bucket->op != SPOTNIK_MEAN || bucket->weight <= 1);
}

void allreduce_tree_next(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                         struct spotnik_transfer *ret)
{
    bool result = spotnik_transaction_is_result(bucket, ret->header.sequence);

    SPOTNIK_ASSERT(bucket->schedule == SPOTNIK_SCHEDULE_TREE);
    (void)core;
    allreduce_whole_next(bucket, result ? 0 : bucket->tree_weight, ret);
    ret->source = result || !is_plain(bucket) ? SPOTNIK_SOURCE_OUT : SPOTNIK_SOURCE_IN;
}

struct spotnik_placement allreduce_tree_place(const struct spotnik_core *core,
                                              const struct spotnik_bucket *bucket, uint32_t rank,
                                              const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return allreduce_whole_place(bucket, place_of(core, bucket, rank), header);
}

bool allreduce_tree_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                           uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return spotnik_transaction_awaits(bucket, place_of(core, bucket, rank));
}

/* Something has come from below. */
static void add_up(struct spotnik_core *core, struct spotnik_bucket *bucket,
                   const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(!bucket->complete || bucket->rank == 0);
    bucket->tree_weight += header->weight;
    if (spotnik_transaction_gathered(bucket))
        gather(core, header->bucket, bucket);
}

void allreduce_tree_receive(struct spotnik_core *core, struct spotnik_bucket *bucket,
                            const struct spotnik_chunk_header *header)
{
    bool result = spotnik_transaction_is_result(bucket, header->sequence);
    uint32_t from = spotnik_transaction_small_source(bucket, header->sequence);

    SPOTNIK_ASSERT(bucket->used);
    if (!spotnik_transaction_awaits(bucket, from))
        return;
    bucket->sharing = result ? header->sharing : bucket->sharing && header->sharing;
    if (SPOTNIK_IS_PLANTED(core, TREE_EARLY) && !result)
        bucket->heard = ~(UINT64_C(1) | UINT64_C(1) << header->sequence);
    bool all = spotnik_transaction_receive_small(&core->step, bucket, from);
    if (!result)
        add_up(core, bucket, header);
    if (all)
        allreduce_whole_complete(core, bucket, header);
}

const struct algorithm algorithm_tree = {
    .takes = takes,
    .start = start,
    .next = allreduce_tree_next,
    .place = allreduce_tree_place,
    .awaits = allreduce_tree_awaits,
    .receive = allreduce_tree_receive,
};
