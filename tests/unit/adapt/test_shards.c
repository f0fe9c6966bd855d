/* SPDX-License-Identifier: Apache-2.0 */
/* The sharded store: ranges cover everything once, holders are distinct, and after any loss that
 * leaves a holder of each range every new holder finds every byte at somebody who has it. */
#include "adapt/shards.h"

#include "base/prng.h"
#include "tests.h"

#define SIZE_MAX_TESTED 12

/* Claim: for all sizes, lengths and alignments, ranges follow each other without gap, begin
 * aligned, and differ by one unit at most; and every byte is found in its range. */
TEST(ranges)
{
    for (uint32_t size = 1; size <= SIZE_MAX_TESTED; size++)
        for (uint64_t bytes = 1; bytes <= 300; bytes++)
            for (uint32_t align = 1; align <= 64; align *= 4) {
                struct spotnik_shards shards = spotnik_shards_make(bytes, align, size, 2);
                uint64_t at = 0, least = UINT64_MAX, most = 0;
                for (uint32_t i = 0; i < size; i++) {
                    struct spotnik_shard range = spotnik_shards_range(&shards, i);
                    assert_true(range.begin == at && range.end >= at
                                && (at % align == 0 || at == bytes));
                    for (uint64_t byte = range.begin; byte < range.end; byte++)
                        assert_int_equal(spotnik_shards_of(&shards, byte), i);
                    at = range.end;
                    least = range.end - range.begin < least ? range.end - range.begin : least;
                    most = range.end - range.begin > most ? range.end - range.begin : most;
                }
                assert_int_equal(at, bytes);
                assert_true(most - least <= 2 * align - 1);
            }
}

/* Claim: each range has `copies` different holders; spotnik_shards_holds() says who. In a job
 * smaller than that, all members hold it. */
TEST(holders)
{
    for (uint32_t size = 1; size <= SIZE_MAX_TESTED; size++)
        for (uint32_t copies = 1; copies <= 4; copies++) {
            struct spotnik_shards shards = spotnik_shards_make(1000, 4, size, copies);
            assert_int_equal(shards.copies, copies < size ? copies : size);
            for (uint32_t i = 0; i < size; i++) {
                uint32_t holders = 0;
                for (uint32_t rank = 0; rank < size; rank++)
                    holders += spotnik_shards_holds(&shards, rank, i);
                assert_int_equal(holders, shards.copies);
                for (uint32_t c = 0; c < shards.copies; c++)
                    assert_true(spotnik_shards_holds(&shards, spotnik_shards_holder(&shards, i, c),
                                                     i));
            }
        }
}

struct change {
    struct spotnik_shards old, new;
    uint32_t now[SIZE_MAX_TESTED], was[2 * SIZE_MAX_TESTED];
    bool complete; /* no range has lost all its holders */
};

static struct change draw(struct spotnik_prng *prng)
{
    struct change c = { .complete = true };
    uint32_t old = (uint32_t)spotnik_prng_between(prng, 1, SIZE_MAX_TESTED), size = 0;
    uint32_t copies = (uint32_t)spotnik_prng_between(prng, 1, 3),
             joiners = (uint32_t)spotnik_prng_below(prng, 3);
    uint64_t bytes = spotnik_prng_between(prng, 1, 400);

    for (uint32_t r = 0; r < old; r++) {
        bool lost = spotnik_prng_chance(prng, 1, 4) && !(r + 1 == old && size == 0);
        c.now[r] = lost ? SPOTNIK_SHARD_NOBODY : size;
        if (!lost)
            c.was[size++] = r;
    }
    for (; joiners > 0; joiners--)
        c.was[size++] = SPOTNIK_SHARD_NOBODY;
    c.old = spotnik_shards_make(bytes, 4, old, copies);
    c.new = spotnik_shards_make(bytes, 4, size, copies);
    for (uint32_t i = 0; i < old; i++) {
        bool held = false;
        for (uint32_t k = 0; k < c.old.copies; k++)
            held = held || c.now[spotnik_shards_holder(&c.old, i, k)] != SPOTNIK_SHARD_NOBODY;
        c.complete = c.complete && held;
    }
    return c;
}

/* Every byte of one range of one new holder. Returns the bytes that nobody has. */
static uint64_t follow(const struct change *c, uint32_t to, uint32_t range)
{
    struct spotnik_shard shard = spotnik_shards_range(&c->new, range);
    uint64_t missing = 0, end;

    for (uint64_t at = shard.begin; at < shard.end; at = end) {
        uint32_t from = spotnik_shards_source(&c->old, &c->new, c->now, to, at, &end);
        assert_true(end > at && end <= shard.end);
        if (from == SPOTNIK_SHARD_NOBODY) {
            missing += end - at;
            continue;
        }
        assert_true(c->was[from] != SPOTNIK_SHARD_NOBODY);
        for (uint64_t byte = at; byte < end; byte++)
            assert_true(spotnik_shards_holds(&c->old, c->was[from],
                                             spotnik_shards_of(&c->old, byte)));
        bool had = c->was[to] != SPOTNIK_SHARD_NOBODY
                   && spotnik_shards_holds(&c->old, c->was[to], spotnik_shards_of(&c->old, at));
        assert_true(had == (from == to));
    }
    return missing;
}

/* Claim: 20 000 view changes: sources are live and hold what they are asked for; nothing is missing
 * while each range has one holder left, and something is when not. */
TEST(changes)
{
    struct spotnik_prng prng;
    int incomplete = 0;

    spotnik_prng_seed(&prng, 8);
    for (int n = 0; n < 20000; n++) {
        struct change c = draw(&prng);
        uint64_t missing = 0;
        for (uint32_t i = 0; i < c.new.size; i++)
            for (uint32_t k = 0; k < c.new.copies; k++)
                missing += follow(&c, spotnik_shards_holder(&c.new, i, k), i);
        assert_true(!c.complete || missing == 0);
        incomplete += missing > 0;
    }
    assert_true(incomplete > 100);
}
