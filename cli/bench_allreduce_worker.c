/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of the all-reduce benchmark, and the parent's side of them. They look into the runtime
 * for the algorithm it has taken: a guess from outside would explain what the guesser believes. */
#include "bench_allreduce_worker.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/job.h"
#include "api/key.h"
#include "base/time.h"
#include "runtime/probe.h"
#include "discovery/discovery.h"
#include "reduce/compress.h"

enum { WARM_UP = 5 };

/* for members to share memory with each other; then the ring is what there is to measure */
#define SETTLE_MS 60000.0

struct worker {
    const struct allreduce_plan *plan;
    struct allreduce_board *board;
    const char *folder;
    uint32_t place;
    spotnik_job *job[ALLREDUCE_WAYS]; /* owned and shared: the same */
    float *data[ALLREDUCE_WAYS];
};

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* ---- in the worker ---- */

static void give_up(const struct worker *worker, const char *what, int rc)
{
    snprintf(worker->board->failure, sizeof worker->board->failure, "worker %u: %s: %s (%s)",
             worker->place, what, spotnik_strerror(rc), spotnik_last_error());
    _exit(1);
}

static spotnik_job *join(const struct worker *worker, const char *transport)
{
    char key[96], peers[96], host[24];
    spotnik_config config;
    spotnik_job *job = NULL;

    snprintf(key, sizeof key, "%s/key", worker->folder);
    snprintf(peers, sizeof peers, "file:%s/%s", worker->folder, transport);
    setenv("SPOTNIK_TRANSPORT", transport, 1);
    if (worker->plan->hosts > 1) {
        snprintf(host, sizeof host, "bench-%u", worker->place % worker->plan->hosts);
        setenv("SPOTNIK_HOST", host, 1);
    }
    spotnik_config_init(&config);
    config.job_name = transport;
    config.key_file = key;
    config.peers = peers;
    config.members_min = worker->plan->workers;
    config.members_max = ALLREDUCE_WORKERS_MAX;
    /* Nobody is lost here but by a failure, which ends the bench: on a busy machine a worker may
     * get no processor for seconds. */
    config.silence_floor_ns = 60 * SPOTNIK_S;
    int rc = spotnik_join(&config, &job);

    if (rc)
        give_up(worker, "join", rc);
    return job;
}

static void prepare(struct worker *worker, size_t bytes)
{
    worker->job[ALLREDUCE_OWNED] = worker->job[ALLREDUCE_SHARED] = join(worker, "auto");
    worker->job[ALLREDUCE_TCP] = join(worker, "tcp");
    worker->data[ALLREDUCE_OWNED] = spotnik_alloc(worker->job[ALLREDUCE_OWNED], bytes);
    worker->data[ALLREDUCE_SHARED] = worker->data[ALLREDUCE_TCP] = calloc(1, bytes);
    if (!worker->data[ALLREDUCE_OWNED] || !worker->data[ALLREDUCE_SHARED])
        give_up(worker, "memory", SPOTNIK_ERR_MEMORY);
}

static double step_ms(const struct worker *worker, enum allreduce_way way, size_t count)
{
    spotnik_job *job = worker->job[way];
    float *data = worker->data[way];
    double begun_ms = now_ms();
    spotnik_step step;
    int rc = spotnik_step_begin(job, &step);

    if (!rc && worker->plan->wire)
        rc = spotnik_allreduce_compressed(job, 0, data, count,
                                          (enum spotnik_dtype)worker->plan->wire, SPOTNIK_SUM);
    else if (!rc)
        rc = way == ALLREDUCE_OWNED
                 ? spotnik_allreduce_from(job, 0, data, count, SPOTNIK_F32, SPOTNIK_SUM)
                 : spotnik_allreduce(job, 0, data, count, SPOTNIK_F32, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_step_commit(job);
    if (rc)
        give_up(worker, "step", rc);
    return now_ms() - begun_ms;
}

/* What is done in memory, if anything is. The first worker is on a host with the most members:
 * where any are shared, it shares its own. */
static enum allreduce_algorithm memory_of(const struct spotnik_net_ways *ways,
                                          enum allreduce_way way, size_t bytes)
{
    if (way == ALLREDUCE_TCP || ways->hosts == ways->members)
        return ALLREDUCE_RING;
    if (!ways->memory.possible)
        return ALLREDUCE_RING_NO_MEMORY;
    if (!ways->memory.shared)
        return ALLREDUCE_RING_APART;
    if (ways->hosts > 1)
        return ALLREDUCE_HOSTS;
    return bytes <= ways->memory.small_bytes ? ALLREDUCE_FLAT_SMALL : ALLREDUCE_FLAT_LARGE;
}

static enum allreduce_algorithm algorithm_of(spotnik_job *job, enum allreduce_way way, size_t bytes)
{
    struct spotnik_net_ways ways;

    spotnik_net_ways(job->runtime, &ways);
    enum allreduce_algorithm algorithm = memory_of(&ways, way, bytes);
    enum spotnik_schedule small =
        spotnik_choice_take(ways.limits.choice, ways.members, true, bytes);
    if (algorithm == ALLREDUCE_RING && small != SPOTNIK_SCHEDULE_RING)
        algorithm = small == SPOTNIK_SCHEDULE_DIRECT ? ALLREDUCE_DIRECT
                    : small == SPOTNIK_SCHEDULE_HUB  ? ALLREDUCE_HUB
                                                     : ALLREDUCE_TREE;
    return algorithm;
}

/* Steps until memory is shared in `way`, where it can be: the first ones of a view go round the
 * ring. How many iterations that takes depends on time, so the first worker decides. All read its
 * number as the sum of a bucket to which nobody else adds. */
static void settle(const struct worker *worker, enum allreduce_way way)
{
    double until_ms = now_ms() + SETTLE_MS;
    spotnik_step step;
    float apart;

    do {
        int rc = spotnik_step_begin(worker->job[way], &step);

        apart = !rc && worker->place == 0
                && algorithm_of(worker->job[way], way, sizeof apart) == ALLREDUCE_RING_APART
                && now_ms() < until_ms;
        if (!rc)
            rc = spotnik_allreduce(worker->job[way], 0, &apart, 1, SPOTNIK_F32, SPOTNIK_SUM);
        if (!rc)
            rc = spotnik_step_commit(worker->job[way]);
        if (rc)
            give_up(worker, "first steps", rc);
    } while (apart > 0);
}

/* What a member puts in: sums of a few uniform numbers, most of them small, as gradients are. */
static float gradient_of(uint32_t place, uint64_t at)
{
    uint64_t x = (at + 1) * UINT64_C(0x9E3779B97F4A7C15) + place * UINT64_C(0xBF58476D1CE4E5B9);
    double sum = 0;

    for (int i = 0; i < 4; i++) {
        x = (x ^ (x >> 29)) * UINT64_C(0x94D049BB133111EB);
        sum += (double)(int64_t)x;
    }
    return (float)(sum * 0x1p-64);
}

/* One more step, with numbers in it, and how far its result is from the sum in F64. */
static void error_measure(const struct worker *worker, enum allreduce_way way, size_t count,
                          struct allreduce_cell *cell)
{
    double most = 0, error_most = 0, squares = 0, error_squares = 0;

    for (size_t i = 0; i < count; i++)
        worker->data[way][i] = gradient_of(worker->place, i);
    step_ms(worker, way, count);
    for (size_t i = 0; i < count && worker->place == 0; i++) {
        double exact = 0;
        for (uint32_t place = 0; place < worker->plan->workers; place++)
            exact += (double)gradient_of(place, i);
        double error = fabs((double)worker->data[way][i] - exact);
        most = fmax(most, fabs(exact));
        error_most = fmax(error_most, error);
        squares += exact * exact;
        error_squares += error * error;
    }
    if (worker->place == 0) {
        cell->error_most = error_most / most;
        cell->error_mean = sqrt(error_squares / squares);
    }
    memset(worker->data[way], 0, count * sizeof(float));
}

static size_t bytes_on_the_way(const struct allreduce_plan *plan, size_t bytes)
{
    return plan->wire == 0            ? bytes
           : plan->wire == SPOTNIK_Q8 ? spotnik_quant_blocks(bytes / 4) * 256
                                      : bytes / 2;
}

static void one_size(const struct worker *worker, uint32_t index)
{
    struct allreduce_cell *cell = worker->board->cell[index];
    size_t bytes = worker->plan->bytes[index];

    for (int i = -WARM_UP; i < (int)worker->plan->steps; i++)
        for (enum allreduce_way way = 0; way < ALLREDUCE_WAYS; way++) {
            double ms = step_ms(worker, way, bytes / sizeof(float));
            if (i >= 0 && worker->place == 0)
                cell[way].ms[i] = ms;
        }
    for (enum allreduce_way way = 0; way < ALLREDUCE_WAYS && worker->place == 0; way++)
        cell[way].algorithm =
            algorithm_of(worker->job[way], way, bytes_on_the_way(worker->plan, bytes));
    for (enum allreduce_way way = 0; way < ALLREDUCE_WAYS && worker->plan->wire; way++)
        error_measure(worker, way, bytes / sizeof(float), &cell[way]);
}

static void note_limits(const struct worker *worker)
{
    struct spotnik_net_ways ways;

    spotnik_net_ways(worker->job[ALLREDUCE_SHARED]->runtime, &ways);
    worker->board->chunk_bytes = ways.limits.chunk_bytes;
    worker->board->small_bytes = ways.memory.small_bytes;
}

static void note_channels(const struct worker *worker)
{
    struct spotnik_channel_status channel[ALLREDUCE_LANES_MAX];
    struct allreduce_board *board = worker->board;

    board->lanes =
        spotnik_runtime_channels(worker->job[ALLREDUCE_TCP]->runtime, channel, ALLREDUCE_LANES_MAX);
    for (uint32_t i = 0; i < board->lanes; i++) {
        board->channel[i] = (struct allreduce_channel){ .connections = channel[i].connections,
                                                        .round_trip_ns = channel[i].round_trip_ns };
        memcpy(board->channel[i].congestion, channel[i].congestion,
               sizeof board->channel[i].congestion);
    }
}

/* Nobody leaves before the first worker has looked: a view that others have left has other lanes,
 * and takes other ways. A step is over only when all have begun it. */
static void leave(const struct worker *worker)
{
    for (enum allreduce_way way = ALLREDUCE_SHARED; way < ALLREDUCE_WAYS; way++)
        step_ms(worker, way, 1);
    spotnik_leave(worker->job[ALLREDUCE_TCP]);
    spotnik_leave(worker->job[ALLREDUCE_SHARED]);
}

static void work(struct worker *worker)
{
    size_t most = 4;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t i = 0; i < worker->plan->sizes; i++)
        most = worker->plan->bytes[i] > most ? worker->plan->bytes[i] : most;
    prepare(worker, most);
    if (worker->place == 0)
        note_limits(worker);
    settle(worker, ALLREDUCE_SHARED);
    for (uint32_t i = 0; i < worker->plan->sizes; i++)
        one_size(worker, i);
    if (worker->place == 0)
        note_channels(worker);
    leave(worker);
    _exit(0);
}

/* ---- in the parent ---- */

/* The first that fails ends the others, which would wait for it. */
static bool await(pid_t *pid, uint32_t workers)
{
    bool good = true;

    for (uint32_t left = workers; left > 0; left--) {
        int status;
        pid_t ended = wait(&status);
        for (uint32_t i = 0; i < workers; i++)
            if (pid[i] == ended)
                pid[i] = 0;
        if (good && status)
            for (uint32_t i = 0; i < workers; i++)
                if (pid[i] > 0)
                    kill(pid[i], SIGKILL);
        good = good && !status;
    }
    return good;
}

static bool make_folder(char folder[64])
{
    char text[96];

    strcpy(folder, "/tmp/spotnik-bench-XXXXXX");
    if (!mkdtemp(folder))
        return false;
    snprintf(text, sizeof text, "%s/auto", folder);
    if (spotnik_discovery_fresh(text))
        return false;
    snprintf(text, sizeof text, "%s/tcp", folder);
    if (spotnik_discovery_fresh(text))
        return false;
    snprintf(text, sizeof text, "%s/key", folder);
    return spotnik_key_create(text) == 0;
}

static void remove_folder(const char *folder)
{
    char command[96];

    snprintf(command, sizeof command, "rm -rf -- %s", folder);
    if (system(command))
        fprintf(stderr, "spotnik bench: could not remove %s\n", folder);
}

bool allreduce_measure(const struct allreduce_plan *plan, struct allreduce_board *board)
{
    pid_t pid[ALLREDUCE_WORKERS_MAX];
    char folder[64];
    uint32_t started = 0;

    if (!make_folder(folder)) {
        snprintf(board->failure, sizeof board->failure,
                 "no folder for the job can be made in /tmp: %m");
        return false;
    }
    fflush(NULL);
    for (; started < plan->workers; started++) {
        struct worker worker = { .plan = plan, .board = board, .folder = folder, .place = started };
        pid[started] = fork();
        if (pid[started] < 0)
            break;
        if (pid[started] == 0)
            work(&worker);
    }
    for (uint32_t i = 0; started < plan->workers && i < started; i++)
        kill(pid[i], SIGKILL);
    bool good = await(pid, started) && started == plan->workers;

    if (!good && !board->failure[0])
        snprintf(board->failure, sizeof board->failure, "a worker ended before its time");
    remove_folder(folder);
    return good;
}
