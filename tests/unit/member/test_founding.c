/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: two foundings are of two jobs where both are known and neither goes back to the other; a
 * later generation of one root follows an earlier one. */
#include "member/founding.h"
#include "tests.h"

static const struct spotnik_founding first = { .id = 11, .root = 11, .generation = 1 },
                                     again = { .id = 12, .root = 11, .generation = 2 },
                                     other = { .id = 21, .root = 21, .generation = 2 },
                                     unknown = { .id = 0 };

TEST(two_jobs_have_two_roots)
{
    assert_true(spotnik_founding_differs(&first, &other));
    assert_true(spotnik_founding_is_foreign(&first, &other));
    assert_true(spotnik_founding_is_foreign(&other, &first));
    assert_false(spotnik_founding_differs(&first, &first));
    assert_false(spotnik_founding_is_foreign(&first, &first));
}

TEST(a_job_founded_again_is_no_other_job)
{
    assert_true(spotnik_founding_differs(&first, &again));
    assert_false(spotnik_founding_is_foreign(&first, &again));
    assert_true(spotnik_founding_follows(&again, &first));
    assert_false(spotnik_founding_follows(&first, &again));
    assert_false(spotnik_founding_follows(&other, &first));
}

TEST(one_that_is_not_known_differs_from_none)
{
    assert_false(spotnik_founding_differs(&first, &unknown));
    assert_false(spotnik_founding_is_foreign(&unknown, &first));
}
