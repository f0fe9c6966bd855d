/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of others for a store. Only members that follow the request's view serve it: one that is
 * behind or ahead says "later". */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "exchange/depot.h"

/* ---- updates ---- */

/* Add it to our content. *ret_count, ret_copy: the others that must have it. False: not now. */
static bool add(struct spotnik_depot *depot, const struct spotnik_exchange_head *push,
                const void *update, struct spotnik_member *ret_copy, uint32_t *ret_count)
{
    pthread_mutex_lock(&depot->lock);
    const struct spotnik_depot_cut *cut = &depot->cut;
    bool added = spotnik_depot_covers(depot, push->epoch, push->offset, push->bytes)
                 && spotnik_depot_apply(depot, push->owner, push->sequence, push->offset,
                                        push->bytes, update);
    *ret_count = 0;
    for (uint32_t copy = 0; added && copy < cut->shards.copies; copy++) {
        uint32_t rank = spotnik_shards_holder(&cut->shards,
                                              spotnik_shards_of(&cut->shards, push->offset), copy);
        if (rank != cut->rank)
            ret_copy[(*ret_count)++] = cut->member[rank];
    }
    pthread_mutex_unlock(&depot->lock);
    return added;
}

static bool pass_on(const struct spotnik_caller *caller, const struct spotnik_member *copy,
                    const struct spotnik_exchange_head *push, const void *update)
{
    struct spotnik_exchange_head head = *push, answer;

    head.kind = SPOTNIK_EXCHANGE_PASS;
    return spotnik_call(caller, copy, &head, update, &answer, NULL, 0) == 0
           && answer.kind == SPOTNIK_EXCHANGE_DONE;
}

bool spotnik_depot_take_in(struct spotnik_depot *depot, const struct spotnik_caller *caller,
                           const struct spotnik_exchange_head *push, const void *update)
{
    struct spotnik_member copy[SPOTNIK_EXCHANGE_COPIES_MAX];
    uint32_t count;
    bool everywhere = add(depot, push, update, copy, &count);

    for (uint32_t i = 0; everywhere && push->kind == SPOTNIK_EXCHANGE_PUSH && i < count; i++)
        everywhere = pass_on(caller, &copy[i], push, update);
    return everywhere;
}

static struct spotnik_caller caller_of(const struct spotnik_exchange_session *session)
{
    return (struct spotnik_caller){ .exchange = session->exchange,
                                    .wake_fd = session->pipe.wake_fd,
                                    .until_ns = SPOTNIK_NEVER,
                                    .goes_on = session->pipe.goes_on,
                                    .context = session->pipe.context };
}

static int say(struct spotnik_exchange_session *session, enum spotnik_exchange_kind kind,
               uint64_t version)
{
    struct spotnik_exchange_head head = { .kind = (uint8_t)kind, .version = version };

    return spotnik_pipe_write(&session->pipe, &head, NULL);
}

/* Of no use: read past it. */
static int skip(struct spotnik_exchange_session *session, uint64_t bytes)
{
    uint8_t some[4096];
    int rc = 0;

    for (uint64_t part; !rc && bytes > 0; bytes -= part) {
        part = bytes < sizeof some ? bytes : sizeof some;
        rc = spotnik_pipe_read(&session->pipe, some, part);
    }
    return rc;
}

/* The payload is on its way whatever we think of it. */
static int take_update(struct spotnik_exchange_session *session, struct spotnik_depot *depot,
                       const struct spotnik_exchange_head *push)
{
    struct spotnik_caller caller = caller_of(session);

    if (spotnik_depot_extent(depot) != push->version) {
        int rc = skip(session, push->bytes);
        return rc ? rc : say(session, SPOTNIK_EXCHANGE_OTHER, 0);
    }
    uint8_t *update = push->bytes <= depot->bytes ? malloc(push->bytes ? push->bytes : 1) : NULL;
    if (!update)
        return SPOTNIK_ERR_PEERS;
    int rc = spotnik_pipe_read(&session->pipe, update, push->bytes);
    if (!rc) {
        bool taken = spotnik_depot_take_in(depot, &caller, push, update);
        rc = say(session, taken ? SPOTNIK_EXCHANGE_DONE : SPOTNIK_EXCHANGE_LATER, 0);
    }
    free(update);
    return rc;
}

/* ---- reading ---- */

static int give_shard(struct spotnik_exchange_session *session, struct spotnik_depot *depot,
                      struct spotnik_exchange_head head)
{
    uint8_t *copy = malloc(head.bytes ? head.bytes : 1);
    bool covers = false;

    if (copy && head.bytes <= depot->bytes) {
        pthread_mutex_lock(&depot->lock);
        covers = spotnik_depot_covers(depot, head.epoch, head.offset, head.bytes);
        if (covers)
            memcpy(copy, (const uint8_t *)depot->data + head.offset, head.bytes);
        pthread_mutex_unlock(&depot->lock);
    }
    head.kind = SPOTNIK_EXCHANGE_SHARD;
    int rc = covers ? spotnik_pipe_write(&session->pipe, &head, copy)
                    : say(session, SPOTNIK_EXCHANGE_LATER, 0);
    free(copy);
    return rc;
}

/* Which block is meant? False: none. */
static bool block_of(const struct spotnik_depot *depot, const struct spotnik_exchange_head *asked,
                     uint32_t *ret)
{
    *ret = (uint32_t)(asked->offset / depot->block_bytes);
    return asked->offset < depot->bytes && asked->offset % depot->block_bytes == 0
           && asked->bytes == spotnik_block_bytes(depot, *ret);
}

static int give_block(struct spotnik_exchange_session *session, struct spotnik_depot *depot,
                      const struct spotnik_exchange_head *asked)
{
    struct spotnik_exchange_head head = { .kind = SPOTNIK_EXCHANGE_LATER };
    struct spotnik_body body = { 0 };
    uint32_t i;

    if (!block_of(depot, asked, &i))
        return say(session, SPOTNIK_EXCHANGE_OTHER, 0);
    pthread_mutex_lock(&depot->lock);
    bool now = depot->cut.epoch == asked->epoch;
    head.version = now ? spotnik_block_stamp(depot, i) : 0;
    if (now)
        head.kind = head.version ? SPOTNIK_EXCHANGE_HOLD : SPOTNIK_EXCHANGE_ABSENT;
    if (head.version && asked->kind == SPOTNIK_EXCHANGE_TAKE) {
        head.kind = spotnik_block_write(depot, i, &body, &head.sequence) ? SPOTNIK_EXCHANGE_LATER
                                                                         : SPOTNIK_EXCHANGE_BLOCK;
    }
    pthread_mutex_unlock(&depot->lock);
    if (head.kind == SPOTNIK_EXCHANGE_BLOCK) {
        head.dtype = SPOTNIK_U8;
        head.bytes = body.size;
        memcpy(head.name, depot->name, sizeof head.name);
    }
    int rc = spotnik_pipe_write(&session->pipe, &head, body.bytes);
    free(body.bytes);
    return rc;
}

int spotnik_depot_serve(struct spotnik_exchange_session *session,
                        const struct spotnik_exchange_head *asked)
{
    struct spotnik_depot *depot = spotnik_depot_for(session->exchange, asked);

    if (!depot)
        /* no memory, or we are about to go: to others we are a member that has died */
        return SPOTNIK_ERR_PEERS;
    if (asked->kind == SPOTNIK_EXCHANGE_PUSH || asked->kind == SPOTNIK_EXCHANGE_PASS)
        return take_update(session, depot, asked);
    if (spotnik_depot_extent(depot) != asked->version)
        return say(session, SPOTNIK_EXCHANGE_OTHER, 0);
    return asked->kind == SPOTNIK_EXCHANGE_FETCH ? give_shard(session, depot, *asked)
                                                 : give_block(session, depot, asked);
}
