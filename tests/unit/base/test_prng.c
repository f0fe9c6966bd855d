/* SPDX-License-Identifier: Apache-2.0 */
/* The generator is the published one (a seed must replay for ever), and its ranges are exact and
 * fair. */
#include "base/prng.h"
#include "tests.h"

/* xoshiro256** from the state {1, 2, 3, 4}: first outputs of the authors' reference code. */
TEST(is_the_published_generator)
{
    struct spotnik_prng prng = { { 1, 2, 3, 4 } };

    assert_true(spotnik_prng_next(&prng) == 11520);
    assert_true(spotnik_prng_next(&prng) == 0);
    assert_true(spotnik_prng_next(&prng) == 1509978240);
    assert_true(spotnik_prng_next(&prng) == UINT64_C(1215971899390074240));
}

/* splitmix64 from 0: first output of the authors' reference code. */
TEST(seeding_is_splitmix)
{
    struct spotnik_prng prng, other;

    spotnik_prng_seed(&prng, 0);
    assert_true(prng.state[0] == UINT64_C(0xe220a8397b1dcdaf));
    spotnik_prng_seed(&other, 1);
    assert_true(spotnik_prng_next(&prng) != spotnik_prng_next(&other));
}

TEST(below_reaches_every_value_and_no_other)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 7);
    for (uint64_t n = 1; n <= 20; n++) {
        unsigned seen[20] = { 0 };
        for (int i = 0; i < 4000; i++) {
            uint64_t value = spotnik_prng_below(&prng, n);
            assert_true(value < n);
            seen[value]++;
        }
        for (uint64_t i = 0; i < n; i++)
            assert_in_range(seen[i], 4000 / n / 2, 4000 / n * 2);
    }
    assert_true(spotnik_prng_below(&prng, UINT64_MAX) < UINT64_MAX);
}

TEST(between_includes_both_ends)
{
    struct spotnik_prng prng;
    unsigned seen[3] = { 0 };

    spotnik_prng_seed(&prng, 8);
    for (int i = 0; i < 300; i++) {
        uint64_t value = spotnik_prng_between(&prng, 5, 7);
        assert_in_range(value, 5, 7);
        seen[value - 5]++;
    }
    assert_true(seen[0] && seen[1] && seen[2]);
    assert_true(spotnik_prng_between(&prng, 9, 9) == 9);
    spotnik_prng_between(&prng, 0, UINT64_MAX);
}

TEST(chance_keeps_the_odds)
{
    struct spotnik_prng prng;
    int hits = 0;

    spotnik_prng_seed(&prng, 9);
    for (int i = 0; i < 10000; i++) {
        hits += spotnik_prng_chance(&prng, 1, 4);
        assert_false(spotnik_prng_chance(&prng, 0, 4));
        assert_true(spotnik_prng_chance(&prng, 4, 4));
    }
    assert_in_range(hits, 2300, 2700);
}
