/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger at its edges: no samples, no share, numbers as large as they can be. */
#include "ledger/ledger.h"
#include "tests.h"

TEST(without_samples_every_share_is_empty)
{
    static struct spotnik_ledger ledger, before;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count = 99;

    spotnik_ledger_init(&ledger, 0, 0);
    spotnik_ledger_copy(&before, &ledger);
    assert_int_equal(spotnik_ledger_share(&ledger, 0, 3, ranges, &count), 0);
    assert_int_equal(count, 0);
    spotnik_ledger_commit(&ledger, 3, (const bool[]){ true, true, false });
    assert_true(spotnik_ledger_equal(&ledger, &before));
}

TEST(a_member_without_a_share_gets_nothing)
{
    static struct spotnik_ledger ledger;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count = 99;

    spotnik_ledger_init(&ledger, 100, 10);
    assert_int_equal(spotnik_ledger_share(&ledger, UINT32_MAX, 3, ranges, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(spotnik_ledger_share(&ledger, 0, 0, ranges, &count), 0);
    spotnik_ledger_commit(&ledger, 0, NULL);
    assert_int_equal(ledger.cursor, 0);
}

TEST(huge_numbers_do_not_overflow)
{
    static struct spotnik_ledger ledger;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint64_t end = 0;
    uint32_t count;

    spotnik_ledger_init(&ledger, UINT64_MAX - 1, UINT64_MAX);
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t total = spotnik_ledger_share(&ledger, i, 1000, ranges, &count);
        assert_int_equal(count, 1);
        assert_int_equal(ranges[0].begin, end);
        assert_true(total - UINT64_MAX / 1000 <= 1);
        end = ranges[0].end;
    }
    assert_int_equal(end, UINT64_MAX - 1);
}
