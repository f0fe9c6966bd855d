/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the pause of a member that is excluded again and again doubles from 1 s to 32 s, and there
 * is none the first time. That of a joiner that was not let in does not grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "api/job.h"
#include "base/clock.h"
#include "base/time.h"
#include "place.h"

static void it_grows_and_ends(void **state)
{
    static const uint64_t expected_s[] = { 0, 1, 2, 4, 8, 16, 32, 32, 32 };

    (void)state;
    for (uint32_t i = 0; i < sizeof expected_s / sizeof expected_s[0]; i++)
        assert_int_equal(spotnik_rejoin_pause_ns(i), expected_s[i] * SPOTNIK_S);
    assert_int_equal(spotnik_rejoin_pause_ns(UINT32_MAX), 32 * SPOTNIK_S);
}

/* Excluded now, having come back a moment ago. */
static uint32_t strikes_after(spotnik_job *job, uint32_t strikes)
{
    job->strikes = strikes;
    job->returned_ns = spotnik_clock_ns();
    spotnik_job_exclude(job);
    assert_true(job->outside);
    return job->strikes;
}

static void it_grows_by_views(void **state)
{
    static const struct spotnik_id joiner = { 4, 2 };
    struct place place;
    spotnik_config config;
    spotnik_job *job;

    (void)state;
    place_open(&place);
    place_config(&place, &config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(strikes_after(job, 2), 3); /* from the view that it founded */
    assert_int_equal(spotnik_engine_join(job->engine, joiner, 0), 0);
    assert_int_equal(strikes_after(job, 2), 2);
    spotnik_leave(job);
    place_close(&place);
}

int main(void)
{
    static const char *const settings[] = { "SPOTNIK_PEERS", "SPOTNIK_KEY_FILE", "SPOTNIK_JOB",
                                            "SPOTNIK_MIN" };
    const struct CMUnitTest tests[] = { cmocka_unit_test(it_grows_and_ends),
                                        cmocka_unit_test(it_grows_by_views) };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
