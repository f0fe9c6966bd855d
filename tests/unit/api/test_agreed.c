/* SPDX-License-Identifier: Apache-2.0 */
/* Agreed numbers, in a job of one and among members that are threads of this process. Claims: every
 * member reads the same rows after every commit, its own among them; who has no share has no row; a
 * joiner that repeats steps reads what the others read; different decisions are seen by all; turned
 * on too late it is refused. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/step_stats.h"
#include "api/job.h"
#include "base/hash.h"
#include "place.h"
#include "tests.h"

enum { MEMBERS = 3, SLOTS = 4, STEPS = 1 << 22, LATE = 4, ODD = 6, END = 1000 };

struct meeting {
    struct place place;
    pthread_barrier_t begun;
};

struct member {
    struct meeting *meeting;
    pthread_t thread;
    uint32_t number;
    uint64_t *digest; /* of the rows, by step; 0: not seen */
    uint64_t last;    /* step */
    double noise;
    bool end;
    uint32_t before;
    float model;
    char failure[256];
};

static spotnik_job *join(struct member *member, uint32_t members_min)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    place_config(&member->meeting->place, &config);
    config.members_min = members_min;
    config.members_max = SLOTS;
    config.samples = 600;
    config.batch = 30;
    EXPECT(member, spotnik_join(&config, &job) == 0);
    EXPECT(member, job && spotnik_step_stats_on(job) == 0);
    EXPECT(member, job && spotnik_state_add(job, "model", &member->model, 1, SPOTNIK_F32) == 0);
    return member->failure[0] ? NULL : job;
}

static void look(struct member *member, spotnik_job *job, const spotnik_step *step)
{
    const struct spotnik_step_stats *agreed = spotnik_step_stats_get(job);
    uint64_t samples = 0;

    EXPECT(member, agreed->step == step->number && agreed->slots == SLOTS);
    for (uint32_t i = 0; i < agreed->slots; i++)
        samples += agreed->row[i].samples;
    EXPECT(member, samples == 30); /* of those who contributed: none was lost here */
    for (uint32_t i = step->shares; step->shares && i < agreed->slots; i++)
        EXPECT(member, agreed->row[i].compute_us == 0);
    if (step->shares && step->share < step->shares) {
        EXPECT(member, agreed->row[step->share].noise == member->noise);
        EXPECT(member, agreed->row[step->share].samples == step->sample_count);
        EXPECT(member, agreed->row[step->share].compute_us >= 1);
        EXPECT(member, agreed->row[step->share].before == member->before);
    }
    member->digest[step->number] =
        spotnik_hash_bytes(agreed->row, agreed->slots * sizeof *agreed->row) | 1;
    member->before = step->share < step->shares ? 1 + step->share : 0;
    member->last = step->number;
    EXPECT(member, spotnik_step_stats_differs(agreed) == (step->number == ODD));
    for (uint32_t i = 0; i < agreed->slots; i++)
        member->end |= agreed->row[i].noise >= END + 5;
}

/* In step ODD member 1 is of another opinion. The third says how many steps it has computed, and
 * all stop at the same one: a decision by agreed numbers. */
static void run(struct member *member, spotnik_job *job)
{
    spotnik_step step;
    uint32_t computed = 0, decision = 55;

    spotnik_step_stats_check_watch(job, &decision, sizeof decision);
    while (!member->failure[0] && !member->end) {
        EXPECT(member, spotnik_step_begin(job, &step) == 0 && step.number < STEPS);
        computed += step.shares > 0;
        member->noise = member->number == 2 ? END + computed : member->number + 0.5;
        spotnik_step_stats_noise_set(job, member->noise);
        decision = step.number == ODD && member->number == 1 ? 77 : 55;
        if (step.number % 3 == 0)
            EXPECT(member, spotnik_step_stats_start(job) == 0);
        int rc = spotnik_step_commit(job);
        EXPECT(member, rc == (step.number == ODD ? SPOTNIK_ERR_MISMATCH : 0));
        if (!member->failure[0])
            look(member, job, &step);
        if (step.number == LATE && member->number == 0)
            pthread_barrier_wait(&member->meeting->begun); /* the third may come */
    }
    spotnik_leave(job);
}

static void *early(void *context)
{
    struct member *member = context;
    spotnik_job *job = join(member, 2);

    if (job)
        run(member, job);
    return NULL;
}

static void *late(void *context)
{
    struct member *member = context;

    pthread_barrier_wait(&member->meeting->begun);
    spotnik_job *job = join(member, 2);

    if (job)
        run(member, job);
    return NULL;
}

static void meeting_open(struct meeting *meeting)
{
    place_open(&meeting->place);
    assert_int_equal(pthread_barrier_init(&meeting->begun, NULL, 2), 0);
}

static void meeting_close(struct meeting *meeting)
{
    pthread_barrier_destroy(&meeting->begun);
    place_close(&meeting->place);
}

TEST(same_everywhere)
{
    struct meeting meeting;
    struct member member[MEMBERS] = { { 0 } };

    meeting_open(&meeting);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member[i].meeting = &meeting;
        member[i].number = i;
        member[i].digest = calloc(STEPS, sizeof *member[i].digest);
        assert_non_null(member[i].digest);
        assert_int_equal(pthread_create(&member[i].thread, NULL, i < 2 ? early : late, &member[i]),
                         0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        pthread_join(member[i].thread, NULL);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_string_equal(member[i].failure, "");
    uint64_t last = member[0].last, by_third = 0;
    assert_int_equal(member[1].last, last);
    assert_int_equal(member[2].last, last);
    for (uint64_t step = 1; step <= last; step++) {
        assert_int_not_equal(member[0].digest[step], 0);
        assert_int_equal(member[0].digest[step], member[1].digest[step]);
        by_third += member[2].digest[step] != 0;
        if (member[2].digest[step])
            assert_int_equal(member[0].digest[step], member[2].digest[step]);
    }
    assert_true(last > ODD && by_third >= 5);
    for (uint32_t i = 0; i < MEMBERS; i++)
        free(member[i].digest);
    meeting_close(&meeting);
}

TEST(alone)
{
    spotnik_config config;
    spotnik_job *job;
    spotnik_step step;

    spotnik_config_init(&config);
    config.samples = 10;
    config.batch = 4;
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_null(spotnik_step_stats_get(job));
    assert_int_equal(spotnik_step_stats_on(job), 0);
    assert_int_equal(spotnik_step_stats_on(job), 0);
    assert_int_equal(spotnik_step_stats_get(job)->step, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        assert_int_equal(spotnik_step_begin(job, &step), 0);
        spotnik_step_stats_noise_set(job, 0.25 * (double)i);
        assert_int_equal(spotnik_step_commit(job), 0);
        assert_int_equal(spotnik_step_stats_get(job)->step, i);
        assert_int_equal(spotnik_step_stats_get(job)->row[0].samples, step.sample_count);
        assert_true(spotnik_step_stats_get(job)->row[0].noise == 0.25 * (double)i);
        assert_false(spotnik_step_stats_differs(spotnik_step_stats_get(job)));
        assert_int_equal(spotnik_step_stats_get(job)->row[1].compute_us, 0); /* nobody's */
    }
    spotnik_leave(job);
}

TEST(too_late)
{
    spotnik_config config;
    spotnik_job *job;
    spotnik_step step;

    spotnik_config_init(&config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_step_begin(job, &step), 0);
    assert_int_equal(spotnik_step_stats_on(job), SPOTNIK_ERR_STATE);
    spotnik_step_stats_noise_set(job, 1); /* nothing to set */
    assert_int_equal(spotnik_step_commit(job), 0);
    assert_null(spotnik_step_stats_get(job));
    spotnik_leave(job);
}
