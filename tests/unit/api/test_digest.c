/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: the digest is of what the program has now, also where what is registered is a copy that
 * somebody has to bring up to date. No copy of the state goes on when a commit has returned. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/time.h"
#include "checkpoint/checkpoint_inside.h"
#include "place.h"
#include "spotnik/spotnik.h"
#include "spotnik/state.h"
#include "tests.h"

static float present, copy;

static void present_copy(void *context)
{
    ++*(int *)context;
    copy = present;
}

TEST(a_digest_is_of_what_the_program_has_now)
{
    spotnik_job *job = NULL;
    spotnik_config config;
    spotnik_step step;
    int calls = 0;

    unsetenv("SPOTNIK_PEERS");
    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_state_add(job, "copy", &copy, 1, SPOTNIK_F32), 0);
    assert_int_equal(spotnik_state_refresh_set(job, present_copy, &calls), 0);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    present = 7; /* as an update that is under way: no part of any step yet */
    calls = 0;
    spotnik_state_digest(job);
    assert_int_equal(calls, 0);
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_int_equal(spotnik_state_digest(job), spotnik_hash_bytes(&present, sizeof present));
    assert_int_equal(calls, 1);
    assert_int_equal(spotnik_leave(job), 0);
}

/* ---- copies beside the step ---- */

#define HOLD_NS (500 * SPOTNIK_MS)

static uint32_t returned, torn; /* atomic */

/* With a context a copy takes its time, and looks whether the commit returns before it. */
static int slow_read(void *context, uint64_t offset, void *out, size_t size)
{
    uint64_t until_ns = spotnik_clock_ns() + HOLD_NS;
    (void)offset;
    memset(out, 0, size);
    if (context == NULL)
        return 0;
    while (!__atomic_load_n(&returned, __ATOMIC_SEQ_CST) && spotnik_clock_ns() < until_ns)
        sched_yield();
    __atomic_store_n(&torn, __atomic_load_n(&returned, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
    return 0;
}

static int no_write(void *context, uint64_t offset, const void *bytes, size_t size)
{
    (void)context, (void)offset, (void)bytes, (void)size;
    return 0;
}

static spotnik_job *join(const struct place *place, void *context)
{
    spotnik_config config;
    spotnik_job *job = NULL;
    char folder[96];
    place_config(place, &config);
    snprintf(folder, sizeof folder, "%s/checkpoints", place->folder);
    config.members_min = 2;
    config.checkpoint_dir = folder;
    config.checkpoint_steps = 1;
    if (spotnik_join(&config, &job) != 0
        || spotnik_state_reach_set(job, slow_read, no_write, context) != 0
        || spotnik_state_add_remote(job, "remote", 1, SPOTNIK_F32) != 0)
        abort();
    return job;
}

/* Is the state being copied for a checkpoint? */
static bool is_copied(spotnik_job *job)
{
    enum spotnik_checkpoint_phase phase;
    do {
        pthread_mutex_lock(&job->checkpoint->lock);
        phase = job->checkpoint->slot.phase;
        pthread_mutex_unlock(&job->checkpoint->lock);
    } while (phase == SPOTNIK_CHECKPOINT_DUE);
    return phase == SPOTNIK_CHECKPOINT_COPYING;
}

/* A step whose bucket has `count` elements, or fewer where nothing is copied beside it. */
static int step_take(spotnik_job *job, size_t count)
{
    spotnik_step step;
    float values[2] = { 0 };
    int rc = spotnik_step_begin(job, &step);
    bool copies = is_copied(job);
    if (rc == 0)
        rc = spotnik_allreduce(job, 0, values, copies ? count : 1, SPOTNIK_F32, SPOTNIK_SUM);
    return rc == 0 ? spotnik_step_commit(job) : rc;
}

static void *other_main(void *place)
{
    spotnik_job *job = join(place, NULL);
    while (step_take(job, 1) == 0)
        continue;
    spotnik_abandon(job);
    return NULL;
}

/* The program may do as it likes with its state then. */
TEST(no_copy_outlasts_a_commit_that_fails)
{
    struct place place;
    pthread_t other;
    int rc;
    place_open(&place);
    spotnik_job *job = join(&place, &place); /* the founder has rank 0, and the one part */
    assert_int_equal(pthread_create(&other, NULL, other_main, &place), 0);
    while ((rc = step_take(job, 2)) == 0)
        continue;
    __atomic_store_n(&returned, 1, __ATOMIC_SEQ_CST);
    assert_int_equal(rc, SPOTNIK_ERR_MISMATCH);
    spotnik_abandon(job);
    assert_int_equal(torn, 0);
    pthread_join(other, NULL);
    place_close(&place);
}
