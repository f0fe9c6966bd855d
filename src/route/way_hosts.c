/* SPDX-License-Identifier: Apache-2.0 */
/* By hosts (docs/design/0007-data-path.md): the members of a host add up in memory. One of them,
 * the holder, goes on with the sum round the ring of hosts, or up a tree of them. A member alone on
 * its host goes there at once. */
#include "base/assert.h"
#include "route/route.h"

/* A bucket that the members of a host add up: does it go on up a tree of the hosts? Between two of
 * them there is no difference. */
bool route_hosts_by_tree(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    uint64_t bytes = bucket->count * bucket->element_bytes;

    SPOTNIK_ASSERT(core->route->hosts.count >= 1);
    return core->route->hosts.count > 2 && bytes <= core->limits.chunk_bytes
           && spotnik_choice_take(core->limits.choice, core->route->hosts.count, core->route->near,
                                  bytes)
                  != SPOTNIK_SCHEDULE_RING;
}

static bool is_alone(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->route->hosts.members >= 1);
    return core->route->hosts.members == 1;
}

/* ---- in memory of the host ---- */

static bool memory_takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    (void)bucket;
    return flat_by_hosts(core) && !is_alone(core);
}

static void memory_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->route->hosts.count > 1);
    route_memory_start(core, number, bucket,
                       core->route->hosts.place == 0 ? SPOTNIK_PART_HOLDER : SPOTNIK_PART_SERVED);
}

static bool is_from_behind(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                           uint32_t rank)
{
    return bucket->hosts && rank == core->route->hosts.previous;
}

/* The holder lets frames wait until it knows the sum of its host. */
static struct spotnik_placement memory_place(const struct spotnik_core *core,
                                             const struct spotnik_bucket *bucket, uint32_t rank,
                                             const struct spotnik_chunk_header *header)
{
    bool ours = header->schedule == SPOTNIK_SCHEDULE_RING
                    ? is_from_behind(core, bucket, rank)
                    : route_tree_of_hosts(core, rank) != SPOTNIK_NO_RANK;

    SPOTNIK_ASSERT(rank < core->view.size);
    return route_verdict(ours ? SPOTNIK_VERDICT_WAIT : SPOTNIK_VERDICT_BAD);
}

static bool memory_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                          uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return !bucket->complete
           && (!bucket->hosts || rank == core->route->hosts.previous
               || SPOTNIK_IS_PLANTED(core, JUDGE_ANY_LANE));
}

const struct way way_host_memory = {
    .takes = memory_takes, .start = memory_start, .place = memory_place, .awaits = memory_awaits
};

/* ---- round the ring of hosts ---- */

static bool ring_takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    return flat_by_hosts(core) && is_alone(core) && !route_hosts_by_tree(core, bucket);
}

static void ring_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->route->hosts.index < core->route->hosts.count);
    spotnik_transaction_start_hosts(&core->step, bucket, core->route->hosts.count,
                                    core->route->hosts.index, core->limits.chunk_bytes);
    route_ring_scale(core, number, bucket);
}

static struct spotnik_placement ring_place(const struct spotnik_core *core,
                                           const struct spotnik_bucket *bucket, uint32_t rank,
                                           const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return is_from_behind(core, bucket, rank) ? route_ring_place(bucket, header)
                                              : route_verdict(SPOTNIK_VERDICT_BAD);
}

static bool ring_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                        uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return !bucket->complete
           && (rank == core->route->hosts.previous || SPOTNIK_IS_PLANTED(core, JUDGE_ANY_LANE));
}

const struct way way_host_ring = {
    .takes = ring_takes,
    .start = ring_start,
    .next = route_ring_next,
    .place = ring_place,
    .awaits = ring_awaits,
    .receive = route_ring_receive,
};

/* ---- up a tree of hosts ---- */

static bool tree_takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    return flat_by_hosts(core) && is_alone(core) && route_hosts_by_tree(core, bucket);
}

static void tree_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->route->hosts.count > 2);
    route_tree_begin(core, bucket, true);
    route_tree_weigh(core, number, bucket);
}

const struct way way_host_tree = {
    .takes = tree_takes,
    .start = tree_start,
    .next = route_tree_next,
    .place = route_tree_place,
    .awaits = route_tree_awaits,
    .receive = route_tree_receive,
};

/* ---- from memory to the ring or the tree ---- */

/* With the sum of our host, which is in out, whole. */
static void go_up(struct spotnik_core *core, struct spotnik_bucket *bucket, uint64_t weight)
{
    SPOTNIK_ASSERT(core->route->hosts.place == 0);
    SPOTNIK_ASSERT(bucket->way == WAY_HOST_MEMORY);
    bucket->way = WAY_HOST_TREE;
    route_tree_begin(core, bucket, true);
    bucket->summed = true;
    bucket->ring_weight = bucket->tree_weight = weight;
}

static void go_round(struct spotnik_core *core, struct spotnik_bucket *bucket, uint64_t weight)
{
    SPOTNIK_ASSERT(core->route->hosts.place == 0);
    SPOTNIK_ASSERT(bucket->way == WAY_HOST_MEMORY);
    bucket->way = WAY_HOST_RING;
    spotnik_transaction_start_summed(&core->step, bucket, core->route->hosts.count,
                                     core->route->hosts.index, core->limits.chunk_bytes, weight);
}

/* More of the sum of our host is there. With the first of it the bucket is begun on the ring of
 * hosts. It takes all of it if the bucket goes up a tree, since that is one chunk. */
void route_hosts_summed(struct spotnik_core *core, struct spotnik_bucket *bucket,
                        const struct spotnik_event_flat *done)
{
    uint64_t weight = SPOTNIK_IS_PLANTED(core, HOLDER_ALONE) ? bucket->weight : done->weight;

    SPOTNIK_ASSERT(bucket->used && bucket->hosts && !bucket->complete);
    if (bucket->way == WAY_HOST_MEMORY && route_hosts_by_tree(core, bucket)) {
        go_up(core, bucket, weight);
        return;
    }
    if (bucket->way == WAY_HOST_MEMORY)
        go_round(core, bucket, weight);
    else if (!bucket->summed)
        return;
    bool early = SPOTNIK_IS_PLANTED(core, SUM_EARLY) && done->chunks < bucket->ring.chunks - 1;
    bucket->ready = done->chunks + early;
}
