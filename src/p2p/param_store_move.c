/* SPDX-License-Identifier: Apache-2.0 */
/* Following the views: which blocks are ours from now on, and fetching those that are not here. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "base/time.h"
#include "base/wake.h"
#include "p2p/param_store.h"

/* What one fetch needs. */
struct mover {
    struct spotnik_param_store *param_store;
    struct spotnik_caller caller;
    struct spotnik_param_store_cut cut;    /* that is being followed */
    struct spotnik_param_store_cut before; /* for a guess at the holders */
    struct spotnik_param_store_cut fresh;  /* to be compared */
    uint32_t now[SPOTNIK_P2P_MEMBERS_MAX]; /* rank in `cut` of each rank in `before` */
    struct spotnik_body body;
};

static bool is_over(const struct spotnik_param_store *param_store)
{
    pthread_mutex_lock(&param_store->p2p->lock);
    bool over = param_store->p2p->stopping;
    pthread_mutex_unlock(&param_store->p2p->lock);
    return over;
}

/* A question that was asked in another view is of no use any more. */
static bool goes_on(void *context)
{
    const struct mover *mover = context;

    return !is_over(mover->param_store)
           && spotnik_discovery_epoch(mover->param_store->p2p) == mover->cut.epoch;
}

/* ---- a new view ---- */

static uint32_t rank_in(const struct spotnik_param_store_cut *cut, struct spotnik_id id)
{
    uint32_t rank = 0;

    while (rank < cut->shards.size && !spotnik_id_equal(cut->member[rank].id, id))
        rank++;
    return rank < cut->shards.size ? rank : SPOTNIK_SHARD_NOBODY;
}

static bool is_ours(const struct spotnik_param_store_cut *cut, uint64_t byte)
{
    return cut->rank < cut->shards.size
           && spotnik_shards_holds(&cut->shards, cut->rank, spotnik_shards_of(&cut->shards, byte));
}

/* Under the lock. What we held was complete through the epoch that ends; it stays so if it stays
 * ours and no epoch was missed in between. */
static void recut(struct spotnik_param_store *param_store,
                  const struct spotnik_param_store_cut *cut)
{
    bool next = param_store->cut.epoch + 1 == cut->epoch;

    for (uint32_t i = 0; i < param_store->block_count; i++) {
        struct spotnik_block *block = &param_store->block[i];
        if (block->held)
            block->stamp = param_store->cut.epoch + 1;
        bool ours = is_ours(cut, i * param_store->block_bytes);
        block->held = ours && next && block->held;
        block->wanted = ours && !block->held;
    }
    param_store->cut = *cut;
}

/* True: there is a new view, and it is followed from now on. */
static bool view_take(struct mover *mover)
{
    struct spotnik_param_store *param_store = mover->param_store;
    struct spotnik_param_store_cut *cut = &mover->cut, *fresh = &mover->fresh;
    uint32_t size = spotnik_discovery_view(param_store->p2p, fresh->member, &fresh->epoch);

    if (size == 0 || fresh->epoch == cut->epoch)
        return false;
    fresh->shards = spotnik_shards_make(param_store->bytes, (uint32_t)param_store->block_bytes,
                                        size, param_store->copies);
    fresh->rank = rank_in(fresh, spotnik_discovery_self(param_store->p2p));
    if (fresh->rank == SPOTNIK_SHARD_NOBODY)
        fresh->rank = size;
    mover->before = *cut;
    *cut = *fresh;
    for (uint32_t rank = 0; mover->before.epoch && rank < mover->before.shards.size; rank++)
        mover->now[rank] = rank_in(cut, mover->before.member[rank].id);
    pthread_mutex_lock(&param_store->lock);
    recut(param_store, cut);
    pthread_mutex_unlock(&param_store->lock);
    return true;
}

/* ---- one block ---- */

static struct spotnik_p2p_head question(const struct mover *mover, enum spotnik_p2p_kind kind,
                                        uint32_t i)
{
    struct spotnik_p2p_head head = {
        .kind = (uint8_t)kind,
        .dtype = SPOTNIK_F32,
        .epoch = mover->cut.epoch,
        .version = spotnik_param_store_extent(mover->param_store),
        .offset = i * mover->param_store->block_bytes,
        .bytes = spotnik_block_bytes(mover->param_store, i),
    };

    memcpy(head.name, mover->param_store->name, sizeof head.name);
    return head;
}

/* Our block is what it should be. False: the view has changed meanwhile. */
static bool settle(struct mover *mover, uint32_t i)
{
    struct spotnik_block *block = &mover->param_store->block[i];

    if (mover->param_store->cut.epoch != mover->cut.epoch)
        return false;
    block->stamp = mover->cut.epoch;
    block->held = true;
    block->wanted = false;
    return true;
}

/* Take it from that member, if what it has is at least that new. */
static bool take_from(struct mover *mover, uint32_t rank, uint32_t i, uint64_t stamp)
{
    struct spotnik_param_store *param_store = mover->param_store;
    struct spotnik_p2p_head head = question(mover, SPOTNIK_P2P_TAKE, i), answer;
    uint64_t most = SPOTNIK_STORE_SENDERS_MAX * SPOTNIK_PARAM_STORE_ROW_BYTES
                    + spotnik_block_bytes(param_store, i);

    if (spotnik_call(&mover->caller, &mover->cut.member[rank], &head, NULL, &answer, &mover->body,
                     most)
        || answer.kind != SPOTNIK_P2P_BLOCK || answer.version < stamp)
        return false;
    pthread_mutex_lock(&param_store->lock);
    bool here =
        param_store->cut.epoch == mover->cut.epoch
        && spotnik_block_read(param_store, i, mover->body.bytes, mover->body.size, answer.sequence)
        && settle(mover, i);
    pthread_mutex_unlock(&param_store->lock);
    return here;
}

/* What we have is as new as any copy. False: no member has a copy until one opens the store. */
static bool take_own(struct mover *mover, uint32_t i)
{
    pthread_mutex_lock(&mover->param_store->lock);
    bool here = mover->param_store->block[i].stamp > 0 && settle(mover, i);
    pthread_mutex_unlock(&mover->param_store->lock);
    return here;
}

static uint64_t stamp_of(struct mover *mover, uint32_t i)
{
    pthread_mutex_lock(&mover->param_store->lock);
    uint64_t stamp = mover->param_store->block[i].stamp;
    pthread_mutex_unlock(&mover->param_store->lock);
    return stamp;
}

/* The member with the newest content. False: we cannot ask one of them now. */
static bool newest(struct mover *mover, uint32_t i, uint32_t *ret_rank, uint64_t *ret_stamp)
{
    *ret_rank = mover->cut.rank;
    *ret_stamp = stamp_of(mover, i);
    for (uint32_t rank = 0; rank < mover->cut.shards.size; rank++) {
        struct spotnik_p2p_head head = question(mover, SPOTNIK_P2P_HAVE, i), answer;
        if (rank == mover->cut.rank)
            continue;
        if (spotnik_call(&mover->caller, &mover->cut.member[rank], &head, NULL, &answer, NULL, 0)
            || answer.kind == SPOTNIK_P2P_LATER)
            return false;
        if (answer.kind == SPOTNIK_P2P_HOLD && answer.version > *ret_stamp) {
            *ret_stamp = answer.version;
            *ret_rank = rank;
        }
    }
    return true;
}

/* The holders of a view ago have all updates answered until then; if none is left, the member with
 * the newest content. */
static bool fetch_block(struct mover *mover, uint32_t i)
{
    uint64_t good = mover->cut.epoch, stamp, end;
    uint32_t rank = SPOTNIK_SHARD_NOBODY;

    if (stamp_of(mover, i) >= good)
        return take_own(mover, i);
    if (mover->before.epoch)
        rank = spotnik_shards_source(&mover->before.shards, &mover->cut.shards, mover->now,
                                     mover->cut.rank, i * mover->param_store->block_bytes, &end);
    if (rank != SPOTNIK_SHARD_NOBODY && rank != mover->cut.rank && take_from(mover, rank, i, good))
        return true;
    if (!newest(mover, i, &rank, &stamp))
        return false;
    return rank == mover->cut.rank ? take_own(mover, i) : take_from(mover, rank, i, stamp);
}

/* ---- the thread ---- */

static bool is_wanted(struct mover *mover, uint32_t i)
{
    pthread_mutex_lock(&mover->param_store->lock);
    bool wanted = mover->param_store->block[i].wanted;
    pthread_mutex_unlock(&mover->param_store->lock);
    return wanted;
}

/* False: something is missing, and is to be tried again. */
static bool fetch_all(struct mover *mover)
{
    bool complete = true;

    for (uint32_t i = 0; i < mover->param_store->block_count; i++) {
        if (!is_wanted(mover, i))
            continue;
        if (fetch_block(mover, i))
            continue;
        complete = false;
        break;
    }
    return complete;
}

static void rest(struct spotnik_param_store *param_store, bool complete)
{
    struct pollfd entry = { .fd = param_store->wake_fd, .events = POLLIN };
    struct timespec pause = { .tv_nsec = SPOTNIK_PARAM_STORE_PAUSE_NS };

    /* when all is here only a wake is waited for */
    if (ppoll(&entry, 1, complete ? NULL : &pause, NULL) > 0)
        spotnik_wake_take(param_store->wake_fd);
}

void *spotnik_param_store_follow(void *argument)
{
    struct spotnik_param_store *param_store = argument;
    struct mover *mover = calloc(1, sizeof *mover);

    if (!mover)
        return NULL; /* to the others we are a member that is never ready */
    mover->param_store = param_store;
    mover->caller = (struct spotnik_caller){ .p2p = param_store->p2p,
                                             .wake_fd = param_store->wake_fd,
                                             .until_ns = SPOTNIK_NEVER,
                                             .goes_on = goes_on,
                                             .context = mover };
    while (!is_over(param_store)) {
        if (view_take(mover))
            continue;
        bool complete = fetch_all(mover);
        /* a question may have used up the word of either */
        if (!view_take(mover) && !is_over(param_store))
            rest(param_store, complete);
    }
    free(mover->body.bytes);
    free(mover);
    return NULL;
}
