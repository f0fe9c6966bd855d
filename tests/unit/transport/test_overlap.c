/* SPDX-License-Identifier: Apache-2.0 */
/* A large bucket goes round while those who started it compute on: nobody waits for its commit, and
 * the data have been left to the callers by the step before. Fails when the progress thread does
 * not get them back; when it gets them only after the callers' grace (data_poller.c) this does not
 * notice. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "../runtime/cluster.h"
#include "base/time.h"
#include "transport/inside.h"
#include "runtime/inside.h"
#include "tests.h"

#define MEMBERS 2
#define STEPS 5
#define COUNT (2u << 20) /* elements: more than both sockets of a connection hold at first */
#define LIMIT_NS (20 * SPOTNIK_S)

struct worker {
    struct spotnik_runtime *runtime;
    float *data;
    uint32_t overlapped;
    int rc;
    pthread_t thread;
};

static uint64_t received(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    uint64_t bytes = runtime->transport->counts.bytes_received;
    spotnik_runtime_unlock(runtime);
    return bytes;
}

/* All of the step comes, though nobody asks for it. */
static bool comes(struct spotnik_runtime *runtime, uint64_t from)
{
    uint64_t until_ns = spotnik_clock_ns() + LIMIT_NS;
    while (received(runtime) < from + COUNT * sizeof(float))
        if (spotnik_clock_ns() > until_ns)
            return false;
        else
            sched_yield();
    return true;
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    spotnik_step step;
    for (unsigned i = 0; i < STEPS && worker->rc == 0; i++) {
        worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
        uint64_t before = received(worker->runtime);
        if (worker->rc == 0)
            worker->rc = spotnik_runtime_allreduce(worker->runtime, 0, worker->data, COUNT,
                                                   SPOTNIK_F32, SPOTNIK_SUM);
        if (worker->rc == 0 && i > 0) /* in the first the view may still be taking shape */
            worker->overlapped += comes(worker->runtime, before);
        if (worker->rc == 0)
            worker->rc = spotnik_runtime_step_commit(worker->runtime);
    }
    return NULL;
}

static void start(struct worker *worker)
{
    struct spotnik_runtime_config config;
    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, MEMBERS);
        config.transport = "tcp";
        config.credentials.self.id = cluster_id(1 + i);
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
        worker[i].data = calloc(COUNT, sizeof(float));
        assert_non_null(worker[i].data);
        for (size_t k = 0; k < COUNT; k++)
            worker[i].data[k] = 1;
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    spotnik_runtime_join(worker[1].runtime, cluster_id(2), 0);
    spotnik_runtime_enter(worker[1].runtime, &first);
}

TEST(a_bucket_moves_before_its_commit_is_asked_for)
{
    struct worker worker[MEMBERS] = { { .rc = 0 } };
    start(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]), 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_join(worker[i].thread, NULL);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(worker[i].rc, 0);
        assert_int_equal(worker[i].overlapped, STEPS - 1);
        assert_true(worker[i].data[0] == 1 << STEPS && worker[i].data[COUNT - 1] == 1 << STEPS);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        spotnik_runtime_free(worker[i].runtime, true);
        free(worker[i].data);
    }
}
