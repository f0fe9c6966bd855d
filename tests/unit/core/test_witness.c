/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ties in a lineage that has a witness: the script plays the folder. */
#include "base/time.h"
#include "pair_fixture.h"

static void assemble(uint32_t count)
{
    pair_open(&pair, count, 1, 0, 0);
    pair.witnessed = true;
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    pair_goal(&pair, 3);
}

static void tell(uint32_t node, uint64_t epoch, bool named)
{
    pair_event(&pair, node,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_WITNESS,
                                       .witness = { epoch, named } });
    pair_run(&pair, SPOTNIK_MS);
}

static uint64_t epoch_of(uint32_t node)
{
    return pair_status(&pair, node).epoch;
}

static void cut_two(void)
{
    assemble(2);
    pair_cut(&pair, 0, 1, true);
    pair_run(&pair, pair.limits.silence_floor_ns + 2 * pair.limits.heartbeat_ns);
}

/* Claim: of two that do not hear each other both ask, whatever their ids, and neither goes on
 * before it is answered. The one that is named goes on at once, the other parks; once they hear
 * each other again it learns that it was left behind. */
TEST(the_named_goes_on)
{
    for (uint32_t named = 0; named < 2; named++) {
        cut_two();
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(pair.node[i].asked_epoch, epoch_of(i));
            assert_int_equal(pair_status(&pair, i).size, 2);
        }
        uint64_t epoch = epoch_of(named);
        tell(1 - named, epoch, false);
        assert_true(pair_status(&pair, 1 - named).parked);
        tell(named, epoch, true);
        assert_int_equal(pair_status(&pair, named).size, 1);
        pair_run(&pair, SPOTNIK_S);
        assert_int_equal(pair_status(&pair, named).committed, 3);
        assert_int_equal(pair_status(&pair, 1 - named).committed, 1);
        pair_cut(&pair, 0, 1, false);
        pair_run(&pair, 5 * SPOTNIK_S);
        assert_int_equal(pair.node[1 - named].excluded, 1);
        pair_close(&pair);
    }
}

/* Claim: without an answer both park; an answer that comes late is as good. */
TEST_PAIR(late)
{
    cut_two();
    uint64_t epoch = epoch_of(1);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_true(pair_status(&pair, 0).parked && pair_status(&pair, 1).parked);
    tell(1, epoch, true);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 1).committed, 3);
}

/* Claim: an answer of another epoch decides nothing. */
TEST_PAIR(of_another_epoch)
{
    cut_two();
    tell(1, epoch_of(1) - 1, true);
    tell(1, epoch_of(1) + 1, true);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 1).committed, 1);
}

/* Claim: two against two: one member of a half is named, and its half goes on. */
TEST_PAIR(halves_of_four)
{
    assemble(4);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 4; b++)
            pair_cut(&pair, a, b, true);
    pair_run(&pair, SPOTNIK_S);
    uint64_t epoch = epoch_of(3);
    assert_true(pair.node[2].asked_epoch == epoch || pair.node[3].asked_epoch == epoch);
    tell(3, epoch, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(pair_status(&pair, i).committed, i < 2 ? 1 : 3);
        assert_int_equal(pair_status(&pair, i).size, i < 2 ? 4 : 2);
    }
}

/* Claim: who has asked in this epoch asks again, whoever bids: it may be named, and have lost the
 * answer. Others' ballots make nobody ask that never saw a tie itself. */
TEST_PAIR(asks_again)
{
    bool asked[8] = { false };
    uint32_t count = 0;

    assemble(8);
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 4; b < 8; b++)
            pair_cut(&pair, a, b, true);
    for (uint32_t round = 0; round < 4; round++) {
        pair_run(&pair, 2 * SPOTNIK_S);
        for (uint32_t i = 0; i < 8; i++) {
            bool asks = pair.node[i].asked_epoch == epoch_of(i);
            assert_true(asks || !asked[i]);
            count += asks && !asked[i];
            asked[i] = asks;
            pair.node[i].asked_epoch = 0;
        }
    }
    assert_in_range(count, 2, 7);
}

/* Claim: a majority, and whoever survives proven deaths, ask nobody. */
TEST_PAIR(no_tie)
{
    assemble(3);
    pair_cut(&pair, 0, 1, true);
    pair_cut(&pair, 0, 2, true);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 1).committed, 3);
    pair_goal(&pair, 5);
    pair_kill(&pair, 1);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 2).committed, 5);
    assert_int_equal(pair.node[1].asked_epoch + pair.node[2].asked_epoch, 0);
}
