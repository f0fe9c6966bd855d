/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the pause of a member that is excluded again and again doubles from 1 s to 32 s, and there
 * is none the first time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/job.h"
#include "base/time.h"

static void it_grows_and_ends(void **state)
{
    static const uint64_t expected_s[] = { 0, 1, 2, 4, 8, 16, 32, 32, 32 };

    (void)state;
    for (uint32_t i = 0; i < sizeof expected_s / sizeof expected_s[0]; i++)
        assert_int_equal(spotnik_rejoin_pause_ns(i), expected_s[i] * SPOTNIK_S);
    assert_int_equal(spotnik_rejoin_pause_ns(UINT32_MAX), 32 * SPOTNIK_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_grows_and_ends) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
