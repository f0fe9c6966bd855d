/* SPDX-License-Identifier: Apache-2.0 */
/* The founder dies after others have found it, and before it has given them anything: one of them
 * begins the job anew, in the same call, and none of them waits for a job that is gone. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"
#include "tests.h"

static void founder(const struct place *place, int tell)
{
    spotnik_config config;
    spotnik_job *job;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    place_config(place, &config);
    if (spotnik_join(&config, &job) || write(tell, "f", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static pid_t founder_start(const struct place *place)
{
    int told[2];
    char word;

    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0)
        founder(place, told[1]);
    assert_int_equal(read(told[0], &word, 1), 1);
    close(told[0]);
    close(told[1]);
    return child;
}

TEST(begins_anew)
{
    struct place place;
    spotnik_config config;
    spotnik_job *job;
    spotnik_step step;
    float value = 3;

    place_open(&place);
    pid_t child = founder_start(&place);
    place_config(&place, &config);
    assert_int_equal(spotnik_join(&config, &job), 0); /* finds it, and copies nothing yet */
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(step.number, 1);
    assert_int_equal(step.size, 1);
    assert_int_equal(spotnik_allreduce(job, 0, &value, 1, SPOTNIK_F32, SPOTNIK_SUM), 0);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_true(value == 3.0f);
    assert_int_equal(spotnik_leave(job), 0);
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
