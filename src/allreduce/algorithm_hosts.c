/* SPDX-License-Identifier: Apache-2.0 */
/* By hosts (docs/design/0007-data-path.md): the members of a host add up in memory. One of them,
 * the holder, goes on with the sum round the ring of hosts, or up a tree of them. A member alone
 * on its host goes there at once. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

/* A bucket that the members of a host add up: does it go on up a tree of the hosts? Between two of
 * them there is no difference. */
bool allreduce_hosts_by_tree(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    uint64_t bytes = bucket->count * bucket->element_bytes;

    SPOTNIK_ASSERT(core->allreduce->hosts.count >= 1);
    return core->allreduce->hosts.count > 2 && bytes <= core->limits.chunk_bytes
           && spotnik_choice_take(core->limits.choice, core->allreduce->hosts.count,
                                  core->allreduce->near, bytes)
                  != SPOTNIK_SCHEDULE_RING;
}

static bool is_alone(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.members >= 1);
    return core->allreduce->hosts.members == 1;
}

/* ---- in memory of the host ---- */

static bool memory_takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    (void)bucket;
    return flat_by_hosts(core) && !is_alone(core);
}

static void memory_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.count > 1);
    allreduce_memory_start(core, number, bucket,
                           core->allreduce->hosts.place == 0 ? SPOTNIK_PART_HOLDER
                                                             : SPOTNIK_PART_SERVED);
}

static bool is_from_behind(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                           uint32_t rank)
{
    return bucket->hosts && rank == core->allreduce->hosts.previous;
}

/* The holder lets frames wait until it knows the sum of its host. */
static struct spotnik_placement memory_place(const struct spotnik_core *core,
                                             const struct spotnik_bucket *bucket, uint32_t rank,
                                             const struct spotnik_chunk_header *header)
{
    bool ours = header->schedule == SPOTNIK_SCHEDULE_RING
                    ? is_from_behind(core, bucket, rank)
                    : allreduce_tree_of_hosts(core, rank) != SPOTNIK_NO_RANK;

    SPOTNIK_ASSERT(rank < core->view.size);
    return allreduce_verdict(ours ? SPOTNIK_VERDICT_WAIT : SPOTNIK_VERDICT_BAD);
}

static bool memory_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                          uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return !bucket->complete
           && (!bucket->hosts || rank == core->allreduce->hosts.previous
               || SPOTNIK_IS_PLANTED(core, JUDGE_ANY_CHANNEL));
}

const struct algorithm algorithm_host_memory = {
    .takes = memory_takes, .start = memory_start, .place = memory_place, .awaits = memory_awaits
};

/* ---- round the ring of hosts ---- */

static bool ring_takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    return flat_by_hosts(core) && is_alone(core) && !allreduce_hosts_by_tree(core, bucket);
}

static void ring_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.index < core->allreduce->hosts.count);
    spotnik_transaction_start_hosts(&core->step, bucket, core->allreduce->hosts.count,
                                    core->allreduce->hosts.index, core->limits.chunk_bytes);
    allreduce_ring_scale(core, number, bucket);
}

static struct spotnik_placement ring_place(const struct spotnik_core *core,
                                           const struct spotnik_bucket *bucket, uint32_t rank,
                                           const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return is_from_behind(core, bucket, rank) ? allreduce_ring_place(bucket, header)
                                              : allreduce_verdict(SPOTNIK_VERDICT_BAD);
}

static bool ring_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                        uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return !bucket->complete
           && (rank == core->allreduce->hosts.previous
               || SPOTNIK_IS_PLANTED(core, JUDGE_ANY_CHANNEL));
}

const struct algorithm algorithm_host_ring = {
    .takes = ring_takes,
    .start = ring_start,
    .next = allreduce_ring_next,
    .place = ring_place,
    .awaits = ring_awaits,
    .receive = allreduce_ring_receive,
};

/* ---- up a tree of hosts ---- */

static bool tree_takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    return flat_by_hosts(core) && is_alone(core) && allreduce_hosts_by_tree(core, bucket);
}

static void tree_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.count > 2);
    allreduce_tree_begin(core, bucket, true);
    allreduce_tree_weigh(core, number, bucket);
}

const struct algorithm algorithm_host_tree = {
    .takes = tree_takes,
    .start = tree_start,
    .next = allreduce_tree_next,
    .place = allreduce_tree_place,
    .awaits = allreduce_tree_awaits,
    .receive = allreduce_tree_receive,
};

/* ---- from memory to the ring or the tree ---- */

/* With the sum of our host, which is in out, whole. */
static void go_up(struct spotnik_core *core, struct spotnik_bucket *bucket, uint64_t weight)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.place == 0);
    SPOTNIK_ASSERT(bucket->algorithm == ALGORITHM_HOST_MEMORY);
    bucket->algorithm = ALGORITHM_HOST_TREE;
    allreduce_tree_begin(core, bucket, true);
    bucket->summed = true;
    bucket->ring_weight = bucket->tree_weight = weight;
}

static void go_round(struct spotnik_core *core, struct spotnik_bucket *bucket, uint64_t weight)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.place == 0);
    SPOTNIK_ASSERT(bucket->algorithm == ALGORITHM_HOST_MEMORY);
    bucket->algorithm = ALGORITHM_HOST_RING;
    spotnik_transaction_start_summed(&core->step, bucket, core->allreduce->hosts.count,
                                     core->allreduce->hosts.index, core->limits.chunk_bytes,
                                     weight);
}

/* More of the sum of our host is there. With the first of it the bucket is begun on the ring of
 * hosts. It takes all of it if the bucket goes up a tree, since that is one chunk. */
void allreduce_hosts_summed(struct spotnik_core *core, struct spotnik_bucket *bucket,
                            const struct spotnik_event_flat *done)
{
    uint64_t weight = SPOTNIK_IS_PLANTED(core, HOLDER_ALONE) ? bucket->weight : done->weight;

    SPOTNIK_ASSERT(bucket->used && bucket->hosts && !bucket->complete);
    if (bucket->algorithm == ALGORITHM_HOST_MEMORY && allreduce_hosts_by_tree(core, bucket)) {
        go_up(core, bucket, weight);
        return;
    }
    if (bucket->algorithm == ALGORITHM_HOST_MEMORY)
        go_round(core, bucket, weight);
    else if (!bucket->summed)
        return;
    bool early = SPOTNIK_IS_PLANTED(core, SUM_EARLY) && done->chunks < bucket->ring.chunks - 1;
    bucket->ready = done->chunks + early;
}
