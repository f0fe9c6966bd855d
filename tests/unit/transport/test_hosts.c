/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runtimes that take themselves for members of several hosts: reduced on each in shared
 * memory, between them by one member of each; results are right, and the loss of the one that held
 * the inbound channel, of another, and of a whole host is survived; also when results had been
 * written over inputs. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "transport/share.h"
#include "runtime/inside.h"
#include "runtime/probe.h"
#include "tests.h"

#define MEMBERS 5
#define LARGE 100003
#define SMALL 11
#define STEPS 40
#define CHUNK_BYTES 16384 /* a dozen in every segment */
#define PATIENCE_NS UINT64_C(5000000)

struct worker {
    struct spotnik_runtime *runtime;
    unsigned index;
    unsigned die_after; /* abandon inside this step; 0: never */
    bool die_late;      /* not before `moved` says so */
    int rc;
    unsigned committed, by_hosts; /* steps; of them, reduced on a host first */
    bool equal;
    float sum, mean;
    int32_t small;
    pthread_t thread;
};

static uint64_t weight_of(unsigned index)
{
    return index + 1;
}

/* Was the bucket reduced among the members of our host only? */
static bool is_by_hosts(struct spotnik_runtime *runtime, uint32_t bucket)
{
    spotnik_runtime_lock(runtime);
    bool by_hosts =
        runtime->transport->share != NULL && runtime->transport->share->epoch != 0
        && runtime->transport->share->flat.bucket[bucket].order.part != SPOTNIK_FLAT_ALL;
    spotnik_runtime_unlock(runtime);
    return by_hosts;
}

static int reduce(struct worker *worker, float *sum, float *mean, int32_t *small, uint64_t step)
{
    for (unsigned i = 0; i < LARGE; i++) {
        sum[i] = (float)((worker->index + 1) * (i % 7));
        mean[i] = (float)(step + worker->index);
    }
    for (unsigned i = 0; i < SMALL; i++)
        small[i] = (int32_t)(1u << worker->index);
    int rc = spotnik_runtime_weight_set(worker->runtime, weight_of(worker->index));
    if (rc == 0)
        rc = spotnik_runtime_allreduce(worker->runtime, 0, sum, LARGE, SPOTNIK_F32, SPOTNIK_SUM);
    if (rc == 0)
        rc = spotnik_runtime_allreduce(worker->runtime, 5, mean, LARGE, SPOTNIK_F32, SPOTNIK_MEAN);
    return rc != 0 ? rc
                   : spotnik_runtime_allreduce(worker->runtime, 9, small, SMALL, SPOTNIK_I32,
                                               SPOTNIK_SUM);
}

static void results_check(struct worker *worker, const float *sum, const float *mean,
                          const int32_t *small)
{
    for (unsigned i = 0; i < LARGE; i++)
        worker->equal &= sum[i] == sum[1] * (float)(i % 7) && mean[i] == mean[1];
    for (unsigned i = 0; i < SMALL; i++)
        worker->equal &= small[i] == small[0];
    worker->sum = sum[1];
    worker->mean = mean[1];
    worker->small = small[0];
}

/* ---- results over inputs ---- */

#define MOVE_STEP 20

static struct worker *watched; /* atomic: whose input we wait to be overwritten; NULL: nobody's */
static bool moved, undone;     /* atomic: in MOVE_STEP */

static bool is_moved(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    const struct spotnik_early *early = runtime->transport->bucket[0].early;
    bool any = early != NULL && early->step == MOVE_STEP && early->count > 0 && early->lent != NULL
               && early->range[0].moved > early->range[0].begin;
    spotnik_runtime_unlock(runtime);
    return any;
}

/* The second holder stands still in the middle of that step, so that nobody can commit it: until a
 * member of the other host has results where its input was, and then until a loss has brought the
 * input back. */
static void hold_up(const struct spotnik_event *event, const struct spotnik_action *action,
                    bool done)
{
    struct worker *worker = __atomic_load_n(&watched, __ATOMIC_SEQ_CST);
    (void)action;
    if (worker == NULL || done || event == NULL || event->kind != SPOTNIK_EVENT_CHUNK_DONE
        || event->chunk.header.bucket != 0 || event->chunk.header.step != MOVE_STEP
        || event->chunk.header.sequence != 5 || __atomic_load_n(&moved, __ATOMIC_SEQ_CST)
        || !spotnik_id_equal(event->chunk.from.id, cluster_id(20)))
        return;
    while (!is_moved(worker->runtime))
        sched_yield();
    __atomic_store_n(&moved, true, __ATOMIC_SEQ_CST);
    while (is_moved(worker->runtime))
        sched_yield();
    __atomic_store_n(&undone, true, __ATOMIC_SEQ_CST);
}

/* Its patience is short, and as often as that is over it looks whether it is to die. */
static int commit_or_die(struct worker *worker, uint64_t step)
{
    int rc;
    while ((rc = spotnik_runtime_step_commit(worker->runtime)) == SPOTNIK_ERR_AGAIN
           && worker->die_late)
        if (step == MOVE_STEP && __atomic_load_n(&moved, __ATOMIC_SEQ_CST)) {
            spotnik_runtime_free(worker->runtime, false);
            worker->runtime = NULL;
            break;
        }
    return rc;
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    float *sum = malloc(LARGE * sizeof *sum), *mean = malloc(LARGE * sizeof *mean);
    int32_t small[SMALL];
    spotnik_step step;
    worker->equal = true;
    while (worker->committed < STEPS) {
        worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
        if (worker->rc == 0)
            worker->rc = reduce(worker, sum, mean, small, step.number);
        if (worker->rc == 0 && worker->die_after != 0 && step.number == worker->die_after) {
            spotnik_runtime_free(worker->runtime, false);
            worker->runtime = NULL;
            break;
        }
        if (worker->rc == 0)
            worker->rc = commit_or_die(worker, step.number);
        if (worker->rc != 0)
            break;
        worker->by_hosts += is_by_hosts(worker->runtime, 0);
        worker->committed++;
        results_check(worker, sum, mean, small);
    }
    free(sum);
    free(mean);
    return NULL;
}

static void gather(struct worker *worker)
{
    struct spotnik_member member[MEMBERS];
    uint64_t epoch;
    for (unsigned i = 0; i < MEMBERS; i++)
        while (spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch) < MEMBERS)
            sched_yield();
}

static bool shares(struct spotnik_runtime *runtime, uint64_t number)
{
    spotnik_runtime_lock(runtime);
    const struct spotnik_sharer *sharer =
        spotnik_share_find(runtime->transport->share, cluster_id(number));
    bool told = sharer != NULL && sharer->told;
    spotnik_runtime_unlock(runtime);
    return told;
}

/* Until all of a host have each other's memory. */
static void gather_memory(const struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        for (unsigned k = i % 2; k < MEMBERS; k += 2)
            while (k != i && !shares(worker[i].runtime, 20 - k))
                sched_yield();
}

/* On hosts 1, 2, 1, 2, 1: the founder and the second hold the inbound channels. */
static void start(struct worker *worker)
{
    struct spotnik_runtime_config config;
    pid_t pid = getpid();
    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, 1);
        config.credentials.self.id = cluster_id(20 - i);
        config.credentials.self.host = 1 + i % 2;
        /* names of sockets come from it: the test may run twice on a machine */
        memcpy(config.credentials.key, &pid, sizeof pid);
        config.limits.hierarchy = true;
        config.limits.chunk_bytes = CHUNK_BYTES;
        worker[i] = (struct worker){ .index = i };
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(20 - i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    gather(worker);
    gather_memory(worker);
}

static void run(struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]);
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_join(worker[i].thread, NULL);
}

/* What all that are left must have at the end. */
static void check(const struct worker *worker, unsigned lost)
{
    float sum = 0, mean = 0, weights = 0, first = 0;
    int32_t small = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (lost & 1u << i)
            continue;
        sum += (float)(i + 1);
        mean += (float)weight_of(i) * (float)(STEPS + i);
        weights += (float)weight_of(i);
        small += (int32_t)(1u << i);
        first = worker[i].mean;
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (lost & 1u << i)
            continue;
        assert_int_equal(worker[i].rc, 0);
        assert_int_equal(worker[i].committed, STEPS);
        assert_true(worker[i].equal);
        assert_true(worker[i].sum == sum);
        assert_int_equal(worker[i].small, small);
        assert_true(worker[i].mean == first);
        assert_true(worker[i].mean - mean / weights < 1e-4f
                    && mean / weights - worker[i].mean < 1e-4f);
    }
}

static void end(struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        if (worker[i].runtime != NULL)
            spotnik_runtime_free(worker[i].runtime, true);
}

/* Claim: all steps are right, and all but the first ones of a view are reduced on hosts first. The
 * first cannot know yet who shares memory; nor can the next, where a processor is busy. */
TEST(nobody_is_lost)
{
    struct worker worker[MEMBERS];
    start(worker);
    run(worker);
    check(worker, 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_in_range(worker[i].by_hosts, STEPS / 2, STEPS - 1);
    end(worker);
}

static void lose(unsigned lost, unsigned also)
{
    struct worker worker[MEMBERS];
    start(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        if (lost & 1u << i)
            worker[i].die_after = also & 1u << i ? 25 : 20;
    run(worker);
    check(worker, lost);
    end(worker);
}

/* Claim: the founder holds the inbound channel of its host; so does the second. */
TEST(holder_is_lost)
{
    lose(1u << 0, 0);
    lose(1u << 1, 0);
}

TEST(served_is_lost)
{
    lose(1u << 2, 0);
}

/* Claim: with both members of the second host one host is left, and with them the next holder of
 * the first. */
TEST(host_is_lost)
{
    lose(1u << 1 | 1u << 3, 0);
}

/* Claim: when the one that took the inbound channel over is lost in its turn, the third has it. */
TEST(holders_are_lost_in_turn)
{
    lose(1u << 0 | 1u << 2, 1u << 2);
}

/* Claim: a member of one host is lost while results lie over the inputs of another's: they come
 * back, and the step is right. */
TEST(lost_when_results_are_shown)
{
    struct worker worker[MEMBERS];
    start(worker);
    worker[3].die_late = true;
    spotnik_runtime_patience_set(worker[3].runtime, PATIENCE_NS);
    __atomic_store_n(&watched, &worker[2], __ATOMIC_SEQ_CST);
    run(worker);
    __atomic_store_n(&watched, NULL, __ATOMIC_SEQ_CST);
    check(worker, 1u << 3);
    assert_true(moved && undone);
    end(worker);
}

int main(void)
{
    spotnik_net_probe = hold_up;
    return tests_run(NULL, NULL);
}
