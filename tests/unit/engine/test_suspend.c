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
#include "engine/inside.h"
#include "tests.h"

#define MEMBERS 3
#define STEPS 200 /* before, and after */

struct worker {
    struct spotnik_engine *engine;
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
        worker->rc = spotnik_engine_step_begin(worker->engine, &step);
        if (worker->rc == 0)
            worker->rc =
                spotnik_engine_allreduce(worker->engine, 0, data, 8, SPOTNIK_F32, SPOTNIK_MEAN);
        if (worker->rc == 0)
            worker->rc = spotnik_engine_step_commit(worker->engine);
    }
    return NULL;
}

static struct spotnik_core_status status_of(struct worker *worker)
{
    struct spotnik_core_status status;

    spotnik_engine_lock(worker->engine);
    spotnik_core_status(worker->engine->core, &status);
    spotnik_engine_unlock(worker->engine);
    return status;
}

static void start(struct worker *worker, const char *transport)
{
    struct spotnik_engine_config config;

    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, 1);
        config.transport = transport;
        config.credentials.self.id = cluster_id(1 + i);
        assert_int_equal(spotnik_engine_new(&config, &worker[i].engine), 0);
    }
    struct spotnik_member first = spotnik_engine_credentials(worker[0].engine)->self;
    spotnik_engine_found(worker[0].engine, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_engine_join(worker[i].engine, cluster_id(1 + i), 0);
        spotnik_engine_enter(worker[i].engine, &first);
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
    uint64_t doubts[MEMBERS];

    start(worker, transport);
    run(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        doubts[i] = status_of(&worker[i]).doubts;
    __atomic_fetch_add(&asleep_s, 3600, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < MEMBERS; i++)
        while (status_of(&worker[i]).doubts == doubts[i])
            sched_yield();
    run(worker);
    for (unsigned i = 0; i < MEMBERS; i++) {
        struct spotnik_core_status status = status_of(&worker[i]);
        assert_int_equal(status.committed, 2 * STEPS);
        assert_int_equal(status.size, MEMBERS);
        assert_int_equal(status.losses, 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_engine_free(worker[i].engine, true);
}

TEST(over_tcp)
{
    all_go_on("tcp");
}

TEST(in_memory)
{
    all_go_on("shm");
}
