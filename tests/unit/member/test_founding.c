/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: two foundings are of two jobs where both are known and neither goes back to the other; a
 * later generation of one root follows an earlier one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "member/founding.h"

static const struct spotnik_founding first = { .id = 11, .root = 11, .generation = 1 },
                                     again = { .id = 12, .root = 11, .generation = 2 },
                                     other = { .id = 21, .root = 21, .generation = 2 },
                                     unknown = { .id = 0 };

static void two_jobs_have_two_roots(void **state)
{
    (void)state;
    assert_true(spotnik_founding_differs(&first, &other));
    assert_true(spotnik_founding_is_foreign(&first, &other));
    assert_true(spotnik_founding_is_foreign(&other, &first));
    assert_false(spotnik_founding_differs(&first, &first));
    assert_false(spotnik_founding_is_foreign(&first, &first));
}

static void a_job_founded_again_is_no_other_job(void **state)
{
    (void)state;
    assert_true(spotnik_founding_differs(&first, &again));
    assert_false(spotnik_founding_is_foreign(&first, &again));
    assert_true(spotnik_founding_follows(&again, &first));
    assert_false(spotnik_founding_follows(&first, &again));
    assert_false(spotnik_founding_follows(&other, &first));
}

static void one_that_is_not_known_differs_from_none(void **state)
{
    (void)state;
    assert_false(spotnik_founding_differs(&first, &unknown));
    assert_false(spotnik_founding_is_foreign(&unknown, &first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_jobs_have_two_roots),
        cmocka_unit_test(a_job_founded_again_is_no_other_job),
        cmocka_unit_test(one_that_is_not_known_differs_from_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
