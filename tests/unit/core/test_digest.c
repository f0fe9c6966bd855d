/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of results: members that differ find out by their heartbeats, the odd one ends, and
 * nobody else does. */
#include "base/time.h"
#include "pair_fixture.h"

static void assemble(uint32_t count)
{
    pair_open(&pair, count, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
}

/* One step after the other, with time for heartbeats after each. */
static void steps(uint64_t until)
{
    for (uint64_t step = 2; step <= until; step++) {
        pair_goal(&pair, step);
        pair_run(&pair, 120 * SPOTNIK_MS);
    }
}

static void assert_failed(uint32_t node, bool failed)
{
    assert_int_equal(pair.node[node].failed, failed);
    assert_int_equal(pair_status(&pair, node).role,
                     failed ? SPOTNIK_ROLE_FAILED : SPOTNIK_ROLE_MEMBER);
    if (failed)
        assert_int_equal(pair.node[node].error, SPOTNIK_ERR_DIVERGED);
}

/* Claim: equal results are compared, and nobody ends. */
TEST_PAIR(equal_results)
{
    for (uint32_t count = 2; count <= 6; count++) {
        assemble(count);
        steps(8);
        for (uint32_t i = 0; i < count; i++) {
            assert_failed(i, false);
            assert_int_equal(pair_status(&pair, i).committed, 8);
            assert_true(pair_status(&pair, i).compared_step >= 5);
        }
        pair_close(&pair);
    }
}

/* Claim: one result that differs, once, ends the member that got it, and nobody else; the others go
 * on. */
TEST_PAIR(the_odd_one_ends)
{
    for (uint32_t count = 3; count <= 6; count++)
        for (uint32_t odd = 0; odd < count; odd++) {
            assemble(count);
            pair.node[odd].wrong_step = 4;
            pair.node[odd].wrong_value = 1;
            steps(8);
            pair_run(&pair, 4 * SPOTNIK_S);
            for (uint32_t i = 0; i < count; i++)
                assert_failed(i, i == odd);
            const struct spotnik_divergence *diverged =
                spotnik_core_divergence(pair.node[odd].core);
            assert_true(diverged->step >= 4 && diverged->after_step < 4);
            assert_int_equal(pair_status(&pair, (odd + 1) % count).size, count - 1);
            pair_close(&pair);
        }
}

/* Claim: of two nobody knows which is right, so both end. */
TEST_PAIR(two_both_end)
{
    assemble(2);
    pair.node[1].wrong_step = 3;
    pair.node[1].wrong_value = 5;
    steps(6);
    assert_failed(0, true);
    assert_failed(1, true);
}

/* Claim: two neighbours with the same wrong result do not vouch for each other. They end, and so
 * may those beside them. */
TEST_PAIR(two_of_a_kind_end)
{
    assemble(6);
    pair.node[2].wrong_step = pair.node[3].wrong_step = 4;
    pair.node[2].wrong_value = pair.node[3].wrong_value = 7;
    steps(8);
    pair_run(&pair, 4 * SPOTNIK_S);
    assert_failed(2, true);
    assert_failed(3, true);
    assert_failed(0, false);
    assert_failed(5, false);
}

/* Claim: two that are wrong each in its own way both end, although the view changes when the first
 * does. Nobody else does, but for a member that stands between them and has nobody to agree
 * with. */
TEST_PAIR(two_different_ones_end)
{
    for (uint32_t apart = 1; apart <= 3; apart++) {
        assemble(6);
        pair.node[1].wrong_step = pair.node[1 + apart].wrong_step = 4;
        pair.node[1].wrong_value = 7;
        pair.node[1 + apart].wrong_value = 8;
        steps(10);
        pair_run(&pair, 4 * SPOTNIK_S);
        for (uint32_t i = 0; i < 6; i++)
            assert_failed(i, i == 1 || i == 1 + apart || (apart == 2 && i == 2));
        pair_close(&pair);
    }
}

/* Claim: one step that differs is found out though all after it are the same, and no heartbeat told
 * of it alone. */
TEST_PAIR(one_among_many)
{
    assemble(4);
    steps(3);
    pair.node[2].wrong_step = 5;
    pair.node[2].wrong_value = 9;
    pair_goal(&pair, 9);
    for (uint32_t i = 0; i < 4; i++)
        while (pair_status(&pair, i).committed < 9)
            assert_true(pair_turn(&pair));
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 4; i++)
        assert_failed(i, i == 2);
}

/* Claim: what differed before a view changed is still found out after it. */
TEST_PAIR(a_view_change_hides_nothing)
{
    assemble(5);
    steps(3);
    pair.node[2].wrong_step = 4;
    pair.node[2].wrong_value = 9;
    pair_goal(&pair, 5);
    while (pair_status(&pair, 2).committed < 5 || pair_status(&pair, 4).committed < 5)
        assert_true(pair_turn(&pair));
    pair_kill(&pair, 4);
    pair_run(&pair, 4 * SPOTNIK_S);
    steps(7);
    assert_failed(2, true);
    assert_failed(0, false);
    assert_failed(1, false);
    assert_failed(3, false);
}
