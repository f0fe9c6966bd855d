/* SPDX-License-Identifier: Apache-2.0 */
/* Who consumes which samples; the rules are in ledger.h. This file owns two invariants:
 *
 * 1. With one batch for all members, all returned ranges together never hold more than that. So every pool
 *    contains all of them, and what a commit leaves behind is exactly what it did not consume out of its
 *    own pool. With a batch per member, a few members may follow many: the pool then takes as much of the
 *    returned ranges as they can consume, in order, and the others wait.
 * 2. `returned` never overflows, whoever is lost. A consumed share is one interval of the pool; it splits a
 *    range only when it begins and ends inside it with unconsumed samples on both sides: at most
 *    (shares - 1) / 2 times in a step, or shares / 2 where returned ranges wait and nothing is fresh. While ranges + 1 fresh one + (shares - 1) / 2 might not fit
 *    ("crowded"), the pool is the returned ranges alone and a share is a number of whole ranges, or the
 *    beginning of them that its member can consume: nothing is split, so their number can only fall. Shares from the 1024th on are empty: so an empty list is never
 *    crowded. */
#include "ledger/ledger.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

/* The pool of the coming step, and how it is cut. */
struct pool {
    const struct spotnik_ledger *ledger;
    uint64_t fresh;  /* samples from the cursor on */
    uint64_t total;  /* samples in all */
    uint64_t limit;  /* samples in one share at most */
    uint32_t shares; /* the first so many get something */
    bool crowded;
};

/* A position in the pool. */
struct walk {
    uint32_t range;  /* returned_count: the fresh one */
    uint64_t offset; /* samples of that range that lie behind */
};

struct list {
    struct spotnik_range *range;
    uint32_t count, max;
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t length_of(struct spotnik_range range)
{
    return range.end - range.begin;
}

static uint64_t returned_total(const struct spotnik_ledger *ledger, uint32_t count)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < count; i++)
        total += length_of(ledger->returned[i]);
    return total;
}

static struct pool pool_of(const struct spotnik_ledger *ledger, uint32_t shares)
{
    struct pool pool = { .ledger = ledger };
    uint64_t returned = returned_total(ledger, ledger->returned_count);

    if (ledger->samples == 0)
        return pool;
    SPOTNIK_ASSERT(ledger->per_member || returned <= ledger->batch);
    pool.shares = (uint32_t)least(shares, SPOTNIK_LEDGER_RETURNED_MAX);
    pool.limit = ledger->per_member ? ledger->batch : UINT64_MAX;
    pool.crowded =
        pool.shares > 0 && ledger->returned_count + 1 + (pool.shares - 1) / 2 > SPOTNIK_LEDGER_RETURNED_MAX;
    pool.total = returned;
    if (pool.crowded)
        return pool;
    uint64_t wanted = ledger->per_member ? ledger->batch * pool.shares : ledger->batch;
    pool.total = least(returned, wanted);
    pool.fresh = least(wanted - pool.total, ledger->samples - ledger->cursor);
    pool.total += pool.fresh;
    return pool;
}

/* Where share `share` begins, in samples: amount * share / shares without overflow, rounded to whole ranges
 * when crowded. */
static uint64_t share_begin(const struct pool *pool, uint32_t share)
{
    uint64_t amount = pool->crowded ? pool->ledger->returned_count : pool->total;
    uint64_t at = amount / pool->shares * share + amount % pool->shares * share / pool->shares;

    return pool->crowded ? returned_total(pool->ledger, (uint32_t)at) : at;
}

/* Samples from the beginning of the share on that it consumes; what follows up to the next share stays. */
static uint64_t share_length(const struct pool *pool, uint32_t share)
{
    return least(share_begin(pool, share + 1) - share_begin(pool, share), pool->limit);
}

static struct spotnik_range range_at(const struct pool *pool, uint32_t index)
{
    const struct spotnik_ledger *ledger = pool->ledger;

    if (index < ledger->returned_count)
        return ledger->returned[index];
    return (struct spotnik_range){ ledger->cursor, ledger->cursor + pool->fresh };
}

/* The next piece of at most `length` samples that lies in one range. So many must be left in the pool. */
static struct spotnik_range walk_piece(const struct pool *pool, struct walk *walk, uint64_t length)
{
    struct spotnik_range range = range_at(pool, walk->range);

    while (walk->offset == length_of(range)) {
        SPOTNIK_ASSERT(walk->range < pool->ledger->returned_count);
        range = range_at(pool, ++walk->range);
        walk->offset = 0;
    }
    uint64_t begin = range.begin + walk->offset;
    uint64_t step = least(length, range.end - begin);
    walk->offset += step;
    return (struct spotnik_range){ begin, begin + step };
}

/* Pieces come in ascending order, so a list is merged by looking at its last range. */
static bool list_add(struct list *list, struct spotnik_range piece)
{
    if (list->count > 0 && list->range[list->count - 1].end == piece.begin) {
        list->range[list->count - 1].end = piece.end;
        return true;
    }
    if (list->count == list->max)
        return false;
    list->range[list->count++] = piece;
    return true;
}

/* Walk over `length` samples: into `share` while its ranges suffice, the others into `rest` (NULL: forget
 * them). Returns the samples that went into `share`. */
static uint64_t walk_take(const struct pool *pool, struct walk *walk, uint64_t length, struct list *share,
                          struct list *rest)
{
    uint64_t taken = 0;

    while (length > 0) {
        struct spotnik_range piece = walk_piece(pool, walk, length);
        length -= length_of(piece);
        if (list_add(share, piece)) {
            taken += length_of(piece);
        } else if (rest) {
            bool fits = list_add(rest, piece);
            SPOTNIK_ASSERT(fits);
        }
    }
    return taken;
}

void spotnik_ledger_init(struct spotnik_ledger *ledger, uint64_t samples, uint64_t batch)
{
    SPOTNIK_ASSERT(samples == 0 || batch >= 1);
    memset(ledger, 0, sizeof *ledger);
    ledger->samples = samples;
    ledger->batch = batch;
}

void spotnik_ledger_init_per_member(struct spotnik_ledger *ledger, uint64_t samples, uint64_t batch)
{
    SPOTNIK_ASSERT(batch <= SPOTNIK_LEDGER_PER_MEMBER_MAX);
    spotnik_ledger_init(ledger, samples, batch);
    ledger->per_member = samples > 0;
}

/* Ascending, apart from each other, not empty, below the cursor, no more than one batch where that holds. */
static bool returned_are_valid(const struct spotnik_ledger *ledger)
{
    uint64_t from = 0, room = ledger->per_member ? UINT64_MAX : ledger->batch;

    if (ledger->returned_count > SPOTNIK_LEDGER_RETURNED_MAX)
        return false;
    for (uint32_t i = 0; i < ledger->returned_count; i++) {
        struct spotnik_range range = ledger->returned[i];
        if (range.begin < from || (i > 0 && range.begin == from) || range.end <= range.begin)
            return false;
        if (range.end > ledger->cursor || length_of(range) > room)
            return false;
        room -= length_of(range);
        from = range.end;
    }
    return true;
}

bool spotnik_ledger_is_valid(const struct spotnik_ledger *ledger)
{
    if (ledger->samples == 0)
        return ledger->data_epoch == 0 && ledger->cursor == 0 && ledger->returned_count == 0 && !ledger->per_member;
    if (ledger->per_member && ledger->batch > SPOTNIK_LEDGER_PER_MEMBER_MAX)
        return false;
    return ledger->batch > 0 && ledger->cursor <= ledger->samples && returned_are_valid(ledger);
}

void spotnik_ledger_copy(struct spotnik_ledger *to, const struct spotnik_ledger *from)
{
    SPOTNIK_ASSERT(from->returned_count <= SPOTNIK_LEDGER_RETURNED_MAX);
    memmove(to, from,
            offsetof(struct spotnik_ledger, returned) + from->returned_count * sizeof from->returned[0]);
}

uint64_t spotnik_ledger_share(const struct spotnik_ledger *ledger, uint32_t share, uint32_t shares,
                              struct spotnik_range *ret_ranges, uint32_t *ret_count)
{
    struct pool pool = pool_of(ledger, shares);
    struct list out = { .range = ret_ranges, .max = SPOTNIK_RANGES_MAX };
    struct list nothing = { .range = NULL };
    struct walk walk = { 0 };
    uint64_t taken = 0;

    if (share < pool.shares) {
        uint64_t begin = share_begin(&pool, share);
        walk_take(&pool, &walk, begin, &nothing, NULL);
        taken = walk_take(&pool, &walk, share_length(&pool, share), &out, NULL);
    }
    *ret_count = out.count;
    return taken;
}

static void epoch_open_if_empty(struct spotnik_ledger *ledger)
{
    if (ledger->returned_count == 0 && ledger->cursor == ledger->samples) {
        ledger->data_epoch++;
        ledger->cursor = 0;
    }
}

void spotnik_ledger_commit(struct spotnik_ledger *ledger, uint32_t shares, const bool *consumed)
{
    struct spotnik_range kept[SPOTNIK_LEDGER_RETURNED_MAX], used[SPOTNIK_RANGES_MAX];
    struct list rest = { .range = kept, .max = SPOTNIK_LEDGER_RETURNED_MAX };
    struct list nothing = { .range = NULL };
    struct pool pool = pool_of(ledger, shares);
    struct walk walk = { 0 };
    uint64_t begin = 0;

    if (pool.shares == 0)
        return;
    for (uint32_t i = 0; i < pool.shares; i++) {
        /* A lost share has no room: all of it goes back. */
        struct list share = { .range = used, .max = consumed[i] ? SPOTNIK_RANGES_MAX : 0 };
        uint64_t end = share_begin(&pool, i + 1), length = share_length(&pool, i);
        walk_take(&pool, &walk, length, &share, &rest);
        walk_take(&pool, &walk, end - begin - length, &nothing, &rest);
        begin = end;
    }
    SPOTNIK_ASSERT(begin == pool.total);
    uint64_t everything = returned_total(ledger, ledger->returned_count) + pool.fresh;
    walk_take(&pool, &walk, everything - pool.total, &nothing, &rest);
    ledger->cursor += pool.fresh;
    ledger->returned_count = rest.count;
    memcpy(ledger->returned, kept, rest.count * sizeof kept[0]);
    epoch_open_if_empty(ledger);
}

bool spotnik_ledger_equal(const struct spotnik_ledger *a, const struct spotnik_ledger *b)
{
    return a->samples == b->samples && a->batch == b->batch && a->per_member == b->per_member && a->data_epoch == b->data_epoch
           && a->cursor == b->cursor && a->returned_count == b->returned_count
           && memcmp(a->returned, b->returned, a->returned_count * sizeof a->returned[0]) == 0;
}
