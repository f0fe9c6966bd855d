/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, copies, and the counting of turns. */
#include "p2p/published.h"

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

_Static_assert(sizeof(struct spotnik_published_row) == 128, "rows are of two lines");
_Static_assert(sizeof(struct spotnik_published_copy) == SPOTNIK_PUBLISHED_LINE,
               "data begin on a line");

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- the owner ---- */

void spotnik_published_init(struct spotnik_published *published)
{
    store(&published->count, 0);
    store(&published->magic, SPOTNIK_PUBLISHED_MAGIC);
}

struct spotnik_published_row *spotnik_published_add(struct spotnik_published *published,
                                                    const char *name, uint64_t dtype,
                                                    uint64_t bytes)
{
    uint64_t count = load(&published->count);

    if (count >= SPOTNIK_PUBLISHED_ROWS)
        return NULL;
    struct spotnik_published_row *row = &published->row[count];
    size_t size = strlen(name);
    SPOTNIK_ASSERT(size < sizeof row->name);
    memset(row, 0, sizeof *row);
    memcpy(row->name, name, size);
    row->dtype = dtype;
    row->bytes = bytes;
    row->newest = SPOTNIK_PUBLISHED_NOTHING;
    store(&published->count, count + 1);
    return row;
}

/* Stores that go past the caches are ordered with others by a fence alone, so there is one before
 * and one behind. */
static void stream(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint64_t at = 0;

#if defined __SSE2__
    for (; bytes - at >= SPOTNIK_PUBLISHED_LINE; at += SPOTNIK_PUBLISHED_LINE)
        for (unsigned part = 0; part < SPOTNIK_PUBLISHED_LINE; part += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(to + at + part),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at + part)));
    _mm_sfence();
#endif
    if (at < bytes)
        memcpy(to + at, from + at, bytes - at);
}

void spotnik_published_write(struct spotnik_published_copy *copy, const void *data, uint64_t bytes,
                             uint64_t version)
{
    uint8_t *to = (uint8_t *)(copy + 1);
    uint64_t turn = copy->turn;

    store(&copy->turn, turn | 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* nothing of the new before the odd number */
    copy->bytes = bytes;
    copy->version = version;
    if (bytes >= STREAM_BYTES_MIN && (uintptr_t)to % SPOTNIK_PUBLISHED_LINE == 0)
        stream(to, data, bytes);
    else if (bytes)
        memcpy(to, data, bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    store(&copy->turn, (turn | 1) + 1);
}

void spotnik_published_show(struct spotnik_published_row *row, uint64_t newest)
{
    store(&row->newest, newest);
}

/* ---- a reader ---- */

/* NULL: there is none. */
static const struct spotnik_published_row *find(const struct spotnik_published *published,
                                                const char *name)
{
    uint64_t count = load(&published->count);

    for (uint64_t i = 0; i < count && i < SPOTNIK_PUBLISHED_ROWS; i++)
        if (memcmp(published->row[i].name, name, sizeof published->row[i].name) == 0)
            return &published->row[i];
    return NULL;
}

/* Does `newest` name a copy that lies within `size`? */
static enum spotnik_published_sight place(uint64_t newest, size_t size, uint64_t bytes)
{
    if (newest == SPOTNIK_PUBLISHED_NOTHING)
        return SPOTNIK_PUBLISHED_NONE;
    if (newest % SPOTNIK_PUBLISHED_LINE != 0)
        return SPOTNIK_PUBLISHED_WRONG;
    if (newest > size || sizeof(struct spotnik_published_copy) > size - newest
        || bytes > size - newest - sizeof(struct spotnik_published_copy))
        return SPOTNIK_PUBLISHED_SHORT;
    return SPOTNIK_PUBLISHED_READ;
}

/* Once. TORN: not this time. */
static enum spotnik_published_sight copy_once(const struct spotnik_published_copy *copy,
                                              const struct spotnik_published_wanted *wanted,
                                              void *data, uint64_t *ret_version)
{
    uint64_t turn = load(&copy->turn);

    if (turn % 2 != 0)
        return SPOTNIK_PUBLISHED_TORN;
    uint64_t version = load(&copy->version), bytes = load(&copy->bytes);
    bool fits = bytes == wanted->bytes && version > 0 && version >= wanted->version_min;
    if (fits && bytes)
        memcpy(data, copy + 1, bytes);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* all of it before the second look */
    if (load(&copy->turn) != turn)
        return SPOTNIK_PUBLISHED_TORN;
    *ret_version = version;
    if (fits)
        return SPOTNIK_PUBLISHED_READ;
    return bytes == wanted->bytes && version > 0 ? SPOTNIK_PUBLISHED_NONE : SPOTNIK_PUBLISHED_WRONG;
}

enum spotnik_published_sight spotnik_published_look(const void *base, size_t size,
                                                    const struct spotnik_published_wanted *wanted,
                                                    void *data, uint64_t *ret_version)
{
    const struct spotnik_published *published = base;
    enum spotnik_published_sight sight = SPOTNIK_PUBLISHED_TORN;

    if (size < sizeof *published || load(&published->magic) != SPOTNIK_PUBLISHED_MAGIC)
        return SPOTNIK_PUBLISHED_WRONG;
    const struct spotnik_published_row *row = find(published, wanted->name);
    if (!row)
        return SPOTNIK_PUBLISHED_NONE;
    if (row->bytes != wanted->bytes || row->dtype != wanted->dtype)
        return SPOTNIK_PUBLISHED_OTHER;
    for (uint32_t i = 0; i < TRIES && sight == SPOTNIK_PUBLISHED_TORN; i++) {
        uint64_t newest = load(&row->newest);
        sight = place(newest, size, wanted->bytes);
        if (sight == SPOTNIK_PUBLISHED_READ)
            sight = copy_once((const void *)((const uint8_t *)base + newest), wanted, data,
                              ret_version);
    }
    return sight;
}
