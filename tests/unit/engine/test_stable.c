/* SPDX-License-Identifier: Apache-2.0 */
/* While a view is being made the engine says which steps no view can change any more, wherever the
 * callers are: the donor of a joiner for which all wait has it from here. */
#include <pthread.h>
#include <sched.h>

#include "base/time.h"
#include "cluster.h"
#include "engine/inside.h"
#include "tests.h"

#define MEMBERS 3
#define STEPS 20

struct worker {
    struct spotnik_engine *engine;
    pthread_t thread;
    int rc;
    uint64_t told;  /* atomic: the last step told as stable; UINT64_MAX: none yet */
    uint32_t wrong; /* atomic: times that was more than is true */
};

/* Under the engine's lock. */
static void on_stable(void *context, uint64_t step)
{
    struct worker *worker = context;
    struct spotnik_core_status status;

    spotnik_core_status(worker->engine->core, &status);
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

static void make(struct worker *worker, unsigned number)
{
    struct spotnik_engine_config config;

    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1 + number);
    config.hooks.context = worker;
    config.hooks.step_stable = on_stable;
    worker->told = UINT64_MAX;
    assert_int_equal(spotnik_engine_new(&config, &worker->engine), 0);
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
    struct spotnik_member first = spotnik_engine_credentials(worker[0].engine)->self;
    spotnik_engine_found(worker[0].engine, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_engine_join(worker[i].engine, cluster_id(1 + i), 0);
        spotnik_engine_enter(worker[i].engine, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        while (status_of(&worker[i]).size < MEMBERS)
            sched_yield();
    train_all(worker);
    uint64_t epoch = status_of(&worker[0]).epoch;
    spotnik_engine_join(worker[MEMBERS].engine, cluster_id(1 + MEMBERS), STEPS - 2);
    spotnik_engine_enter(worker[MEMBERS].engine, &first);
    for (unsigned i = 0; i < MEMBERS; i++) {
        while (__atomic_load_n(&worker[i].told, __ATOMIC_SEQ_CST) == UINT64_MAX
               && status_of(&worker[i]).epoch == epoch)
            sched_yield(); /* the next view leaves the joiner out */
        assert_true(worker[i].told == STEPS - 1 || worker[i].told == STEPS);
    }
    for (unsigned i = 0; i <= MEMBERS; i++)
        spotnik_engine_free(worker[i].engine, true);
    for (unsigned i = 0; i <= MEMBERS; i++)
        assert_int_equal(worker[i].wrong, 0);
}
