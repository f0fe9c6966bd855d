/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter store that all members share. The view determines the holders of each part
 * (adapt/shards.h); updates count once (adapt/store.h). Private to src/p2p.
 *
 * The store consists of blocks that never change. Each block knows the updates in it, so it can
 * move as a whole. A range, which belongs to one primary and its copies, is a run of blocks.
 *
 *     param_store.c       blocks, and operations on them under the lock
 *     param_store_move.c  a thread that follows views and fetches the blocks that this member must
 *                         hold
 *     param_store_ask.c   push and fetch: our requests        param_store_serve.c   those of others
 *
 * Why no update that was answered is lost, and none counts twice:
 *   - Everything said of a store names an epoch, and is done only where the store follows the view
 *     of that epoch. An update is answered when all holders of the epoch have it. A new holder of a
 *     block says "later" until it has its content.
 *   - A holder takes content only from a member that already follows the view. So no update of an
 *     older epoch can enter it behind our back. It takes the newest content: `stamp`, the last
 *     epoch (plus one) in which it was complete. All holders of an epoch had every update that was
 *     answered in it.
 *   - A member that has not opened the store holds its part all the same. The first request about
 *     it opens it there, empty, since each request carries the size of the store. So no member
 *     waits for another's call. Empty is never content.
 *   - An unanswered update is sent again, under its (owner, sequence), to the current holder of the
 *     range. A primary that already knows it passes it on all the same: a copy may lack it. */
#ifndef SPOTNIK_P2P_PARAM_STORE_H
#define SPOTNIK_P2P_PARAM_STORE_H

#include "p2p/call.h"
#include "adapt/shards.h"
#include "adapt/store.h"

#define SPOTNIK_PARAM_STORE_BLOCKS_MAX 128
#define SPOTNIK_PARAM_STORE_BLOCK_BYTES_MIN 4096
#define SPOTNIK_PARAM_STORE_ROW_BYTES 24 /* of a block's table, as it travels: id, number */
#define SPOTNIK_PARAM_STORE_PAUSE_NS (5 * UINT64_C(1000000))

struct spotnik_block {
    struct spotnik_store store;
    uint64_t stamp; /* of what is here: 0 nothing; 1 the initial values; else an epoch plus one */
    bool held;      /* complete, and ours in the view that is followed */
    bool wanted;    /* ours, but not complete yet */
};

/* The holders of each range. */
struct spotnik_param_store_cut {
    uint64_t epoch; /* 0: none yet */
    uint32_t rank;  /* ours; size: we are not in it */
    struct spotnik_shards shards;
    struct spotnik_member member[SPOTNIK_P2P_MEMBERS_MAX];
};

struct spotnik_param_store {
    struct spotnik_param_store *next;
    struct spotnik_p2p *p2p;
    char name[SPOTNIK_P2P_NAME_MAX + 1];
    uint64_t count, bytes, block_bytes;
    uint32_t block_count, copies;
    float *data; /* all of it; that of blocks that are not held is old */
    struct spotnik_block *block;
    pthread_mutex_t lock;
    pthread_t thread;
    int wake_fd; /* of the thread: there is a new view */
    /* under the lock */
    struct spotnik_param_store_cut cut;
    bool opened; /* by our caller; else for others' sake alone: with nothing of our own in it */
    struct spotnik_id sender[SPOTNIK_STORE_SENDERS_MAX]; /* columns of the blocks' tables */
    uint32_t sender_count;
    bool pushing;
    uint64_t sequence; /* of our last push */
};

/* param_store.c; _find under the exchange's lock, _for without any (NULL: not to be had), the rest
 * under the parameter store's own */
struct spotnik_param_store *spotnik_param_store_find(const struct spotnik_p2p *p2p,
                                                     const char *name);
struct spotnik_param_store *spotnik_param_store_for(struct spotnik_p2p *p2p,
                                                    const struct spotnik_p2p_head *asked);
uint64_t spotnik_param_store_extent(const struct spotnik_param_store *param_store);
uint64_t spotnik_block_bytes(const struct spotnik_param_store *param_store, uint32_t i);
void spotnik_range_blocks(const struct spotnik_param_store *param_store, uint64_t offset,
                          uint64_t bytes, uint32_t *ret_first, uint32_t *ret_end);
bool spotnik_param_store_covers(const struct spotnik_param_store *param_store, uint64_t epoch,
                                uint64_t offset, uint64_t bytes);
bool spotnik_param_store_apply(struct spotnik_param_store *param_store, struct spotnik_id owner,
                               uint64_t sequence, uint64_t offset, uint64_t bytes,
                               const float *update);
uint64_t spotnik_block_stamp(const struct spotnik_param_store *param_store, uint32_t i);
int spotnik_block_write(const struct spotnik_param_store *param_store, uint32_t i,
                        struct spotnik_body *body, uint64_t *ret_rows);
bool spotnik_block_read(struct spotnik_param_store *param_store, uint32_t i, const uint8_t *bytes,
                        uint64_t size, uint64_t rows);

/* param_store_serve.c: an update for a range that we hold, on the way to all its holders. False:
 * not now. */
bool spotnik_param_store_take_in(struct spotnik_param_store *param_store,
                                 const struct spotnik_caller *caller,
                                 const struct spotnik_p2p_head *push, const void *update);
int spotnik_param_store_serve(struct spotnik_p2p_session *session,
                              const struct spotnik_p2p_head *asked);

/* param_store_move.c */
void *spotnik_param_store_follow(void *param_store);

/* param_store_ask.c: a request of ours. False: it was given up. */
bool spotnik_param_store_push(struct spotnik_request *request);
bool spotnik_param_store_fetch(struct spotnik_request *request);

#endif
