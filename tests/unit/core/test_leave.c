/* SPDX-License-Identifier: Apache-2.0 */
/* Planned departure: the leaver votes, hands over what only it holds, and then goes. */
#include "base/time.h"
#include "pair_fixture.h"

static void leave(uint32_t node)
{
    pair.node[node].idle = true;
    pair_event(&pair, node, (struct spotnik_event){ .kind = SPOTNIK_EVENT_LEAVE });
}

static void assemble(uint32_t count, uint64_t goal)
{
    pair_open(&pair, count, 1, 0, 0);
    pair_goal(&pair, goal);
    pair_assemble(&pair);
}

static void assert_member(uint32_t node, uint32_t size, uint64_t committed)
{
    struct spotnik_core_status status = pair_status(&pair, node);
    assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
    assert_int_equal(status.size, size);
    assert_int_equal(status.committed, committed);
    assert_false(status.frozen);
}

/* Claim: a leaver goes after one view change, nobody counts it as a loss, and the rest go on. */
TEST_PAIR(one_leaves)
{
    assemble(3, 2);
    uint64_t epoch = pair_status(&pair, 0).epoch;
    leave(1);
    pair_goal(&pair, 4);
    pair_run(&pair, 100 * SPOTNIK_MS);
    assert_int_equal(pair.node[1].left, 1);
    assert_member(0, 2, 4);
    assert_member(2, 2, 4);
    assert_int_equal(pair_status(&pair, 0).epoch, epoch + 1);
    assert_int_equal(pair_status(&pair, 0).losses, 0);
    assert_int_equal(pair_status(&pair, 0).leaves, 1);
}

/* Claim: a leaver in the middle of a step takes its contribution along; the rest reduce the step
 * without it. */
TEST_PAIR(leaves_in_a_step)
{
    assemble(3, 0);
    pair_goal(&pair, 1);
    for (int i = 0; i < 12; i++)
        pair_turn(&pair);
    assert_int_equal(pair_status(&pair, 0).committed, 0);
    leave(2);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[2].left, 1);
    assert_member(0, 2, 1);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(pair.node[0].result[1][0][i]
                    == pair_input(0, 1, 0, i) + pair_input(1, 1, 0, i));
}

/* Runs until `holder` has committed step 1 alone, all data to the others held back. */
static bool alone_has(uint32_t holder, uint32_t count)
{
    for (int i = 0; i < 400 && !pair.node[holder].has[1]; i++)
        pair_turn(&pair);
    for (uint32_t i = 0; i < count; i++)
        if (pair.node[i].has[1] != (i == holder))
            return false;
    return true;
}

/* Claim: the sole holder of a step stays until somebody who stays has its result, bit for bit, even
 * when the hand-over takes many times longer than its first patience. */
TEST_PAIR(sole_holder)
{
    assemble(2, 0);
    pair_goal(&pair, 1);
    pair.slow = 1;
    assert_true(alone_has(1, 2));
    leave(1);
    /* A frame takes 4 ms: asking again every 2 ms would interrupt every hand-over. */
    for (int i = 0; i < 200 && !pair.node[1].left; i++) {
        for (int j = 0; j < 8; j++)
            pair_turn(&pair);
        pair_pass(&pair, 4 * SPOTNIK_MS);
    }
    assert_int_equal(pair.node[1].left, 1);
    pair.slow = 0;
    pair_run(&pair, SPOTNIK_S);
    assert_member(0, 1, 1);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(pair.node[0].result[1][0][i]
                    == pair_input(0, 1, 0, i) + pair_input(1, 1, 0, i));
}

/* Claim: when everybody leaves, everybody gets away. */
TEST_PAIR(everybody_leaves)
{
    for (uint32_t count = 1; count <= 4; count++) {
        assemble(count, 2);
        for (uint32_t i = 0; i < count; i++)
            leave(i);
        pair_run(&pair, SPOTNIK_S);
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(pair.node[i].left, 1);
        pair_close(&pair);
    }
}

static bool dies_telling(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    (void)of;
    return node == 0 && action->kind == SPOTNIK_ACTION_SEND
           && action->send.message->kind == SPOTNIK_MESSAGE_RESTART;
}

static bool dies_leaving(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    (void)of;
    return node == 0 && action->kind == SPOTNIK_ACTION_LEFT;
}

/* Claim: of two the smaller id may leave while the larger stays, whether its process ends the
 * moment it may or even before it has told of the new view: the larger is not parked. */
TEST_PAIR(smaller_of_two_leaves)
{
    for (int early = 0; early < 2; early++) {
        assemble(2, 1);
        pair.before = early ? dies_telling : dies_leaving;
        leave(0);
        pair_run(&pair, SPOTNIK_S);
        assert_false(pair.node[0].alive);
        pair_goal(&pair, 2);
        pair_run(&pair, SPOTNIK_S);
        assert_member(1, 1, 2);
        pair_close(&pair);
    }
}

/* Claim: a leave asked for while a recovery is under way happens in the view after it. */
TEST_PAIR(leaves_during_recovery)
{
    assemble(4, 1);
    pair_goal(&pair, 3);
    for (int i = 0; i < 12; i++)
        pair_turn(&pair);
    pair_kill(&pair, 3);
    pair_turn(&pair);
    assert_true(pair_status(&pair, 2).frozen);
    leave(2);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[2].left, 1);
    assert_member(0, 2, 3);
    assert_member(1, 2, 3);
}

/* Claim: a leaver and a loss at the same time cost the rest nothing but a view or two. */
TEST_PAIR(leaver_and_loss)
{
    for (uint32_t when = 0; when < 30; when++) {
        assemble(4, 1);
        pair_goal(&pair, 3);
        leave(1);
        for (uint32_t i = 0; i < when; i++)
            pair_turn(&pair);
        pair_kill(&pair, 2);
        pair_run(&pair, 3 * SPOTNIK_S);
        assert_int_equal(pair.node[1].left, 1);
        assert_member(0, 2, 3);
        assert_member(3, 2, 3);
        pair_close(&pair);
    }
}

/* Claim: a joiner that leaves before it is in just leaves. */
TEST_PAIR(joiner_leaves)
{
    pair_open(&pair, 1, 1, 0, 0);
    pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_JOIN });
    leave(0);
    assert_int_equal(pair.node[0].left, 1);
}
