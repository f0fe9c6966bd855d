/* SPDX-License-Identifier: Apache-2.0 */
/* A few cores in one process, joined by queues: every control message goes through the real codec,
 * data frames are copied, time is a number. Nothing is lost, delayed or reordered but by the
 * script: kill, stop, cut. It plays the driver and a caller that adds up what its script says; it
 * judges nothing, the tests do. */
#ifndef SPOTNIK_TESTS_PAIR_H
#define SPOTNIK_TESTS_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "wire/control.h"

#define NODES_MAX 8
#define PAIR_FOUNDING 2  /* of the lineage that pair_assemble() founds: without a witness, */
#define PAIR_WITNESSED 1 /* and with one */
#define STEPS_MAX 32
#define BUCKETS 3
#define COUNT 40 /* elements of a bucket at most */

struct item {    /* on a control link: a message, or its end */
    size_t size; /* 0: the end of the link */
    unsigned char *bytes;
    struct item *next;
};

struct frame {
    struct spotnik_chunk_header header;
    uint64_t count;
    double payload[COUNT];
    struct frame *next;
};

struct node {
    struct spotnik_core *core;
    struct spotnik_wire_storage *storage;
    struct spotnik_member member;
    bool alive, stopped;
    /* the caller */
    uint64_t goal;    /* commit steps up to here, then rest */
    bool idle;        /* begin no step */
    bool hold;        /* start buckets, but do not seal */
    uint32_t buckets; /* per step */
    uint64_t count[BUCKETS];
    enum spotnik_op op;
    uint64_t weight; /* 0: do not say */
    bool wants, begun, sealed;
    uint64_t step;    /* begun */
    bool replay;      /* begun without a share */
    uint64_t samples; /* of its share */
    uint64_t drawn[STEPS_MAX];
    double in[BUCKETS][COUNT], out[2][BUCKETS][COUNT];
    double result[STEPS_MAX][BUCKETS][COUNT];
    bool has[STEPS_MAX];
    /* what was seen */
    uint32_t frozen, views, parked, excluded, left, failed, frames, bad;
    uint64_t asked_epoch; /* the witness was asked for, last for this one */
    uint64_t streamed;    /* joiner: frames were pushed up to this step */
    int error;
    bool deal_due;
    uint64_t told; /* RESULT was told up to this step */
    /* of this step the caller got something else than the others; 0: of none */
    uint64_t wrong_step;
    uint64_t wrong_value; /* and what is wrong with it */
    bool linked[NODES_MAX], dialling[NODES_MAX];
};

struct pair {
    uint32_t count;
    uint64_t now_ns;
    bool witnessed; /* before pair_assemble(): ties are the witness's */
    struct spotnik_limits limits;
    struct node node[NODES_MAX];
    /* [from][to] */
    struct item *control[NODES_MAX][NODES_MAX], **control_end[NODES_MAX][NODES_MAX];
    struct frame *channel[NODES_MAX][NODES_MAX], **channel_end[NODES_MAX][NODES_MAX];
    bool cut[NODES_MAX][NODES_MAX];
    uint32_t sent[SPOTNIK_MESSAGE_KIND_COUNT];
    uint32_t donor[NODES_MAX]; /* of a joiner: index + 1 */
    /* index + 1 of a node that takes a frame in every eighth turn only */
    uint32_t slow;
    uint32_t turn;
    /* How every node deals what follows each step; NODES_MAX weights. NULL: evenly, nobody is
     * asked. */
    const uint32_t *deal;
    /* The script's hook: true kills the node instead of doing the action. */
    bool (*before)(struct pair *pair, uint32_t node, const struct spotnik_action *action);
};

/* `count` nodes with ids 1.., none started; members_min and the ledger are those of every node. */
void pair_open(struct pair *pair, uint32_t count, uint32_t members_min, uint64_t samples,
               uint64_t batch);
void pair_open_warm(struct pair *pair, uint32_t count, uint32_t members_min, uint64_t samples,
                    uint64_t batch, uint32_t warm_count);
void pair_close(struct pair *pair);

/* The same, with uneven shares: a weight for each of NODES_MAX. */
void pair_open_dealt(struct pair *pair, uint32_t count, uint32_t members_min, uint64_t samples,
                     uint64_t batch, const uint32_t *deal);

/* Node 0 founds, the others join and enter at step 0; runs until they stand in one view. */
void pair_assemble(struct pair *pair);

/* A fresh process in place of `node`, with this id. */
void pair_renew(struct pair *pair, uint32_t node, uint64_t id, uint32_t members_min,
                uint64_t samples, uint64_t batch);

/* All nodes on the same host: call it before any is started. */
void pair_together(struct pair *pair, uint32_t members_min, uint64_t samples, uint64_t batch);

/* `node` on a host of this number: call it before any is started. */
void pair_on_host(struct pair *pair, uint32_t node, uint64_t host, uint32_t members_min,
                  uint64_t samples, uint64_t batch);

/* `node` joins with a replica at `committed`, and asks `sponsor` to be let in; `donor` streams to
 * it. */
void pair_join(struct pair *pair, uint32_t node, uint64_t committed, uint32_t sponsor,
               uint32_t donor);

void pair_event(struct pair *pair, uint32_t node, struct spotnik_event event);
void pair_goal(struct pair *pair, uint64_t step); /* of every living node */
/* until nothing moves and so long has passed */
void pair_run(struct pair *pair, uint64_t duration_ns);
/* of the caller's loop, one call; false: it waits */
bool pair_call(struct pair *pair, uint32_t node);
bool pair_turn(struct pair *pair); /* one of everything that can move without time passing */
/* time passes, whatever is still on its way */
void pair_pass(struct pair *pair, uint64_t duration_ns);
void pair_kill(struct pair *pair, uint32_t node);
void pair_stop(struct pair *pair, uint32_t node, bool stopped);
void pair_cut(struct pair *pair, uint32_t a, uint32_t b, bool cut);
void pair_cut_one_way(struct pair *pair, uint32_t from, uint32_t to, bool cut);

struct spotnik_core_status pair_status(struct pair *pair, uint32_t node);
double pair_input(uint32_t node, uint64_t step, uint32_t bucket, uint64_t index);

#endif
