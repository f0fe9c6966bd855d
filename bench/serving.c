/* SPDX-License-Identifier: Apache-2.0 */
/* What it costs a member that others pull its model, outside of steps (spotnik/apart.h). One
 * process computes and publishes; another pulls each publication, or none. Steps of four kinds in
 * turn, so that all see the same machine: compute alone, compute while the other one pulls what was
 * published before, compute and publish, and both. Prints what a step takes on the clock (its tenth
 * percentile, for the sake of busy machines, and its median), and the processor time of all threads
 * of the member in it (median).
 *
 *     serving [mib=4] [ms=20] [rounds=200] [steps=1]        SPOTNIK_TRANSPORT=tcp: not over a Unix
 *     socket */
#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "spotnik/apart.h"
#include "peers/peers.h"

enum kind { ALONE, SERVED, PUBLISHED, PULLED, KINDS };
enum { WORK = 16384, SAMPLES_MAX = 100000 };

static const char *const kind_names[KINDS] = { "compute alone", "and be pulled from", "and publish",
                                               "and both" };
static uint64_t sample_ns[KINDS][SAMPLES_MAX], cpu_ns[KINDS][SAMPLES_MAX];
static char folder[] = "/tmp/spotnik-serving-XXXXXX";

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

static uint64_t argument(int argc, char **argv, const char *name, uint64_t otherwise)
{
    size_t size = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, size) == 0 && argv[i][size] == '=')
            return strtoull(argv[i] + size + 1, NULL, 10);
    return otherwise;
}

static void fail(const char *what)
{
    fprintf(stderr, "serving: %s: %s\n", what, spotnik_last_error());
    exit(1);
}

static spotnik_job *join(void)
{
    char key[64], peers[64];
    spotnik_config config;
    spotnik_job *job;
    spotnik_step step;

    snprintf(key, sizeof key, "%s/key", folder);
    snprintf(peers, sizeof peers, "file:%s", folder);
    spotnik_config_init(&config);
    config.key_file = key;
    config.peers = peers;
    config.members_min = 2;
    if (spotnik_join(&config, &job) || spotnik_step_begin(job, &step) || spotnik_step_commit(job))
        fail("join");
    return job;
}

/* One pull for each number in the pipe, of that version or a later one (0: of what there is), until
 * it ends. */
static void pull_on(int words, size_t count)
{
    spotnik_job *job = join();
    float *data = malloc(count * sizeof *data);
    spotnik_job_status status;
    uint64_t version;

    spotnik_status(job, &status);
    while (data && read(words, &version, sizeof version) == (ssize_t)sizeof version) {
        spotnik_arrival arrival = { .size = sizeof arrival };
        spotnik_request *request;
        if (spotnik_pull(job, "model", 1 - status.rank, version, data, count, SPOTNIK_F32, 0,
                         &request))
            fail("pull");
        if (spotnik_request_wait(request, UINT64_MAX, &arrival))
            fail("wait");
        spotnik_request_free(request);
    }
    spotnik_abandon(job);
    _exit(0);
}

/* The same number of operations in every step. */
static void compute(float *work, uint64_t passes)
{
    for (uint64_t pass = 0; pass < passes; pass++)
        for (int i = 0; i < WORK; i++)
            work[i] = work[i] * 0.999f + 0.001f;
}

static uint64_t passes_of(float *work, uint64_t ms)
{
    uint64_t begun_ns = now_ns();

    compute(work, 2000);
    return ms * 1000000 * 2000 / (now_ns() - begun_ns) + 1;
}

static int order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void report(uint64_t count, size_t mib, uint64_t ms)
{
    uint64_t low_ns[KINDS], used_ns[KINDS];

    printf("A model of %zu MiB, about %" PRIu64 " ms of computation in a step, %" PRIu64
           " steps of each kind\n\n",
           mib, ms, count);
    printf("| step | 10 %% ms | | median ms | processor ms | |\n|---|---|---|---|---|---|\n");
    for (int kind = 0; kind < KINDS; kind++) {
        qsort(sample_ns[kind], count, sizeof **sample_ns, order);
        qsort(cpu_ns[kind], count, sizeof **cpu_ns, order);
        low_ns[kind] = sample_ns[kind][count / 10];
        used_ns[kind] = cpu_ns[kind][count / 2];
        printf("| %s | %.3f | %+.2f %% | %.3f | %.3f | %+.2f %% |\n", kind_names[kind],
               (double)low_ns[kind] * 1e-6,
               ((double)low_ns[kind] / (double)low_ns[ALONE] - 1) * 100,
               (double)sample_ns[kind][count / 2] * 1e-6, (double)used_ns[kind] * 1e-6,
               ((double)used_ns[kind] / (double)used_ns[ALONE] - 1) * 100);
    }
}

static void measure(int words, size_t count, uint64_t ms, uint64_t rounds, uint64_t steps)
{
    static float work[WORK];
    spotnik_job *job = join();
    float *model = calloc(count, sizeof *model);
    uint64_t version = 0, passes = passes_of(work, ms), taken = 0;

    for (uint64_t round = 0; round < rounds; round++)
        for (int kind = 0; kind < KINDS; kind++)
            for (uint64_t step = 0; step < steps && round * steps + step < SAMPLES_MAX; step++) {
                uint64_t begun_ns = now_ns(), used_ns = read_ns(CLOCK_PROCESS_CPUTIME_ID);
                uint64_t wanted = kind == PULLED ? version + 1 : 0;
                if ((kind == PULLED || kind == SERVED)
                    && write(words, &wanted, sizeof wanted) != (ssize_t)sizeof wanted)
                    fail("pipe");
                if (kind >= PUBLISHED
                    && spotnik_publish(job, "model", model, count, SPOTNIK_F32, ++version))
                    fail("publish");
                compute(work, passes);
                taken = round * steps + step;
                sample_ns[kind][taken] = now_ns() - begun_ns;
                cpu_ns[kind][taken] = read_ns(CLOCK_PROCESS_CPUTIME_ID) - used_ns;
            }
    free(model);
    close(words);
    report(taken + 1, count * sizeof *model >> 20, ms);
    spotnik_abandon(job);
}

int main(int argc, char **argv)
{
    size_t count = argument(argc, argv, "mib", 4) << 18;
    char key[64], command[80];
    int words[2];

    if (!mkdtemp(folder) || spotnik_peers_fresh(folder) || pipe(words))
        return 1;
    snprintf(key, sizeof key, "%s/key", folder);
    if (spotnik_key_create(key))
        fail("key");
    pid_t child = fork();
    if (child == 0) {
        close(words[1]);
        pull_on(words[0], count);
    }
    close(words[0]);
    signal(SIGPIPE, SIG_IGN);
    measure(words[1], count, argument(argc, argv, "ms", 20), argument(argc, argv, "rounds", 200),
            argument(argc, argv, "steps", 1));
    waitpid(child, NULL, 0);
    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    return system(command) != 0;
}
