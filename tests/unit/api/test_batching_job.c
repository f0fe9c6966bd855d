/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic batching and gradient noise through the public calls: members that are threads of this
 * process, of which one takes ten times as long for a sample as the others (it sleeps: what is
 * measured is time, not work). Claims: shares follow the speeds; MEAN is the mean over the union of
 * all shares to rounding, whatever they are, before and after a member is lost and another comes;
 * on a quadratic whose gradient noise is known the noise scale comes out within a tenth; all
 * members say the same numbers. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/batching.h"
#include "base/prng.h"
#include "place.h"
#include "spotnik/spotnik.h"
#include "tests.h"

enum { MEMBERS = 4, SIZE = 4096, BATCH = 70, STEPS = 90, LOST_AT = 60 };

#define GRADIENT 0.05 /* of every coordinate; |G|^2 = SIZE * GRADIENT^2 */
#define SPREAD 0.4    /* of a sample's around it; tr(S) = SIZE * SPREAD^2 */
/* a loaded machine adds to each step, not to each sample: of longer steps that is less */
#define SAMPLE_NS 1000000

struct meeting {
    struct place place;
    pthread_barrier_t late;
};

struct member {
    struct meeting *meeting;
    pthread_t thread;
    uint32_t number, slowness;
    uint64_t share, drawn; /* in the last step with three members, and in all of them */
    spotnik_batch_info info;
    double model, sum[SIZE + 1], mean[SIZE];
    char failure[256];
};

static spotnik_job *join(struct member *member)
{
    spotnik_config config;
    spotnik_job *job = NULL;

    place_config(&member->meeting->place, &config);
    config.members_min = 3;
    config.members_max = 8;
    config.samples = 1000 * BATCH;
    config.batch = BATCH;
    config.steps_max = STEPS;
    config.batching = SPOTNIK_BATCHING_DYNAMIC;
    config.noise = 1;
    EXPECT(member, spotnik_join(&config, &job) == 0);
    EXPECT(member, job && spotnik_state_add(job, "model", &member->model, 1, SPOTNIK_F64) == 0);
    return member->failure[0] ? NULL : job;
}

/* Adds the gradient of one sample: the true one, and noise that is the sample's own. */
static void sample_add(double *sum, uint64_t index)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, index);
    for (int i = 0; i < SIZE; i++) {
        double x = (double)(spotnik_prng_next(&prng) >> 11) / 9007199254740992.0 - 0.5;
        sum[i] += GRADIENT + SPREAD * x * 3.4641016151377544; /* sqrt 12: a uniform of variance 1 */
    }
}

static void compute(struct member *member, const spotnik_step *step)
{
    struct timespec time = { .tv_nsec = (long)(step->sample_count * member->slowness * SAMPLE_NS) };

    memset(member->sum, 0, sizeof member->sum);
    for (uint32_t i = 0; i < step->range_count; i++)
        for (uint64_t k = step->samples[i].begin; k < step->samples[i].end; k++)
            sample_add(member->sum, k);
    member->sum[SIZE] = (double)step->sample_count;
    for (int i = 0; i < SIZE; i++)
        member->mean[i] = step->sample_count ? member->sum[i] / (double)step->sample_count : 0;
    nanosleep(&time, NULL);
}

static void compare(struct member *member)
{
    for (int i = 0; i < SIZE; i++)
        EXPECT(member, fabs(member->mean[i] - member->sum[i] / member->sum[SIZE]) < 1e-12);
}

/* False: no more. */
static bool one(struct member *member, spotnik_job *job)
{
    spotnik_step step;
    int rc = spotnik_step_begin(job, &step);

    EXPECT(member, rc == 0 || rc == SPOTNIK_ERR_DONE);
    if (rc)
        return false;
    compute(member, &step);
    EXPECT(member, spotnik_allreduce(job, 0, member->mean, SIZE, SPOTNIK_F64, SPOTNIK_MEAN) == 0);
    EXPECT(member, spotnik_allreduce(job, 1, member->sum, SIZE + 1, SPOTNIK_F64, SPOTNIK_SUM) == 0);
    if (step.number == LOST_AT && member->number == 1) {
        pthread_barrier_wait(&member->meeting->late); /* somebody else may come */
        return false;
    }
    EXPECT(member, spotnik_step_commit(job) == 0);
    compare(member);
    if (step.number < LOST_AT) {
        member->info.size = sizeof member->info;
        spotnik_batch_status(job, &member->info);
        member->share = step.sample_count;
        member->drawn += step.sample_count;
    }
    return !member->failure[0];
}

static void *live(void *context)
{
    struct member *member = context;
    bool lost = member->number == 1;

    if (member->number == 3)
        pthread_barrier_wait(&member->meeting->late);
    spotnik_job *job = join(member);

    while (job && one(member, job))
        continue;
    if (lost && member->failure[0])
        /* or the latecomer would wait for us, and all for it */
        pthread_barrier_wait(&member->meeting->late);
    if (lost)
        spotnik_abandon(job);
    else
        spotnik_leave(job);
    return NULL;
}

TEST(uneven_members)
{
    struct meeting meeting;
    static struct member member[MEMBERS];

    place_open(&meeting.place);
    assert_int_equal(pthread_barrier_init(&meeting.late, NULL, 2), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member[i].meeting = &meeting;
        member[i].number = i;
        member[i].slowness = i == 2 ? 10 : 1;
        assert_int_equal(pthread_create(&member[i].thread, NULL, live, &member[i]), 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        pthread_join(member[i].thread, NULL);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_string_equal(member[i].failure, "");
    /* 33:33:4, but in the first steps. A busy machine holds up one or the other, and the shares
     * follow that, too, for a few steps: of all samples it takes little away. */
    assert_int_equal(member[0].share + member[1].share + member[2].share, BATCH);
    print_message("samples drawn: %llu, %llu, and %llu by the slow one\n",
                  (unsigned long long)member[0].drawn, (unsigned long long)member[1].drawn,
                  (unsigned long long)member[2].drawn);
    assert_true(2 * member[2].drawn < member[0].drawn && 2 * member[2].drawn < member[1].drawn);
    assert_true(member[0].info.dynamic && member[0].info.adjustments >= 1);
    double expected = SPREAD * SPREAD / (GRADIENT * GRADIENT);
    assert_true(member[0].info.noise_steps > 20);
    assert_true(fabs(member[0].info.noise_scale / expected - 1) < 0.1);
    for (uint32_t i = 1; i < 3; i++)
        assert_true(member[i].info.share_least == member[0].info.share_least
                    && member[i].info.share_most == member[0].info.share_most);
    pthread_barrier_destroy(&meeting.late);
    place_close(&meeting.place);
}
