/* SPDX-License-Identifier: Apache-2.0 */
/* The step transaction: buckets of the running step, and those of the one before, whose result may
 * still be wanted.
 *
 * Step s lives in generation s & 1, and so do its results (out[s & 1] in the driver). When s
 * commits, its generation stays as it is until s + 2 begins. Chunks of s that our successor still
 * lacks go on being sent, and laggards are served (design 0001). A bucket's progress is two
 * counters over the stream of ring.h, or two sets of ranks (small.c). Knows ranks, not members. */
#ifndef SPOTNIK_STEP_TRANSACTION_H
#define SPOTNIK_STEP_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/choice.h"
#include "ring/ring.h"
#include "ring/tree.h"

#define SPOTNIK_STEP_BUCKETS 258 /* = SPOTNIK_BUCKETS_MAX of core.h */

struct spotnik_bucket {
    bool used;         /* started by the caller in the step of this generation */
    uint8_t algorithm; /* of allreduce/allreduce.h; nothing to this folder */
    bool complete;     /* out holds the result */
    bool flat;         /* being reduced in shared memory: nothing of it goes round a ring */
    /* its ring is that of the hosts; with `flat`: it will be, when the sum of our host is here */
    bool hosts;
    bool summed; /* what we put into the ring is the sum of our host, and lies in out already */
    uint8_t dtype, op;
    uint32_t element_bytes;
    uint64_t count;       /* elements */
    uint64_t weight;      /* of our contribution */
    uint64_t ring_weight; /* of what we put into the ring, or send up the tree */
    uint64_t ready;       /* of every segment, number of chunks received, from the first */
    uint64_t sent;        /* chunks given to the driver */
    uint64_t received;    /* chunks in place */
    uint64_t handed;      /* handover chunks given to the driver */
    uint64_t handover_received;
    struct spotnik_ring ring;
    enum spotnik_schedule schedule;
    uint32_t size, rank; /* not of the ring: of the view it was started in, */
    /* ranks whose inputs are in place; ranks for which the driver has our input, or the result; in
     * a tree slots */
    uint64_t heard, told;
    struct spotnik_tree tree;
    uint64_t tree_weight; /* of all that has come from below, and of ours */
    bool sharing;         /* all heard so far share memory with the whole view */
};

struct spotnik_transaction {
    uint64_t committed; /* the last committed step */
    uint32_t started;   /* buckets in use in the running step */
    uint32_t completed; /* of them */
    bool begun;         /* the caller is in step committed + 1 */
    bool sealed;        /* and will start no more buckets */
    /* the lowest bucket used, and one past the highest, per generation; none: both 0 */
    uint32_t first[2], last[2];
    struct spotnik_bucket bucket[2][SPOTNIK_STEP_BUCKETS];
};

static inline struct spotnik_bucket *spotnik_transaction_bucket(struct spotnik_transaction *step,
                                                                uint64_t number, uint32_t bucket)
{
    return &step->bucket[number & 1][bucket];
}

void spotnik_transaction_init(struct spotnik_transaction *step, uint64_t committed);

/* The caller begins step committed + 1: forgets the generation it will use. */
void spotnik_transaction_begin(struct spotnik_transaction *step);

/* Register a bucket of the running step; it does not move until spotnik_transaction_start(). */
struct spotnik_bucket *spotnik_transaction_add(struct spotnik_transaction *step, uint32_t bucket,
                                               uint64_t count, uint8_t dtype, uint8_t op,
                                               uint32_t element_bytes, uint64_t weight);

/* (Re)start a bucket of the running step on a ring of `size`: nothing sent, nothing received. */
void spotnik_transaction_start(struct spotnik_transaction *step, struct spotnik_bucket *bucket,
                               uint32_t size, uint32_t rank, uint32_t chunk_bytes);

/* (Re)start a bucket of the running step that is not to go round the ring. */
void spotnik_transaction_start_flat(struct spotnik_transaction *step,
                                    struct spotnik_bucket *bucket);

/* (Re)start a bucket of the running step on the ring of hosts: with our contribution, or with the
 * sum of our host, at this weight. No part of that sum is there yet (`ready`). */
void spotnik_transaction_start_hosts(struct spotnik_transaction *step,
                                     struct spotnik_bucket *bucket, uint32_t hosts, uint32_t index,
                                     uint32_t chunk_bytes);
void spotnik_transaction_start_summed(struct spotnik_transaction *step,
                                      struct spotnik_bucket *bucket, uint32_t hosts, uint32_t index,
                                      uint32_t chunk_bytes, uint64_t weight);

/* Elements in a chunk: of a ring, and of a handover. */
uint64_t spotnik_transaction_chunk_count(uint32_t chunk_bytes, uint32_t element_bytes);

/* Its result is here. */
void spotnik_transaction_receive_flat(struct spotnik_transaction *step,
                                      struct spotnik_bucket *bucket);

/* (Re)start a bucket of the running step that goes to everybody (DIRECT) or to rank 0 and back
 * (HUB). */
void spotnik_transaction_start_small(struct spotnik_transaction *step,
                                     struct spotnik_bucket *bucket, enum spotnik_schedule schedule,
                                     uint32_t size, uint32_t rank);

/* (Re)start a bucket of the running step that goes up a tree and down again. We put in our input,
 * or the sum of our host. Those it is about are named by their places in the tree from here on. */
void spotnik_transaction_start_tree(struct spotnik_transaction *step, struct spotnik_bucket *bucket,
                                    const struct spotnik_tree *tree);

/* Has everything come from below us? Then the sum of it and of ours may go up. */
bool spotnik_transaction_gathered(const struct spotnik_bucket *bucket);

/* Is a frame of such a bucket with this number the result? */
bool spotnik_transaction_is_result(const struct spotnik_bucket *bucket, uint64_t sequence);

/* The sender of such a frame. */
uint32_t spotnik_transaction_small_source(const struct spotnik_bucket *bucket, uint64_t sequence);

/* For such a bucket: is something for rank `to` ready that was not given out? Does rank `from` owe
 * us something? */
bool spotnik_transaction_owes(const struct spotnik_bucket *bucket, uint32_t to);
bool spotnik_transaction_awaits(const struct spotnik_bucket *bucket, uint32_t from);

/* It is given out. */
void spotnik_transaction_tell(struct spotnik_bucket *bucket, uint32_t to);

/* The number of its frame from one rank to another. It is the sender's rank for an input, and the
 * size of the view for the result. In a tree it is the sender's slot at the receiver. */
uint64_t spotnik_transaction_small_sequence(const struct spotnik_bucket *bucket, uint32_t from,
                                            uint32_t to);

/* What `from` owed us is in place. True: that was all. */
bool spotnik_transaction_receive_small(struct spotnik_transaction *step,
                                       struct spotnik_bucket *bucket, uint32_t from);

/* Sealed, and every bucket complete? */
bool spotnik_transaction_done(const struct spotnik_transaction *step);

void spotnik_transaction_commit(struct spotnik_transaction *step);

/* A new view. What the last step still had to send on the old ring is void, and its buckets can be
 * handed over from the start. */
void spotnik_transaction_cut(struct spotnik_transaction *step);

/* The next chunk to send to rank `to`, the last step's remainder first. It is of the stream round
 * the ring of the members, or of the hosts, if `to` follows us there. It may also be of a bucket
 * that goes round no ring. `to_host` is the place of `to` among the hosts, if it is our neighbour
 * in their tree. Advances. False: none ready. */
struct spotnik_towards {
    uint32_t to, to_host;
    bool successor, next_host;
};
bool spotnik_transaction_next(struct spotnik_transaction *step,
                              const struct spotnik_towards *towards, uint64_t *ret_step,
                              uint32_t *ret_bucket, uint64_t *ret_sequence);

/* The next chunk of the finished result of step `number` to hand to a laggard. Advances. False:
 * none ready. */
bool spotnik_transaction_next_handover(struct spotnik_transaction *step, uint64_t number,
                                       uint32_t chunk_bytes, uint32_t *ret_bucket,
                                       uint64_t *ret_sequence);

/* Handover cuts a bucket in chunks of chunk_bytes without regard to segments. */
uint64_t spotnik_transaction_handover_total(const struct spotnik_bucket *bucket,
                                            uint32_t chunk_bytes);
struct spotnik_ring_chunk spotnik_transaction_handover_chunk(const struct spotnik_bucket *bucket,
                                                             uint32_t chunk_bytes,
                                                             uint64_t sequence);

/* A chunk has been put in place. Returns true when that completed the bucket. */
bool spotnik_transaction_receive(struct spotnik_transaction *step, struct spotnik_bucket *bucket);
bool spotnik_transaction_receive_handover(struct spotnik_transaction *step,
                                          struct spotnik_bucket *bucket, uint32_t chunk_bytes);

#endif
