/* SPDX-License-Identifier: Apache-2.0 */
/* Our own pushes and fetches. Both go range by range to its holder. A failed part is tried again in
 * the current view, under the same number, until all of it is done. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/time.h"
#include "base/wake.h"
#include "p2p/param_store.h"

struct asking {
    struct spotnik_request *request;
    struct spotnik_param_store *param_store;
    struct spotnik_caller caller;
    struct spotnik_param_store_cut cut;
    struct spotnik_body body;
    bool done[SPOTNIK_PARAM_STORE_BLOCKS_MAX];
};

/* Another member's store of this name has another size: asking again does not help. */
static bool is_other(struct asking *asking, uint32_t rank, const struct spotnik_p2p_head *answer)
{
    if (answer->kind != SPOTNIK_P2P_OTHER)
        return false;
    asking->request->error = SPOTNIK_ERR_MISMATCH;
    asking->request->arrival.rank = rank;
    return true;
}

/* In the view that we asked in; in a new one another member is asked. */
static bool goes_on(void *context)
{
    const struct asking *asking = context;

    return !spotnik_request_is_over(asking->request)
           && spotnik_discovery_epoch(asking->param_store->p2p) == asking->cut.epoch;
}

static void cut_take(struct asking *asking)
{
    pthread_mutex_lock(&asking->param_store->lock);
    asking->cut = asking->param_store->cut;
    pthread_mutex_unlock(&asking->param_store->lock);
}

/* The view changes, or the content of a block arrives at another member. No message reports either,
 * so look again soon. */
static void pause_a_little(struct asking *asking)
{
    struct pollfd entry = { .fd = asking->request->wake_fd, .events = POLLIN };
    struct timespec pause = { .tv_nsec = SPOTNIK_PARAM_STORE_PAUSE_NS };

    if (ppoll(&entry, 1, &pause, NULL) > 0)
        spotnik_wake_take(entry.fd);
}

static struct spotnik_p2p_head head_of(const struct asking *asking, enum spotnik_p2p_kind kind,
                                       struct spotnik_shard range)
{
    struct spotnik_p2p_head head = {
        .kind = (uint8_t)kind,
        .dtype = SPOTNIK_F32,
        .epoch = asking->cut.epoch,
        .version = spotnik_param_store_extent(asking->param_store),
        .owner = asking->request->self,
        .sequence = asking->request->sequence,
        .offset = range.begin,
        .bytes = range.end - range.begin,
    };

    memcpy(head.name, asking->param_store->name, sizeof head.name);
    return head;
}

static bool push_range(struct asking *asking, uint32_t i, struct spotnik_shard range)
{
    struct spotnik_p2p_head head = head_of(asking, SPOTNIK_P2P_PUSH, range), answer;
    const uint8_t *update = asking->request->data + range.begin;
    uint32_t rank = spotnik_shards_holder(&asking->cut.shards, i, 0);

    if (rank == asking->cut.rank)
        return spotnik_param_store_take_in(asking->param_store, &asking->caller, &head, update);
    return spotnik_call(&asking->caller, &asking->cut.member[rank], &head, update, &answer, NULL, 0)
               == 0
           && !is_other(asking, rank, &answer) && answer.kind == SPOTNIK_P2P_DONE;
}

static bool fetch_here(struct asking *asking, struct spotnik_shard range)
{
    struct spotnik_param_store *param_store = asking->param_store;

    pthread_mutex_lock(&param_store->lock);
    bool covers = spotnik_param_store_covers(param_store, asking->cut.epoch, range.begin,
                                             range.end - range.begin);
    if (covers)
        memcpy(asking->request->data + range.begin,
               (const uint8_t *)param_store->data + range.begin, range.end - range.begin);
    pthread_mutex_unlock(&param_store->lock);
    return covers;
}

static bool fetch_there(struct asking *asking, uint32_t rank, struct spotnik_shard range)
{
    struct spotnik_p2p_head head = head_of(asking, SPOTNIK_P2P_FETCH, range), answer;

    if (spotnik_call(&asking->caller, &asking->cut.member[rank], &head, NULL, &answer,
                     &asking->body, head.bytes)
        || is_other(asking, rank, &answer) || answer.kind != SPOTNIK_P2P_SHARD
        || answer.bytes != head.bytes)
        return false;
    memcpy(asking->request->data + range.begin, asking->body.bytes, head.bytes);
    return true;
}

/* From ourselves if we hold it; all holders have what was answered, so any of them will do. */
static bool fetch_range(struct asking *asking, uint32_t i, struct spotnik_shard range)
{
    const struct spotnik_param_store_cut *cut = &asking->cut;

    if (fetch_here(asking, range))
        return true;
    for (uint32_t copy = 0; copy < cut->shards.copies; copy++) {
        uint32_t rank = spotnik_shards_holder(&cut->shards, i, copy);
        if (rank != cut->rank && fetch_there(asking, rank, range))
            return true;
    }
    return false;
}

static bool is_done(const struct asking *asking, struct spotnik_shard range)
{
    uint32_t first, end;

    spotnik_range_blocks(asking->param_store, range.begin, range.end - range.begin, &first, &end);
    for (uint32_t i = first; i < end; i++)
        if (!asking->done[i])
            return false;
    return true;
}

static void mark_done(struct asking *asking, struct spotnik_shard range)
{
    uint32_t first, end;

    spotnik_range_blocks(asking->param_store, range.begin, range.end - range.begin, &first, &end);
    memset(asking->done + first, true, end - first);
}

/* All ranges once. Members begin with their own, so that they do not all stand at one door. True:
 * all is done. */
static bool round_make(struct asking *asking,
                       bool (*one)(struct asking *, uint32_t, struct spotnik_shard))
{
    uint32_t size = asking->cut.epoch ? asking->cut.shards.size : 0;
    bool complete = size > 0;

    for (uint32_t k = 0; k < size && !spotnik_request_is_over(asking->request); k++) {
        uint32_t i = (asking->cut.rank + k) % size;
        struct spotnik_shard range = spotnik_shards_range(&asking->cut.shards, i);
        if (range.begin == range.end || is_done(asking, range))
            continue;
        if (one(asking, i, range))
            mark_done(asking, range);
        else
            complete = false;
    }
    return complete && !spotnik_request_is_over(asking->request);
}

static bool carry_out(struct spotnik_request *request,
                      bool (*one)(struct asking *, uint32_t, struct spotnik_shard))
{
    struct asking *asking = calloc(1, sizeof *asking);
    bool complete = false;

    if (!asking)
        return false;
    asking->request = request;
    asking->param_store = request->param_store;
    asking->caller = (struct spotnik_caller){ .p2p = request->p2p,
                                              .wake_fd = request->wake_fd,
                                              .until_ns = request->until_ns,
                                              .goes_on = goes_on,
                                              .context = asking };
    while (!complete && !request->error && !spotnik_request_is_over(request)) {
        cut_take(asking);
        complete = round_make(asking, one);
        if (!complete)
            pause_a_little(asking);
    }
    free(asking->body.bytes);
    free(asking);
    return complete;
}

bool spotnik_param_store_push(struct spotnik_request *request)
{
    bool complete = carry_out(request, push_range);

    pthread_mutex_lock(&request->param_store->lock);
    request->param_store->pushing = false;
    pthread_mutex_unlock(&request->param_store->lock);
    return complete;
}

bool spotnik_param_store_fetch(struct spotnik_request *request)
{
    return carry_out(request, fetch_range);
}
