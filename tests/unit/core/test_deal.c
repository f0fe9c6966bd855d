/* SPDX-License-Identifier: Apache-2.0 */
/* Uneven shares: weights made of a step's results act on the next one, on every member alike, and
 * follow their members over losses, joiners and steps that are reduced again. */
#include "base/time.h"
#include "pair_fixture.h"

static const uint32_t weight[NODES_MAX] = { 18, 12, 9, 1, 1, 1, 1, 1 };

static void assert_ledgers_equal(uint32_t a, uint32_t b)
{
    assert_true(spotnik_ledger_equal(spotnik_core_ledger(pair.node[a].core),
                                     spotnik_core_ledger(pair.node[b].core)));
}

/* Claim: the first step is even; what its results say holds from the next one on, exactly, for
 * every member. */
TEST_PAIR(the_next_step_is_uneven)
{
    pair_open_dealt(&pair, 3, 3, 1000, 39, weight);
    pair_assemble(&pair);
    pair_goal(&pair, 3);
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(pair_status(&pair, i).committed, 3);
        assert_int_equal(pair.node[i].drawn[1], 13);
        assert_int_equal(pair.node[i].drawn[2], weight[i]);
        assert_int_equal(pair.node[i].drawn[3], weight[i]);
        assert_ledgers_equal(0, i);
    }
    assert_int_equal(spotnik_core_ledger(pair.node[0].core)->cursor, 3 * 39);
}

/* Claim: lost before anybody began the next step, a member's weight goes with it, and the others
 * keep theirs. */
TEST_PAIR(survivors_keep_their_weight)
{
    pair_open_dealt(&pair, 3, 2, 1000, 39, weight);
    pair_assemble(&pair);
    pair_goal(&pair, 2);
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 3; i++)
        pair.node[i].idle = true;
    pair_kill(&pair, 1);
    pair_run(&pair, SPOTNIK_S);
    pair.node[0].idle = pair.node[2].idle = false;
    pair_goal(&pair, 3);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[0].drawn[3], 26);
    assert_int_equal(pair.node[2].drawn[3], 13);
    assert_ledgers_equal(0, 2);
}

/* Claim: lost in a step that has begun, the step keeps its shares; afterwards weights stand by rank
 * in the new view. */
TEST_PAIR(a_begun_step_keeps_its_shares)
{
    pair_open_dealt(&pair, 3, 2, 1000, 39, weight);
    pair_assemble(&pair);
    pair_goal(&pair, 2);
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 3; i++)
        pair.node[i].hold = true;
    pair_goal(&pair, 3);
    pair_run(&pair, SPOTNIK_MS);
    pair_kill(&pair, 0);
    pair.node[1].hold = pair.node[2].hold = false;
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[1].drawn[3], 12);
    assert_int_equal(pair.node[2].drawn[3], 9);
    const struct spotnik_ledger *ledger = spotnik_core_ledger(pair.node[1].core);
    assert_int_equal(ledger->deal_count, 2);
    assert_true(ledger->deal[0] == 12 && ledger->deal[1] == 9); /* of the shares 1 and 2 */
    assert_int_equal(ledger->returned_count, 1);
    assert_int_equal(ledger->returned[0].end - ledger->returned[0].begin, 18);
    assert_ledgers_equal(1, 2);
    pair_goal(&pair, 4);
    pair_run(&pair, SPOTNIK_S);
    /* 39 fresh ones, and 5 of those that have returned */
    assert_int_equal(pair.node[1].drawn[4] + pair.node[2].drawn[4], 44);
    assert_int_equal(pair.node[1].drawn[4], 25); /* 44 * 12 / 21 */
}

/* Claim: who comes in gets the mean of the others' weights. */
TEST_PAIR(a_joiner_gets_the_mean)
{
    pair_open_dealt(&pair, 3, 2, 1000, 45, weight);
    pair.node[2].alive = false;
    pair_goal(&pair, 2);
    pair.count = 2;
    pair_assemble(&pair);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(spotnik_core_ledger(pair.node[0].core)->deal_count, 2);
    pair.node[0].idle = pair.node[1].idle = true;
    pair.count = 3;
    pair_renew(&pair, 2, 9, 2, 1000, 45);
    pair_join(&pair, 2, 2, 0, 0);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).size, 3);
    const struct spotnik_ledger *ledger = spotnik_core_ledger(pair.node[2].core);
    assert_int_equal(ledger->deal_count, 3);
    assert_true(ledger->deal[0] == 18 && ledger->deal[1] == 12 && ledger->deal[2] == 15);
    assert_ledgers_equal(0, 2);
}
