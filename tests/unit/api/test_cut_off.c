/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a member that is cut off from its majority at a boundary, and is told to go, goes: every
 * call says that a notice came, so that its program ends as after any notice. Without a notice it
 * says that it went without agreement. One that stops when it has waited for long enough writes
 * its state beside the checkpoints, where no job takes it by itself; leaves at once; and a job that
 * begins from it goes on with its next step. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"
#include "place.h"
#include "tests.h"

enum { OTHERS = 2, WAIT_S = 2 };

static float sum; /* of all values of all members, as the state that is registered */

static int join(const spotnik_config *config, spotnik_job **ret_job)
{
    int rc = spotnik_join(config, ret_job);

    return rc ? rc : spotnik_state_add(*ret_job, "sum", &sum, 1, SPOTNIK_F32);
}

static int step_on(spotnik_job *job, spotnik_step *ret_step)
{
    float value = 1;
    int rc = spotnik_step_begin(job, ret_step);

    if (!rc)
        rc = spotnik_allreduce(job, 0, &value, 1, SPOTNIK_F32, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_step_commit(job);
    sum += rc ? 0 : value;
    return rc;
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
    if (join(&config, &job))
        _exit(1);
    /* on a busy host it may be excluded; the others wait for its return */
    int rc;
    do {
        rc = step_on(job, &step);
    } while (rc == 0 || rc == SPOTNIK_ERR_EXCLUDED);
    _exit(1);
}

static bool is_parked(spotnik_job *job)
{
    spotnik_job_status status;

    spotnik_status(job, &status);
    return status.parked;
}

/* One of three, whose others have stopped between two steps of ours. */
static spotnik_job *cut_off(const struct place *place, pid_t other[OTHERS], const char *saved)
{
    spotnik_config config;
    spotnik_step step = { .size = 0 };
    spotnik_job *job;

    for (int i = 0; i < OTHERS; i++)
        other[i] = other_start(place);
    place_config(place, &config);
    config.silence_floor_ns = 2000000000; /* they are to be missed */
    config.on_minority = SPOTNIK_MINORITY_STOP;
    config.minority_wait_ns = saved ? WAIT_S * UINT64_C(1000000000) : 300000000;
    config.checkpoint_dir = saved;
    config.checkpoint_steps = 10;
    assert_int_equal(join(&config, &job), 0);
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

TEST(notice)
{
    struct place place;
    pid_t other[OTHERS];
    spotnik_step step;

    place_open(&place);
    spotnik_job *job = cut_off(&place, other, NULL);
    spotnik_notice(job);
    assert_int_equal(spotnik_step_begin(job, &step), SPOTNIK_ERR_LEAVING);
    assert_int_equal(spotnik_leave(job), SPOTNIK_ERR_LEAVING);
    assert_non_null(strstr(spotnik_last_error(), "cut off from the majority"));
    others_end(other);
    place_close(&place);
}

TEST(no_notice)
{
    struct place place;
    pid_t other[OTHERS];

    place_open(&place);
    spotnik_job *job = cut_off(&place, other, NULL);
    assert_int_equal(spotnik_leave(job), SPOTNIK_ERR_PARKED);
    assert_non_null(strstr(spotnik_last_error(), "SPOTNIK_CHECKPOINT"));
    others_end(other);
    place_close(&place);
}

/* The one checkpoint of a minority; *ret_step: after which step. */
static void minority_find(const struct place *place, const char *saved, char path[256],
                          uint64_t *ret_step)
{
    struct spotnik_signer signer[2];
    struct spotnik_manifest manifest = { .part_count = 0 };
    struct spotnik_checkpoint_store_list list;

    assert_int_equal(spotnik_checkpoint_store_list_minority(saved, &list), 0);
    assert_int_equal(list.count, 1);
    *ret_step = list.entry[0].step;
    snprintf(path, 256, "%s/%s", saved, list.entry[0].name);
    assert_int_equal(spotnik_key_signer(place->key, signer), 0);
    assert_int_equal(spotnik_checkpoint_verify(saved, list.entry[0].name, signer, &manifest), 0);
    assert_true(manifest.minority && manifest.state == SPOTNIK_MANIFEST_SIGNED);
    spotnik_manifest_done(&manifest);
    spotnik_checkpoint_store_list_done(&list);
}

/* In a job of its own, which has to have the key that signed it. */
static void from_expect(const char *path, const char *key, uint64_t step, float expected)
{
    spotnik_config config;
    spotnik_step begun;
    spotnik_job *job;

    sum = 0;
    assert_int_equal(setenv("SPOTNIK_FROM", path, 1), 0);
    spotnik_config_init(&config);
    assert_int_equal(join(&config, &job), SPOTNIK_ERR_CHECKPOINT);
    assert_non_null(strstr(spotnik_last_error(), "SPOTNIK_KEY_FILE"));
    config.key_file = key;
    assert_int_equal(join(&config, &job), 0);
    assert_int_equal(spotnik_step_begin(job, &begun), 0);
    assert_int_equal(begun.number, step + 1);
    assert_float_equal(sum, expected, 0);
    spotnik_abandon(job);
    unsetenv("SPOTNIK_FROM");
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

TEST(stop)
{
    char saved[128], path[256];
    struct place place;
    pid_t other[OTHERS];
    spotnik_step step;
    uint64_t after;

    place_open(&place);
    snprintf(saved, sizeof saved, "%s/saved", place.folder);
    spotnik_job *job = cut_off(&place, other, saved);
    assert_int_equal(step_on(job, &step), SPOTNIK_ERR_PARKED);
    float held = sum;
    minority_find(&place, saved, path, &after);
    assert_non_null(strstr(spotnik_last_error(), path));
    assert_int_equal(step_on(job, &step), SPOTNIK_ERR_PARKED);
    uint64_t begun_ns = now_ns();
    assert_int_equal(spotnik_leave(job), SPOTNIK_ERR_PARKED);
    assert_true(now_ns() - begun_ns < WAIT_S * UINT64_C(1000000000) / 2); /* else it waits again */
    minority_find(&place, saved, path, &after);
    others_end(other);
    from_expect(path, place.key, after, held);
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
