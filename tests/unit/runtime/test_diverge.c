/* SPDX-License-Identifier: Apache-2.0 */
/* A member whose caller gets one wrong byte in every step ends with an error that says so; the
 * others go on with right results. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cluster.h"
#include "tests.h"

#define MEMBERS 4
#define ODD 2u
#define COUNT 20000
#define WRONG_STEP 30
#define PATIENCE_NS UINT64_C(60000000000) /* ends a test that hangs, and promises nothing */

struct worker {
    struct spotnik_runtime *runtime;
    unsigned index;
    int rc;
    char text[512]; /* of the error */
    uint64_t committed;
    unsigned right; /* steps without the odd one, with the sum of the three others */
    float *result;  /* where the runtime puts it: the caller's memory, unless a step falsifies it */
    pthread_t thread;
};

/* Runs where the result is about to be handed out: whatever is wrong from here on is what the
 * caller gets. */
static void falsify(void *context, uint64_t step, uint32_t count,
                    const struct spotnik_bucket_result *result)
{
    const struct worker *worker = context;
    if (worker->index == ODD && step >= WRONG_STEP && count > 0)
        ((unsigned char *)(uintptr_t)result[0].data)[0] ^= 1;
}

static int step_run(struct worker *worker, spotnik_step *step)
{
    int rc = spotnik_runtime_step_begin(worker->runtime, false, step);
    for (unsigned i = 0; rc == 0 && i < COUNT; i++)
        worker->result[i] = (float)((worker->index + 1) * (i % 7));
    if (rc == 0)
        rc = spotnik_runtime_allreduce(worker->runtime, 0, worker->result, COUNT, SPOTNIK_F32,
                                       SPOTNIK_SUM);
    return rc == 0 ? spotnik_runtime_step_commit(worker->runtime) : rc;
}

/* Until ten steps without the odd one are done. */
static void *worker_main(void *context)
{
    struct worker *worker = context;
    spotnik_step step;
    for (unsigned more = 10; more > 0 && worker->rc == 0;) {
        worker->rc = step_run(worker, &step);
        if (worker->rc != 0)
            break;
        worker->committed = step.number;
        more -= step.size < MEMBERS;
        worker->right += step.size == MEMBERS - 1 && worker->result[8] == 1 + 2 + 4;
    }
    strncpy(worker->text, spotnik_last_error(), sizeof worker->text - 1);
    if (worker->rc != 0) {
        spotnik_runtime_free(worker->runtime, false);
        worker->runtime = NULL;
    } else { /* another may have begun one step more in the smaller view */
        worker->rc = spotnik_runtime_leave(worker->runtime, PATIENCE_NS);
    }
    return NULL;
}

static void start(struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct spotnik_runtime_config config;
        cluster_config(&config, 1);
        config.credentials.self.id = cluster_id(10 - i);
        /* results lie in memory of the member alone, where they can be falsified */
        config.transport = "tcp";
        config.hooks.context = &worker[i];
        config.hooks.committed = falsify;
        worker[i] = (struct worker){ .index = i, .result = malloc(COUNT * sizeof(float)) };
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(10 - i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct spotnik_member member[MEMBERS];
        uint64_t epoch;
        while (spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch) < MEMBERS)
            sched_yield();
    }
}

TEST(the_odd_one_ends)
{
    struct worker worker[MEMBERS];
    start(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]);
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_join(worker[i].thread, NULL);
    assert_int_equal(worker[ODD].rc, SPOTNIK_ERR_DIVERGED);
    assert_non_null(strstr(worker[ODD].text, "differ, in a step after"));
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (i == ODD)
            continue;
        assert_int_equal(worker[i].rc, 0);
        assert_true(worker[i].committed > WRONG_STEP);
        assert_true(worker[i].right > 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (worker[i].runtime != NULL)
            spotnik_runtime_free(worker[i].runtime, true);
        free(worker[i].result);
    }
}
