/* SPDX-License-Identifier: Apache-2.0 */
/* Whole engines: a member alone, and one that joins it on its host. The silence of the job is an
 * hour, and that is how long a joiner waits for memory that may still come: the test passes its
 * limit on time where it waits for memory that never comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "../engine/cluster.h"
#include "base/time.h"
#include "carry/share.h"
#include "engine/inside.h"

#define MEMBERS 2
#define HOUR (3600 * SPOTNIK_S)
#define COUNT 100003 /* more than a small bucket has */

struct worker {
    struct spotnik_engine *engine;
    pthread_t thread;
    int rc;
};

static void make(struct worker *worker, unsigned number, const char *transport)
{
    struct spotnik_engine_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1 + number);
    config.limits.memory = true;
    config.limits.silence_floor_ns = config.limits.silence_ceiling_ns = HOUR;
    config.transport = transport;
    *worker = (struct worker){ .rc = 0 };
    assert_int_equal(spotnik_engine_new(&config, &worker->engine), 0);
}

/* The first member: it has founded. */
static void found(struct worker *worker, const char *transport)
{
    make(worker, 0, transport);
    spotnik_engine_found(worker->engine, NULL, NULL);
}

static struct spotnik_core_status status_of(const struct worker *worker)
{
    struct spotnik_core_status status;
    spotnik_engine_lock(worker->engine);
    spotnik_core_status(worker->engine->core, &status);
    spotnik_engine_unlock(worker->engine);
    return status;
}

static void join(struct worker *worker, const char *transport)
{
    make(&worker[1], 1, transport);
    struct spotnik_member first = spotnik_engine_credentials(worker[0].engine)->self;
    spotnik_engine_join(worker[1].engine, cluster_id(2), 0);
    spotnik_engine_enter(worker[1].engine, &first);
    for (unsigned i = 0; i < MEMBERS; i++)
        while (status_of(&worker[i]).size < MEMBERS)
            sched_yield();
}

static void *train(void *context)
{
    struct worker *worker = context;
    static float data[MEMBERS][COUNT];
    float *own = data[status_of(worker).rank];
    spotnik_step step;
    worker->rc = spotnik_engine_step_begin(worker->engine, &step);
    if (worker->rc == 0)
        worker->rc =
            spotnik_engine_allreduce(worker->engine, 0, own, COUNT, SPOTNIK_F32, SPOTNIK_SUM);
    if (worker->rc == 0)
        worker->rc = spotnik_engine_step_commit(worker->engine);
    return NULL;
}

/* The first step of their view: it begins in memory, or not, and the view stays. */
static void assert_begins_in_memory(struct worker *worker, bool in_memory)
{
    uint64_t epoch = status_of(&worker[0]).epoch;
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_create(&worker[i].thread, NULL, train, &worker[i]);
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_join(worker[i].thread, NULL);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(worker[i].rc, 0);
        assert_int_equal(status_of(&worker[i]).epoch, epoch);
        assert_int_equal(worker[i].engine->carriage->counts.bytes_shared > 0, in_memory);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_engine_free(worker[i].engine, true);
}

/* Claim: a joiner has the memory of its host before it asks, and its view begins there. */
static void test_in_memory(void **state)
{
    struct worker worker[MEMBERS];
    (void)state;
    found(&worker[0], NULL);
    join(worker, NULL);
    assert_begins_in_memory(worker, true);
}

/* Claim: it does not wait for the memory of a member of another release, */
static void test_another_board(void **state)
{
    struct worker worker[MEMBERS];
    (void)state;
    found(&worker[0], NULL);
    spotnik_engine_lock(worker[0].engine);
    worker[0].engine->carriage->share->board->version--;
    spotnik_engine_unlock(worker[0].engine);
    join(worker, NULL);
    assert_begins_in_memory(worker, false);
}

/* nor for that of one that has none, */
static void test_member_without_memory(void **state)
{
    struct worker worker[MEMBERS];
    (void)state;
    found(&worker[0], "tcp");
    join(worker, NULL);
    assert_begins_in_memory(worker, false);
}

/* nor for any, if it has none itself. */
static void test_joiner_without_memory(void **state)
{
    struct worker worker[MEMBERS];
    (void)state;
    found(&worker[0], NULL);
    join(worker, "tcp");
    assert_begins_in_memory(worker, false);
}

/* Claim: no view is spent on the memory of a member that has given it up, though the joiner has
 * it. */
static void test_given_up(void **state)
{
    struct worker worker[MEMBERS];
    (void)state;
    found(&worker[0], NULL);
    spotnik_engine_lock(worker[0].engine);
    spotnik_share_give_up(worker[0].engine->carriage);
    spotnik_engine_unlock(worker[0].engine);
    join(worker, NULL);
    assert_begins_in_memory(worker, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_memory),
        cmocka_unit_test(test_another_board),
        cmocka_unit_test(test_member_without_memory),
        cmocka_unit_test(test_joiner_without_memory),
        cmocka_unit_test(test_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
