/* SPDX-License-Identifier: Apache-2.0 */
/* When a joiner asks. Claims: at once where it is near; one that comes nearer is left to do so; one
 * that comes no nearer asks all the same, from where the members wait for it, and not from farther;
 * a few quick steps, or a short time, say nothing. One that lacks more than the last stable step
 * can be in no later view. */
#include "base/time.h"
#include "member/proposal.h"
#include "transfer/nearness.h"
#include "tests.h"

enum { NEAR = 1, STEPS = 10000 };

/* The first step at which it asks, each of its own taking step_ns, when the members make `theirs`
 * in the time of `ours`; 0: never. */
static uint64_t asks_at(uint64_t behind, uint64_t ours, uint64_t theirs, uint64_t step_ns)
{
    struct spotnik_nearness nearness = { 0 };

    for (uint64_t step = 1; step <= STEPS; step++)
        if (spotnik_nearness_asks(&nearness, NEAR, step, behind + step * theirs / ours,
                                  SPOTNIK_S + step * step_ns))
            return step;
    return 0;
}

TEST(near)
{
    assert_int_equal(asks_at(0, 1, 1, SPOTNIK_S), 1);
    assert_int_equal(asks_at(NEAR, 1, 1, SPOTNIK_S), 1);
}

/* As slow as the members: in each of its steps it is as far behind as before. */
TEST(no_nearer)
{
    for (uint64_t behind = NEAR + 1; behind <= 64; behind++) {
        assert_int_equal(asks_at(behind, 1, 1, SPOTNIK_S), 1 + 8);
        assert_int_equal(asks_at(behind, 1, 1, 10 * SPOTNIK_MS), 1 + 50);
        assert_int_equal(asks_at(behind, 1, 1, SPOTNIK_MS), 1 + 500);
    }
}

/* It is near before it is judged, or comes nearer in each window. */
TEST(nearer)
{
    for (uint64_t step_ns = SPOTNIK_MS; step_ns <= SPOTNIK_S; step_ns *= 10)
        assert_in_range(asks_at(40, 2, 1, step_ns), 2 * (40 - NEAR) - 2, 2 * 40);
}

TEST(far)
{
    assert_int_equal(asks_at(65, 1, 1, SPOTNIK_S), 0);
    /* falling back: before it is too far */
    assert_in_range(asks_at(30, 1, 2, 100 * SPOTNIK_MS), 2, 34);
    /* a job of quick steps leaves it behind before anybody could have looked: its donor waits */
    assert_int_equal(asks_at(30, 1, 2, SPOTNIK_MS), 0);
}

/* What lies behind it when it is far and comes back counts from there. */
TEST(far_and_back)
{
    struct spotnik_nearness nearness = { 0 };

    assert_false(spotnik_nearness_asks(&nearness, NEAR, 1, 3, SPOTNIK_S));
    assert_false(spotnik_nearness_asks(&nearness, NEAR, 2, 100, 3 * SPOTNIK_S));
    assert_false(spotnik_nearness_asks(&nearness, NEAR, 97, 100, 4 * SPOTNIK_S));
    assert_false(spotnik_nearness_asks(&nearness, NEAR, 104, 107, 5 * SPOTNIK_S)); /* 7 steps */
    assert_true(spotnik_nearness_asks(&nearness, NEAR, 105, 108, 6 * SPOTNIK_S));
}

/* The rule of proposals, over all that a view may settle at. */
TEST(may_enter)
{
    for (uint64_t ours = 1; ours < 8; ours++)
        for (uint64_t stable = 0; stable < 12; stable++) {
            struct spotnik_enter joiner = { .committed = ours };
            bool admitted = false;
            for (uint64_t settled = stable; settled < 12; settled++)
                admitted |= spotnik_proposal_admits(&joiner, settled);
            assert_int_equal(spotnik_nearness_may_enter(ours, stable), admitted);
        }
}
