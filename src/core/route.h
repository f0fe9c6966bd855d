/* SPDX-License-Identifier: Apache-2.0 */
/* The ways of a bucket. A way is one file that fills in a `struct route`, and one line in the table of route.c.
 *
 * All members of a view must choose alike: `takes` may look at the view, at what came with it, at the step and at the bucket, and at
 * nothing else. Which chunk is due next on a way is in src/step/next.c. Private to src/core. */
#ifndef SPOTNIK_CORE_ROUTE_H
#define SPOTNIK_CORE_ROUTE_H

#include "core/state.h"

enum way {
    WAY_RING, /* also of a bucket that is not started */
    WAY_HOST_TREE,
    WAY_HOST_RING,
    WAY_HOST_MEMORY,
    WAY_MEMORY,
    WAY_TREE,
    WAY_DIRECT,
    WAY_COUNT,
};

struct route {
    /* Does this bucket of the running step go this way? */
    bool (*takes)(const struct spotnik_core *core, const struct spotnik_bucket *bucket);
    /* (Re)start it: nothing sent, nothing received. */
    void (*start)(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket);
    /* What a frame of ours carries, and from where. ret->header has step, bucket and sequence. NULL: this way sends no frames. */
    void (*next)(const struct spotnik_core *core, const struct spotnik_bucket *bucket, struct spotnik_transfer *ret);
    /* Where a frame from that rank belongs. */
    struct spotnik_placement (*place)(const struct spotnik_core *core, const struct spotnik_bucket *bucket, uint32_t rank,
                                      const struct spotnik_chunk_header *header);
    /* Has that rank still to send us something of it? */
    bool (*awaits)(const struct spotnik_core *core, const struct spotnik_bucket *bucket, uint32_t rank);
    /* A frame that `place` took is in place. NULL: this way takes no frames. */
    void (*receive)(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header);
};

extern const struct route route_ring, route_direct, route_tree, route_memory, route_host_memory, route_host_ring, route_host_tree;

const struct route *route_of(const struct spotnik_bucket *bucket);

/* By the first way in the table that takes it. */
void route_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket);

/* route_ring.c: for the ring of hosts too, where `source` is another */
bool route_is_weighted(uint8_t op);
void route_ring_next(const struct spotnik_core *core, const struct spotnik_bucket *bucket, struct spotnik_transfer *ret);
struct spotnik_placement route_ring_place(const struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header);
void route_ring_receive(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header);
void route_ring_scale(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket);

/* route_direct.c: what the table of measured choices says */
enum spotnik_schedule route_small_choose(const struct spotnik_core *core, const struct spotnik_bucket *bucket);

/* route.c: of ways whose frame is a whole bucket. `from`: a rank, or a place in the tree */
void route_whole_next(const struct spotnik_bucket *bucket, uint64_t weight, struct spotnik_transfer *ret);
struct spotnik_placement route_whole_place(const struct spotnik_bucket *bucket, uint32_t from, const struct spotnik_chunk_header *header);
void route_whole_complete(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header);

/* route_tree.c: for the tree of hosts too. NO_RANK: that rank is no neighbour of ours in the tree of hosts */
void route_tree_begin(struct spotnik_core *core, struct spotnik_bucket *bucket, bool hosts);
void route_tree_weigh(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket);
void route_tree_next(const struct spotnik_core *core, const struct spotnik_bucket *bucket, struct spotnik_transfer *ret);
struct spotnik_placement route_tree_place(const struct spotnik_core *core, const struct spotnik_bucket *bucket, uint32_t rank,
                                          const struct spotnik_chunk_header *header);
bool route_tree_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket, uint32_t rank);
void route_tree_receive(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_chunk_header *header);
uint32_t route_tree_of_hosts(const struct spotnik_core *core, uint32_t rank);
void route_tree_lanes_again(struct spotnik_core *core);

/* route_memory.c */
void route_memory_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket, enum spotnik_host_part part);

/* route_hosts.c: whether the sum of a host goes on up a tree; and more of that sum is there */
bool route_hosts_by_tree(const struct spotnik_core *core, const struct spotnik_bucket *bucket);
void route_hosts_summed(struct spotnik_core *core, struct spotnik_bucket *bucket, const struct spotnik_event_flat *done);

static inline struct spotnik_placement route_verdict(enum spotnik_verdict verdict)
{
    return (struct spotnik_placement){.verdict = verdict};
}

#endif
