/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a vote fences, and where it goes. */
#include "tests.h"
#include "voters.h"

static struct voters voters;
static struct agreement *const agreement = &voters.agreement;

/* The proposal holds ranks 0, 1, 3 and 4 of five. Rank 1 does not vote. */
static void open_vote(uint32_t rank)
{
    voters_open(&voters, 5, rank);
    voters_promise(&voters, 1, 0);
    voters_accept(&voters, agreement->promised);
    voters.proposed[1].flags &= ~(uint32_t)SPOTNIK_ENTRY_VOTER;
    voters.proposed[2] = voters.proposed[3];
    voters.proposed[3] = voters.proposed[4];
    agreement->accepted.entry_count = 4;
}

/* Claim: each member that does not vote is fenced, and noted for later links. */
TEST(all_but_voters_are_fenced)
{
    uint32_t near = 0;

    open_vote(0);
    assert_int_equal(accept_fence(agreement, &voters.view, 0, &near), 1);
    assert_int_equal(accept_fence(agreement, &voters.view, 2, &near), 2);
    assert_true(accept_fence(agreement, &voters.view, 3, &near) == SPOTNIK_NO_RANK);
    for (uint32_t rank = 0; rank < 5; rank++)
        assert_int_equal(voters.fenced[rank], rank == 1 || rank == 2);
}

/* Claim: ACCEPT goes to the next voter in the proposal's order, and from the last to the first. */
TEST(accept_goes_to_each_voter)
{
    open_vote(0);
    assert_true(spotnik_id_equal(accept_next(agreement, voters_id(0))->id, voters_id(3)));
    assert_true(spotnik_id_equal(accept_next(agreement, voters_id(3))->id, voters_id(4)));
    assert_true(spotnik_id_equal(accept_next(agreement, voters_id(4))->id, voters_id(0)));
}

/* Claim: the only voter hands ACCEPT to no member. */
TEST(an_only_voter)
{
    open_vote(3);
    for (uint32_t i = 0; i < 4; i++)
        if (!spotnik_id_equal(voters.proposed[i].member.id, voters_id(3)))
            voters.proposed[i].flags &= ~(uint32_t)SPOTNIK_ENTRY_VOTER;
    assert_null(accept_next(agreement, voters_id(3)));
}
