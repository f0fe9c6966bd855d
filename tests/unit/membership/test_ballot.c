/* SPDX-License-Identifier: Apache-2.0 */
/* What a member promises, and when it tries again. */
#include "base/time.h"
#include "tests.h"
#include "voters.h"

static struct voters voters;
static struct agreement *const agreement = &voters.agreement;

/* Claim: a ballot of our own is above all that we have promised, and above our own before. */
TEST(a_bid_is_above_all_seen)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 7, 3);
    agreement->prepare_at = voters_id(3);
    ballot_bid(agreement, voters.in.now_ns, voters_id(2));
    assert_int_equal(agreement->promised.round, 8);
    assert_true(spotnik_id_equal(agreement->promised.initiator, voters_id(2)));
    assert_true(spotnik_id_is_none(agreement->prepare_at));
    ballot_bid(agreement, voters.in.now_ns, voters_id(2));
    assert_int_equal(agreement->promised.round, 9);
}

static uint64_t retry_after_ns(uint32_t rank, uint32_t retries)
{
    voters.in.rank = rank;
    agreement->retries = retries;
    ballot_retry(agreement, &voters.in, VOTERS_RETRY_NS);
    return agreement->retry_ns - voters.in.now_ns;
}

/* Claim: the pause before a retry doubles up to four times, and differs by rank. */
TEST(retries_back_off)
{
    voters_open(&voters, 4, 0);
    uint64_t first_ns = retry_after_ns(0, 0);
    assert_true(first_ns == VOTERS_RETRY_NS + 4 * SPOTNIK_MS);
    assert_true(retry_after_ns(0, 1) == 2 * first_ns);
    assert_true(retry_after_ns(0, 4) == 16 * first_ns);
    assert_true(retry_after_ns(0, 9) == 16 * first_ns);
    assert_true(retry_after_ns(3, 0) == first_ns + 3 * voters.in.stagger_ns);
}

/* Claim: a promised ballot is lost when it is older than retry_ns. */
TEST(a_stale_ballot_is_lost)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 3);
    voters.in.now_ns += VOTERS_RETRY_NS;
    assert_false(ballot_is_lost(agreement, &voters.in, false));
    voters.in.now_ns++;
    assert_true(ballot_is_lost(agreement, &voters.in, false));
}

/* Claim: the parked bid against a ballot that is not parked, and not against a parked one. */
TEST(the_parked_bid_against_the_others)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 3);
    agreement->parked = true;
    assert_true(ballot_is_lost(agreement, &voters.in, false));
    assert_false(ballot_is_lost(agreement, &voters.in, true));
    agreement->phase = PHASE_PARKED;
    assert_true(ballot_is_lost(agreement, &voters.in, true));
}

/* Claim: a ballot whose PREPARE went to a member that others call silent is lost, until we have
 * voted in it. */
TEST(a_stuck_ballot_is_lost)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 1, 1);
    agreement->prepare_at = voters_id(3);
    assert_false(ballot_is_lost(agreement, &voters.in, false));
    voters.quiet_until_ns[3] = voters.in.now_ns + 1;
    assert_true(ballot_is_lost(agreement, &voters.in, false));
    voters_accept(&voters, agreement->promised);
    assert_false(ballot_is_lost(agreement, &voters.in, false));
}

/* Claim: only a voter of the promised ballot tells that others have committed more. */
TEST(outrun_by_a_voter)
{
    voters_open(&voters, 4, 2);
    assert_false(ballot_is_outrun(agreement, 4, 5));
    voters_promise(&voters, 1, 3);
    voters.report[1].committed = 6;
    assert_false(ballot_is_outrun(agreement, 4, 5));
    voters.report[1].promised = 1;
    assert_true(ballot_is_outrun(agreement, 4, 5));
    assert_false(ballot_is_outrun(agreement, 4, 6));
    ballot_promise(agreement, voters.in.now_ns, (struct spotnik_ballot){ .round = 2 });
    assert_false(ballot_is_outrun(agreement, 4, 5));
}

/* Claim: a view ends every promise, vote and wait of the epoch before. */
TEST(a_view_ends_the_ballot)
{
    voters_open(&voters, 4, 2);
    voters_promise(&voters, 5, 3);
    voters_accept(&voters, agreement->promised);
    agreement->parked = agreement->tree.missed = voters.fenced[1] = true;
    agreement->hop[PASS_ACCEPT] = voters_id(1);
    retry_after_ns(2, 3);
    ballot_view(agreement, 4);
    ballot_check(agreement, VOTERS_EPOCH + 1, false, voters_id(2));
    assert_int_equal(agreement->promised.round, 0);
    assert_int_equal(agreement->accepted.ballot.round, 0);
    assert_int_equal(agreement->retries, 0);
    assert_true(agreement->retry_ns == SPOTNIK_NEVER);
    assert_false(agreement->tree.missed || voters.fenced[1]);
    assert_true(spotnik_id_is_none(agreement->hop[PASS_ACCEPT]));
    ballot_bid(agreement, voters.in.now_ns, voters_id(2));
    assert_int_equal(agreement->promised.round, 1);
}
