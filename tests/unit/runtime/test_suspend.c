/* SPDX-License-Identifier: Apache-2.0 */
/* A host that was suspended: only one of the kernel's clocks shows it. Every member of it asks the
 * others before it commits, and as all were suspended, all go on together. The clock is faked: the
 * linker takes the one below. */
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"
#include "runtime/inside.h"
#include "tests.h"

#define MEMBERS 3
#define STEPS 200 /* before, and after */

struct worker {
    struct spotnik_runtime *runtime;
    unsigned steps;
    int rc;
    pthread_t thread;
};

static uint32_t asleep_s; /* atomic */

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long rc = syscall(SYS_clock_gettime, clock, ret);
    if (rc == 0 && clock == CLOCK_BOOTTIME)
        ret->tv_sec += __atomic_load_n(&asleep_s, __ATOMIC_SEQ_CST);
    return (int)rc;
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    float data[8] = { 1 };
    spotnik_step step;

    for (unsigned i = 0; i < worker->steps && worker->rc == 0; i++) {
        worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
        if (worker->rc == 0)
            worker->rc =
                spotnik_runtime_allreduce(worker->runtime, 0, data, 8, SPOTNIK_F32, SPOTNIK_MEAN);
        if (worker->rc == 0)
            worker->rc = spotnik_runtime_step_commit(worker->runtime);
    }
    return NULL;
}

static struct spotnik_core_status status_of(struct worker *worker)
{
    struct spotnik_core_status status;

    spotnik_runtime_lock(worker->runtime);
    spotnik_core_status(worker->runtime->core, &status);
    spotnik_runtime_unlock(worker->runtime);
    return status;
}

static void start(struct worker *worker, const char *transport)
{
    struct spotnik_runtime_config config;

    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, 1);
        config.transport = transport;
        config.credentials.self.id = cluster_id(1 + i);
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(1 + i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        while (status_of(&worker[i]).size < MEMBERS)
            sched_yield();
}

static void run(struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        worker[i].steps = STEPS;
        assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]), 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        pthread_join(worker[i].thread, NULL);
        assert_int_equal(worker[i].rc, 0);
    }
}

/* Claim: a step that is begun after the host woke up is committed when the others have answered,
 * without a loss. */
static void all_go_on(const char *transport)
{
    struct worker worker[MEMBERS] = { 0 };
    uint64_t pauses[MEMBERS];

    start(worker, transport);
    run(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        pauses[i] = status_of(&worker[i]).pauses;
    __atomic_fetch_add(&asleep_s, 3600, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < MEMBERS; i++)
        while (status_of(&worker[i]).pauses == pauses[i])
            sched_yield();
    run(worker);
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct spotnik_core_status status = status_of(&worker[i]);
        assert_int_equal(status.committed, 2 * STEPS);
        assert_int_equal(status.size, MEMBERS);
        assert_int_equal(status.losses, 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_runtime_free(worker[i].runtime, true);
}

TEST(over_tcp)
{
    all_go_on("tcp");
}

TEST(in_memory)
{
    all_go_on("shm");
}
