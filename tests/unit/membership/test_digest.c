/* SPDX-License-Identifier: Apache-2.0 */
/* The digests of one member alone, with neighbours of which only the claims are there. */
#include <string.h>

#include "membership/audit.h"
#include "tests.h"

#define EPOCH 7

static struct digests digests;
static struct compared before[DIGEST_CHAINS], after[DIGEST_CHAINS];

static int open_view(void **state)
{
    (void)state;
    memset(&digests, 0, sizeof(digests));
    memset(before, 0, sizeof(before));
    memset(after, 0, sizeof(after));
    digest_view(&digests, EPOCH, 0);
    return 0;
}

static void add(uint64_t first, uint64_t last)
{
    for (uint64_t step = first; step <= last; step++)
        assert_true(digest_add(&digests, step, 1000 + step));
}

static struct spotnik_digest_claim ours(void)
{
    struct spotnik_digest_claim claim[DIGEST_CHAINS];
    digest_claim(&digests, claim);
    return claim[0];
}

/* A neighbour claims what we have of `step`, or another result. */
static void claim(struct compared compared[], uint64_t step, bool same, bool tied)
{
    uint64_t value = digests.chain[0].value[step % DIGESTS_KEPT];
    struct spotnik_digest_claim said[DIGEST_CHAINS] = {
        { .epoch = EPOCH, .step = step, .value = same ? value : ~value, .tied = tied }
    };
    digest_hear(&digests, compared, said);
}

static struct digest_effects compare(void)
{
    struct compared *neighbour[] = { before, after };
    return digest_compare(&digests, neighbour, 2);
}

/* Claim: a result that is missing ends the chain, and the chain goes on with the next view. */
TEST_WITH(a_gap_ends_the_chain, open_view, NULL)
{
    add(1, 2);
    assert_false(digest_add(&digests, 4, 1));
    assert_false(digest_add(&digests, 5, 1));
    assert_int_equal(ours().step, 2);
    digest_view(&digests, EPOCH + 1, 5);
    assert_true(digest_add(&digests, 6, 1));
    assert_int_equal(ours().step, 6);
}

/* Claim: the same result told twice changes nothing. */
TEST_WITH(a_result_counts_once, open_view, NULL)
{
    add(1, 2);
    uint64_t value = ours().value;
    assert_false(digest_add(&digests, 2, 9));
    assert_int_equal(ours().value, value);
    add(3, 3);
}

/* Claim: a heartbeat that comes later than DIGESTS_KEPT steps is not compared, one that comes just
 * in time is. */
TEST_WITH(late_claims, open_view, NULL)
{
    add(1, DIGESTS_KEPT + 10);
    claim(before, 10, false, false);
    claim(after, 10, false, false);
    assert_false(compare().diverged);
    claim(before, 11, false, false);
    claim(after, 11, false, false);
    assert_true(compare().diverged);
}

/* Claim: a claim that is ahead of us counts when we get there. */
TEST_WITH(early_claims, open_view, NULL)
{
    add(1, 3);
    claim(before, 5, true, false);
    claim(after, 5, true, false);
    assert_int_equal(compare().compared_step, 0);
    add(4, 5);
    assert_true(compare().diverged); /* the value of step 5 was not known before */
    assert_int_equal(compare().step, 5);
}

/* Claim: a claim of an epoch that is none of ours is forgotten. */
TEST_WITH(claims_of_other_epochs, open_view, NULL)
{
    struct spotnik_digest_claim said[DIGEST_CHAINS] = { { .epoch = EPOCH + 1, .step = 2 } };
    add(1, 2);
    digest_hear(&digests, before, said);
    digest_hear(&digests, after, said);
    assert_false(compare().diverged);
    assert_int_equal(before[0].claim.step, 0);
}

/* Claim: a member that differs from one neighbour and agrees with the other says that it is tied,
 * and ends only if the one that differs says the same. The effects name that neighbour. */
TEST_WITH(a_tie, open_view, NULL)
{
    add(1, 6);
    claim(before, 4, true, false);
    claim(after, 2, true, false);
    assert_int_equal(compare().compared_step, 2);
    claim(before, 6, true, false);
    claim(after, 5, false, false);
    assert_false(compare().diverged);
    assert_true(ours().tied);
    claim(after, 6, false, true);
    struct digest_effects effects = compare();
    assert_true(effects.diverged);
    assert_int_equal(effects.neighbour, 1);
    assert_int_equal(effects.after_step, 2);
    assert_int_equal(effects.step, 5);
}

/* Claim: what is known of a neighbour goes with its chain into the next view. */
TEST_WITH(a_view_keeps_what_differed, open_view, NULL)
{
    add(1, 3);
    claim(before, 3, false, false);
    assert_false(compare().diverged);
    digest_view(&digests, EPOCH + 1, 3);
    digest_view_peer(before);
    digest_view_peer(after);
    assert_false(compare().diverged);
    struct spotnik_digest_claim said[DIGEST_CHAINS] = { { .epoch = EPOCH, .step = 2 } };
    digest_hear(&digests, after, said);
    struct digest_effects effects = compare();
    assert_true(effects.diverged);
    assert_int_equal(effects.neighbour, 0);
    assert_int_equal(effects.step, 3);
}
