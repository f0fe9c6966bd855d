/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of one peer is worth in an epoch. */
#include "membership/detection.h"
#include "tests.h"

/* Claim: an end with its last words read proves GONE in an epoch in which it fenced us not, and
 * whose link was not of a later epoch. */
TEST(last_words)
{
    struct peer_end end = { .ended = SPOTNIK_EVIDENCE_GONE, .first_epoch = 5 };
    assert_int_equal(peer_end_worth(&end, 5), SPOTNIK_EVIDENCE_GONE);
    assert_int_equal(peer_end_worth(&end, 4), SPOTNIK_EVIDENCE_TAINTED);
    end.fenced_epoch = 6;
    assert_int_equal(peer_end_worth(&end, 6), SPOTNIK_EVIDENCE_TAINTED);
    assert_int_equal(peer_end_worth(&end, 7), SPOTNIK_EVIDENCE_GONE);
}

/* Claim: a certificate proves GONE from the epoch on that it names, whatever else is known. */
TEST(a_certificate)
{
    struct peer_end end = {
        .ended = SPOTNIK_EVIDENCE_TAINTED, .certified = true, .last_epoch = 5, .fenced_epoch = 9
    };
    assert_int_equal(peer_end_worth(&end, 4), SPOTNIK_EVIDENCE_TAINTED);
    assert_int_equal(peer_end_worth(&end, 5), SPOTNIK_EVIDENCE_GONE);
    end.certified = false;
    assert_int_equal(peer_end_worth(&end, 9), SPOTNIK_EVIDENCE_TAINTED);
}

/* Claim: what it did, as far as its words go, is no evidence while it has not ended. */
TEST(one_that_lives)
{
    struct peer_end end = { .fenced_epoch = 9, .first_epoch = 9 };
    assert_int_equal(peer_end_worth(&end, 9), SPOTNIK_EVIDENCE_NONE);
    assert_true(peer_end_moved_on(&end, 9));
    assert_false(peer_end_moved_on(&end, 10));
}
