/* SPDX-License-Identifier: Apache-2.0 */
/* What a member signs in PREPARE, and whom it hands it to. */
#include "base/time.h"
#include "tests.h"
#include "voters.h"

static struct voters voters;
static struct agreement *const agreement = &voters.agreement;
static struct spotnik_prepare *const prepare = &voters.agreement.prepare;

static void sign(uint64_t committed, uint64_t ledger_step)
{
    struct prepare_words words = { .report = { .promised = 1, .committed = committed },
                                   .ledger = &voters.ledger,
                                   .ledger_step = ledger_step };
    prepare_sign(agreement, &voters.in, &words);
}

/* Claim: our silence is not held against a member that has promised in this ballot; proof is. */
TEST(silence_of_a_voter_does_not_count)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 0);
    voters.report[0].promised = voters.report[1].promised = 1;
    voters.known[0].evidence = voters.known[3].evidence = SPOTNIK_EVIDENCE_SILENT;
    voters.known[1].evidence = SPOTNIK_EVIDENCE_TAINTED;
    sign(5, 5);
    assert_int_equal(voters.report[0].evidence, SPOTNIK_EVIDENCE_NONE);
    assert_int_equal(voters.report[1].evidence, SPOTNIK_EVIDENCE_TAINTED);
    assert_int_equal(voters.report[3].evidence, SPOTNIK_EVIDENCE_SILENT);
    assert_int_equal(voters.report[2].committed, 5);
}

/* Claim: PREPARE carries the ledger of the voter that has committed most, of those that know it. */
TEST(the_latest_ledger_is_kept)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 0);
    sign(9, SPOTNIK_NO_LEDGER);
    assert_true(prepare->ledger_step == SPOTNIK_NO_LEDGER);
    voters.ledger.cursor = 80;
    sign(8, 8);
    assert_int_equal(prepare->ledger_step, 8);
    voters.ledger.cursor = 70;
    sign(7, 7);
    assert_int_equal(prepare->ledger_step, 8);
    assert_int_equal(prepare->ledger.cursor, 80);
    sign(9, SPOTNIK_NO_LEDGER);
    assert_int_equal(prepare->ledger_step, 8);
}

/* Claim: of accepted proposals PREPARE brings back the one of the highest ballot. */
TEST(the_highest_vote_is_kept)
{
    struct spotnik_ballot low = { .round = 2, .initiator = voters_id(1) };
    struct spotnik_ballot high = { .round = 3, .initiator = voters_id(0) };

    voters_open(&voters, 4, 2);
    voters_promise(&voters, 4, 0);
    sign(5, 5);
    assert_int_equal(prepare->accepted_ballot.round, 0);
    voters_accept(&voters, high);
    sign(5, 5);
    assert_int_equal(prepare->accepted_ballot.round, 3);
    assert_int_equal(prepare->accepted.epoch, VOTERS_EPOCH + 1);
    voters_accept(&voters, low);
    sign(5, 5);
    assert_int_equal(prepare->accepted_ballot.round, 3);
    assert_int_equal(prepare->accepted.ballot.round, 3);
}

static bool sign_joiner(uint32_t rank, uint64_t committed)
{
    return prepare_sign_joiner(agreement, &(struct spotnik_enter){ .member.id = voters_id(rank),
                                                                   .committed = committed });
}

/* Claim: a joiner stands in PREPARE once, as near as it has told any member. */
TEST(a_joiner_is_signed_once)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 0);
    assert_true(sign_joiner(40, 3));
    assert_true(sign_joiner(41, 8));
    assert_true(sign_joiner(40, 5));
    assert_true(sign_joiner(40, 4));
    assert_int_equal(prepare->joiner_count, 2);
    assert_int_equal(prepare->joiner[0].committed, 5);
    prepare_drop_joiner(agreement, voters_id(40));
    assert_int_equal(prepare->joiner_count, 1);
    assert_true(spotnik_id_equal(prepare->joiner[0].member.id, voters_id(41)));
}

/* Claim: more joiners than PREPARE holds are refused. */
TEST(joiners_beyond_the_last_place)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 0);
    for (uint32_t i = 0; i < SPOTNIK_JOINERS_MAX; i++)
        assert_true(sign_joiner(40 + i, 3));
    assert_false(sign_joiner(40 + SPOTNIK_JOINERS_MAX, 3));
    assert_int_equal(prepare->joiner_count, SPOTNIK_JOINERS_MAX);
}

static void check_hop(uint32_t rank)
{
    struct prepare_hop hop = prepare_next(agreement, &voters.in);

    assert_int_equal(hop.next, BALLOT_WAITS);
    assert_int_equal(hop.rank, rank);
}

/* Claim: PREPARE goes round those that are out, dead by hearsay, or silent by hearsay. */
TEST(the_next_hop)
{
    voters_open(&voters, 6, 1);
    voters_promise(&voters, 1, 0);
    check_hop(2);
    voters.report[2].evidence = SPOTNIK_EVIDENCE_SILENT;
    check_hop(3);
    voters.suspected[3] = true;
    check_hop(4);
    voters.quiet_until_ns[4] = voters.in.now_ns + 1;
    check_hop(5);
    voters.report[5].promised = 1;
    check_hop(0);
    voters.quiet_until_ns[0] = voters.in.now_ns + 1; /* it has spoken in this ballot */
    check_hop(0);
}

/* Claim: a PREPARE whose initiator is out, or in no view of ours, makes its holder bid higher. */
TEST(no_initiator_to_go_to)
{
    voters_open(&voters, 4, 1);
    voters_promise(&voters, 1, 0);
    voters.suspected[0] = true;
    assert_int_equal(prepare_next(agreement, &voters.in).next, BALLOT_START);
    voters_open(&voters, 4, 1);
    voters_promise(&voters, 1, 9);
    assert_int_equal(prepare_next(agreement, &voters.in).next, BALLOT_START);
}

/* Claim: an initiator without any other live member decides at once. */
TEST(no_other_is_left)
{
    voters_open(&voters, 3, 1);
    voters_promise(&voters, 1, 1);
    voters.suspected[0] = voters.suspected[2] = true;
    assert_int_equal(prepare_next(agreement, &voters.in).next, BALLOT_DECIDE);
}
