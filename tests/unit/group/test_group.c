/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of three processes in a job of one. Claims: all get the same step; a bucket starts when
 * the last part lies there, and all read its result; every error is the same in all, with its
 * detail; processes that make different calls, or hand over different data, are told so; a notice
 * to any of them reaches all; patience ends a wait, and the same call goes on with it; state is
 * brought up to date by all before it is copied. */
#include "spotnik/group.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "group/futex_word.h"
#include "place.h"
#include "processes.h"
#include "tests.h"

enum { SIZE = 3, COUNT = 1000 };

static void together(int (*run)(void *context, uint32_t rank))
{
    char name[64];
    pid_t pid[SIZE];

    group_name(name);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        pid[rank] = process_start(run, name, rank);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(process_end(pid[rank]), 0);
}

static void config_alone(spotnik_config *config)
{
    spotnik_config_init(config);
    config->peers = NULL;
    config->samples = 90;
    config->batch = 9;
    config->steps_max = 3;
}

static bool is_said(const char *words)
{
    return strstr(spotnik_last_error(), words) != NULL;
}

/* Each holds a third of the numbers. */
static int train(void *name, uint32_t rank)
{
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;
    uint64_t steps = 0;

    config_alone(&config);
    CHECK(spotnik_group_open(name, rank, SIZE, &group) == 0);
    CHECK(spotnik_group_rank(group) == rank && spotnik_group_size(group) == SIZE);
    int64_t *data = spotnik_group_memory(group, COUNT * SIZE * sizeof *data);
    CHECK(data != NULL);
    CHECK(spotnik_group_job(group) == NULL);
    CHECK(spotnik_group_join(group, rank == 0 ? &config : NULL) == 0);
    CHECK((spotnik_group_job(group) != NULL) == (rank == 0));
    while (spotnik_group_step_begin(group, &step) == 0) {
        CHECK(step.number == ++steps && step.sample_count == 9 && step.size == 1);
        for (uint32_t i = 0; i < COUNT; i++)
            data[rank * COUNT + i] = (int64_t)(step.number * 1000 + rank);
        CHECK(spotnik_group_allreduce(group, 5, data, COUNT * SIZE, SPOTNIK_I64, SPOTNIK_SUM) == 0);
        CHECK(spotnik_group_step_commit(group) == 0);
        for (uint32_t i = 0; i < COUNT * SIZE; i++)
            CHECK(data[i] == (int64_t)(step.number * 1000 + i / COUNT));
    }
    CHECK(steps == 3 && spotnik_group_step_begin(group, &step) == SPOTNIK_ERR_DONE);
    CHECK(is_said("3 steps are committed"));
    return spotnik_group_leave(group);
}

TEST(one_replica)
{
    together(train);
}

static int err(void *name, uint32_t rank)
{
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;

    config_alone(&config);
    config.batch = 0; /* with samples: refused */
    CHECK(spotnik_group_open(name, rank, SIZE, &group) == 0);
    float *data = spotnik_group_memory(group, 4096), other[4];
    CHECK(spotnik_group_step_begin(group, &step) == SPOTNIK_ERR_ARGUMENT);
    CHECK(is_said("no job"));
    CHECK(spotnik_group_join(group, &config) == SPOTNIK_ERR_ARGUMENT);
    CHECK(is_said("batch"));
    config.batch = 9;
    CHECK(spotnik_group_join(group, &config) == 0);
    CHECK(spotnik_group_join(group, &config) == SPOTNIK_ERR_STATE);
    CHECK(spotnik_group_state_add(group, "w", data, 8, SPOTNIK_F32) == 0);
    CHECK(spotnik_group_state_add(group, "w", data, 8, SPOTNIK_F32) == SPOTNIK_ERR_ARGUMENT);
    CHECK(spotnik_group_state_add(group, "v", other, 4, SPOTNIK_F32) == SPOTNIK_ERR_ARGUMENT);
    CHECK(spotnik_group_allreduce(group, 0, data, 8, SPOTNIK_F32, SPOTNIK_SUM)
          == SPOTNIK_ERR_STATE);
    CHECK(spotnik_group_step_begin(group, &step) == 0);
    CHECK(spotnik_group_allreduce(group, 256, data, 8, SPOTNIK_F32, SPOTNIK_SUM)
          == SPOTNIK_ERR_ARGUMENT);
    CHECK(spotnik_group_allreduce(group, 0, other, 4, SPOTNIK_F32, SPOTNIK_SUM)
          == SPOTNIK_ERR_ARGUMENT);
    CHECK(spotnik_group_allreduce(group, 0, data, 8, SPOTNIK_F32, SPOTNIK_SUM) == 0);
    CHECK(spotnik_group_allreduce(group, 0, data, 8, SPOTNIK_F32, SPOTNIK_SUM)
          == SPOTNIK_ERR_STATE);
    return spotnik_group_abandon(group);
}

TEST(errors_are_the_same_in_all)
{
    together(err);
}

static int differ(void *name, uint32_t rank)
{
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;

    config_alone(&config);
    CHECK(spotnik_group_open(name, rank, SIZE, &group) == 0);
    float *data = spotnik_group_memory(group, 4096);
    CHECK(spotnik_group_join(group, &config) == 0);
    int rc = rank == 1 ? spotnik_group_step_begin(group, &step)
                       : spotnik_group_state_add(group, "w", data, 8, SPOTNIK_F32);
    CHECK(rc == SPOTNIK_ERR_MISMATCH && is_said("process 1"));
    CHECK(spotnik_group_step_begin(group, &step) == 0);
    CHECK(spotnik_group_allreduce(group, 0, data, rank == 2 ? 7 : 8, SPOTNIK_F32, SPOTNIK_SUM)
          == 0);
    CHECK(spotnik_group_step_commit(group) == SPOTNIK_ERR_MISMATCH && is_said("bucket 0"));
    return spotnik_group_abandon(group);
}

TEST(different_programs)
{
    together(differ);
}

static int leave_a_bucket_out(void *name, uint32_t rank)
{
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;

    config_alone(&config);
    CHECK(spotnik_group_open(name, rank, SIZE, &group) == 0);
    float *data = spotnik_group_memory(group, 4096);
    CHECK(spotnik_group_join(group, &config) == 0);
    CHECK(spotnik_group_step_begin(group, &step) == 0);
    if (rank != 1)
        CHECK(spotnik_group_allreduce(group, 9, data, 8, SPOTNIK_F32, SPOTNIK_SUM) == 0);
    CHECK(spotnik_group_step_commit(group) == SPOTNIK_ERR_MISMATCH && is_said("bucket 9"));
    return spotnik_group_abandon(group);
}

TEST(a_part_is_missing)
{
    together(leave_a_bucket_out);
}

static bool by_signal; /* as under `spotnik run` */

/* The notice comes from one that holds no member. */
static int heed(void *name, uint32_t rank)
{
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;

    config_alone(&config);
    config.steps_max = 0;
    if (by_signal)
        setenv("SPOTNIK_SLOT", "0", 1);
    CHECK(spotnik_group_open(name, rank, SIZE, &group) == 0);
    CHECK(spotnik_group_join(group, &config) == 0);
    int rc = spotnik_group_step_begin(group, &step);
    CHECK(rc == 0);
    if (rank == 2 && by_signal)
        raise(SIGTERM);
    else if (rank == 2)
        spotnik_group_notice(group);
    while (rc == 0) { /* the notice travels while steps are taken */
        CHECK(spotnik_group_step_commit(group) == 0);
        rc = spotnik_group_step_begin(group, &step);
    }
    CHECK(rc == SPOTNIK_ERR_LEAVING);
    return spotnik_group_leave(group);
}

TEST(notice_to_one_is_the_groups)
{
    together(heed);
}

TEST(sigterm_to_one_is_a_notice)
{
    by_signal = true;
    together(heed);
}

static int wait_in_vain(void *name, uint32_t rank)
{
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;
    uint32_t waits = 0;
    int rc;

    config_alone(&config);
    CHECK(spotnik_group_open(name, rank, SIZE, &group) == 0);
    uint32_t *waited = spotnik_group_memory(group, sizeof *waited);
    CHECK(spotnik_group_join(group, &config) == 0);
    for (uint32_t seen; rank == 0 && (seen = __atomic_load_n(waited, __ATOMIC_SEQ_CST)) < SIZE - 1;)
        spotnik_futex_word_wait(waited, seen, SPOTNIK_NEVER); /* the others wait in vain */
    CHECK(spotnik_group_patience_set(group, 1000000) == 0);
    while ((rc = spotnik_group_step_begin(group, &step)) == SPOTNIK_ERR_AGAIN) {
        if (waits++ == 0 && rank != 0) {
            CHECK(spotnik_group_step_commit(group) == SPOTNIK_ERR_STATE);
            spotnik_futex_word_ring(waited);
        }
    }
    CHECK(rc == 0 && (rank == 0 || waits > 0));
    CHECK(spotnik_group_patience_set(group, 0) == 0);
    CHECK(spotnik_group_step_commit(group) == 0);
    return spotnik_group_leave(group);
}

TEST(patience)
{
    together(wait_in_vain);
}

static void count_up(void *count)
{
    ++*(uint32_t *)count;
}

static int keep(void *context, uint32_t rank)
{
    const char *const *names = context; /* of the group, of a folder for checkpoints */
    spotnik_config config;
    spotnik_group *group;
    spotnik_step step;
    uint32_t refreshed = 0;

    config_alone(&config);
    config.checkpoint_dir = names[1];
    config.checkpoint_steps = 1;
    CHECK(spotnik_group_open(names[0], rank, SIZE, &group) == 0);
    float *data = spotnik_group_memory(group, 4096);
    CHECK(spotnik_group_join(group, &config) == 0);
    CHECK(spotnik_group_state_add(group, "w", data, 8, SPOTNIK_F32) == 0);
    CHECK(spotnik_group_refresh_set(group, count_up, &refreshed) == 0);
    while (spotnik_group_step_begin(group, &step) == 0)
        CHECK(spotnik_group_step_commit(group) == 0);
    CHECK(refreshed > 0);
    return spotnik_group_leave(group);
}

TEST(refreshed_by_all)
{
    struct place place;
    char name[64];
    pid_t pid[SIZE];
    const char *names[] = { name, place.folder };

    place_open(&place);
    group_name(name);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        pid[rank] = process_start(keep, names, rank);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(process_end(pid[rank]), 0);
    place_close(&place);
}

TEST(the_variable)
{
    spotnik_group *group;

    setenv("SPOTNIK_GROUP", "a:name:0:1", 1);
    assert_int_equal(spotnik_group_open(NULL, 7, 7, &group), 0);
    assert_int_equal(spotnik_group_size(group), 1);
    assert_int_equal(spotnik_group_leave(group), 0);
    const char *const wrong[] = { "", "0:1", ":0:1", "a:1", "a:0:1x", "a:x:1" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("SPOTNIK_GROUP", wrong[i], 1);
        assert_int_equal(spotnik_group_open(NULL, 0, 1, &group), SPOTNIK_ERR_ARGUMENT);
        assert_non_null(strstr(spotnik_last_error(), "NAME:RANK:SIZE"));
    }
    setenv("SPOTNIK_GROUP", "a:1:1", 1);
    assert_int_equal(spotnik_group_open(NULL, 0, 1, &group), SPOTNIK_ERR_ARGUMENT);
    unsetenv("SPOTNIK_GROUP");
    assert_int_equal(spotnik_group_open(NULL, 7, 7, &group), 0);
    assert_int_equal(spotnik_group_size(group), 1);
    assert_int_equal(spotnik_group_leave(group), 0);
}

static int child_calls(void *group, uint32_t rank)
{
    (void)rank;
    return spotnik_group_memory(group, 1) == NULL && spotnik_group_leave(group) == SPOTNIK_ERR_STATE
               ? 0
               : 1;
}

TEST(a_child_has_no_part_in_it)
{
    spotnik_group *group;

    assert_int_equal(spotnik_group_open("test", 0, 1, &group), 0);
    assert_int_equal(process_end(process_start(child_calls, group, 0)), 0);
    assert_non_null(spotnik_group_memory(group, 1));
    assert_int_equal(spotnik_group_leave(group), 0);
}
