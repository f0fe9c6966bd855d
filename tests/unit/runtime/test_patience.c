/* SPDX-License-Identifier: Apache-2.0 */
/* A member that is starved of processors answers nobody for a while, though its kernel does. That
 * is nobody's broken path: a channel to it takes longer to open, no view is made round it, and
 * nobody goes. Found by the matrix on a busy machine: a world there waits ten minutes for silence,
 * yet its member was gone after two seconds. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"
#include "runtime/inside.h"
#include "tests.h"

/* in a tree some have channels to others than their neighbours: those are opened by the first
 * bucket */
#define MEMBERS 6
#define COUNT 16384
#define STARVED 3
#define STARVED_US 2500000 /* longer than a channel that is never answered is waited for */

static const struct spotnik_choice trees[] = {
    { SPOTNIK_CHOICE_ALL, 256 * 1024, SPOTNIK_SCHEDULE_TREE, false },
    { 0, 0, SPOTNIK_SCHEDULE_RING, false },
};

struct worker {
    struct spotnik_runtime *runtime;
    int rc;
    pthread_t thread;
};

static void *worker_main(void *context)
{
    static float data[MEMBERS][COUNT];
    struct worker *worker = context;
    spotnik_step step;
    worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
    if (worker->rc == 0)
        worker->rc = spotnik_runtime_allreduce(worker->runtime, 0,
                                               data[spotnik_runtime_id(worker->runtime).low - 1],
                                               COUNT, SPOTNIK_F32, SPOTNIK_SUM);
    if (worker->rc == 0)
        worker->rc = spotnik_runtime_step_commit(worker->runtime);
    return NULL;
}

/* Each on a host of its own. */
static void create(struct worker *worker)
{
    struct spotnik_runtime_config config;
    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, 1);
        config.limits.silence_floor_ns = config.limits.silence_ceiling_ns = 600 * SPOTNIK_S;
        config.limits.choice = trees;
        config.transport = "tcp";
        config.credentials.self.id = cluster_id(1 + i);
        config.credentials.self.host = 1 + i;
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
    }
}

static void gather(struct worker *worker)
{
    struct spotnik_member member[MEMBERS],
        first = spotnik_runtime_credentials(worker[0].runtime)->self;
    uint64_t epoch;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(1 + i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        while (spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch) < MEMBERS)
            sched_yield();
}

TEST(a_starved_member_stays)
{
    struct worker worker[MEMBERS] = { { .rc = 0 } };
    struct spotnik_member member[MEMBERS];
    uint64_t epoch[MEMBERS], after;
    char path[160];
    create(worker);
    gather(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch[i]);
    spotnik_runtime_lock(worker[STARVED].runtime);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]), 0);
    usleep(STARVED_US); /* it stands for a host that is too busy */
    spotnik_runtime_unlock(worker[STARVED].runtime);
    for (unsigned i = 0; i < MEMBERS; i++) {
        pthread_join(worker[i].thread, NULL);
        assert_int_equal(worker[i].rc, 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &after),
                         MEMBERS);
        assert_int_equal(after, epoch[i]);
        spotnik_runtime_path(worker[i].runtime, path, sizeof path);
        assert_string_equal(path, "");
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_runtime_free(worker[i].runtime, true);
}
