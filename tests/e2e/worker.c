/* SPDX-License-Identifier: Apache-2.0 */
/* The member of the end-to-end tests: trains nothing of use, and reports every commit, so that
 * whoever started it can compare all members. One line per event on --events FD:
 *
 *     joined MEMBER     spotnik_join() returned, or it is a new member since it was excluded
 *     commit STEP DIGEST EPOCH SIZE REPLAY NS     NS: CLOCK_MONOTONIC
 *     recovery EPOCH LOST JOINED DETECTED RECONCILED ACCEPTED RESTARTED COMMITTED
 *     excluded STEP
 *     done STEP DIGEST
 *     leaving STEP DIGEST
 *     error CODE WORDS
 *     aim VALUE, dies VALUE     where it is built to die at points of the protocol (armed.h)
 *
 * With SPOTNIK_SYNC in the environment its weights are under that strategy, and the digest is
 * that of the agreed ones. With WORKER_ALL_KINDS there are collectives of every kind in its
 * steps (all_kinds.h). With WORKER_ONES=N there is a bucket of N ones in each, whose sum must be
 * the same whole number everywhere. With WORKER_APART it goes on after each of them outside of
 * steps (p2p_turn.h). With WORKER_HOLD it waits, when it has joined and before it is given the
 * state, until there is a file of that name; with WORKER_KEEPS it keeps the job so long after an
 * error. With WORKER_CHDIR it makes that its working directory when it has joined. With
 * WORKER_BLOCKS it blocks SIGUSR1 from then on. It checks the ledger itself: over each epoch of
 * data the samples of all committed steps are every index once. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "all_kinds.h"
#include "p2p_turn.h"
#include "spotnik/spotnik.h"
#include "spotnik/sync.h"
#ifdef WORKER_ARMED
#include "armed.h"
#endif

struct worker {
    int events;
    uint64_t steps, count, samples, batch, state_bytes, compute_us, busy_us;
    /* steps of its own after which it leaves, with status 0, as a program that has nothing more to
     * do; 0: never */
    uint64_t quits;
    bool had_company;
    bool odd;   /* has a bucket that the others have not */
    bool slow;  /* a replayed step takes half as long again as any other */
    bool light; /* the digest looks at the ballast here and there only */
    spotnik_job *job;
    spotnik_sync *sync;     /* NULL: it averages gradients itself */
    struct all_kinds *all;  /* NULL: with all-reduces only */
    struct p2p_turn *apart; /* NULL: nothing outside of steps */
    float *w, *g, *ones;
    uint64_t ones_count; /* 0: without */
    uint8_t *ballast;    /* registered state that is never trained */
    int64_t
        /* registered: sum of hashes and number of samples consumed in the data epoch ledger[2] */
        ledger[3];
    int64_t consumed[2], data_epoch, odd_bucket[1]; /* buckets */
    uint64_t recovery_epoch;                        /* of the newest recovery told */
    char member[33];                                /* the id last told */
};

static spotnik_job *noticed_job;

static void on_signal(int number)
{
    (void)number;
    spotnik_notice(noticed_job);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
    z += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void tell(const struct worker *worker, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One write per line: lines of several members in one file stay whole. */
static void tell(const struct worker *worker, const char *format, ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof line - 2)
        length = (int)sizeof line - 2;
    line[length++] = '\n';
    if (write(worker->events, line, (size_t)length) != length)
        _exit(3); /* nobody listens any more */
}

static int fail(const struct worker *worker, int rc, const char *what)
{
    tell(worker, "error %d %s: %s (%s)", rc, what, spotnik_strerror(rc), spotnik_last_error());
    return 1;
}

/* A signal may end it early. */
static void rest_ns(uint64_t ns)
{
    struct timespec span = { .tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000) };

    if (ns && nanosleep(&span, NULL) && errno != EINTR)
        abort();
}

/* The gradient depends on the samples and on the weights, so a wrong share or a wrong replica shows
 * in every digest. */
static void compute(struct worker *worker, const spotnik_step *step)
{
    uint64_t hash = mix(step->number);

    worker->consumed[0] = worker->consumed[1] = 0;
    worker->data_epoch = (int64_t)step->data_epoch;
    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++) {
            worker->consumed[0] = (int64_t)((uint64_t)worker->consumed[0] + mix(i));
            worker->consumed[1]++;
            hash ^= mix(i + step->data_epoch);
        }
    for (uint64_t i = 0; i < worker->count; i++)
        worker->g[i] =
            (float)((mix(hash + i) >> 40) & 0xffff) / 65536 - 0.5f + worker->w[i] * 0.001f;
    if (step->replay && !worker->slow)
        return; /* an empty share takes no time */
    for (uint64_t since_ns = now_ns();
         worker->busy_us && now_ns() - since_ns < worker->busy_us * 1000;)
        continue; /* as a trainer does that needs more cores than there are */
    /* the time a backward pass takes elsewhere */
    rest_ns(worker->compute_us * (step->replay ? 1500 : 1000));
    if (getenv("WORKER_UNEVEN")) /* so much for a sample, as the process is */
        rest_ns(step->sample_count * (1 + (uint64_t)getpid() % 4) * 20000);
}

static uint64_t sum_of_all(uint64_t samples)
{
    uint64_t sum = 0;

    for (uint64_t i = 0; i < samples; i++)
        sum += mix(i);
    return sum;
}

/* P8, from the results all members share. Returns false when an epoch of data was not consumed
 * exactly once. */
static bool account(struct worker *worker)
{
    bool fine = true;

    if (!worker->samples)
        return true;
    if (worker->data_epoch != worker->ledger[2]) {
        fine = (uint64_t)worker->ledger[0] == sum_of_all(worker->samples)
               && (uint64_t)worker->ledger[1] == worker->samples
               && worker->data_epoch == worker->ledger[2] + 1;
        worker->ledger[0] = worker->ledger[1] = 0;
        worker->ledger[2] = worker->data_epoch;
    }
    worker->ledger[0] = (int64_t)((uint64_t)worker->ledger[0] + (uint64_t)worker->consumed[0]);
    worker->ledger[1] += worker->consumed[1];
    return fine && (uint64_t)worker->ledger[1] <= worker->samples;
}

static void tell_member(struct worker *worker, const spotnik_job_status *status)
{
    if (!strcmp(worker->member, status->member))
        return;
    memcpy(worker->member, status->member, sizeof worker->member);
    tell(worker, "joined %s", status->member);
}

static void tell_recoveries(struct worker *worker, const spotnik_job_status *status)
{
    for (uint32_t i = 0; i < status->recovery_count; i++) {
        const spotnik_recovery *r = &status->recovery[i];

        if (r->epoch <= worker->recovery_epoch || !r->committed_ns)
            continue;
        worker->recovery_epoch = r->epoch;
        tell(worker,
             "recovery %" PRIu64 " %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
             r->epoch, r->lost, r->joined, r->detected_ns, r->reconciled_ns, r->accepted_ns,
             r->restarted_ns, r->committed_ns);
    }
}

/* Over hundreds of MiB the digest would be the longest part of a step. */
static uint64_t digest(const struct worker *worker)
{
    uint64_t hash = 1;

    if (worker->sync)
        return mix(spotnik_sync_digest(worker->sync) ^ mix((uint64_t)worker->ledger[0])
                   ^ (uint64_t)worker->ledger[1]);
    if (!worker->light)
        return spotnik_state_digest(worker->job);
    for (uint64_t i = 0; i < worker->count; i++) {
        uint32_t bits;

        memcpy(&bits, &worker->w[i], sizeof bits);
        hash = mix(hash ^ bits);
    }
    for (uint64_t i = 0; i < worker->state_bytes; i += 65537)
        hash = mix(hash ^ worker->ballast[i]);
    return hash;
}

/* An input that is not what was put in shows here, though all members agree on what they make of
 * it. */
static bool ones_are_right(const struct worker *worker)
{
    for (uint64_t i = 0; i < worker->ones_count; i++)
        if (worker->ones[i] != worker->ones[0] || worker->ones[i] < 1 || worker->ones[i] > 64)
            return false;
    return true;
}

static void descend(void *context, float *w, const float *g, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        w[i] -= 0.1f * g[i];
}

static int apply(struct worker *worker, const spotnik_step *step)
{
    spotnik_job_status status;

    if (!worker->sync)
        descend(NULL, worker->w, worker->g, worker->count);
    if (!ones_are_right(worker)) {
        tell(worker, "error 0 sum: step %" PRIu64 " added up something else than ones",
             step->number);
        return 1;
    }
    if (!account(worker)) {
        tell(worker,
             "error 0 ledger: the samples of an epoch of data were not consumed once each, step "
             "%" PRIu64,
             step->number);
        return 1;
    }
    spotnik_status(worker->job, &status);
    tell_member(worker, &status);
    tell(worker, "commit %" PRIu64 " %016" PRIx64 " %" PRIu64 " %u %u %" PRIu64, step->number,
         digest(worker), status.view_epoch, status.size, step->replay, now_ns());
    tell_recoveries(worker, &status);
    const char *wrong =
        worker->apart && !step->replay ? p2p_turn_take(worker->apart, status.size) : NULL;
    if (wrong)
        tell(worker, "error 0 outside of step %" PRIu64 ": %s", step->number, wrong);
    return wrong != NULL;
}

/* WORKER_ODD says in what this program differs from the others': when three or more have made some
 * steps, so that there is a majority of members that know the step. */
static bool is_odd(const spotnik_step *step, const char *how)
{
    static uint64_t first;
    const char *odd = getenv("WORKER_ODD");

    if (step->size < 3 || step->replay)
        first = 0;
    else if (first == 0)
        first = step->number;
    return odd && !strcmp(odd, how) && first > 0 && step->number >= first + 5;
}

static int reduce(struct worker *worker, const spotnik_step *step)
{
    int rc = 0;

    if (is_odd(step, "empty"))
        return spotnik_step_commit(worker->job);
    for (uint64_t i = 0; i < worker->ones_count; i++)
        worker->ones[i] = 1;
    if (worker->ones_count)
        rc = spotnik_allreduce(worker->job, 4, worker->ones, worker->ones_count, SPOTNIK_F32,
                               SPOTNIK_SUM);
    if (rc)
        return rc;
    if (worker->all)
        rc = all_kinds_start(worker->all, step);
    else if (!worker->sync)
        rc = spotnik_allreduce(worker->job, 0, worker->g, worker->count, SPOTNIK_F32, SPOTNIK_MEAN);
    if (!rc)
        rc = spotnik_allreduce(worker->job, 1, worker->consumed, is_odd(step, "size") ? 1 : 2,
                               SPOTNIK_I64, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_allreduce(worker->job, 2, &worker->data_epoch, 1, SPOTNIK_I64,
                               is_odd(step, "op") ? SPOTNIK_MIN : SPOTNIK_MAX);
    if (!rc && (worker->odd || is_odd(step, "more")))
        rc = spotnik_allreduce(worker->job, 3, worker->odd_bucket, 1, SPOTNIK_I64, SPOTNIK_SUM);
    if (rc)
        return rc;
    if (worker->all)
        return all_kinds_finish(worker->all, spotnik_step_commit(worker->job));
    return worker->sync ? spotnik_sync_step(worker->sync, worker->g)
                        : spotnik_step_commit(worker->job);
}

static int begin(struct worker *worker, spotnik_step *ret_step)
{
    return worker->sync ? spotnik_sync_begin(worker->sync, ret_step)
                        : spotnik_step_begin(worker->job, ret_step);
}

/* With WORKER_QUITS_ALONE: a program whose loop ends by itself once it is left alone. The library
 * is told of no notice. */
static bool is_left_alone(struct worker *worker)
{
    spotnik_job_status status;

    spotnik_status(worker->job, &status);
    worker->had_company |= status.size > 1;
    return worker->had_company && status.size == 1 && getenv("WORKER_QUITS_ALONE");
}

static int train(struct worker *worker, uint64_t *ret_step)
{
    spotnik_step step;
    uint64_t own = 0;
    uint64_t loads = spotnik_state_loads(worker->job);
    int rc = 0;

    while (!is_left_alone(worker) && (rc = begin(worker, &step)) == 0) {
        loads = spotnik_state_loads(worker->job);
        compute(worker, &step);
        rc = reduce(worker, &step);
        if (rc == SPOTNIK_ERR_EXCLUDED) {
            tell(worker, "excluded %" PRIu64, step.number);
            continue;
        }
        if (rc)
            return rc;
        *ret_step = step.number;
        if (apply(worker, &step))
            return SPOTNIK_ERR_STATE;
        if (!step.replay && ++own == worker->quits)
            break;
    }
    if (rc == SPOTNIK_ERR_DONE && spotnik_state_loads(worker->job) != loads) {
        /* others made the last steps, and left us their result */
        tell(worker, "excluded %" PRIu64, *ret_step);
        *ret_step = worker->steps;
    }
    return rc;
}

/* As a program does that reads its signals from a descriptor, or waits for them in a thread. */
static void block(int number)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, number);
    if (pthread_sigmask(SIG_BLOCK, &set, NULL))
        abort();
}

/* Nothing is copied before it has said what its state is. */
static void hold(const char *until)
{
    while (until && access(until, F_OK) != 0)
        rest_ns(1000000); /* between two looks; nothing rests on it */
}

/* The other mode once a window: for tests of switching. */
static int turns(void *context, const spotnik_sync_numbers *numbers)
{
    (void)context;
    return !numbers->asynchronous;
}

static int sync_open(struct worker *worker)
{
    int rc = spotnik_sync_open(worker->job, NULL, worker->w, worker->count, descend, NULL,
                               &worker->sync);

    return !rc && getenv("WORKER_TURNS") ? spotnik_sync_policy_set(worker->sync, turns, NULL) : rc;
}

static int enrol(struct worker *worker)
{
    spotnik_config config;
    spotnik_job_status status;

    spotnik_config_init(&config);
    config.samples = worker->samples;
    config.batch = worker->batch;
    config.steps_max = worker->steps;
    if (getenv("WORKER_PATIENCE_MS"))
        config.minority_wait_ns = strtoull(getenv("WORKER_PATIENCE_MS"), NULL, 10) * 1000000;
    int rc = spotnik_join(&config, &worker->job);

    if (rc)
        return rc;
    noticed_job = worker->job;
    spotnik_status(worker->job, &status);
    tell_member(worker, &status);
    if (getenv("WORKER_CHDIR") && chdir(getenv("WORKER_CHDIR")))
        abort();
    if (getenv("WORKER_BLOCKS"))
        block(SIGUSR1);
    hold(getenv("WORKER_HOLD"));
    if (getenv("WORKER_APART")) {
        worker->apart = p2p_turn_new(worker->job, (uint32_t)atoi(getenv("WORKER_APART")));
        if (!worker->apart)
            return SPOTNIK_ERR_MEMORY;
    }
    if (getenv("SPOTNIK_SYNC"))
        rc = sync_open(worker);
    else
        rc = spotnik_state_add(worker->job, "w", worker->w, worker->count, SPOTNIK_F32);
    if (!rc && getenv("WORKER_ALL_KINDS")) {
        worker->all = all_kinds_new(worker->job, worker->w, worker->g, worker->count);
        rc = worker->all ? 0 : SPOTNIK_ERR_MEMORY;
    }
    if (!rc)
        rc = spotnik_state_add(worker->job, "ledger", worker->ledger, 3, SPOTNIK_I64);
    if (!rc && worker->state_bytes)
        rc = spotnik_state_add(worker->job, "ballast", worker->ballast, worker->state_bytes,
                               SPOTNIK_U8);
    return rc;
}

static int run(struct worker *worker)
{
    uint64_t step = 0;
    int rc = enrol(worker);

    if (rc == SPOTNIK_ERR_LEAVING && !worker->job) { /* a notice, before there was a job to leave */
        tell(worker, "leaving 0 0");
        return 75;
    }
    if (rc)
        return fail(worker, rc, "join");
    rc = train(worker, &step);
    noticed_job = NULL;
    if (rc != 0 && rc != SPOTNIK_ERR_DONE && rc != SPOTNIK_ERR_LEAVING) {
        fail(worker, rc, "train");
        hold(getenv("WORKER_KEEPS"));
        spotnik_abandon(worker->job);
        return rc == SPOTNIK_ERR_PARKED ? 75 : 1;
    }
    uint64_t last = digest(worker);
    int left = spotnik_leave(worker->job);

    /* told to go, it goes without agreement, too */
    if (left && left != SPOTNIK_ERR_LEAVING)
        return fail(worker, left, "leave");
    tell(worker, "%s %" PRIu64 " %016" PRIx64, rc == SPOTNIK_ERR_DONE ? "done" : "leaving", step,
         last);
    return rc == 0 || rc == SPOTNIK_ERR_DONE || worker->quits ? 0 : 75;
}

static uint64_t *option(struct worker *worker, int c)
{
    switch (c) {
    case 's':
        return &worker->steps;
    case 'c':
        return &worker->count;
    case 'n':
        return &worker->samples;
    case 'b':
        return &worker->batch;
    case 'S':
        return &worker->state_bytes;
    case 'u':
        return &worker->compute_us;
    case 'x':
        return &worker->busy_us;
    case 'q':
        return &worker->quits;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker worker = { .events = 1, .count = 1000 };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    int c;

    while ((c = getopt(argc, argv, "e:s:c:n:b:S:u:x:q:Dmr")) != -1) {
        uint64_t *number = option(&worker, c);

        if (c == 'e')
            worker.events = atoi(optarg);
        else if (c == 'D')
            worker.light = true;
        else if (c == 'r')
            worker.slow = true;
        else if (c == 'm')
            worker.odd = true;
        else if (number)
            *number = strtoull(optarg, NULL, 10);
        else
            return 2;
    }
    worker.w = calloc(worker.count, sizeof *worker.w);
    worker.g = calloc(worker.count, sizeof *worker.g);
    worker.ballast = malloc(worker.state_bytes + 1);
    worker.ones_count = getenv("WORKER_ONES") ? strtoull(getenv("WORKER_ONES"), NULL, 10) : 0;
    worker.ones = calloc(worker.ones_count + 1, sizeof *worker.ones);
    if (!worker.w || !worker.g || !worker.ballast || !worker.ones)
        return 2;
    for (uint64_t i = 0; i < worker.state_bytes; i++)
        worker.ballast[i] =
            (uint8_t)(i * 31 + (i >> 16)); /* the joiner's copy must come out like this, too */
    if (!getenv("WORKER_DEAF")) /* with it: as a program that does not care about signals */
        sigaction(SIGTERM, &action, NULL);
#ifdef WORKER_ARMED
    armed_obey(worker.events);
#endif
    int status = run(&worker);

    while (getenv("WORKER_LINGERS")) /* as an interpreter that takes down a large program */
        pause();
    all_kinds_free(worker.all);
    p2p_turn_free(worker.apart);
    free(worker.w);
    free(worker.g);
    free(worker.ones);
    free(worker.ballast);
    return status;
}
