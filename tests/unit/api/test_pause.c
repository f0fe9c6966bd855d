/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the pause of a member that is excluded again and again doubles from 1 s to 32 s, and there
 * is none the first time. That of a joiner that was not let in does not grow. */
#include <stdlib.h>

#include "api/job.h"
#include "base/clock.h"
#include "base/time.h"
#include "place.h"
#include "tests.h"

TEST(it_grows_and_ends)
{
    static const uint64_t expected_s[] = { 0, 1, 2, 4, 8, 16, 32, 32, 32 };

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

TEST(it_grows_by_views)
{
    static const struct spotnik_id joiner = { 4, 2 };
    struct place place;
    spotnik_config config;
    spotnik_job *job;

    place_open(&place);
    place_config(&place, &config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(strikes_after(job, 2), 3); /* from the view that it founded */
    assert_int_equal(spotnik_runtime_join(job->runtime, joiner, 0), 0);
    assert_int_equal(strikes_after(job, 2), 2);
    spotnik_leave(job);
    place_close(&place);
}

int main(void)
{
    static const char *const settings[] = { "SPOTNIK_PEERS", "SPOTNIK_KEY_FILE", "SPOTNIK_JOB",
                                            "SPOTNIK_MIN" };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    return tests_run(NULL, NULL);
}
