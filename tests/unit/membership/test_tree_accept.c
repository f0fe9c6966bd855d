/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a vote goes to by a tree, and when all below have voted. */
#include "tests.h"
#include "voters.h"

#define SIZE 20
#define ORIGIN 7

static struct voters voters;
static struct agreement *const agreement = &voters.agreement;

/* All vote but `out`; SIZE: all vote. */
static void open_vote(uint32_t rank, uint32_t out)
{
    voters_open(&voters, SIZE, rank);
    voters_promise(&voters, 1, ORIGIN);
    tree_prepare_begin(&agreement->tree, ORIGIN);
    voters_accept(&voters, agreement->promised);
    if (out < SIZE)
        voters.proposed[out].flags &= ~(uint32_t)SPOTNIK_ENTRY_VOTER;
    tree_prepare_turn(&agreement->tree);
}

static void check_told(uint32_t out)
{
    uint32_t told[SIZE] = { 0 }, next;

    for (uint32_t rank = 0; rank < SIZE; rank++) {
        if (rank == out)
            continue;
        open_vote(rank, out);
        while (tree_accept_next(agreement, &voters.in, &next))
            told[next]++;
    }
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(told[rank], rank != ORIGIN && rank != out);
}

/* Claim: ACCEPT comes to each voter once, whichever member does not vote. */
TEST(each_voter_is_told_once)
{
    for (uint32_t out = 0; out <= SIZE; out++)
        if (out != ORIGIN)
            check_told(out);
}

/* Claim: a member concludes once, when it has ACCEPTED of each voter that it told. */
TEST(accepted_of_all_below)
{
    uint32_t told[SIZE], count = 0;

    open_vote(ORIGIN, (ORIGIN + 1) % SIZE);
    while (tree_accept_next(agreement, &voters.in, &told[count]))
        count++;
    assert_true(count > 2);
    for (uint32_t i = 0; i < count; i++) {
        assert_false(tree_accept_concludes(agreement, &voters.in));
        assert_true(tree_accept_awaits(agreement, &voters.in, told[i]));
        tree_accept_hear(agreement, told[i]);
        assert_false(tree_accept_awaits(agreement, &voters.in, told[i]));
    }
    assert_true(tree_accept_concludes(agreement, &voters.in));
    assert_false(tree_accept_concludes(agreement, &voters.in));
}

/* Claim: a vote counts in the promised ballot alone. */
TEST(a_vote_of_another_ballot)
{
    open_vote(3, SIZE);
    assert_true(tree_accept_is_on(agreement));
    agreement->accepted.ballot.round--;
    assert_false(tree_accept_is_on(agreement));
    assert_false(tree_accept_awaits(agreement, &voters.in, 4));
}
