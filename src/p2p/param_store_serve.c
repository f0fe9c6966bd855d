/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of others for a store. Only members that follow the request's view serve it: one that is
 * behind or ahead says "later". */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "p2p/param_store.h"

/* ---- updates ---- */

/* Add it to our content. *ret_count, ret_copy: the others that must have it. False: not now. */
static bool add(struct spotnik_param_store *param_store, const struct spotnik_p2p_head *push,
                const void *update, struct spotnik_member *ret_copy, uint32_t *ret_count)
{
    pthread_mutex_lock(&param_store->lock);
    const struct spotnik_param_store_cut *cut = &param_store->cut;
    bool added = spotnik_param_store_covers(param_store, push->epoch, push->offset, push->bytes)
                 && spotnik_param_store_apply(param_store, push->owner, push->sequence,
                                              push->offset, push->bytes, update);
    *ret_count = 0;
    for (uint32_t copy = 0; added && copy < cut->shards.copies; copy++) {
        uint32_t rank = spotnik_shards_holder(&cut->shards,
                                              spotnik_shards_of(&cut->shards, push->offset), copy);
        if (rank != cut->rank)
            ret_copy[(*ret_count)++] = cut->member[rank];
    }
    pthread_mutex_unlock(&param_store->lock);
    return added;
}

static bool pass_on(const struct spotnik_caller *caller, const struct spotnik_member *copy,
                    const struct spotnik_p2p_head *push, const void *update)
{
    struct spotnik_p2p_head head = *push, answer;

    head.kind = SPOTNIK_P2P_PASS;
    return spotnik_call(caller, copy, &head, update, &answer, NULL, 0) == 0
           && answer.kind == SPOTNIK_P2P_DONE;
}

bool spotnik_param_store_take_in(struct spotnik_param_store *param_store,
                                 const struct spotnik_caller *caller,
                                 const struct spotnik_p2p_head *push, const void *update)
{
    struct spotnik_member copy[SPOTNIK_P2P_COPIES_MAX];
    uint32_t count;
    bool everywhere = add(param_store, push, update, copy, &count);

    for (uint32_t i = 0; everywhere && push->kind == SPOTNIK_P2P_PUSH && i < count; i++)
        everywhere = pass_on(caller, &copy[i], push, update);
    return everywhere;
}

static struct spotnik_caller caller_of(const struct spotnik_p2p_session *session)
{
    return (struct spotnik_caller){ .p2p = session->p2p,
                                    .wake_fd = session->pipe.wake_fd,
                                    .until_ns = SPOTNIK_NEVER,
                                    .goes_on = session->pipe.goes_on,
                                    .context = session->pipe.context };
}

static int say(struct spotnik_p2p_session *session, enum spotnik_p2p_kind kind, uint64_t version)
{
    struct spotnik_p2p_head head = { .kind = (uint8_t)kind, .version = version };

    return spotnik_pipe_write(&session->pipe, &head, NULL);
}

/* The payload is on its way whatever we think of it. */
static int take_update(struct spotnik_p2p_session *session, struct spotnik_param_store *param_store,
                       const struct spotnik_p2p_head *push)
{
    struct spotnik_caller caller = caller_of(session);

    if (spotnik_param_store_extent(param_store) != push->version) {
        int rc = spotnik_pipe_skip(&session->pipe, push->bytes);
        return rc ? rc : say(session, SPOTNIK_P2P_OTHER, 0);
    }
    uint8_t *update =
        push->bytes <= param_store->bytes ? malloc(push->bytes ? push->bytes : 1) : NULL;
    if (!update)
        return SPOTNIK_ERR_PEERS;
    int rc = spotnik_pipe_read(&session->pipe, update, push->bytes);
    if (!rc) {
        bool taken = spotnik_param_store_take_in(param_store, &caller, push, update);
        rc = say(session, taken ? SPOTNIK_P2P_DONE : SPOTNIK_P2P_LATER, 0);
    }
    free(update);
    return rc;
}

/* ---- reading ---- */

static int give_shard(struct spotnik_p2p_session *session, struct spotnik_param_store *param_store,
                      struct spotnik_p2p_head head)
{
    uint8_t *copy = malloc(head.bytes ? head.bytes : 1);
    bool covers = false;

    if (copy && head.bytes <= param_store->bytes) {
        pthread_mutex_lock(&param_store->lock);
        covers = spotnik_param_store_covers(param_store, head.epoch, head.offset, head.bytes);
        if (covers)
            memcpy(copy, (const uint8_t *)param_store->data + head.offset, head.bytes);
        pthread_mutex_unlock(&param_store->lock);
    }
    head.kind = SPOTNIK_P2P_SHARD;
    int rc = covers ? spotnik_pipe_write(&session->pipe, &head, copy)
                    : say(session, SPOTNIK_P2P_LATER, 0);
    free(copy);
    return rc;
}

/* Which block is meant? False: none. */
static bool block_of(const struct spotnik_param_store *param_store,
                     const struct spotnik_p2p_head *asked, uint32_t *ret)
{
    *ret = (uint32_t)(asked->offset / param_store->block_bytes);
    return asked->offset < param_store->bytes && asked->offset % param_store->block_bytes == 0
           && asked->bytes == spotnik_block_bytes(param_store, *ret);
}

static int give_block(struct spotnik_p2p_session *session, struct spotnik_param_store *param_store,
                      const struct spotnik_p2p_head *asked)
{
    struct spotnik_p2p_head head = { .kind = SPOTNIK_P2P_LATER };
    struct spotnik_body body = { 0 };
    uint32_t i;

    if (!block_of(param_store, asked, &i))
        return say(session, SPOTNIK_P2P_OTHER, 0);
    pthread_mutex_lock(&param_store->lock);
    bool now = param_store->cut.epoch == asked->epoch;
    head.version = now ? spotnik_block_stamp(param_store, i) : 0;
    if (now)
        head.kind = head.version ? SPOTNIK_P2P_HOLD : SPOTNIK_P2P_ABSENT;
    if (head.version && asked->kind == SPOTNIK_P2P_TAKE) {
        head.kind = spotnik_block_write(param_store, i, &body, &head.sequence) ? SPOTNIK_P2P_LATER
                                                                               : SPOTNIK_P2P_BLOCK;
    }
    pthread_mutex_unlock(&param_store->lock);
    if (head.kind == SPOTNIK_P2P_BLOCK) {
        head.dtype = SPOTNIK_U8;
        head.bytes = body.size;
        memcpy(head.name, param_store->name, sizeof head.name);
    }
    int rc = spotnik_pipe_write(&session->pipe, &head, body.bytes);
    free(body.bytes);
    return rc;
}

int spotnik_param_store_serve(struct spotnik_p2p_session *session,
                              const struct spotnik_p2p_head *asked)
{
    struct spotnik_param_store *param_store = spotnik_param_store_for(session->p2p, asked);

    if (!param_store)
        /* no memory, or we are about to go: to others we are a member that has died */
        return SPOTNIK_ERR_PEERS;
    if (asked->kind == SPOTNIK_P2P_PUSH || asked->kind == SPOTNIK_P2P_PASS)
        return take_update(session, param_store, asked);
    if (spotnik_param_store_extent(param_store) != asked->version)
        return say(session, SPOTNIK_P2P_OTHER, 0);
    return asked->kind == SPOTNIK_P2P_FETCH ? give_shard(session, param_store, *asked)
                                            : give_block(session, param_store, asked);
}
