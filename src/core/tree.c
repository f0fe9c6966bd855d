/* SPDX-License-Identifier: Apache-2.0 */
/* Small buckets of large views: sums go up a tree, and the result comes down (docs/design/0013-tree.md), among all members or, where those
 * of a host add up in memory, among the hosts. Decides the tree, the place of each member, and when to add.
 * src/step/small.c has the open transfers. */
#include "core/state.h"

/* The first step of a view goes round the ring where members might agree by it to reduce in memory from the next one on: then no
 * connection is opened for one step. */
bool tree_is_ready(const struct spotnik_core *core)
{
    return core->holders == core->view.size || core->step.committed > core->view.settled_step;
}

static struct spotnik_tree tree_of(const struct spotnik_core *core, bool hosts)
{
    return (struct spotnik_tree){.size = hosts ? core->hosts.count : core->view.size,
                                 .place = hosts ? core->hosts.index : core->rank,
                                 .fan = core->limits.fan};
}

static uint32_t rank_at(const struct spotnik_core *core, const struct spotnik_tree *tree, bool hosts, uint32_t slot)
{
    uint32_t place = spotnik_tree_at(tree, slot);
    return hosts ? core->holder[place] : place;
}

/* A bucket that the members of a host add up: does it go on up a tree of the hosts? Between two of them there is no difference. */
bool tree_of_hosts(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    uint64_t bytes = bucket->count * bucket->element_bytes;

    return core->hosts.count > 2 && !core->view.detour && bytes <= core->limits.chunk_bytes &&
           spotnik_choice_take(core->limits.choice, core->hosts.count, small_is_near(core), bytes) != SPOTNIK_SCHEDULE_RING;
}

/* The place of a member in the tree of hosts, if it is a neighbour of ours. */
uint32_t tree_host(const struct spotnik_core *core, uint32_t rank)
{
    struct spotnik_tree tree = tree_of(core, true);

    for (uint32_t slot = tree.place == 0; slot <= spotnik_tree_children(&tree); slot++)
        if (rank_at(core, &tree, true, slot) == rank)
            return spotnik_tree_at(&tree, slot);
    return SPOTNIK_NO_RANK;
}

/* Under which number a small bucket knows a member. */
uint32_t tree_place(const struct spotnik_core *core, const struct spotnik_bucket *bucket, uint32_t rank)
{
    return bucket->hosts ? tree_host(core, rank) : rank;
}

static bool is_linked(const struct spotnik_core *core, uint32_t rank)
{
    uint32_t ahead = (rank + core->view.size - core->rank) % core->view.size, back = core->view.size - ahead;
    return ahead <= core->limits.warm_count || back <= core->limits.warm_count;
}

/* Data connections to all neighbours in the tree. A control link as well, on which the driver tells a broken one from a death: the child
 * opens it. */
static void expect_lanes(struct spotnik_core *core, bool hosts)
{
    struct spotnik_tree tree = tree_of(core, hosts);

    if (core->tree_epoch[hosts] == core->view.epoch)
        return;
    core->tree_epoch[hosts] = core->view.epoch;
    for (uint32_t slot = tree.place == 0; slot <= spotnik_tree_children(&tree); slot++) {
        uint32_t rank = rank_at(core, &tree, hosts, slot);
        const struct spotnik_member *member = &core->view.entry[rank].member;
        if (slot == 0 && !is_linked(core, rank))
            peer_dial(core, peer_want(core, member));
        queue_peer(core, SPOTNIK_ACTION_LINK_EXPECT, member);
    }
}

/* A new view: if the one before used a tree, and this one may, its connections are opened at once, and those that it had are kept. */
void tree_lanes_again(struct spotnik_core *core)
{
    if (core->view.size < 2 || (core->tree_epoch[0] == 0 && core->tree_epoch[1] == 0))
        return;
    if (flat_by_hosts(core) ? flat_streams(core) && core->hosts.count > 2 : !core->flat.on)
        expect_lanes(core, flat_by_hosts(core));
}

static void gather(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket)
{
    struct spotnik_work *work = queue_work(core, SPOTNIK_ACTION_GATHER, number, core->step.committed + 1);

    work->gather.children = spotnik_tree_children(&bucket->tree);
    work->gather.summed = bucket->summed;
    work->gather.finishes = bucket->rank == 0;
    work->gather.weight = bucket->ring_weight;
}

static void begin(struct spotnik_core *core, struct spotnik_bucket *bucket, bool hosts)
{
    struct spotnik_tree tree = tree_of(core, hosts);

    spotnik_transaction_start_tree(&core->step, bucket, &tree);
    bucket->hosts = hosts;
    bucket->sharing = core->flat.ours;
    expect_lanes(core, hosts);
}

/* With our input. */
void tree_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket, bool hosts)
{
    begin(core, bucket, hosts);
    if (spotnik_tree_children(&bucket->tree) == 0 && bucket->op == SPOTNIK_MEAN && bucket->weight > 1)
        gather(core, number, bucket); /* weighs it */
}

/* With the sum of our host, which is in out, whole. */
void tree_start_summed(struct spotnik_core *core, struct spotnik_bucket *bucket, uint64_t weight)
{
    begin(core, bucket, true);
    bucket->summed = true;
    bucket->ring_weight = bucket->tree_weight = weight;
}

/* Something has come from below. */
void tree_receive(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket, uint64_t weight)
{
    bucket->tree_weight += weight;
    if (spotnik_transaction_gathered(bucket))
        gather(core, number, bucket);
}
