/* SPDX-License-Identifier: Apache-2.0 */
/* Data that each process has for itself, in groups of three in a job of one. Claims: a bucket holds
 * the reduction over all processes, weighed as they say; buckets
 * may change their sizes from step to step, and mix with those of shared data; a process of weight
 * 0 contributes nothing to MEAN, and all to the rest; the first step makes all copies of the state
 * the leader's; a checkpoint comes into all copies. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "processes.h"
#include "reduce/reduce.h"
#include "spotnik/group.h"
#include "tests.h"

enum { SIZE = 3, COUNT = 1000, STEPS = 4 };

static void together(int (*run)(void *context, uint32_t rank), const char *folder)
{
    char name[64];
    const char *names[] = { name, folder };
    pid_t pid[SIZE];

    group_name(name);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        pid[rank] = process_start(run, names, rank);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(process_end(pid[rank]), 0);
}

static int begin_alone(void *context, uint32_t rank, spotnik_group **ret_group)
{
    const char *const *names = context;
    spotnik_config config;

    spotnik_config_init(&config);
    config.peers = NULL;
    config.checkpoint_dir = names[1];
    config.checkpoint_steps = 1;
    int rc = spotnik_group_open(names[0], rank, SIZE, ret_group);
    return rc ? rc : spotnik_group_join(*ret_group, &config);
}

static float value(uint64_t step, uint32_t rank, size_t i)
{
    return (float)((step * 7919 + rank * 131 + i * 17) % 1009) / 7;
}

static int average(void *context, uint32_t rank)
{
    static const uint64_t weights[SIZE] = { 5, 0, 2 };
    static float all[SIZE][COUNT], own[COUNT], expected[COUNT];
    spotnik_group *group;
    spotnik_step step;

    CHECK(begin_alone(context, rank, &group) == 0);
    int64_t *shared = spotnik_group_memory(group, SIZE * sizeof *shared);
    for (uint64_t number = 1; number <= STEPS; number++) {
        size_t count = COUNT * number / STEPS; /* grows */
        int64_t one = 1;

        CHECK(spotnik_group_step_begin(group, &step) == 0 && step.number == number);
        CHECK(spotnik_group_weight_set(group, weights[rank]) == 0);
        for (uint32_t r = 0; r < SIZE; r++)
            for (size_t i = 0; i < count; i++)
                all[r][i] = value(number, r, i);
        memcpy(own, all[rank], sizeof own);
        shared[rank] = rank + 10;
        CHECK(spotnik_group_combine(group, 3, own, count, SPOTNIK_F32, SPOTNIK_MEAN) == 0);
        CHECK(spotnik_group_weight_set(group, 1) == SPOTNIK_ERR_STATE);
        CHECK(spotnik_group_allreduce(group, 4, shared, SIZE, SPOTNIK_I64, SPOTNIK_MAX) == 0);
        CHECK(spotnik_group_combine(group, 5, &one, 1, SPOTNIK_I64, SPOTNIK_SUM) == 0);
        CHECK(memcmp(own, all[rank], count * sizeof *own) == 0); /* until the commit */
        CHECK(spotnik_group_step_commit(group) == 0);
        struct spotnik_reduce_source source[SIZE];
        for (uint32_t r = 0; r < SIZE; r++)
            source[r] = (struct spotnik_reduce_source){ all[r], weights[r] };
        spotnik_reduce_flat(expected, source, SIZE, count, SPOTNIK_F32, SPOTNIK_MEAN, 0);
        for (size_t i = 0; i < count; i++)
            CHECK(own[i] - expected[i] < 1e-4f && expected[i] - own[i] < 1e-4f);
        CHECK(one == SIZE); /* weights are those of MEAN */
        for (uint32_t r = 0; r < SIZE; r++)
            CHECK(shared[r] == r + 10);
    }
    return spotnik_group_leave(group);
}

TEST(reduced_over_processes)
{
    together(average, NULL);
}

static int decline(void *context, uint32_t rank)
{
    spotnik_group *group;
    spotnik_step step;
    double one = rank;

    CHECK(begin_alone(context, rank, &group) == 0);
    CHECK(spotnik_group_samples_decline(group) == SPOTNIK_ERR_STATE);
    CHECK(spotnik_group_step_begin(group, &step) == 0);
    CHECK(spotnik_group_samples_decline(group) == 0);
    CHECK(spotnik_group_combine(group, 0, &one, 1, SPOTNIK_F64, SPOTNIK_MEAN) == 0);
    CHECK(spotnik_group_step_commit(group) == 0);
    CHECK(one == 1); /* of 0, 1, 2 */
    return spotnik_group_leave(group);
}

TEST(declined)
{
    together(decline, NULL);
}

/* Trains two steps, ends; then goes on from the checkpoint. Processes begin with unlike copies. */
static int go_on(void *context, uint32_t rank)
{
    spotnik_group *group;
    spotnik_step step;
    float weights[4] = { (float)rank, 1, 2, 3 };
    uint64_t digest = 0;

    CHECK(begin_alone(context, rank, &group) == 0);
    CHECK(spotnik_group_state_copy_add(group, "w", weights, 4, SPOTNIK_F32) == 0);
    CHECK(spotnik_group_step_begin(group, &step) == 0);
    CHECK(step.number == 1 ? weights[0] == 0 && spotnik_group_loads(group) == 0
                           : weights[0] == 7 && spotnik_group_loads(group) == 1);
    CHECK(spotnik_group_step_commit(group) == 0);
    weights[0] = 7; /* as all do */
    CHECK(spotnik_group_digest(group, &digest) == 0 && digest != 0);
    spotnik_job_status status;
    spotnik_group_status(group, &status);
    CHECK(status.step_committed == step.number && status.size == 1);
    CHECK(spotnik_group_observe(group, "loss", 1) == 0);
    CHECK(spotnik_group_observe(group, "no name", 1) == (rank == 0 ? SPOTNIK_ERR_ARGUMENT : 0));
    CHECK(spotnik_group_step_begin(group, &step) == 0);
    CHECK(spotnik_group_step_commit(group) == 0);
    return spotnik_group_leave(group);
}

TEST(copies_of_the_state)
{
    struct place place;

    place_open(&place);
    together(go_on, place.folder);
    together(go_on, place.folder);
    place_close(&place);
}
