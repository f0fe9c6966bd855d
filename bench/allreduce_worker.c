/* SPDX-License-Identifier: Apache-2.0 */
/* One member of a job that does nothing but all-reduces, and measures them: the loop of a training
 * program with the computing left out. Started by allreduce.py, which also starts the peers.
 *
 *     allreduce_worker plain|owned BYTES ITERATIONS
 *
 * plain: the buffer is the caller's, as PyTorch's are. owned: it comes from spotnik_alloc(), and
 * the result is read where it lies. The rank that was 0 prints at the end, one a line, the seconds
 * that each iteration took from the end of the one before, and whether the sums were right.
 * Settings come from SPOTNIK_*. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <spotnik/spotnik.h>

#define WARM_UP 5

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void stop(const char *what, int rc)
{
    fprintf(stderr, "allreduce_worker: %s: %s: %s\n", what, spotnik_strerror(rc),
            spotnik_last_error());
    exit(1);
}

static void check(const char *what, int rc)
{
    if (rc != 0)
        stop(what, rc);
}

static float *buffer_new(spotnik_job *job, int owned, size_t bytes)
{
    void *memory =
        owned ? spotnik_alloc(job, bytes) : aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (memory == NULL)
        stop("buffer", SPOTNIK_ERR_MEMORY);
    memset(memory, 0, bytes);
    return memory;
}

/* Rank r puts in r + 1 everywhere, so that the sum is known. */
static void fill(float *in, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++)
        in[i] = (float)(rank + 1);
}

static int is_right(const float *result, size_t count, uint32_t size)
{
    float expected = (float)(size * (size + 1) / 2);
    for (size_t i = 0; i < count; i++)
        if (result[i] != expected)
            return 0;
    return 1;
}

static const float *iterate(spotnik_job *job, float *data, size_t count, int owned,
                            spotnik_step *step)
{
    check("step_begin", spotnik_step_begin(job, step));
    if (owned)
        check("allreduce", spotnik_allreduce_from(job, 0, data, count, SPOTNIK_F32, SPOTNIK_SUM));
    else
        check("allreduce", spotnik_allreduce(job, 0, data, count, SPOTNIK_F32, SPOTNIK_SUM));
    check("step_commit", spotnik_step_commit(job));
    return owned ? spotnik_result(job, 0) : data;
}

static int wrong(spotnik_job *job, float *data, size_t count, int owned, spotnik_step *step)
{
    fill(data, count, step->rank);
    const float *result = iterate(job, data, count, owned, step);
    return result == NULL || !is_right(result, count, step->size);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "Usage: allreduce_worker plain|owned BYTES ITERATIONS\n");
        return 2;
    }
    int owned = strcmp(argv[1], "owned") == 0;
    size_t count = strtoull(argv[2], NULL, 10) / sizeof(float);
    long iterations = strtol(argv[3], NULL, 10);
    spotnik_config config;
    spotnik_job *job;
    spotnik_step step;
    spotnik_config_init(&config);
    check("join", spotnik_join(&config, &job));
    float *data = buffer_new(job, owned, count * sizeof(float));
    double *end = calloc((size_t)iterations + 1, sizeof *end);
    if (end == NULL)
        stop("times", SPOTNIK_ERR_MEMORY);
    for (int i = 0; i < WARM_UP; i++)
        iterate(job, data, count, owned, &step);
    end[0] = now_s();
    for (long i = 0; i < iterations; i++) {
        iterate(job, data, count, owned, &step);
        end[i + 1] = now_s();
    }
    for (long i = 0; i < iterations && step.rank == 0; i++)
        printf("%.9f\n", end[i + 1] - end[i]);
    free(end);
    int bad = wrong(job, data, count, owned, &step);
    if (step.rank == 0 || bad)
        printf("%s\n", bad ? "wrong" : "right");
    fflush(stdout);
    spotnik_leave(job);
    return bad;
}
