/* SPDX-License-Identifier: Apache-2.0 */
/* One of two members of a job that does nothing but all-reduces, with the flight recorder, the
 * trace, and the tags of data switched on and off between blocks of steps. Started by recording.py,
 * which says what is measured.
 *
 *     recording_worker MODES BYTES ROUNDS SETTLE_MS BLOCK_MS
 *
 * MODES: letters, of each round a block: o nothing is kept, r the flight recorder is, t the trace
 * is written as well, b as r, and tags between members are neither made nor checked. Which comes
 * first turns from round to round. Both members switch before the same step, so a step is in one
 * mode everywhere. What runs on behind the steps (the thread that writes the trace) has SETTLE_MS
 * to come to the new mode; then BLOCK_MS are measured. The member that was rank 0 prints a line a
 * block: round, mode, milliseconds a step.
 *
 * A switch puts the runtime's own pointers aside under the runtime's lock. The library has no call
 * for it, since a recorder with gaps could not be replayed. Nor is there one that does without
 * tags: the linker puts ours in the place of the library's functions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <spotnik/spotnik.h>

#include "api/job.h"
#include "link/seal.h"
#include "runtime/inside.h"

static _Atomic bool bare;

void __real_spotnik_seal_make(struct spotnik_seal *seal, uint64_t number, const void *bytes,
                              size_t size, uint8_t ret_tag[SPOTNIK_SEAL_BYTES]);
void __wrap_spotnik_seal_make(struct spotnik_seal *seal, uint64_t number, const void *bytes,
                              size_t size, uint8_t ret_tag[SPOTNIK_SEAL_BYTES]);
bool __real_spotnik_seal_verify(struct spotnik_seal *seal, uint64_t number, const void *bytes,
                                size_t size, const uint8_t tag[SPOTNIK_SEAL_BYTES]);
bool __wrap_spotnik_seal_verify(struct spotnik_seal *seal, uint64_t number, const void *bytes,
                                size_t size, const uint8_t tag[SPOTNIK_SEAL_BYTES]);

void __wrap_spotnik_seal_make(struct spotnik_seal *seal, uint64_t number, const void *bytes,
                              size_t size, uint8_t ret_tag[SPOTNIK_SEAL_BYTES])
{
    if (bare)
        memset(ret_tag, 0, SPOTNIK_SEAL_BYTES);
    else
        __real_spotnik_seal_make(seal, number, bytes, size, ret_tag);
}

/* The other member may have switched before, and the first frame of its next step be here. */
bool __wrap_spotnik_seal_verify(struct spotnik_seal *seal, uint64_t number, const void *bytes,
                                size_t size, const uint8_t tag[SPOTNIK_SEAL_BYTES])
{
    static const uint8_t none[SPOTNIK_SEAL_BYTES];
    return bare || memcmp(tag, none, sizeof none) == 0
           || __real_spotnik_seal_verify(seal, number, bytes, size, tag);
}

struct member {
    spotnik_job *job;
    float *data;
    size_t count;
    uint32_t rank;
    struct spotnik_recorder *recorder;
    struct spotnik_tracer *trace;
};

static double now_ms(void)
{
    return (double)spotnik_clock_ns() * 1e-6;
}

static void check(const char *what, int rc)
{
    if (rc == 0)
        return;
    fprintf(stderr, "recording_worker: %s: %s: %s\n", what, spotnik_strerror(rc),
            spotnik_last_error());
    exit(1);
}

/* A step with one bucket; of `op` over `count` numbers of the data. */
static void iterate(struct member *member, size_t count, enum spotnik_op op)
{
    spotnik_step step;
    check("step_begin", spotnik_step_begin(member->job, &step));
    check("allreduce",
          spotnik_allreduce_from(member->job, 0, member->data, count, SPOTNIK_F32, op));
    check("step_commit", spotnik_step_commit(member->job));
    member->rank = step.rank;
    if (step.size != 2)
        check("the job is not of two", SPOTNIK_ERR_STATE);
}

static double run(struct member *member, uint32_t steps)
{
    double begun = now_ms();
    for (uint32_t i = 0; i < steps; i++)
        iterate(member, member->count, SPOTNIK_MEAN);
    return now_ms() - begun;
}

/* Steps in a millisecond, on which both agree: the slower one's. */
static double pace(struct member *member)
{
    enum { WARM_UP = 50, SAMPLE = 100 };
    run(member, WARM_UP);
    member->data[0] = (float)(SAMPLE / run(member, SAMPLE));
    iterate(member, 1, SPOTNIK_MIN);
    double agreed = ((const float *)spotnik_result(member->job, 0))[0];
    memset(member->data, 0, member->count * sizeof *member->data);
    return agreed;
}

static void switch_to(struct member *member, char mode)
{
    struct spotnik_runtime *runtime = member->job->runtime;
    spotnik_runtime_lock(runtime);
    runtime->recorder = mode == 'o' ? NULL : member->recorder;
    spotnik_transport_core_set(runtime->transport, runtime->core, runtime->recorder);
    runtime->trace = mode == 't' ? member->trace : NULL;
    bare = mode == 'b';
    spotnik_runtime_unlock(runtime);
}

static uint32_t steps_of(double pace, const char *ms)
{
    double steps = pace * strtod(ms, NULL);
    return steps < 1 ? 1 : (uint32_t)steps;
}

static void take_away(struct member *member)
{
    member->recorder = member->job->runtime->recorder;
    member->trace = member->job->runtime->trace;
    if (member->recorder == NULL)
        check("no recorder: unset SPOTNIK_DUMP", SPOTNIK_ERR_STATE);
}

static void measure(struct member *member, char **argument)
{
    const char *modes = argument[1];
    unsigned count = (unsigned)strlen(modes), rounds = (unsigned)strtoul(argument[3], NULL, 10);
    double agreed = pace(member);
    uint32_t settle = steps_of(agreed, argument[4]), steps = steps_of(agreed, argument[5]);

    for (unsigned i = 0; i < rounds * count; i++) {
        char mode = modes[(i / count + i) % count];
        switch_to(member, mode);
        run(member, settle);
        double took = run(member, steps);
        if (member->rank == 0)
            printf("%u %c %.6f\n", i / count, mode, took / steps);
    }
    switch_to(member, 't');
}

int main(int argc, char **argv)
{
    spotnik_config config;
    struct member member = { .job = NULL };
    if (argc != 6 || argv[1][0] == '\0' || strspn(argv[1], "ortb") != strlen(argv[1])) {
        fprintf(stderr, "Usage: recording_worker MODES BYTES ROUNDS SETTLE_MS BLOCK_MS\n");
        return 2;
    }
    member.count = strtoull(argv[2], NULL, 10) / sizeof(float);
    spotnik_config_init(&config);
    config.members_min = 2;
    check("join", spotnik_join(&config, &member.job));
    member.data = spotnik_alloc(member.job, member.count * sizeof(float));
    check("alloc", member.data == NULL ? SPOTNIK_ERR_MEMORY : 0);
    memset(member.data, 0, member.count * sizeof(float));
    take_away(&member);
    measure(&member, argv);
    fflush(stdout);
    spotnik_leave(member.job);
    return 0;
}
