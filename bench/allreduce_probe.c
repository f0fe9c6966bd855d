/* SPDX-License-Identifier: Apache-2.0 */
/* What shared memory allows, as a yardstick for allreduce.py: processes, barriers, and nothing
 * else. Each sums its share of the result from all inputs, in pieces of 64 KiB, with the kernels of
 * the library. No steps, no tickets, no members that may die.
 *
 *     allreduce_probe plain|owned MEMBERS BYTES ITERATIONS
 *
 * plain: inputs and outputs are private, so each copies its input in and the result out. owned:
 * inputs and the one result lie in shared memory and are read in place. Prints what
 * allreduce_worker prints. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reduce/reduce.h"

enum { WARM_UP = 5, MEMBERS_MAX = 64, PIECE = 64 * 1024 / sizeof(float) };

struct probe {
    pthread_barrier_t *barrier;
    float *input[MEMBERS_MAX], *result; /* shared by all */
    float *in, *out;                    /* private */
    bool owned;
    uint32_t rank, size;
    size_t count;
};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *shared(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) {
        perror("allreduce_probe");
        exit(1);
    }
    return memory;
}

static void sum_share(const struct probe *probe)
{
    size_t at = probe->count * probe->rank / probe->size,
           end = probe->count * (probe->rank + 1) / probe->size;
    struct spotnik_reduce_source source[MEMBERS_MAX];

    for (; at < end; at += PIECE) {
        for (uint32_t i = 0; i < probe->size; i++)
            source[i] = (struct spotnik_reduce_source){ probe->input[i] + at, 1 };
        size_t count = end - at < PIECE ? end - at : PIECE;
        spotnik_reduce_flat(probe->result + at, source, probe->size, count, SPOTNIK_F32,
                            SPOTNIK_SUM, 0);
    }
}

static void iterate(const struct probe *probe)
{
    if (!probe->owned)
        memcpy(probe->input[probe->rank], probe->in, probe->count * sizeof(float));
    pthread_barrier_wait(probe->barrier);
    sum_share(probe);
    pthread_barrier_wait(probe->barrier);
    if (!probe->owned)
        memcpy(probe->out, probe->result, probe->count * sizeof(float));
}

static bool is_right(const struct probe *probe)
{
    const float *result = probe->owned ? probe->result : probe->out;

    for (size_t i = 0; i < probe->count; i++)
        if (result[i] != (float)(probe->size * (probe->size + 1) / 2))
            return false;
    return true;
}

static int member(struct probe *probe, long iterations)
{
    float *in = probe->in =
        probe->owned ? probe->input[probe->rank] : malloc(probe->count * sizeof(float));

    probe->out = calloc(probe->count, sizeof(float));
    double *end = calloc((size_t)iterations + 1, sizeof *end);
    if (in == NULL || probe->out == NULL || end == NULL)
        return 1;
    for (size_t i = 0; i < probe->count; i++)
        in[i] = (float)(probe->rank + 1);
    for (int i = 0; i < WARM_UP; i++)
        iterate(probe);
    end[0] = now_s();
    for (long i = 0; i < iterations; i++) {
        iterate(probe);
        end[i + 1] = now_s();
    }
    for (long i = 0; i < iterations && probe->rank == 0; i++)
        printf("%.9f\n", end[i + 1] - end[i]);
    if (probe->rank == 0 || !is_right(probe))
        printf("%s\n", is_right(probe) ? "right" : "wrong");
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct probe probe = { .owned = argc == 5 && strcmp(argv[1], "owned") == 0 };
    pthread_barrierattr_t attributes;
    int bad = 0, status;

    probe.size = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (probe.size < 1 || probe.size > MEMBERS_MAX) {
        fprintf(stderr, "Usage: allreduce_probe plain|owned MEMBERS BYTES ITERATIONS\n");
        return 2;
    }
    probe.count = strtoull(argv[3], NULL, 10) / sizeof(float);
    probe.barrier = shared(sizeof *probe.barrier);
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(probe.barrier, &attributes, probe.size);
    probe.result = shared(probe.count * sizeof(float));
    for (uint32_t i = 0; i < probe.size; i++)
        probe.input[i] = shared(probe.count * sizeof(float));
    for (probe.rank = 0; probe.rank < probe.size; probe.rank++)
        if (fork() == 0)
            _exit(member(&probe, strtol(argv[4], NULL, 10)));
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
