/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a member that is cut off from its majority at a boundary, and is told to go, goes: every
 * call says that a notice came, so that its program ends as after any notice. Without a notice it
 * says that it went without agreement. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "place.h"

enum { OTHERS = 2 };

static int step_on(spotnik_job *job, spotnik_step *ret_step)
{
    float value = 1;
    int rc = spotnik_step_begin(job, ret_step);

    if (!rc)
        rc = spotnik_allreduce(job, 0, &value, 1, SPOTNIK_F32, SPOTNIK_SUM);
    return rc ? rc : spotnik_step_commit(job);
}

static pid_t other_start(const struct place *place)
{
    pid_t child = fork();
    spotnik_config config;
    spotnik_step step;
    spotnik_job *job;

    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    place_config(place, &config);
    if (spotnik_join(&config, &job))
        _exit(1);
    while (!step_on(job, &step))
        ;
    _exit(1);
}

static bool is_parked(spotnik_job *job)
{
    spotnik_job_status status;

    spotnik_status(job, &status);
    return status.parked;
}

/* One of three, whose others have stopped between two steps of ours. */
static spotnik_job *cut_off(const struct place *place, pid_t other[OTHERS])
{
    spotnik_config config;
    spotnik_step step = { .size = 0 };
    spotnik_job *job;

    for (int i = 0; i < OTHERS; i++)
        other[i] = other_start(place);
    place_config(place, &config);
    config.silence_floor_ns = 2000000000; /* they are to be missed */
    config.on_minority = SPOTNIK_MINORITY_STOP;
    config.minority_wait_ns = 300000000;
    assert_int_equal(spotnik_join(&config, &job), 0);
    while (step.size < 1 + OTHERS) {
        int rc = step_on(job, &step);
        assert_true(rc == 0 || rc == SPOTNIK_ERR_EXCLUDED);
    }
    for (int i = 0; i < OTHERS; i++)
        assert_int_equal(kill(other[i], SIGSTOP), 0);
    while (!is_parked(job))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return job;
}

static void others_end(pid_t other[OTHERS])
{
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(kill(other[i], SIGKILL), 0);
        assert_int_equal(waitpid(other[i], NULL, 0), other[i]);
    }
}

static void test_notice(void **state)
{
    struct place place;
    pid_t other[OTHERS];
    spotnik_step step;

    (void)state;
    place_open(&place);
    spotnik_job *job = cut_off(&place, other);
    spotnik_notice(job);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_LEAVING);
    assert_int_equal(spotnik_leave(job), SPOTNIK_ERR_LEAVING);
    assert_non_null(strstr(spotnik_last_error(), "cut off from the majority"));
    others_end(other);
    place_close(&place);
}

static void test_no_notice(void **state)
{
    struct place place;
    pid_t other[OTHERS];

    (void)state;
    place_open(&place);
    spotnik_job *job = cut_off(&place, other);
    assert_int_equal(spotnik_leave(job), SPOTNIK_ERR_PARKED);
    others_end(other);
    place_close(&place);
}

int main(void)
{
    static const char *const settings[] = { "SPOTNIK_PEERS", "SPOTNIK_KEY_FILE", "SPOTNIK_JOB",
                                            "SPOTNIK_MIN" };
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_notice),
                                        cmocka_unit_test(test_no_notice) };

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        unsetenv(settings[i]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
