/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a store, and what is done with them under its lock. */
#include "exchange/depot.h"

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
#define DEPOTS_MAX 256 /* that others may have us open */

_Static_assert(SPOTNIK_EXCHANGE_COPIES_MAX < EXTENT_COPIES, "an extent holds both numbers");

struct spotnik_depot *spotnik_depot_find(const struct spotnik_exchange *exchange, const char *name)
{
    struct spotnik_depot *depot = exchange->depots;

    while (depot && strcmp(depot->name, name) != 0)
        depot = depot->next;
    return depot;
}

uint64_t spotnik_block_bytes(const struct spotnik_depot *depot, uint32_t i)
{
    uint64_t left = depot->bytes - i * depot->block_bytes;

    return left < depot->block_bytes ? left : depot->block_bytes;
}

/* The blocks of a range that begins with one and ends with one. */
void spotnik_range_blocks(const struct spotnik_depot *depot, uint64_t offset, uint64_t bytes,
                          uint32_t *ret_first, uint32_t *ret_end)
{
    *ret_first = (uint32_t)(offset / depot->block_bytes);
    *ret_end = (uint32_t)((offset + bytes + depot->block_bytes - 1) / depot->block_bytes);
}

static bool is_range(const struct spotnik_depot *depot, uint64_t offset, uint64_t bytes)
{
    return bytes > 0 && offset < depot->bytes && bytes <= depot->bytes - offset
           && offset % depot->block_bytes == 0
           && ((offset + bytes) % depot->block_bytes == 0 || offset + bytes == depot->bytes);
}

/* Do we hold all of that range, in the view of that epoch? */
bool spotnik_depot_covers(const struct spotnik_depot *depot, uint64_t epoch, uint64_t offset,
                          uint64_t bytes)
{
    uint32_t first, end;

    if (epoch == 0 || epoch != depot->cut.epoch || !is_range(depot, offset, bytes))
        return false;
    spotnik_range_blocks(depot, offset, bytes, &first, &end);
    for (uint32_t i = first; i < end; i++)
        if (!depot->block[i].held)
            return false;
    return true;
}

/* ---- senders ---- */

static bool is_member(const struct spotnik_depot_cut *cut, struct spotnik_id id)
{
    for (uint32_t i = 0; i < cut->shards.size; i++)
        if (spotnik_id_equal(cut->member[i].id, id))
            return true;
    return false;
}

/* A column that no member needs any more. */
static bool column_free(const struct spotnik_depot *depot, uint32_t *ret)
{
    for (uint32_t i = 0; i < depot->sender_count; i++)
        if (!is_member(&depot->cut, depot->sender[i])) {
            *ret = i;
            return true;
        }
    return false;
}

/* False: more senders than can be. */
static bool column_of(struct spotnik_depot *depot, struct spotnik_id sender, uint32_t *ret)
{
    for (*ret = 0; *ret < depot->sender_count; ++*ret)
        if (spotnik_id_equal(depot->sender[*ret], sender))
            return true;
    if (depot->sender_count < SPOTNIK_STORE_SENDERS_MAX)
        depot->sender_count++;
    else if (!column_free(depot, ret))
        return false;
    depot->sender[*ret] = sender;
    for (uint32_t i = 0; i < depot->block_count; i++)
        depot->block[i].store.applied[*ret] = 0;
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

bool spotnik_depot_apply(struct spotnik_depot *depot, struct spotnik_id owner, uint64_t sequence,
                         uint64_t offset, uint64_t bytes, const float *update)
{
    uint32_t column, first, end;

    if (sequence == 0 || !column_of(depot, owner, &column))
        return false;
    spotnik_range_blocks(depot, offset, bytes, &first, &end);
    for (uint32_t i = first; i < end; i++)
        add_once(&depot->block[i].store, column, sequence,
                 update + (i * depot->block_bytes - offset) / sizeof *update);
    return true;
}

/* ---- a block as it travels ---- */

/* The age of our content, for a member that follows the same view. */
uint64_t spotnik_block_stamp(const struct spotnik_depot *depot, uint32_t i)
{
    return depot->block[i].held ? depot->cut.epoch + 1 : depot->block[i].stamp;
}

int spotnik_block_write(const struct spotnik_depot *depot, uint32_t i, struct spotnik_body *body,
                        uint64_t *ret_rows)
{
    const struct spotnik_store *store = &depot->block[i].store;
    struct spotnik_writer writer;
    uint64_t size =
        (uint64_t)depot->sender_count * SPOTNIK_DEPOT_ROW_BYTES + spotnik_block_bytes(depot, i);
    int rc = spotnik_body_reserve(body, size);

    if (rc)
        return rc;
    spotnik_writer_init(&writer, body->bytes, size);
    for (uint32_t column = 0; column < depot->sender_count; column++) {
        spotnik_writer_id(&writer, depot->sender[column]);
        spotnik_writer_u64(&writer, store->applied[column]);
    }
    spotnik_writer_bytes(&writer, store->data, spotnik_block_bytes(depot, i));
    SPOTNIK_ASSERT(!writer.failed && writer.at == size);
    body->size = size;
    *ret_rows = depot->sender_count;
    return 0;
}

/* In place of what is here. False: nonsense, or more senders than can be; what is here is of no use
 * any more. */
bool spotnik_block_read(struct spotnik_depot *depot, uint32_t i, const uint8_t *bytes,
                        uint64_t size, uint64_t rows)
{
    struct spotnik_store *store = &depot->block[i].store;
    uint64_t data = spotnik_block_bytes(depot, i);
    struct spotnik_reader reader;

    if (rows > SPOTNIK_STORE_SENDERS_MAX || size != rows * SPOTNIK_DEPOT_ROW_BYTES + data)
        return false;
    spotnik_reader_init(&reader, bytes, size);
    depot->block[i].stamp = 0;
    memset(store->applied, 0, sizeof store->applied);
    for (uint64_t row = 0; row < rows; row++) {
        struct spotnik_id sender = spotnik_reader_id(&reader);
        uint64_t number = spotnik_reader_u64(&reader);
        uint32_t column;
        if (number == 0)
            continue;
        if (!column_of(depot, sender, &column))
            return false;
        store->applied[column] = number;
    }
    spotnik_reader_bytes(&reader, store->data, data);
    return true;
}

/* ---- life ---- */

static uint64_t block_bytes(uint64_t bytes)
{
    uint64_t even = (bytes + SPOTNIK_DEPOT_BLOCKS_MAX - 1) / SPOTNIK_DEPOT_BLOCKS_MAX;
    uint64_t unit = SPOTNIK_DEPOT_BLOCK_BYTES_MIN;

    return (even + unit - 1) / unit * unit;
}

static void depot_free(struct spotnik_depot *depot)
{
    close(depot->wake_fd);
    pthread_mutex_destroy(&depot->lock);
    free(depot->data);
    free(depot->block);
    free(depot);
}

/* Blocks that have had no content take over what the store begins with. Under the lock. */
static void initial_take(struct spotnik_depot *depot, const float *initial)
{
    for (uint32_t i = 0; i < depot->block_count; i++) {
        struct spotnik_block *block = &depot->block[i];
        if (block->held || block->stamp > 0)
            continue;
        memcpy(block->store.data, initial + i * depot->block_bytes / sizeof *initial,
               spotnik_block_bytes(depot, i));
        block->stamp = 1;
    }
    depot->opened = true;
}

static struct spotnik_depot *depot_new(struct spotnik_exchange *exchange, const char *name,
                                       uint64_t bytes, uint32_t copies)
{
    struct spotnik_depot *depot = calloc(1, sizeof *depot);

    if (!depot)
        return NULL;
    pthread_mutex_init(&depot->lock, NULL);
    depot->exchange = exchange;
    memcpy(depot->name, name, strlen(name) + 1);
    depot->count = bytes / sizeof *depot->data;
    depot->bytes = bytes;
    depot->block_bytes = block_bytes(depot->bytes);
    depot->block_count = (uint32_t)((depot->bytes + depot->block_bytes - 1) / depot->block_bytes);
    depot->copies = copies;
    depot->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    depot->data = calloc(1, depot->bytes);
    depot->block = calloc(depot->block_count, sizeof *depot->block);
    if (depot->wake_fd < 0 || !depot->data || !depot->block) {
        depot_free(depot);
        return NULL;
    }
    for (uint32_t i = 0; i < depot->block_count; i++)
        spotnik_store_init(&depot->block[i].store,
                           depot->data + i * depot->block_bytes / sizeof *depot->data,
                           spotnik_block_bytes(depot, i) / sizeof *depot->data);
    return depot;
}

/* Find it, or put `fresh` there and let it follow the views. Under the exchange's lock. NULL: it
 * cannot be started. */
static struct spotnik_depot *get(struct spotnik_exchange *exchange, struct spotnik_depot *fresh)
{
    struct spotnik_depot *depot = spotnik_depot_find(exchange, fresh->name);

    if (depot)
        return depot;
    if (exchange->stopping || spotnik_thread_start(spotnik_depot_follow, fresh, &fresh->thread))
        return NULL;
    fresh->next = exchange->depots;
    exchange->depots = fresh;
    return fresh;
}

static int open_here(struct spotnik_depot *depot, uint64_t extent, const float *initial)
{
    int rc = 0;

    pthread_mutex_lock(&depot->lock);
    if (depot->opened)
        rc =
            spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the store %s is open already", depot->name);
    else if (spotnik_depot_extent(depot) != extent)
        rc =
            spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                 "the store %s has %llu elements and %u copies with other members; "
                                 "open it with the same numbers everywhere",
                                 depot->name, (unsigned long long)depot->count, depot->copies);
    else
        initial_take(depot, initial);
    pthread_mutex_unlock(&depot->lock);
    spotnik_wake(depot->wake_fd); /* now there is something to be held */
    return rc;
}

int spotnik_exchange_store_open(struct spotnik_exchange *exchange, const char *name,
                                const float *initial, uint64_t count, uint32_t copies)
{
    struct spotnik_depot *fresh = depot_new(exchange, name, count * sizeof *initial, copies);

    if (!fresh)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the store %s", name);
    uint64_t extent = spotnik_depot_extent(fresh);
    pthread_mutex_lock(&exchange->lock);
    struct spotnik_depot *depot = get(exchange, fresh);
    pthread_mutex_unlock(&exchange->lock);
    if (depot != fresh)
        depot_free(fresh);
    if (!depot)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot start a thread for the store, or the job has ended");
    return open_here(depot, extent, initial);
}

/* ---- for others' sake ---- */

/* What every question about a store says in `version`: how large it is, and how many copies of each
 * part there are. */
uint64_t spotnik_depot_extent(const struct spotnik_depot *depot)
{
    return depot->bytes * EXTENT_COPIES + depot->copies;
}

static bool is_extent(uint64_t bytes, uint64_t copies)
{
    return bytes > 0 && bytes % sizeof(float) == 0 && bytes <= SPOTNIK_EXCHANGE_BYTES_MAX
           && copies > 0 && copies <= SPOTNIK_EXCHANGE_COPIES_MAX;
}

static uint32_t depot_count(const struct spotnik_exchange *exchange)
{
    uint32_t count = 0;

    for (const struct spotnik_depot *depot = exchange->depots; depot; depot = depot->next)
        count++;
    return count;
}

struct spotnik_depot *spotnik_depot_for(struct spotnik_exchange *exchange,
                                        const struct spotnik_exchange_head *asked)
{
    uint64_t bytes = asked->version / EXTENT_COPIES, copies = asked->version % EXTENT_COPIES;

    pthread_mutex_lock(&exchange->lock);
    struct spotnik_depot *depot = spotnik_depot_find(exchange, asked->name);
    bool room = depot_count(exchange) < DEPOTS_MAX;
    pthread_mutex_unlock(&exchange->lock);
    if (!depot && room && is_extent(bytes, copies)) {
        struct spotnik_depot *fresh = depot_new(exchange, asked->name, bytes, (uint32_t)copies);
        pthread_mutex_lock(&exchange->lock);
        depot = fresh ? get(exchange, fresh) : NULL;
        pthread_mutex_unlock(&exchange->lock);
        if (fresh && depot != fresh)
            depot_free(fresh);
    }
    return depot;
}

void spotnik_exchange_store_set(struct spotnik_exchange *exchange, const char *name,
                                const float *data)
{
    pthread_mutex_lock(&exchange->lock);
    struct spotnik_depot *depot = spotnik_depot_find(exchange, name);
    pthread_mutex_unlock(&exchange->lock);
    if (!depot) /* depots live as long as the job */
        return;
    pthread_mutex_lock(&depot->lock);
    memcpy(depot->data, data, depot->bytes);
    pthread_mutex_unlock(&depot->lock);
}

/* After the threads have ended. */
void spotnik_depots_free(struct spotnik_exchange *exchange)
{
    while (exchange->depots) {
        struct spotnik_depot *depot = exchange->depots;
        exchange->depots = depot->next;
        depot_free(depot);
    }
}
