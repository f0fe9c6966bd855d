/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger against a plain count: how often each sample of an epoch of data was consumed.
 * Whatever is lost, by chance, in every possible way (small cases), or by malice (as many splits as
 * can be), each is consumed once. */
#include "ledger/ledger.h"

#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define SAMPLES_MAX 200000
#define SHARES_MAX 1500

/* The ledger has no threads: the thread sanitizer has nothing to find here, and takes a hundred
 * times as long. */
#if defined __SANITIZE_THREAD__
#define HISTORIES(n) ((n) / 20)
#else
#define HISTORIES(n) (n)
#endif

/* consumed[i]: how often sample i was consumed in this epoch of data. */
static uint8_t consumed[SAMPLES_MAX];
static bool in_view[SHARES_MAX];

static uint64_t ranges_total(const struct spotnik_range *ranges, uint32_t count)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < count; i++)
        total += ranges[i].end - ranges[i].begin;
    return total;
}

/* The invariants in ledger.h and those that ledger.c relies on. */
static void ledger_check(const struct spotnik_ledger *ledger)
{
    assert_true(ledger->returned_count <= SPOTNIK_LEDGER_RETURNED_MAX);
    assert_true(ledger->cursor <= ledger->samples);
    for (uint32_t i = 0; i < ledger->returned_count; i++) {
        assert_true(ledger->returned[i].begin < ledger->returned[i].end);
        assert_true(ledger->returned[i].end <= ledger->cursor);
        if (i > 0)
            assert_true(ledger->returned[i - 1].end < ledger->returned[i].begin);
    }
    assert_true(spotnik_ledger_is_valid(ledger));
}

/* One share: ranges ascending, not empty, within the epoch of data. Each of its samples gets one
 * more count. */
static uint64_t share_consume(const struct spotnik_ledger *ledger, uint32_t share, uint32_t shares,
                              bool counts)
{
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count = 0;
    uint64_t total = spotnik_ledger_share(ledger, share, shares, ranges, &count);

    assert_true(count <= SPOTNIK_RANGES_MAX);
    assert_int_equal(total, ranges_total(ranges, count));
    if (ledger->per_member && ledger->deal_count != shares)
        assert_true(total <= ledger->batch);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(ranges[i].begin < ranges[i].end && ranges[i].end <= ledger->samples);
        assert_true(i == 0 || ranges[i - 1].end < ranges[i].begin);
        for (uint64_t k = ranges[i].begin; counts && k < ranges[i].end; k++)
            assert_int_equal(consumed[k]++, 0);
    }
    return total;
}

/* One step: the shares in the view are consumed. Returns what was; opens the count anew with the
 * epoch of data. */
static uint64_t step(struct spotnik_ledger *ledger, uint32_t shares)
{
    uint64_t total = 0, epoch = ledger->data_epoch;

    for (uint32_t i = 0; i < shares; i++) {
        uint64_t samples = share_consume(ledger, i, shares, in_view[i]);
        total += in_view[i] ? samples : 0;
    }
    spotnik_ledger_commit(ledger, shares, in_view);
    ledger_check(ledger);
    if (ledger->data_epoch != epoch) {
        assert_int_equal(ledger->data_epoch, epoch + 1);
        assert_int_equal(ledger->cursor, 0);
        for (uint64_t k = 0; k < ledger->samples; k++)
            assert_int_equal(consumed[k], 1);
        memset(consumed, 0, ledger->samples);
    }
    return total;
}

static void lose_by_chance(struct spotnik_prng *prng, uint32_t shares, uint64_t lost_percent)
{
    for (uint32_t i = 0; i < shares; i++)
        in_view[i] = !spotnik_prng_chance(prng, lost_percent, 100);
}

TEST(each_sample_once_under_random_losses)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < HISTORIES(200); seed++) {
        spotnik_prng_seed(&prng, seed);
        memset(consumed, 0, sizeof consumed);
        uint64_t samples = spotnik_prng_between(&prng, 1, 2000);
        uint64_t lost_percent = spotnik_prng_below(&prng, 90);
        spotnik_ledger_init(&ledger, samples,
                            spotnik_prng_between(&prng, 1, samples + samples / 4));
        for (uint32_t steps = 0; ledger.data_epoch < 3; steps++) {
            uint32_t shares = (uint32_t)spotnik_prng_between(&prng, 1, 12);
            lose_by_chance(&prng, shares, steps % 7 ? lost_percent : 0);
            step(&ledger, shares);
        }
    }
}

/* Members come and go by chance, many at once, so that a few inherit what many had begun. */
TEST(each_sample_once_with_a_batch_per_member)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;
    uint32_t waiting = 0;

    for (uint64_t seed = 0; seed < HISTORIES(300); seed++) {
        spotnik_prng_seed(&prng, seed);
        memset(consumed, 0, sizeof consumed);
        uint64_t samples = spotnik_prng_between(&prng, 1, 3000);
        uint64_t lost_percent = spotnik_prng_below(&prng, 90);
        uint32_t size_max = seed % 3 ? 12 : 200;
        spotnik_ledger_init_per_member(&ledger, samples, spotnik_prng_between(&prng, 1, 60));
        for (uint32_t steps = 0; ledger.data_epoch < 3; steps++) {
            uint32_t shares = (uint32_t)spotnik_prng_between(&prng, 1, size_max);
            lose_by_chance(&prng, shares, steps % 7 ? lost_percent : 0);
            step(&ledger, shares);
            waiting += ranges_total(ledger.returned, ledger.returned_count) > ledger.batch;
        }
    }
    assert_true(waiting > 100); /* or more than one batch was never returned */
}

/* A step consumes as many batches as there are members, and fewer only at the end of the epoch of
 * data. */
TEST(a_batch_per_member_follows_the_members)
{
    static struct spotnik_ledger ledger;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    spotnik_ledger_init_per_member(&ledger, 100, 10);
    spotnik_ledger_commit(&ledger, 4, (const bool[]){ true, false, false, false });
    assert_int_equal(ledger.cursor, 40);
    assert_int_equal(spotnik_ledger_share(&ledger, 0, 1, ranges, &count), 10);
    assert_int_equal(ranges[0].begin, 10);
    spotnik_ledger_commit(&ledger, 1, (const bool[]){ true });
    assert_int_equal(ledger.cursor, 40);
    assert_int_equal(ledger.returned[0].begin, 20);
    assert_int_equal(spotnik_ledger_share(&ledger, 2, 3, ranges, &count), 10);
    assert_int_equal(ranges[0].begin, 40);
    spotnik_ledger_commit(&ledger, 3, (const bool[]){ true, true, true });
    assert_int_equal(ledger.returned_count, 0);
    assert_int_equal(ledger.cursor, 50);
    /* 50 are left for 8 */
    assert_int_equal(spotnik_ledger_share(&ledger, 7, 8, ranges, &count), 7);
}

/* The list is full to the brim, and still nobody gets more than a batch. */
TEST(a_full_list_keeps_the_batch_per_member)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;
    uint32_t most = 0;

    for (uint64_t seed = 0; seed < 4; seed++) {
        spotnik_prng_seed(&prng, seed);
        memset(consumed, 0, sizeof consumed);
        spotnik_ledger_init_per_member(&ledger, 100000, 20 + seed);
        for (uint32_t steps = 0; ledger.data_epoch < 1; steps++) {
            uint32_t n = steps < 60 ? 1024 - steps : 1 + steps % 9;
            for (uint32_t i = 0; i < n; i++)
                in_view[i] =
                    steps >= 60 || ((i + steps / 3) % 2 && spotnik_prng_chance(&prng, 1, 4));
            step(&ledger, n);
            most = ledger.returned_count > most ? ledger.returned_count : most;
            assert_true(steps < 20000);
        }
    }
    assert_true(most > SPOTNIK_LEDGER_RETURNED_MAX / 2);
}

/* All the ways in which members can be lost, four steps deep. */
static void explore(const struct spotnik_ledger *from, uint32_t shares, uint32_t depth)
{
    static struct spotnik_ledger levels[5];
    static uint8_t before[5][16];

    if (depth == 0)
        return;
    memcpy(before[depth], consumed, sizeof before[depth]);
    for (uint32_t mask = 0; mask < 1u << shares; mask++) {
        for (uint32_t i = 0; i < shares; i++)
            in_view[i] = mask >> i & 1;
        spotnik_ledger_copy(&levels[depth], from);
        step(&levels[depth], shares);
        explore(&levels[depth], 1 + (shares + mask) % 3, depth - 1);
        memcpy(consumed, before[depth], sizeof before[depth]);
    }
}

TEST(each_sample_once_in_every_small_case)
{
    static struct spotnik_ledger ledger;

    for (uint64_t samples = 1; samples <= 9; samples++)
        for (uint64_t batch = 1; batch <= 10; batch++)
            for (uint32_t shares = 1; shares <= 3; shares++) {
                memset(consumed, 0, sizeof consumed);
                spotnik_ledger_init(&ledger, samples, batch);
                explore(&ledger, shares, 4);
                memset(consumed, 0, sizeof consumed);
                spotnik_ledger_init_per_member(&ledger, samples, batch);
                explore(&ledger, shares, 4);
            }
}

TEST(shares_are_nearly_equal_and_cover_the_pool)
{
    static struct spotnik_ledger ledger;

    for (uint64_t batch = 1; batch <= 60; batch++)
        for (uint32_t shares = 1; shares <= 20; shares++) {
            spotnik_ledger_init(&ledger, 1000, batch);
            ledger.cursor = 990;
            ledger.returned_count = 2;
            ledger.returned[0] = (struct spotnik_range){ 10, 10 + (batch + 3) / 4 };
            ledger.returned[1] = (struct spotnik_range){ 500, 500 + batch / 3 };
            if (batch < 3)
                ledger.returned_count = 1;
            uint64_t total = 0, least = UINT64_MAX, most = 0;
            memset(consumed, 0, sizeof consumed);
            for (uint32_t i = 0; i < shares; i++) {
                uint64_t samples = share_consume(&ledger, i, shares, true);
                total += samples;
                least = samples < least ? samples : least;
                most = samples > most ? samples : most;
            }
            uint64_t returned = ranges_total(ledger.returned, ledger.returned_count);
            uint64_t fresh = batch < 10 ? batch : 10, left = (10 + batch - 1) / batch;
            uint64_t even = (returned + left - 1) / left, eighth = (batch + 7) / 8;
            uint64_t again = even > eighth ? even : eighth;
            assert_int_equal(total, fresh + (again < returned ? again : returned));
            assert_true(most - least <= 1);
        }
}

/* A pool is what returned, in order, then what is fresh; a step never mixes two epochs of data. */
TEST(returned_samples_come_first)
{
    static struct spotnik_ledger ledger;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    spotnik_ledger_init(&ledger, 10, 6);
    spotnik_ledger_commit(&ledger, 3, (const bool[]){ true, false, true });
    assert_int_equal(ledger.returned_count, 1);
    assert_int_equal(ledger.returned[0].begin, 2);
    assert_int_equal(ledger.returned[0].end, 4);
    assert_int_equal(spotnik_ledger_share(&ledger, 0, 1, ranges, &count), 6);
    assert_int_equal(count, 2);
    assert_int_equal(ranges[0].begin, 2);
    assert_int_equal(ranges[1].begin, 6);
    assert_int_equal(ranges[1].end, 10);
    spotnik_ledger_commit(&ledger, 1, (const bool[]){ true });
    assert_int_equal(ledger.data_epoch, 1);
    assert_int_equal(ledger.cursor, 0);
}

/* More ranges than a share can name: the others stay, and nothing is lost. */
TEST(what_needs_too_many_ranges_stays)
{
    static struct spotnik_ledger ledger;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    spotnik_ledger_init(&ledger, 400, 400);
    ledger.cursor = 400;
    ledger.returned_count = 100;
    for (uint32_t i = 0; i < 100; i++)
        ledger.returned[i] = (struct spotnik_range){ 4 * i, 4 * i + 2 };
    assert_int_equal(spotnik_ledger_share(&ledger, 0, 1, ranges, &count), 128);
    assert_int_equal(count, SPOTNIK_RANGES_MAX);
    assert_int_equal(ranges[63].begin, 252);
    spotnik_ledger_commit(&ledger, 1, (const bool[]){ true });
    assert_int_equal(ledger.returned_count, 36);
    assert_int_equal(ledger.returned[0].begin, 256);
    spotnik_ledger_commit(&ledger, 1, (const bool[]){ true });
    assert_int_equal(ledger.data_epoch, 1);
}

/* As many splits as can be: every second of very many shares is lost, again and again, until the
 * list is full. */
TEST(a_full_list_of_ranges_loses_nothing)
{
    static struct spotnik_ledger ledger;
    static const uint32_t shares[] = { 1024, 1500, 1023, 700, 3 };
    struct spotnik_prng prng;
    uint32_t most = 0;

    for (uint64_t seed = 0; seed < 5; seed++) {
        spotnik_prng_seed(&prng, seed);
        memset(consumed, 0, sizeof consumed);
        spotnik_ledger_init(&ledger, 60000, 5000 + 997 * seed);
        for (uint32_t steps = 0; ledger.data_epoch < 1; steps++) {
            uint32_t n = shares[(seed + steps / 50) % 5];
            for (uint32_t i = 0; i < n; i++)
                in_view[i] =
                    steps < 200 ? (i + steps / 3) % 2 && spotnik_prng_chance(&prng, 1, 4) : true;
            uint32_t before = ledger.returned_count;
            bool crowded = before + 1 + (n < 1024 ? n : 1024) / 2 > SPOTNIK_LEDGER_RETURNED_MAX;
            step(&ledger, n);
            if (crowded)
                assert_true(ledger.returned_count <= before);
            most = ledger.returned_count > most ? ledger.returned_count : most;
            assert_true(steps < 2000);
        }
    }
    /* or the list was never full enough to matter */
    assert_true(most > SPOTNIK_LEDGER_RETURNED_MAX / 2);
}

/* One survivor in the middle of many: each step splits once more, until the list is full to the
 * brim. */
TEST(slow_growth_stops_at_the_limit)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;
    uint32_t most = 0;

    spotnik_prng_seed(&prng, 7);
    memset(consumed, 0, sizeof consumed);
    spotnik_ledger_init(&ledger, SAMPLES_MAX, 100000);
    for (uint32_t steps = 0; steps < 1000; steps++) {
        memset(in_view, 0, sizeof in_view);
        in_view[spotnik_prng_below(&prng, 1200)] = true;
        step(&ledger, 1200);
        most = ledger.returned_count > most ? ledger.returned_count : most;
    }
    assert_true(most >= SPOTNIK_LEDGER_RETURNED_MAX / 2);
    memset(in_view, 1, sizeof in_view);
    while (ledger.data_epoch == 0)
        assert_true(step(&ledger, 5) > 0);
}

TEST(nothing_changes_when_everybody_is_lost)
{
    static struct spotnik_ledger ledger;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    spotnik_ledger_init(&ledger, 100, 30);
    for (uint32_t steps = 0; steps < 5; steps++)
        spotnik_ledger_commit(&ledger, 4, (const bool[4]){ false });
    assert_int_equal(ledger.returned_count, 1);
    assert_int_equal(spotnik_ledger_share(&ledger, 0, 1, ranges, &count), 30);
    assert_int_equal(count, 1);
    assert_int_equal(ranges[0].begin, 0);
    assert_int_equal(ranges[0].end, 30);
}

/* Weights by lot, some of them 0, some of them huge. */
static void deal_by_chance(struct spotnik_prng *prng, struct spotnik_ledger *ledger,
                           uint32_t shares)
{
    uint32_t weight[SHARES_MAX];
    uint64_t most = UINT64_C(1) << spotnik_prng_below(prng, 24);

    for (uint32_t i = 0; i < shares; i++)
        weight[i] = spotnik_prng_chance(prng, 1, 4) ? 0 : (uint32_t)spotnik_prng_below(prng, most);
    spotnik_ledger_deal_set(ledger, shares, weight);
}

/* Uneven shares, whoever is lost and whatever the weights: every sample once, and something is
 * always consumed when nobody is lost. */
TEST(each_sample_once_with_any_deal)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < HISTORIES(300); seed++) {
        spotnik_prng_seed(&prng, seed);
        memset(consumed, 0, sizeof consumed);
        uint64_t samples = spotnik_prng_between(&prng, 1, 2000),
                 lost_percent = spotnik_prng_below(&prng, 90);
        uint64_t batch = spotnik_prng_between(&prng, 1, samples + samples / 4);
        if (seed % 3 == 0)
            spotnik_ledger_init_per_member(&ledger, samples, 1 + batch / 8);
        else
            spotnik_ledger_init(&ledger, samples, batch);
        while (ledger.data_epoch < 3) {
            uint32_t shares = (uint32_t)spotnik_prng_between(&prng, 1, 12);
            if (spotnik_prng_chance(&prng, 3, 4))
                deal_by_chance(&prng, &ledger, shares);
            bool nobody = spotnik_prng_chance(&prng, 1, 3);
            lose_by_chance(&prng, shares, nobody ? 0 : lost_percent);
            uint64_t total = step(&ledger, shares);
            assert_true(!nobody || total > 0);
        }
    }
}

/* Weights that add up to the pool are the shares, exactly; where it holds less they shrink in
 * proportion. */
TEST(weights_are_batches)
{
    static struct spotnik_ledger ledger;
    static const uint32_t weight[3] = { 2 * 32, 17 * 32, 20 * 32 };
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    spotnik_ledger_init(&ledger, 39 * 32 + 39, 39 * 32);
    spotnik_ledger_deal_set(&ledger, 3, weight);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(spotnik_ledger_share(&ledger, i, 3, ranges, &count), weight[i]);
    /* dealt for others: even */
    assert_int_equal(spotnik_ledger_share(&ledger, 1, 4, ranges, &count), 39 * 32 / 4);
    ledger.cursor = 39 * 32;
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(spotnik_ledger_share(&ledger, i, 3, ranges, &count), weight[i] / 32);
    spotnik_ledger_init_per_member(&ledger, 100000, 13 * 32);
    spotnik_ledger_deal_set(&ledger, 3, weight);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(spotnik_ledger_share(&ledger, i, 3, ranges, &count), weight[i]);
}

/* Who stays keeps its weight, who comes gets the mean of those, who goes takes its weight along. A
 * deal for other shares, or one that cannot be meant, is dropped. */
TEST(weights_follow_their_members)
{
    static struct spotnik_ledger ledger;
    static const uint32_t weight[4] = { 9, 12, 18, 4 }, from[4] = { 2, UINT32_MAX, 0, 1 };
    static const uint32_t huge[2] = { UINT32_MAX, 1 }, none[2] = { 0, 0 };

    spotnik_ledger_init(&ledger, 1000, 100);
    spotnik_ledger_deal_set(&ledger, 4, weight);
    spotnik_ledger_deal_map(&ledger, 4, 4, from);
    assert_int_equal(ledger.deal_count, 4);
    assert_true(ledger.deal[0] == 18 && ledger.deal[1] == 13 && ledger.deal[2] == 9
                && ledger.deal[3] == 12);
    ledger_check(&ledger);
    spotnik_ledger_deal_map(&ledger, 3, 3, from);
    assert_int_equal(ledger.deal_count, 0);
    spotnik_ledger_deal_set(&ledger, 2, huge);
    assert_int_equal(ledger.deal_count, 0);
    spotnik_ledger_deal_set(&ledger, 2, none);
    assert_int_equal(ledger.deal_count, 0);
    spotnik_ledger_deal_set(&ledger, 1, huge);
    assert_true(ledger.deal_count == 1 && spotnik_ledger_is_valid(&ledger));
    spotnik_ledger_init(&ledger, 0, 0);
    spotnik_ledger_deal_set(&ledger, 4, weight);
    assert_int_equal(ledger.deal_count, 0);
}

/* A list of ranges that is nearly full is dealt in whole ranges, unevenly too; nothing is lost and
 * it empties. */
TEST(a_full_list_is_dealt_unevenly)
{
    static struct spotnik_ledger ledger;
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < HISTORIES(20); seed++) {
        spotnik_prng_seed(&prng, seed);
        memset(consumed, 0, sizeof consumed);
        spotnik_ledger_init(&ledger, 4096, 4096);
        if (seed % 2)
            spotnik_ledger_init_per_member(&ledger, 4096, 40);
        for (uint32_t i = 0; i < SPOTNIK_LEDGER_RETURNED_MAX; i++) {
            ledger.returned[i] =
                (struct spotnik_range){ 4 * i, 4 * i + 1 + spotnik_prng_below(&prng, 3) };
            for (uint64_t k = ledger.returned[i].end; k < 4 * i + 4; k++)
                consumed[k] = 1;
        }
        ledger.returned_count = SPOTNIK_LEDGER_RETURNED_MAX;
        ledger.cursor = 4096;
        for (uint32_t steps = 0; ledger.data_epoch < 1; steps++) {
            uint32_t shares = (uint32_t)spotnik_prng_between(&prng, 1, 30);
            deal_by_chance(&prng, &ledger, shares);
            lose_by_chance(&prng, shares, 20);
            step(&ledger, shares);
            assert_true(steps < 10000);
        }
    }
}

TEST(equal_ledgers_stay_equal)
{
    static struct spotnik_ledger a, b, c;
    struct spotnik_prng prng;

    memset(&b, 0xee, sizeof b); /* what lies behind the used part does not count */
    spotnik_prng_seed(&prng, 3);
    spotnik_ledger_init(&a, 5000, 321);
    spotnik_ledger_copy(&b, &a);
    for (uint32_t steps = 0; steps < 200; steps++) {
        lose_by_chance(&prng, 9, 30);
        spotnik_ledger_copy(&c, &b);
        spotnik_ledger_commit(&a, 9, in_view);
        spotnik_ledger_commit(&b, 9, in_view);
        assert_true(spotnik_ledger_equal(&a, &b));
        in_view[4] = !in_view[4];
        bool matters = share_consume(&c, 4, 9, false) > 0;
        spotnik_ledger_commit(&c, 9, in_view);
        assert_int_equal(spotnik_ledger_equal(&a, &c), !matters);
    }
}
