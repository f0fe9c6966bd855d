/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a store, and what is done with them under its lock. */
#include "p2p/param_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/wake.h"
#include "transfer/thread.h"

#define EXTENT_COPIES 16
#define PARAM_STORES_MAX 256 /* that others may have us open */

_Static_assert(SPOTNIK_P2P_COPIES_MAX < EXTENT_COPIES, "an extent holds both numbers");

struct spotnik_param_store *spotnik_param_store_find(const struct spotnik_p2p *p2p,
                                                     const char *name)
{
    struct spotnik_param_store *param_store = p2p->param_stores;

    while (param_store && strcmp(param_store->name, name) != 0)
        param_store = param_store->next;
    return param_store;
}

uint64_t spotnik_block_bytes(const struct spotnik_param_store *param_store, uint32_t i)
{
    uint64_t left = param_store->bytes - i * param_store->block_bytes;

    return left < param_store->block_bytes ? left : param_store->block_bytes;
}

/* The blocks of a range that begins with one and ends with one. */
void spotnik_range_blocks(const struct spotnik_param_store *param_store, uint64_t offset,
                          uint64_t bytes, uint32_t *ret_first, uint32_t *ret_end)
{
    *ret_first = (uint32_t)(offset / param_store->block_bytes);
    *ret_end =
        (uint32_t)((offset + bytes + param_store->block_bytes - 1) / param_store->block_bytes);
}

static bool is_range(const struct spotnik_param_store *param_store, uint64_t offset, uint64_t bytes)
{
    return bytes > 0 && offset < param_store->bytes && bytes <= param_store->bytes - offset
           && offset % param_store->block_bytes == 0
           && ((offset + bytes) % param_store->block_bytes == 0
               || offset + bytes == param_store->bytes);
}

/* Do we hold all of that range, in the view of that epoch? */
bool spotnik_param_store_covers(const struct spotnik_param_store *param_store, uint64_t epoch,
                                uint64_t offset, uint64_t bytes)
{
    uint32_t first, end;

    if (epoch == 0 || epoch != param_store->cut.epoch || !is_range(param_store, offset, bytes))
        return false;
    spotnik_range_blocks(param_store, offset, bytes, &first, &end);
    for (uint32_t i = first; i < end; i++)
        if (!param_store->block[i].held)
            return false;
    return true;
}

/* ---- senders ---- */

static bool is_member(const struct spotnik_param_store_cut *cut, struct spotnik_id id)
{
    for (uint32_t i = 0; i < cut->shards.size; i++)
        if (spotnik_id_equal(cut->member[i].id, id))
            return true;
    return false;
}

/* A column that no member needs any more. */
static bool column_free(const struct spotnik_param_store *param_store, uint32_t *ret)
{
    for (uint32_t i = 0; i < param_store->sender_count; i++)
        if (!is_member(&param_store->cut, param_store->sender[i])) {
            *ret = i;
            return true;
        }
    return false;
}

/* False: more senders than can be. */
static bool column_of(struct spotnik_param_store *param_store, struct spotnik_id sender,
                      uint32_t *ret)
{
    for (*ret = 0; *ret < param_store->sender_count; ++*ret)
        if (spotnik_id_equal(param_store->sender[*ret], sender))
            return true;
    if (param_store->sender_count < SPOTNIK_STORE_SENDERS_MAX)
        param_store->sender_count++;
    else if (!column_free(param_store, ret))
        return false;
    param_store->sender[*ret] = sender;
    for (uint32_t i = 0; i < param_store->block_count; i++)
        param_store->block[i].store.applied[*ret] = 0;
    return true;
}

/* Numbers that are missing belong to pushes that were given up: they will not come. */
static void add_once(struct spotnik_store *store, uint32_t column, uint64_t sequence,
                     const float *update)
{
    if (store->applied[column] >= sequence)
        return;
    store->applied[column] = sequence - 1;
    bool added = spotnik_store_add(store, column, sequence, update, NULL);
    SPOTNIK_ASSERT(added);
}

bool spotnik_param_store_apply(struct spotnik_param_store *param_store, struct spotnik_id owner,
                               uint64_t sequence, uint64_t offset, uint64_t bytes,
                               const float *update)
{
    uint32_t column, first, end;

    if (sequence == 0 || !column_of(param_store, owner, &column))
        return false;
    spotnik_range_blocks(param_store, offset, bytes, &first, &end);
    for (uint32_t i = first; i < end; i++)
        add_once(&param_store->block[i].store, column, sequence,
                 update + (i * param_store->block_bytes - offset) / sizeof *update);
    return true;
}

/* ---- a block as it travels ---- */

/* The age of our content, for a member that follows the same view. */
uint64_t spotnik_block_stamp(const struct spotnik_param_store *param_store, uint32_t i)
{
    return param_store->block[i].held ? param_store->cut.epoch + 1 : param_store->block[i].stamp;
}

int spotnik_block_write(const struct spotnik_param_store *param_store, uint32_t i,
                        struct spotnik_body *body, uint64_t *ret_rows)
{
    const struct spotnik_store *store = &param_store->block[i].store;
    struct spotnik_writer writer;
    uint64_t size = (uint64_t)param_store->sender_count * SPOTNIK_PARAM_STORE_ROW_BYTES
                    + spotnik_block_bytes(param_store, i);
    int rc = spotnik_body_reserve(body, size);

    if (rc)
        return rc;
    spotnik_writer_init(&writer, body->bytes, size);
    for (uint32_t column = 0; column < param_store->sender_count; column++) {
        spotnik_writer_id(&writer, param_store->sender[column]);
        spotnik_writer_u64(&writer, store->applied[column]);
    }
    spotnik_writer_bytes(&writer, store->data, spotnik_block_bytes(param_store, i));
    SPOTNIK_ASSERT(!writer.failed && writer.at == size);
    body->size = size;
    *ret_rows = param_store->sender_count;
    return 0;
}

/* In place of what is here. False: nonsense, or more senders than can be; what is here is of no use
 * any more. */
bool spotnik_block_read(struct spotnik_param_store *param_store, uint32_t i, const uint8_t *bytes,
                        uint64_t size, uint64_t rows)
{
    struct spotnik_store *store = &param_store->block[i].store;
    uint64_t data = spotnik_block_bytes(param_store, i);
    struct spotnik_reader reader;

    if (rows > SPOTNIK_STORE_SENDERS_MAX || size != rows * SPOTNIK_PARAM_STORE_ROW_BYTES + data)
        return false;
    spotnik_reader_init(&reader, bytes, size);
    param_store->block[i].stamp = 0;
    memset(store->applied, 0, sizeof store->applied);
    for (uint64_t row = 0; row < rows; row++) {
        struct spotnik_id sender = spotnik_reader_id(&reader);
        uint64_t number = spotnik_reader_u64(&reader);
        uint32_t column;
        if (number == 0)
            continue;
        if (!column_of(param_store, sender, &column))
            return false;
        store->applied[column] = number;
    }
    spotnik_reader_bytes(&reader, store->data, data);
    return true;
}

/* ---- life ---- */

static uint64_t block_bytes(uint64_t bytes)
{
    uint64_t even = (bytes + SPOTNIK_PARAM_STORE_BLOCKS_MAX - 1) / SPOTNIK_PARAM_STORE_BLOCKS_MAX;
    uint64_t unit = SPOTNIK_PARAM_STORE_BLOCK_BYTES_MIN;

    return (even + unit - 1) / unit * unit;
}

static void param_store_free(struct spotnik_param_store *param_store)
{
    close(param_store->wake_fd);
    pthread_mutex_destroy(&param_store->lock);
    free(param_store->data);
    free(param_store->block);
    free(param_store);
}

/* Blocks that have had no content take over what the store begins with. Under the lock. */
static void initial_take(struct spotnik_param_store *param_store, const float *initial)
{
    for (uint32_t i = 0; i < param_store->block_count; i++) {
        struct spotnik_block *block = &param_store->block[i];
        if (block->held || block->stamp > 0)
            continue;
        memcpy(block->store.data, initial + i * param_store->block_bytes / sizeof *initial,
               spotnik_block_bytes(param_store, i));
        block->stamp = 1;
    }
    param_store->opened = true;
}

static struct spotnik_param_store *param_store_new(struct spotnik_p2p *p2p, const char *name,
                                                   uint64_t bytes, uint32_t copies)
{
    struct spotnik_param_store *param_store = calloc(1, sizeof *param_store);

    if (!param_store)
        return NULL;
    pthread_mutex_init(&param_store->lock, NULL);
    param_store->p2p = p2p;
    memcpy(param_store->name, name, strlen(name) + 1);
    param_store->count = bytes / sizeof *param_store->data;
    param_store->bytes = bytes;
    param_store->block_bytes = block_bytes(param_store->bytes);
    param_store->block_count =
        (uint32_t)((param_store->bytes + param_store->block_bytes - 1) / param_store->block_bytes);
    param_store->copies = copies;
    param_store->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    param_store->data = calloc(1, param_store->bytes);
    param_store->block = calloc(param_store->block_count, sizeof *param_store->block);
    if (param_store->wake_fd < 0 || !param_store->data || !param_store->block) {
        param_store_free(param_store);
        return NULL;
    }
    for (uint32_t i = 0; i < param_store->block_count; i++)
        spotnik_store_init(&param_store->block[i].store,
                           param_store->data
                               + i * param_store->block_bytes / sizeof *param_store->data,
                           spotnik_block_bytes(param_store, i) / sizeof *param_store->data);
    return param_store;
}

/* Find it, or put `fresh` there and let it follow the views. Under the exchange's lock. NULL: it
 * cannot be started. */
static struct spotnik_param_store *get(struct spotnik_p2p *p2p, struct spotnik_param_store *fresh)
{
    struct spotnik_param_store *param_store = spotnik_param_store_find(p2p, fresh->name);

    if (param_store)
        return param_store;
    if (p2p->stopping || spotnik_thread_start(spotnik_param_store_follow, fresh, &fresh->thread))
        return NULL;
    fresh->next = p2p->param_stores;
    p2p->param_stores = fresh;
    return fresh;
}

static int open_here(struct spotnik_param_store *param_store, uint64_t extent, const float *initial)
{
    int rc = 0;

    pthread_mutex_lock(&param_store->lock);
    if (param_store->opened)
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the store %s is open already",
                                  param_store->name);
    else if (spotnik_param_store_extent(param_store) != extent)
        rc =
            spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                 "the store %s has %llu elements and %u copies with other members; "
                                 "open it with the same numbers everywhere",
                                 param_store->name, (unsigned long long)param_store->count,
                                 param_store->copies);
    else
        initial_take(param_store, initial);
    pthread_mutex_unlock(&param_store->lock);
    spotnik_wake(param_store->wake_fd); /* now there is something to be held */
    return rc;
}

int spotnik_p2p_store_open(struct spotnik_p2p *p2p, const char *name, const float *initial,
                           uint64_t count, uint32_t copies)
{
    struct spotnik_param_store *fresh = param_store_new(p2p, name, count * sizeof *initial, copies);

    if (!fresh)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the store %s", name);
    uint64_t extent = spotnik_param_store_extent(fresh);
    pthread_mutex_lock(&p2p->lock);
    struct spotnik_param_store *param_store = get(p2p, fresh);
    pthread_mutex_unlock(&p2p->lock);
    if (param_store != fresh)
        param_store_free(fresh);
    if (!param_store)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot start a thread for the store, or the job has ended");
    return open_here(param_store, extent, initial);
}

/* ---- for others' sake ---- */

/* What every question about a store says in `version`: how large it is, and how many copies of each
 * part there are. */
uint64_t spotnik_param_store_extent(const struct spotnik_param_store *param_store)
{
    return param_store->bytes * EXTENT_COPIES + param_store->copies;
}

static bool is_extent(uint64_t bytes, uint64_t copies)
{
    return bytes > 0 && bytes % sizeof(float) == 0 && bytes <= SPOTNIK_P2P_BYTES_MAX && copies > 0
           && copies <= SPOTNIK_P2P_COPIES_MAX;
}

static uint32_t param_store_count(const struct spotnik_p2p *p2p)
{
    uint32_t count = 0;

    for (const struct spotnik_param_store *param_store = p2p->param_stores; param_store;
         param_store = param_store->next)
        count++;
    return count;
}

struct spotnik_param_store *spotnik_param_store_for(struct spotnik_p2p *p2p,
                                                    const struct spotnik_p2p_head *asked)
{
    uint64_t bytes = asked->version / EXTENT_COPIES, copies = asked->version % EXTENT_COPIES;

    pthread_mutex_lock(&p2p->lock);
    struct spotnik_param_store *param_store = spotnik_param_store_find(p2p, asked->name);
    bool room = param_store_count(p2p) < PARAM_STORES_MAX;
    pthread_mutex_unlock(&p2p->lock);
    if (!param_store && room && is_extent(bytes, copies)) {
        struct spotnik_param_store *fresh =
            param_store_new(p2p, asked->name, bytes, (uint32_t)copies);
        pthread_mutex_lock(&p2p->lock);
        param_store = fresh ? get(p2p, fresh) : NULL;
        pthread_mutex_unlock(&p2p->lock);
        if (fresh && param_store != fresh)
            param_store_free(fresh);
    }
    return param_store;
}

void spotnik_p2p_store_set(struct spotnik_p2p *p2p, const char *name, const float *data)
{
    pthread_mutex_lock(&p2p->lock);
    struct spotnik_param_store *param_store = spotnik_param_store_find(p2p, name);
    pthread_mutex_unlock(&p2p->lock);
    if (!param_store) /* parameter stores live as long as the job */
        return;
    pthread_mutex_lock(&param_store->lock);
    memcpy(param_store->data, data, param_store->bytes);
    pthread_mutex_unlock(&param_store->lock);
}

/* After the threads have ended. */
void spotnik_param_store_free(struct spotnik_p2p *p2p)
{
    while (p2p->param_stores) {
        struct spotnik_param_store *param_store = p2p->param_stores;
        p2p->param_stores = param_store->next;
        param_store_free(param_store);
    }
}
