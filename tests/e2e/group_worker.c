/* SPDX-License-Identifier: Apache-2.0 */
/* A process of a group, for groups.py: its group shards COUNT weights, trains nothing of use, and
 * reports to the file of GROUP_EVENTS, a line at a time:
 *
 *     process GROUP RANK PID
 *     commit GROUP STEP DIGEST EPOCH SIZE NS    by the leader, when all processes have applied STEP
 *     end GROUP STEP                            by the leader: done, or leaving
 *     error GROUP RANK WORDS
 *
 * GROUP is SPOTNIK_WORKER. Over each epoch of data it checks that committed steps have used every
 * sample once. Arguments: steps (0: no end) and weights. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spotnik/group.h"

enum { SAMPLES = 600, BATCH = 60 };

/* What a joiner receives, and buckets; all in the group's memory. */
struct shared {
    /* hash and number of the samples used in the epoch of data ledger[2] */
    int64_t ledger[3];
    int64_t used[2], data_epoch; /* buckets of the leader */
};

static int events;
static const char *name;
static spotnik_group *group;
static struct shared *shared;
static float *w, *g;
static size_t count;

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (write(events, line, (size_t)length) != length)
        _exit(3);
}

static int fail(const char *what)
{
    tell("error %s %u %s: %s\n", name, spotnik_group_rank(group), what, spotnik_last_error());
    return 1;
}

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t digest(void)
{
    uint64_t hash = 1;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &w[i], sizeof bits);
        hash = mix(hash ^ bits);
    }
    for (int i = 0; i < 3; i++)
        hash = mix(hash ^ (uint64_t)shared->ledger[i]);
    return hash;
}

/* The gradient of this process's shard depends on the samples and the weights, so a wrong share or
 * a wrong shard shows in every digest. */
static void compute(const spotnik_step *step, size_t first, size_t end)
{
    uint64_t hash = mix(step->number);
    int64_t used[2] = { 0, 0 };

    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++) {
            used[0] = (int64_t)((uint64_t)used[0] + mix(i));
            used[1]++;
            hash ^= mix(i + step->data_epoch);
        }
    for (size_t i = first; i < end; i++)
        g[i] = (float)(mix(hash + i) >> 48) / 65536 - 0.5f + w[i] * 0.001f;
    if (spotnik_group_rank(group) == 0) {
        memcpy(shared->used, used, sizeof used);
        shared->data_epoch = (int64_t)step->data_epoch;
    }
}

static int reduce(void)
{
    int rc = spotnik_group_allreduce(group, 0, g, count, SPOTNIK_F32, SPOTNIK_MEAN);

    if (!rc)
        rc = spotnik_group_allreduce(group, 1, shared->used, 2, SPOTNIK_I64, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_group_allreduce(group, 2, &shared->data_epoch, 1, SPOTNIK_I64, SPOTNIK_MAX);
    return rc ? rc : spotnik_group_step_commit(group);
}

/* By the leader. False: an epoch of data was not used exactly once. */
static bool account(void)
{
    bool fine = true;

    if (shared->data_epoch != shared->ledger[2]) {
        uint64_t all = 0;
        for (uint64_t i = 0; i < SAMPLES; i++)
            all += mix(i);
        fine = (uint64_t)shared->ledger[0] == all && shared->ledger[1] == SAMPLES
               && shared->data_epoch == shared->ledger[2] + 1;
        memset(shared->ledger, 0, sizeof shared->ledger);
        shared->ledger[2] = shared->data_epoch;
    }
    shared->ledger[0] = (int64_t)((uint64_t)shared->ledger[0] + (uint64_t)shared->used[0]);
    shared->ledger[1] += shared->used[1];
    return fine && shared->ledger[1] <= SAMPLES;
}

static void tell_commit(uint64_t step, uint64_t ns)
{
    spotnik_job_status status;

    if (spotnik_group_rank(group) != 0 || step == 0)
        return;
    spotnik_status(spotnik_group_job(group), &status);
    tell("commit %s %" PRIu64 " %016" PRIx64 " %" PRIu64 " %u %" PRIu64 "\n", name, step, digest(),
         status.view_epoch, status.size, ns);
}

static int train(void)
{
    uint32_t rank = spotnik_group_rank(group), size = spotnik_group_size(group);
    size_t first = count * rank / size, end = count * (rank + 1) / size;
    uint64_t done = 0, done_ns = 0;
    spotnik_step step;
    int rc;

    while (!(rc = spotnik_group_step_begin(group, &step))) {
        tell_commit(done, done_ns);
        compute(&step, first, end);
        rc = reduce();
        if (rc == SPOTNIK_ERR_EXCLUDED) {
            if (rank == 0)
                tell("excluded %s\n", name);
            done = 0;
            continue;
        }
        if (rc)
            return fail("reduce");
        done_ns = now_ns();
        done = step.number;
        for (size_t i = first; i < end; i++)
            w[i] -= 0.1f * g[i];
        if (rank == 0 && !account())
            return fail("samples were not used once each");
    }
    if (rc != SPOTNIK_ERR_DONE && rc != SPOTNIK_ERR_LEAVING)
        return fail("begin");
    tell_commit(done, done_ns);
    if (rank == 0)
        tell("end %s %" PRIu64 "\n", name, done);
    int status = rc == SPOTNIK_ERR_DONE ? 0 : 75;
    return spotnik_group_leave(group) ? fail("leave") : status;
}

int main(int argc, char **argv)
{
    spotnik_config cfg;

    events = open(getenv("GROUP_EVENTS"), O_WRONLY | O_APPEND | O_CLOEXEC);
    name = getenv("SPOTNIK_WORKER");
    if (events < 0 || !name || argc != 3)
        return 2;
    count = strtoull(argv[2], NULL, 10);
    if (spotnik_group_open(NULL, 0, 0, &group))
        return 4;
    tell("process %s %u %d\n", name, spotnik_group_rank(group), (int)getpid());
    shared = spotnik_group_memory(group, sizeof *shared);
    w = spotnik_group_memory(group, count * sizeof *w);
    g = spotnik_group_memory(group, count * sizeof *g);
    spotnik_config_init(&cfg);
    cfg.samples = SAMPLES;
    cfg.batch = BATCH;
    cfg.steps_max = strtoull(argv[1], NULL, 10);
    if (!shared || !w || !g || spotnik_group_join(group, &cfg)
        || spotnik_group_state_add(group, "w", w, count, SPOTNIK_F32)
        || spotnik_group_state_add(group, "ledger", shared->ledger, 3, SPOTNIK_I64))
        return fail("join");
    return train();
}
