/* SPDX-License-Identifier: Apache-2.0 */
/* The shares of samples; the rules are in ledger.h. This file owns two invariants:
 *
 * 1. A pool is one interval of the returned ranges and the fresh one behind them. What it leaves of
 *    the returned ranges waits: those before it, where there is a fresh range and one batch for all
 *    members, else those behind it. What a commit leaves behind is what waited and what it did not
 *    consume.
 * 2. `returned` never overflows, whatever members die. A consumed share is one interval of the
 *    pool; it splits a range only when it begins and ends inside it with unconsumed samples on both
 *    sides: at most (shares - 1) / 2 times in a step, or shares / 2 where returned ranges wait.
 *    While ranges + 1 fresh one + shares / 2 might not fit ("crowded"), the pool is the returned
 *    ranges alone. Then a share is a number of whole ranges, or the beginning of them that its
 *    member can consume: nothing is split, so their number can only fall. Shares from the 1024th on
 *    are empty: so an empty list is never crowded.
 *
 * Neither depends on how long shares are, so uneven ones (the deal) need no rule of their own:
 * weights and their sum have 32 bits, and amount * weight / sum is exact in 64 without a wider
 * product. */
#include "ledger/ledger.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"

/* The pool of the coming step, and how it is cut. */
struct pool {
    const struct spotnik_ledger *ledger;
    uint64_t waiting; /* samples of the returned ranges that stand before the pool */
    uint64_t fresh;   /* samples from the cursor on */
    uint64_t total;   /* samples in all */
    uint32_t shares;  /* number of shares, from the first, that get samples */
    uint64_t weights; /* of all shares */
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

static bool is_dealt(const struct pool *pool)
{
    return pool->ledger->deal_count != 0 && pool->ledger->deal_count == pool->shares;
}

static uint32_t weight_of(const struct pool *pool, uint32_t share)
{
    return is_dealt(pool) ? pool->ledger->deal[share] : 1;
}

/* The sum of the weights of the shares before `share`. */
static uint64_t weights_before(const struct pool *pool, uint32_t share)
{
    uint64_t sum = 0;

    if (!is_dealt(pool))
        return share;
    for (uint32_t i = 0; i < share; i++)
        sum += pool->ledger->deal[i];
    return sum;
}

/* amount * part / whole, rounded down; part <= whole < 2^32, so that nothing overflows. */
static uint64_t portion(uint64_t amount, uint64_t part, uint64_t whole)
{
    return amount / whole * part + amount % whole * part / whole;
}

static uint64_t quotient_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* How many returned samples a step takes beside its fresh ones, with one batch for all members: an
 * even part for each of the steps that are left, so that none is added to the epoch; but not fewer
 * than an eighth of a batch, so that they are soon made up for. */
static uint64_t made_up(const struct spotnik_ledger *ledger, uint64_t returned)
{
    uint64_t steps = quotient_up(ledger->samples - ledger->cursor, ledger->batch),
             eighth = quotient_up(ledger->batch, 8);
    uint64_t even = steps ? quotient_up(returned, steps) : returned;

    return least(returned, least(even > eighth ? even : eighth, ledger->batch));
}

/* Filled where it stands: a copy of what was just written piece by piece costs more than the
 * filling. */
static void pool_fill(struct pool *pool, const struct spotnik_ledger *ledger, uint32_t shares)
{
    *pool = (struct pool){ .ledger = ledger };
    uint64_t returned = returned_total(ledger, ledger->returned_count);

    if (ledger->samples == 0)
        return;
    pool->shares = (uint32_t)least(shares, SPOTNIK_LEDGER_RETURNED_MAX);
    pool->weights = weights_before(pool, pool->shares);
    pool->crowded = pool->shares > 0
                    && ledger->returned_count + 1 + pool->shares / 2 > SPOTNIK_LEDGER_RETURNED_MAX;
    pool->total = returned;
    if (pool->crowded)
        return;
    uint64_t wanted = ledger->batch, left = ledger->samples - ledger->cursor;
    if (ledger->per_member) {
        pool->total = least(returned, ledger->batch * pool->shares);
        wanted = ledger->batch * pool->shares - pool->total;
    } else {
        pool->total = made_up(ledger, returned);
    }
    pool->fresh = least(wanted, left);
    pool->waiting = pool->fresh ? returned - pool->total : 0;
    pool->total += pool->fresh;
}

/* The begin of a share, in samples, from the sum of the weights before it; rounded to whole ranges
 * when crowded. */
static uint64_t begin_of(const struct pool *pool, uint64_t weights)
{
    uint64_t amount = pool->crowded ? pool->ledger->returned_count : pool->total;
    uint64_t at = portion(amount, weights, pool->weights);

    return pool->crowded ? returned_total(pool->ledger, (uint32_t)at) : at;
}

/* The most a share consumes; only a crowded pool offers more. A share with a weight gets something,
 * or none might. */
static uint64_t limit_of(const struct pool *pool, uint32_t weight)
{
    const struct spotnik_ledger *ledger = pool->ledger;
    if (!ledger->per_member && !pool->crowded)
        return UINT64_MAX;
    uint64_t all = ledger->per_member ? ledger->batch * pool->shares
                                      : 2 * least(ledger->batch, UINT64_MAX / 2);
    uint64_t most = portion(all, weight, pool->weights);
    return most == 0 && weight > 0 ? 1 : most;
}

static struct spotnik_range range_at(const struct pool *pool, uint32_t index)
{
    const struct spotnik_ledger *ledger = pool->ledger;

    if (index < ledger->returned_count)
        return ledger->returned[index];
    return (struct spotnik_range){ ledger->cursor, ledger->cursor + pool->fresh };
}

/* The next piece of at most `length` samples that lies in one range. So many must be left in the
 * pool. */
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

/* Walk over `length` samples: into `share` while its ranges suffice, the others into `rest` (NULL:
 * forget them). Returns the samples that went into `share`. */
static uint64_t walk_take(const struct pool *pool, struct walk *walk, uint64_t length,
                          struct list *share, struct list *rest)
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

/* Ascending, apart from each other, not empty, below the cursor. */
static bool returned_are_valid(const struct spotnik_ledger *ledger)
{
    uint64_t from = 0;

    if (ledger->returned_count > SPOTNIK_LEDGER_RETURNED_MAX)
        return false;
    for (uint32_t i = 0; i < ledger->returned_count; i++) {
        struct spotnik_range range = ledger->returned[i];
        if (range.begin < from || (i > 0 && range.begin == from) || range.end <= range.begin)
            return false;
        if (range.end > ledger->cursor)
            return false;
        from = range.end;
    }
    return true;
}

static uint64_t deal_sum(uint32_t shares, const uint32_t *weight)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < shares; i++)
        sum += weight[i];
    return sum;
}

static bool deal_is_valid(const struct spotnik_ledger *ledger)
{
    if (ledger->deal_count > SPOTNIK_LEDGER_DEAL_MAX || ledger->samples == 0)
        return false;
    uint64_t sum = deal_sum(ledger->deal_count, ledger->deal);
    return sum > 0 && sum <= UINT32_MAX;
}

bool spotnik_ledger_is_valid(const struct spotnik_ledger *ledger)
{
    if (ledger->deal_count && !deal_is_valid(ledger))
        return false;
    if (ledger->samples == 0)
        return ledger->data_epoch == 0 && ledger->cursor == 0 && ledger->returned_count == 0
               && !ledger->per_member;
    if (ledger->per_member && ledger->batch > SPOTNIK_LEDGER_PER_MEMBER_MAX)
        return false;
    return ledger->batch > 0 && ledger->cursor <= ledger->samples && returned_are_valid(ledger);
}

void spotnik_ledger_copy(struct spotnik_ledger *to, const struct spotnik_ledger *from)
{
    SPOTNIK_ASSERT(from->returned_count <= SPOTNIK_LEDGER_RETURNED_MAX);
    SPOTNIK_ASSERT(from->deal_count <= SPOTNIK_LEDGER_DEAL_MAX);
    if (to == from)
        return;
    memcpy(to, from,
           offsetof(struct spotnik_ledger, deal) + from->deal_count * sizeof from->deal[0]);
    memcpy(to->returned, from->returned, from->returned_count * sizeof from->returned[0]);
}

void spotnik_ledger_deal_set(struct spotnik_ledger *ledger, uint32_t shares, const uint32_t *weight)
{
    ledger->deal_count = 0;
    if (ledger->samples == 0 || shares > SPOTNIK_LEDGER_DEAL_MAX)
        return;
    uint64_t sum = deal_sum(shares, weight);
    if (sum == 0 || sum > UINT32_MAX)
        return;
    ledger->deal_count = shares;
    memmove(ledger->deal, weight, shares * sizeof weight[0]);
}

/* The mean of the weights that stay, rounded; at least 1, since a new member must get samples to be
 * measured. */
static uint32_t mean_weight(const struct spotnik_ledger *ledger, uint32_t shares,
                            const uint32_t *from)
{
    uint64_t sum = 0, count = 0;

    for (uint32_t i = 0; i < shares; i++)
        if (from[i] < ledger->deal_count) {
            sum += ledger->deal[from[i]];
            count++;
        }
    uint64_t mean = count ? (sum + count / 2) / count : 0;
    return mean ? (uint32_t)mean : 1;
}

void spotnik_ledger_deal_map(struct spotnik_ledger *ledger, uint32_t old, uint32_t shares,
                             const uint32_t *from)
{
    uint32_t deal[SPOTNIK_LEDGER_DEAL_MAX];

    if (ledger->deal_count == 0)
        return;
    if (ledger->deal_count != old || shares > SPOTNIK_LEDGER_DEAL_MAX) {
        ledger->deal_count = 0;
        return;
    }
    uint32_t mean = mean_weight(ledger, shares, from);
    for (uint32_t i = 0; i < shares; i++)
        deal[i] = from[i] < ledger->deal_count ? ledger->deal[from[i]] : mean;
    spotnik_ledger_deal_set(ledger, shares, deal);
}

uint64_t spotnik_ledger_share(const struct spotnik_ledger *ledger, uint32_t share, uint32_t shares,
                              struct spotnik_range *ret_ranges, uint32_t *ret_count)
{
    struct pool pool;
    pool_fill(&pool, ledger, shares);
    struct list out = { .range = ret_ranges, .max = SPOTNIK_RANGES_MAX };
    struct list nothing = { .range = NULL };
    struct walk walk = { 0 };
    uint64_t taken = 0;

    if (share < pool.shares) {
        uint64_t before = weights_before(&pool, share), weight = weight_of(&pool, share);
        uint64_t begin = begin_of(&pool, before), length = begin_of(&pool, before + weight) - begin;
        walk_take(&pool, &walk, pool.waiting + begin, &nothing, NULL);
        taken =
            walk_take(&pool, &walk, least(length, limit_of(&pool, (uint32_t)weight)), &out, NULL);
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
    struct pool pool;
    pool_fill(&pool, ledger, shares);
    struct walk walk = { 0 };
    uint64_t begin = 0, weights = 0;

    if (pool.shares == 0)
        return;
    walk_take(&pool, &walk, pool.waiting, &nothing, &rest);
    for (uint32_t i = 0; i < pool.shares; i++) {
        /* A lost share has no room: all of it goes back. */
        struct list share = { .range = used, .max = consumed[i] ? SPOTNIK_RANGES_MAX : 0 };
        uint32_t weight = weight_of(&pool, i);
        weights += weight;
        /* What lies between its last sample and the next share stays in the pool. */
        uint64_t end = begin_of(&pool, weights),
                 length = least(end - begin, limit_of(&pool, weight));
        walk_take(&pool, &walk, length, &share, &rest);
        walk_take(&pool, &walk, end - begin - length, &nothing, &rest);
        begin = end;
    }
    SPOTNIK_ASSERT(begin == pool.total);
    uint64_t everything = returned_total(ledger, ledger->returned_count) + pool.fresh;
    walk_take(&pool, &walk, everything - pool.waiting - pool.total, &nothing, &rest);
    ledger->cursor += pool.fresh;
    ledger->returned_count = rest.count;
    memcpy(ledger->returned, kept, rest.count * sizeof kept[0]);
    epoch_open_if_empty(ledger);
}

bool spotnik_ledger_equal(const struct spotnik_ledger *a, const struct spotnik_ledger *b)
{
    return a->samples == b->samples && a->batch == b->batch && a->per_member == b->per_member
           && a->data_epoch == b->data_epoch && a->cursor == b->cursor
           && a->returned_count == b->returned_count && a->deal_count == b->deal_count
           && memcmp(a->deal, b->deal, a->deal_count * sizeof a->deal[0]) == 0
           && memcmp(a->returned, b->returned, a->returned_count * sizeof a->returned[0]) == 0;
}
