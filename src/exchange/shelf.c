/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, copies, and the counting of turns. */
#include "exchange/shelf.h"

#include <stdbool.h>
#include <string.h>

#if defined __SSE2__
#include <emmintrin.h>
#endif

#include "base/assert.h"

/* Less than this is likely to be read while it is still in a cache. */
#define STREAM_BYTES_MIN ((uint64_t)256 << 10)

/* A reader that was overtaken this often while it copies will be overtaken again. */
#define TRIES 4

_Static_assert(sizeof(struct spotnik_shelf_row) == 128, "rows are of two lines");
_Static_assert(sizeof(struct spotnik_shelf_copy) == SPOTNIK_SHELF_LINE, "data begin on a line");

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- the owner ---- */

void spotnik_shelf_init(struct spotnik_shelf *shelf)
{
    store(&shelf->count, 0);
    store(&shelf->magic, SPOTNIK_SHELF_MAGIC);
}

struct spotnik_shelf_row *spotnik_shelf_add(struct spotnik_shelf *shelf, const char *name, uint64_t dtype,
                                            uint64_t bytes)
{
    uint64_t count = load(&shelf->count);

    if (count >= SPOTNIK_SHELF_ROWS)
        return NULL;
    struct spotnik_shelf_row *row = &shelf->row[count];
    size_t size = strlen(name);
    SPOTNIK_ASSERT(size < sizeof row->name);
    memset(row, 0, sizeof *row);
    memcpy(row->name, name, size);
    row->dtype = dtype;
    row->bytes = bytes;
    row->newest = SPOTNIK_SHELF_NOTHING;
    store(&shelf->count, count + 1);
    return row;
}

/* Stores that go past the caches are ordered with others by a fence alone, so there is one before and one behind. */
static void stream(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint64_t at = 0;

#if defined __SSE2__
    for (; bytes - at >= SPOTNIK_SHELF_LINE; at += SPOTNIK_SHELF_LINE)
        for (unsigned part = 0; part < SPOTNIK_SHELF_LINE; part += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(to + at + part),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at + part)));
    _mm_sfence();
#endif
    if (at < bytes)
        memcpy(to + at, from + at, bytes - at);
}

void spotnik_shelf_write(struct spotnik_shelf_copy *copy, const void *data, uint64_t bytes, uint64_t version)
{
    uint8_t *to = (uint8_t *)(copy + 1);
    uint64_t turn = copy->turn;

    store(&copy->turn, turn | 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* nothing of the new before the odd number */
    copy->bytes = bytes;
    copy->version = version;
    if (bytes >= STREAM_BYTES_MIN && (uintptr_t)to % SPOTNIK_SHELF_LINE == 0)
        stream(to, data, bytes);
    else if (bytes)
        memcpy(to, data, bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    store(&copy->turn, (turn | 1) + 1);
}

void spotnik_shelf_show(struct spotnik_shelf_row *row, uint64_t newest)
{
    store(&row->newest, newest);
}

/* ---- a reader ---- */

/* NULL: there is none. */
static const struct spotnik_shelf_row *find(const struct spotnik_shelf *shelf, const char *name)
{
    uint64_t count = load(&shelf->count);

    for (uint64_t i = 0; i < count && i < SPOTNIK_SHELF_ROWS; i++)
        if (memcmp(shelf->row[i].name, name, sizeof shelf->row[i].name) == 0)
            return &shelf->row[i];
    return NULL;
}

/* Of `newest`. */
static enum spotnik_shelf_sight place(uint64_t newest, size_t size, uint64_t bytes)
{
    if (newest == SPOTNIK_SHELF_NOTHING)
        return SPOTNIK_SHELF_NONE;
    if (newest % SPOTNIK_SHELF_LINE != 0)
        return SPOTNIK_SHELF_WRONG;
    if (newest > size || sizeof(struct spotnik_shelf_copy) > size - newest
        || bytes > size - newest - sizeof(struct spotnik_shelf_copy))
        return SPOTNIK_SHELF_SHORT;
    return SPOTNIK_SHELF_READ;
}

/* Once. TORN: not this time. */
static enum spotnik_shelf_sight copy_once(const struct spotnik_shelf_copy *copy,
                                          const struct spotnik_shelf_wanted *wanted, void *data, uint64_t *ret_version)
{
    uint64_t turn = load(&copy->turn);

    if (turn % 2 != 0)
        return SPOTNIK_SHELF_TORN;
    uint64_t version = load(&copy->version), bytes = load(&copy->bytes);
    bool fits = bytes == wanted->bytes && version > 0 && version >= wanted->version_min;
    if (fits && bytes)
        memcpy(data, copy + 1, bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* all of it before the second look */
    if (load(&copy->turn) != turn)
        return SPOTNIK_SHELF_TORN;
    *ret_version = version;
    if (fits)
        return SPOTNIK_SHELF_READ;
    return bytes == wanted->bytes && version > 0 ? SPOTNIK_SHELF_NONE : SPOTNIK_SHELF_WRONG;
}

enum spotnik_shelf_sight spotnik_shelf_look(const void *base, size_t size, const struct spotnik_shelf_wanted *wanted,
                                            void *data, uint64_t *ret_version)
{
    const struct spotnik_shelf *shelf = base;
    enum spotnik_shelf_sight sight = SPOTNIK_SHELF_TORN;

    if (size < sizeof *shelf || load(&shelf->magic) != SPOTNIK_SHELF_MAGIC)
        return SPOTNIK_SHELF_WRONG;
    const struct spotnik_shelf_row *row = find(shelf, wanted->name);
    if (!row)
        return SPOTNIK_SHELF_NONE;
    if (row->bytes != wanted->bytes || row->dtype != wanted->dtype)
        return SPOTNIK_SHELF_OTHER;
    for (uint32_t i = 0; i < TRIES && sight == SPOTNIK_SHELF_TORN; i++) {
        uint64_t newest = load(&row->newest);
        sight = place(newest, size, wanted->bytes);
        if (sight == SPOTNIK_SHELF_READ)
            sight = copy_once((const void *)((const uint8_t *)base + newest), wanted, data, ret_version);
    }
    return sight;
}
