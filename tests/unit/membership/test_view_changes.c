/* SPDX-License-Identifier: Apache-2.0 */
/* What status says of a new view. */
#include "tests.h"
#include "voters.h"

static struct voters voters;
static struct agreement *const agreement = &voters.agreement;

/* The proposal lacks `out` of five. */
static struct view_changes without(uint32_t out)
{
    for (uint32_t i = out; i + 1 < 5; i++)
        voters.proposed[i] = voters.proposed[i + 1];
    agreement->accepted.entry_count = 4;
    return view_changes_of(&voters.view, voters.known, &agreement->prepare, &agreement->accepted);
}

static void open_vote(void)
{
    voters_open(&voters, 5, 0);
    voters_promise(&voters, 1, 0);
    voters_accept(&voters, agreement->promised);
}

/* Claim: a member that is not in the new view is lost, and its cause is known by us or told. */
TEST(a_loss_and_its_cause)
{
    open_vote();
    struct view_changes changes = without(2);
    assert_int_equal(changes.lost, 1);
    assert_int_equal(changes.ended + changes.silent + changes.left + changes.joined, 0);
    open_vote();
    voters.known[2].evidence = SPOTNIK_EVIDENCE_SILENT;
    assert_int_equal(without(2).silent, 1);
    open_vote();
    voters.report[2].evidence = SPOTNIK_EVIDENCE_GONE;
    assert_int_equal(without(2).ended, 1);
}

/* Claim: one that had asked to leave has left, whether it still voted or not. */
TEST(a_leaver_is_no_loss)
{
    open_vote();
    voters.known[2].leaving = 1;
    assert_int_equal(without(2).left, 1);
    open_vote();
    voters.proposed[2].flags = SPOTNIK_ENTRY_VOTER;
    struct view_changes changes =
        view_changes_of(&voters.view, voters.known, &agreement->prepare, &agreement->accepted);
    assert_int_equal(changes.left, 1);
    assert_int_equal(changes.lost, 0);
}

/* Claim: a member behind a broken path is lost, and silent. */
TEST(a_broken_path_is_a_loss)
{
    open_vote();
    voters.proposed[2].flags = SPOTNIK_ENTRY_VOTER | SPOTNIK_ENTRY_CUT;
    struct view_changes changes =
        view_changes_of(&voters.view, voters.known, &agreement->prepare, &agreement->accepted);
    assert_int_equal(changes.lost, 1);
    assert_int_equal(changes.silent, 1);
}

/* Claim: each entry of a joiner has joined. */
TEST(a_joiner)
{
    open_vote();
    voters.proposed[5] =
        (struct spotnik_entry){ .member.id = voters_id(9),
                                .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_JOINER };
    agreement->accepted.entry_count = 6;
    struct view_changes changes =
        view_changes_of(&voters.view, voters.known, &agreement->prepare, &agreement->accepted);
    assert_int_equal(changes.joined, 1);
    assert_int_equal(changes.lost + changes.left, 0);
}
