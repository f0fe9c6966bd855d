/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce: what moves where. The running step, and the algorithms of its buckets. Private to
 * this folder; membership and the core ask by core/meet.h.
 *
 * An algorithm is one file that fills in a `struct algorithm`, and one line in the table of
 * algorithm.c. All members of a view must choose alike: `takes` may look at the view, at what came
 * with it, at the step and at the bucket, and at nothing else. Which chunk is due next by an
 * algorithm is in src/step/next.c. */
#ifndef SPOTNIK_ALLREDUCE_ALLREDUCE_H
#define SPOTNIK_ALLREDUCE_ALLREDUCE_H

#include "core/meet.h"
#include "member/hosts.h"

/* The running step, in the eyes of the caller. */
enum step_phase {
    STEP_IDLE,    /* it is not asked for */
    STEP_WANTED,  /* it is, and may not begin yet */
    STEP_BEGUN,   /* buckets may start */
    STEP_SEALED,  /* no more start */
    STEP_DEALING, /* all is done; the action DEAL is out */
};

struct allreduce {
    enum step_phase phase;
    uint64_t step_ns;                 /* what a step takes, on the average; 0: not known */
    uint64_t commit_ns, commit_epoch; /* of the last commit */
    uint64_t handed_buckets; /* how many its donor says the running step has; 0: not known */
    uint32_t begun_share, begun_shares; /* of the begun step, fixed when it was begun */
    bool replay_due; /* joiner: a result of the next step is waiting in its stream */
    bool declined;   /* the begun step consumes no samples */
    bool barred;     /* from outside: commit nothing */
    bool weight_set;
    uint64_t weight;
    bool *consumed; /* scratch of the ledger, per share */
    /* [generation][weighted]: per hop, the weight in the chunks received, ours added */
    uint64_t *carried[2][2];
    struct spotnik_flat_mode {
        /* when the step (re)started, all members that must share memory with us did */
        bool ours;
        bool *carried[2]; /* [generation]: per hop, whether all contributors so far say so */
        bool agreed[2];   /* [generation]: all contributors of that step say so */
        bool on;          /* the steps of this view are reduced in memory from now on */
        bool failed;      /* in this view, and with us */
        /* [generation]: the view in which that step was started flat; 0: none */
        uint64_t begun_epoch[2];
        struct spotnik_id *peer; /* peers that share memory with us */
        uint32_t count, max;
    } flat;
    struct spotnik_hosts hosts; /* of the view; count 1 where there is no hierarchy */
    uint32_t *holder, holders;  /* of all hosts, whether there is a hierarchy or not */
    bool near;                  /* all members of the view have one address */
    uint64_t tree_epoch[2];     /* [by hosts]: the last view whose tree was used; 0: none was */
    uint32_t *scratch;          /* four for each member */
};

enum algorithm_kind {
    ALGORITHM_RING, /* also of a bucket that is not started */
    ALGORITHM_HOST_TREE,
    ALGORITHM_HOST_RING,
    ALGORITHM_HOST_MEMORY,
    ALGORITHM_MEMORY,
    ALGORITHM_TREE,
    ALGORITHM_DIRECT,
    ALGORITHM_COUNT,
};

struct algorithm {
    /* Does this bucket of the running step go by this algorithm? */
    bool (*takes)(const struct spotnik_core *core, const struct spotnik_bucket *bucket);
    /* (Re)start it: nothing sent, nothing received. */
    void (*start)(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket);
    /* What a frame of ours carries, and from where. ret->header has step, bucket and sequence.
     * NULL: this algorithm sends no frames. */
    void (*next)(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                 struct spotnik_transfer *ret);
    /* Where a frame from that rank belongs. */
    struct spotnik_placement (*place)(const struct spotnik_core *core,
                                      const struct spotnik_bucket *bucket, uint32_t rank,
                                      const struct spotnik_chunk_header *header);
    /* Has that rank still to send us something of it? */
    bool (*awaits)(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                   uint32_t rank);
    /* A frame that `place` took is in place. NULL: this algorithm takes no frames. */
    void (*receive)(struct spotnik_core *core, struct spotnik_bucket *bucket,
                    const struct spotnik_chunk_header *header);
};

extern const struct algorithm algorithm_ring, algorithm_direct, algorithm_tree, algorithm_memory,
    algorithm_host_memory, algorithm_host_ring, algorithm_host_tree;

const struct algorithm *algorithm_of(const struct spotnik_bucket *bucket);

/* By the first algorithm in the table that takes it. */
void allreduce_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket);

/* algorithm_ring.c: for the ring of hosts too, where `source` is another */
bool allreduce_is_weighted(uint8_t op);
void allreduce_ring_next(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                         struct spotnik_transfer *ret);
struct spotnik_placement allreduce_ring_place(const struct spotnik_bucket *bucket,
                                              const struct spotnik_chunk_header *header);
void allreduce_ring_receive(struct spotnik_core *core, struct spotnik_bucket *bucket,
                            const struct spotnik_chunk_header *header);
void allreduce_ring_scale(struct spotnik_core *core, uint32_t number,
                          const struct spotnik_bucket *bucket);

/* algorithm_direct.c: what the table of measured choices says */
enum spotnik_schedule allreduce_small_choose(const struct spotnik_core *core,
                                             const struct spotnik_bucket *bucket);

/* algorithm_whole.c: of algorithms whose frame is a whole bucket. `from`: a rank, or a place in the
 * tree */
void allreduce_whole_next(const struct spotnik_bucket *bucket, uint64_t weight,
                          struct spotnik_transfer *ret);
struct spotnik_placement allreduce_whole_place(const struct spotnik_bucket *bucket, uint32_t from,
                                               const struct spotnik_chunk_header *header);
void allreduce_whole_complete(struct spotnik_core *core, struct spotnik_bucket *bucket,
                              const struct spotnik_chunk_header *header);

/* algorithm_tree.c: for the tree of hosts too. NO_RANK: that rank is no neighbour of ours in the
 * tree of hosts */
void allreduce_tree_begin(struct spotnik_core *core, struct spotnik_bucket *bucket, bool hosts);
void allreduce_tree_weigh(struct spotnik_core *core, uint32_t number,
                          const struct spotnik_bucket *bucket);
void allreduce_tree_next(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                         struct spotnik_transfer *ret);
struct spotnik_placement allreduce_tree_place(const struct spotnik_core *core,
                                              const struct spotnik_bucket *bucket, uint32_t rank,
                                              const struct spotnik_chunk_header *header);
bool allreduce_tree_awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                           uint32_t rank);
void allreduce_tree_receive(struct spotnik_core *core, struct spotnik_bucket *bucket,
                            const struct spotnik_chunk_header *header);
uint32_t allreduce_tree_of_hosts(const struct spotnik_core *core, uint32_t rank);

/* algorithm_memory.c */
void allreduce_memory_start(struct spotnik_core *core, uint32_t number,
                            struct spotnik_bucket *bucket, enum spotnik_host_part part);

/* algorithm_hosts.c: whether the sum of a host goes on up a tree; and more of that sum is there */
bool allreduce_hosts_by_tree(const struct spotnik_core *core, const struct spotnik_bucket *bucket);
void allreduce_hosts_summed(struct spotnik_core *core, struct spotnik_bucket *bucket,
                            const struct spotnik_event_flat *done);

/* algorithm_tree.c */
void flat_channels_again(struct spotnik_core *core);

/* flat.c */
uint64_t flat_apart(const struct spotnik_core *core);
void flat_install(struct spotnik_core *core);
void flat_take_late(struct spotnik_core *core);
bool flat_streams_to(const struct spotnik_core *core, uint32_t rank);
void flat_latch(struct spotnik_core *core);
void flat_settle(struct spotnik_core *core, bool handed);
bool flat_streams(const struct spotnik_core *core);
bool flat_by_hosts(const struct spotnik_core *core);
void flat_spread(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket,
                 uint64_t step);
void on_shared(struct spotnik_core *core, const struct spotnik_event_shared *shared);

/* on_flat.c */
void on_flat_done(struct spotnik_core *core, const struct spotnik_event_flat *done);
void on_flat_failed(struct spotnik_core *core, const struct spotnik_event_failure *failure);

/* on_step.c */
void on_step_begin(struct spotnik_core *core);
void on_weight(struct spotnik_core *core, uint64_t weight);
void on_decline(struct spotnik_core *core);
void on_deal(struct spotnik_core *core, const struct spotnik_event_deal *deal);
void on_bucket_start(struct spotnik_core *core, const struct spotnik_event_start *start);
void on_step_seal(struct spotnik_core *core);

/* phase.c */
void step_move(struct spotnik_core *core, enum step_phase phase);

/* place.c */
void on_chunk_done(struct spotnik_core *core, const struct spotnik_chunk_header *header);

/* differs.c */
void bucket_differs(struct spotnik_core *core, uint64_t step, uint32_t bucket,
                    const struct spotnik_held *other);

/* step.c */
void step_try_begin(struct spotnik_core *core);
void step_restart(struct spotnik_core *core);
void step_dealt(struct spotnik_core *core, const struct spotnik_event_deal *deal);
void bucket_start(struct spotnik_core *core, uint32_t bucket);
bool step_by_handover(const struct spotnik_core *core);
bool handover_mismatch(struct spotnik_core *core);

static inline struct spotnik_placement allreduce_verdict(enum spotnik_verdict verdict)
{
    return (struct spotnik_placement){ .verdict = verdict };
}

#endif
