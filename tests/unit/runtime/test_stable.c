/* SPDX-License-Identifier: Apache-2.0 */
/* While a view is being made the runtime says which steps no view can change any more, wherever the
 * callers are: the donor of a joiner for which all wait has it from here. */
#include <pthread.h>
#include <sched.h>

#include "base/time.h"
#include "cluster.h"
#include "runtime/inside.h"
#include "tests.h"

#define MEMBERS 3
#define STEPS 20

struct worker {
    struct spotnik_runtime *runtime;
    pthread_t thread;
    int rc;
    uint64_t told;  /* atomic: the last step told as stable; UINT64_MAX: none yet */
    uint32_t wrong; /* atomic: times that was more than is true */
};

/* Under the runtime's lock. */
static void on_stable(void *context, uint64_t step)
{
    struct worker *worker = context;
    struct spotnik_core_status status;

    spotnik_core_status(worker->runtime->core, &status);
    if (step != status.stable || status.role != SPOTNIK_ROLE_MEMBER)
        __atomic_add_fetch(&worker->wrong, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&worker->told, step, __ATOMIC_SEQ_CST);
}

static void *train(void *context)
{
    struct worker *worker = context;
    float data[8] = { 1 };
    spotnik_step step;

    for (unsigned i = 0; i < STEPS && worker->rc == 0; i++) {
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

static void make(struct worker *worker, unsigned number)
{
    struct spotnik_runtime_config config;

    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1 + number);
    config.hooks.context = worker;
    config.hooks.step_stable = on_stable;
    worker->told = UINT64_MAX;
    assert_int_equal(spotnik_runtime_new(&config, &worker->runtime), 0);
}

static void train_all(struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_create(&worker[i].thread, NULL, train, &worker[i]), 0);
    for (unsigned i = 0; i < MEMBERS; i++) {
        pthread_join(worker[i].thread, NULL);
        assert_int_equal(worker[i].rc, 0);
        __atomic_store_n(&worker[i].told, UINT64_MAX, __ATOMIC_SEQ_CST);
    }
}

/* Claim: for the sake of a joiner that is two steps behind, and never comes, all are frozen; each
 * is told its stable step though nobody calls. */
TEST(told_while_frozen)
{
    struct worker worker[MEMBERS + 1] = { 0 };

    for (unsigned i = 0; i <= MEMBERS; i++)
        make(&worker[i], i);
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(1 + i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        while (status_of(&worker[i]).size < MEMBERS)
            sched_yield();
    train_all(worker);
    uint64_t epoch = status_of(&worker[0]).epoch;
    spotnik_runtime_join(worker[MEMBERS].runtime, cluster_id(1 + MEMBERS), STEPS - 2);
    spotnik_runtime_enter(worker[MEMBERS].runtime, &first);
    for (unsigned i = 0; i < MEMBERS; i++) {
        while (__atomic_load_n(&worker[i].told, __ATOMIC_SEQ_CST) == UINT64_MAX
               && status_of(&worker[i]).epoch == epoch)
            sched_yield(); /* the next view leaves the joiner out */
        assert_true(worker[i].told == STEPS - 1 || worker[i].told == STEPS);
    }
    for (unsigned i = 0; i <= MEMBERS; i++)
        spotnik_runtime_free(worker[i].runtime, true);
    for (unsigned i = 0; i <= MEMBERS; i++)
        assert_int_equal(worker[i].wrong, 0);
}
