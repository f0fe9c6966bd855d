/* SPDX-License-Identifier: Apache-2.0 */
/* Two members in one process, with real threads and files; the test plays the runtime and the loop.
 * Claims: a member that missed a boundary, so that the two wait for different checkpoints, is with
 * the other again two boundaries later; one that is let go for that says whose part was missing; a
 * part that another never writes holds up neither the next copy nor the end; members whose lineage
 * was replaced complete no checkpoint and remove none, on a full disk neither. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "checkpoint/checkpoint_inside.h"
#include "checkpoint/checkpoint_store.h"
#include "tests.h"

#define MEMBERS 2
#define EVERY 10
#define HOUR_NS (3600 * SPOTNIK_S)
#define BYTES ((size_t)2 * SPOTNIK_PART_BYTES_MIN) /* two parts: one for each */

static struct spotnik_checkpoint *checkpoint[MEMBERS];
static struct spotnik_registry registry;
/* its address stands for the runtime of the member */
static struct spotnik_credentials credentials[MEMBERS];
static uint8_t *memory;
static char root[256], dir[512];
static bool replaced, disk_full; /* accessed with __atomic builtins */

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (!__atomic_load_n(&disk_full, __ATOMIC_ACQUIRE))
        return __real_write(fd, bytes, size);
    errno = ENOSPC;
    return -1;
}

static void become(bool *fact, bool is_so)
{
    __atomic_store_n(fact, is_so, __ATOMIC_RELEASE);
}

static bool may_publish(void *context)
{
    (void)context;
    return !__atomic_load_n(&replaced, __ATOMIC_ACQUIRE);
}

/* ---- the runtime, as far as checkpoints ask it ---- */

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    (void)runtime;
    memset(ret, 0, sizeof *ret);
}

bool spotnik_runtime_ledger(struct spotnik_runtime *runtime, uint64_t committed,
                            struct spotnik_ledger *ret)
{
    (void)runtime;
    (void)committed;
    memset(ret, 0, sizeof *ret);
    return true;
}

struct spotnik_founding spotnik_runtime_past(struct spotnik_runtime *runtime)
{
    (void)runtime;
    return (struct spotnik_founding){ .id = 0 };
}

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    return (const struct spotnik_credentials *)(const void *)runtime;
}

void spotnik_runtime_tell_checkpoint(struct spotnik_runtime *runtime, bool failed,
                                     uint64_t completed)
{
    (void)runtime;
    (void)failed;
    (void)completed;
}

/* ---- the loop ---- */

static int setup(void **state)
{
    struct spotnik_checkpoint_config config = {
        .dir = dir, .job = "pair", .steps = EVERY, .keep = 100, .may_publish = may_publish
    };

    (void)state;
    snprintf(root, sizeof root, "%s/spotnik-XXXXXX",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    assert_non_null(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/checkpoints", root);
    memory = calloc(1, BYTES);
    assert_non_null(memory);
    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "w", memory, BYTES, SPOTNIK_U8), 0);
    registry.founding = 7;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        credentials[i].self.id.high = i + 1;
        assert_int_equal(spotnik_checkpoint_new(&config, &registry,
                                                (struct spotnik_runtime *)(void *)&credentials[i],
                                                &checkpoint[i]),
                         0);
        assert_int_equal(spotnik_checkpoint_seal(checkpoint[i]), 0);
        assert_int_equal(checkpoint[i]->part_count, MEMBERS);
    }
    return 0;
}

static int teardown(void **state)
{
    char command[600];

    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        spotnik_checkpoint_free(checkpoint[i]);
    spotnik_registry_done(&registry);
    free(memory);
    become(&replaced, false);
    become(&disk_full, false);
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

/* Step by step up to the boundary after `step`; it is stable, so what is taken there is written.
 * `away`: a mask of those that are not asked at that boundary. */
static void train(uint64_t step, uint32_t away)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        spotnik_step now = { .number = step, .view_epoch = 3, .rank = i, .size = MEMBERS };

        spotnik_checkpoint_begun(checkpoint[i], &now);
        spotnik_checkpoint_committed(checkpoint[i], step);
        if (!(away >> i & 1))
            spotnik_checkpoint_boundary(checkpoint[i], step, SPOTNIK_BOUNDARY_BETWEEN);
        spotnik_checkpoint_committed(checkpoint[i], step + 1);
    }
}

/* Until that is so; the test's limit on time ends it otherwise. */
static void await(uint32_t member, bool (*is_so)(const struct spotnik_checkpoint *))
{
    struct spotnik_checkpoint *at = checkpoint[member];

    pthread_mutex_lock(&at->lock);
    while (!is_so(at)) {
        pthread_mutex_unlock(&at->lock);
        sched_yield();
        pthread_mutex_lock(&at->lock);
    }
    pthread_mutex_unlock(&at->lock);
}

static bool is_free(const struct spotnik_checkpoint *at)
{
    return !spotnik_checkpoint_is_busy(at) && at->capacity >= at->wanted;
}

static bool is_settled(const struct spotnik_checkpoint *at)
{
    return spotnik_checkpoint_is_settled(at);
}

static void expect_complete(uint64_t step)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        await(i, is_free);
        await(i, is_settled);
        assert_int_equal(checkpoint[i]->info.complete_step, step);
    }
}

static void ready(void)
{
    train(1, 3); /* the view is known, and memory for the copies made */
    for (uint32_t i = 0; i < MEMBERS; i++)
        await(i, is_free);
}

/* Whoever missed the first: rank 0, or the other. */
TEST_WITH(together_again, setup, teardown)
{
    for (uint32_t late = 0; late < MEMBERS; late++) {
        uint64_t first = EVERY * (1 + 16 * late);

        ready();
        train(first, 1 << late);
        await(!late, is_free);
        assert_int_equal(checkpoint[late]->taken_step < first, 1);
        train(first + EVERY, 0);
        expect_complete(first + EVERY);
    }
}

TEST_WITH(whose_part_was_missing, setup, teardown)
{
    spotnik_checkpoint_info info = { .size = sizeof info };

    ready();
    train(EVERY, 2);
    await(0, is_free);
    train(2 * EVERY, 0);
    expect_complete(2 * EVERY);
    spotnik_checkpoint_info_get(checkpoint[0], &info);
    assert_int_equal(info.left_out_count, 1);
    assert_non_null(strstr(
        info.message, "1 of 2 parts were missing, part 2 first: it was for rank 1 of 2 to write"));
}

/* The second member owes nothing once its part is written; the first waits for the other's part a
 * few seconds, or for as long as it is given after the last step. */
TEST_WITH(the_end_is_not_held_up, setup, teardown)
{
    spotnik_checkpoint_info info = { .size = sizeof info };

    ready();
    train(EVERY, 1);
    spotnik_checkpoint_finish(checkpoint[1], true, HOUR_NS);
    spotnik_checkpoint_info_get(checkpoint[1], &info);
    assert_int_equal(info.left_out_count, 0);
    train(3 * EVERY, 2);
    spotnik_checkpoint_finish(checkpoint[0], true, HOUR_NS); /* the test has a minute */
    assert_int_equal(checkpoint[0]->work.phase, SPOTNIK_CHECKPOINT_WAITING);
}

/* A checkpoint that falls due within a batch is that of the next boundary. */
TEST_WITH(within_a_batch, setup, teardown)
{
    ready();
    for (uint64_t step = EVERY; step <= EVERY + 1; step++) {
        for (uint32_t i = 0; i < MEMBERS; i++) {
            spotnik_step now = { .number = step, .view_epoch = 3, .rank = i, .size = MEMBERS };

            spotnik_checkpoint_begun(checkpoint[i], &now);
            spotnik_checkpoint_committed(checkpoint[i], step);
            spotnik_checkpoint_boundary(checkpoint[i], step,
                                        step == EVERY ? SPOTNIK_BOUNDARY_WITHIN
                                                      : SPOTNIK_BOUNDARY_BETWEEN);
            assert_int_equal(checkpoint[i]->taken_step, step == EVERY ? 0 : step);
        }
    }
    train(EVERY + 2, 0);
    for (uint32_t i = MEMBERS; i-- > 0;)
        spotnik_checkpoint_finish(checkpoint[i], true, HOUR_NS);
    assert_int_equal(checkpoint[0]->info.complete_step, EVERY + 1);
}

TEST_WITH(after_the_last_step, setup, teardown)
{
    spotnik_step last = { .number = 3, .view_epoch = 3, .size = MEMBERS };

    ready();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        last.rank = i;
        spotnik_checkpoint_begun(checkpoint[i], &last);
        spotnik_checkpoint_committed(checkpoint[i], 3);
        spotnik_checkpoint_boundary(checkpoint[i], 3, SPOTNIK_BOUNDARY_LAST);
    }
    assert_true(checkpoint[0]->slot.last);
    spotnik_checkpoint_finish(checkpoint[1], true, HOUR_NS);
    spotnik_checkpoint_finish(checkpoint[0], true, HOUR_NS);
    assert_int_equal(checkpoint[0]->info.complete_step, 3);
}

/* ---- replaced ---- */

#define YOUNGER 9 /* the founding that took our place; of the same root, as in one folder */

static bool is_there(uint64_t step, uint64_t founding)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    spotnik_checkpoint_store_entry_name(step, founding, entry);
    return spotnik_checkpoint_store_has(dir, entry, SPOTNIK_MANIFEST_NAME);
}

/* It went on from before our last step. */
static void younger_writes(uint64_t step)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    spotnik_checkpoint_store_entry_name(step, YOUNGER, entry);
    spotnik_checkpoint_store_root_set(dir, YOUNGER, registry.founding);
    assert_int_equal(spotnik_checkpoint_store_entry_make(dir, entry), 0);
    assert_int_equal(spotnik_checkpoint_store_put(dir, entry, SPOTNIK_MANIFEST_NAME, 1, "", 0), 0);
}

static bool is_left_out(const struct spotnik_checkpoint *at)
{
    return at->info.left_out_count > 0;
}

TEST_WITH(replaced, setup, teardown)
{
    ready();
    train(EVERY, 0);
    expect_complete(EVERY);
    younger_writes(EVERY / 2);
    become(&replaced, true);
    train(2 * EVERY, 0);
    await(0, is_left_out);
    assert_non_null(strstr(checkpoint[0]->info.message, "founded again without this lineage"));
    assert_false(is_there(2 * EVERY, registry.founding));
}

static void full_disk(bool is_replaced)
{
    ready();
    train(EVERY, 0);
    expect_complete(EVERY);
    younger_writes(EVERY / 2);
    become(&replaced, is_replaced);
    become(&disk_full, true);
    train(2 * EVERY, 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        await(i, is_left_out);
    become(&disk_full, false);
    assert_true(is_there(EVERY, registry.founding));
    assert_int_equal(is_there(EVERY / 2, YOUNGER), is_replaced);
}

TEST_WITH(replaced_on_a_full_disk, setup, teardown)
{
    full_disk(true);
}

/* Else what is older makes room. */
TEST_WITH(full_disk, setup, teardown)
{
    full_disk(false);
}
