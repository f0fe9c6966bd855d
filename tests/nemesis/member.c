/* SPDX-License-Identifier: Apache-2.0 */
/* A member of a job that says what it does, one line for each fact, in a file of its own
 * (docs/reference/how-we-test.md). It uses the public interface only. A line is the instant in
 * nanoseconds (CLOCK_MONOTONIC), a word, and what belongs to it:
 *
 *     start PID
 *     member ID                           we are this member from now on: founded, joined, or
 *                                         joined again
 *     loaded                              our state is a copy from others or from a checkpoint
 *     offer STEP EPOCH RANGES             samples that we put into this step; EPOCH is of the data
 *     commit STEP VIEW SIZE REPLAY FROM TO EPOCH RANGES
 *                                         the state went from digest FROM to TO; RANGES is what all
 *                                         members together put in. A range BEGIN-END is half open;
 *                                         BEGIN-ENDxN was put in N times; "-" is none
 *     wait PARKED JOINING VIEW SIZE       when that changes while a call waits
 *     excluded STEP                       our step is void
 *     end CODE TEXT                       CODE of the library, 0 when we have left in good order
 *
 *     member FILE [-n SAMPLES] [-b BATCH] [-c NUMBERS] [-u COMPUTE_US] */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "spotnik/spotnik.h"

enum { LINE = 8192, PATIENCE_MS = 100 };

struct member {
    int fd;
    uint64_t samples, batch, count, compute_us;
    spotnik_job *job;
    float *w, *g;
    int32_t *taken;   /* bucket: how often each sample went into the step */
    int64_t epoch[1]; /* bucket: of the data; whoever replays a step does not know it */
    uint64_t digest, loads;
    spotnik_job_status told;
};

static spotnik_job *noticed;
static volatile sig_atomic_t is_noticed; /* it may come before there is a job */

static void on_signal(int number)
{
    (void)number;
    is_noticed = 1;
    if (noticed)
        spotnik_notice(noticed);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Not the library's own digest: the checker is to believe nothing of it. */
static uint64_t digest(const struct member *member)
{
    uint64_t hash = 1;

    for (uint64_t i = 0; i < member->count; i++) {
        uint32_t bits;

        memcpy(&bits, &member->w[i], sizeof bits);
        hash = (hash ^ bits) * 0x100000001b3u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* ---- what it says ---- */

static void tell(const struct member *member, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* One write for each line: whoever is killed leaves whole lines behind. */
static void tell(const struct member *member, const char *format, ...)
{
    char line[LINE];
    va_list arguments;
    int length = snprintf(line, sizeof line, "%" PRIu64 " ", now_ns());

    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - (size_t)length - 1, format, arguments);
    va_end(arguments);
    if (length > LINE - 2)
        length = LINE - 2;
    line[length++] = '\n';
    if (write(member->fd, line, (size_t)length) != length)
        _exit(3);
}

/* "0-64,128-130x2"; what does not fit becomes "...", which no checker takes for a range. */
static const char *ranges(const int32_t *taken, uint64_t samples, char text[LINE / 2])
{
    size_t at = 0;

    strcpy(text, "-");
    for (uint64_t i = 0, end; i < samples; i = end) {
        for (end = i + 1; end < samples && taken[end] == taken[i];)
            end++;
        if (taken[i] == 0)
            continue;
        if (at > LINE / 2 - 64)
            return strcpy(text + at, ",..."), text;
        at += (size_t)sprintf(text + at, "%s%" PRIu64 "-%" PRIu64, at ? "," : "", i, end);
        if (taken[i] != 1)
            at += (size_t)sprintf(text + at, "x%" PRId32, taken[i]);
    }
    return text;
}

static void look(struct member *member)
{
    spotnik_job_status now;
    spotnik_job_status *told = &member->told;

    spotnik_status(member->job, &now);
    if (strcmp(now.member, told->member) != 0)
        tell(member, "member %s", now.member);
    if (now.parked != told->parked || now.joining != told->joining)
        tell(member, "wait %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu32, now.parked, now.joining,
             now.view_epoch, now.size);
    *told = now;
}

/* ---- what it does ---- */

static void compute(struct member *member, const spotnik_step *step)
{
    struct timespec pause = { .tv_nsec = (long)member->compute_us * 1000 };
    uint64_t hash = mix(step->number);

    memset(member->taken, 0, member->samples * sizeof *member->taken);
    member->epoch[0] = (int64_t)step->data_epoch;
    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++) {
            member->taken[i]++;
            hash ^= mix(i + step->data_epoch);
        }
    for (uint64_t i = 0; i < member->count; i++)
        member->g[i] =
            (float)((mix(hash + i) >> 40) & 0xffff) / 65536 - 0.5f + member->w[i] * 0.001f;
    if (!step->replay)
        nanosleep(&pause, NULL); /* the time that a device would compute */
}

static int reduce(struct member *member)
{
    int rc = spotnik_allreduce(member->job, 0, member->g, member->count, SPOTNIK_F32, SPOTNIK_MEAN);

    if (!rc)
        rc = spotnik_allreduce(member->job, 1, member->taken, member->samples, SPOTNIK_I32,
                               SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_allreduce(member->job, 2, member->epoch, 1, SPOTNIK_I64, SPOTNIK_MAX);
    if (rc)
        return rc;
    while ((rc = spotnik_step_commit(member->job)) == SPOTNIK_ERR_AGAIN)
        look(member);
    return rc;
}

static int begin(struct member *member, spotnik_step *ret_step)
{
    int rc;

    while ((rc = spotnik_step_begin(member->job, ret_step)) == SPOTNIK_ERR_AGAIN)
        look(member);
    look(member);
    if (spotnik_state_loads(member->job) != member->loads) {
        member->loads = spotnik_state_loads(member->job);
        member->digest = digest(member);
        tell(member, "loaded");
    }
    return rc;
}

static void apply(struct member *member, const spotnik_step *step)
{
    char text[LINE / 2];
    uint64_t from = member->digest;

    for (uint64_t i = 0; i < member->count; i++)
        member->w[i] -= 0.1f * member->g[i];
    member->digest = digest(member);
    look(member);
    tell(member,
         "commit %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu32 " %016" PRIx64 " %016" PRIx64
         " %" PRId64 " %s",
         step->number, member->told.view_epoch, member->told.size, step->replay, from,
         member->digest, member->epoch[0], ranges(member->taken, member->samples, text));
}

static int train(struct member *member)
{
    spotnik_step step;
    char text[LINE / 2];
    int rc;

    while ((rc = begin(member, &step)) == 0) {
        compute(member, &step);
        if (step.sample_count)
            tell(member, "offer %" PRIu64 " %" PRIu64 " %s", step.number, step.data_epoch,
                 ranges(member->taken, member->samples, text));
        rc = reduce(member);
        if (rc == SPOTNIK_ERR_EXCLUDED)
            tell(member, "excluded %" PRIu64, step.number);
        else if (rc)
            return rc;
        else
            apply(member, &step);
    }
    return rc;
}

static int enrol(struct member *member)
{
    spotnik_config config;

    spotnik_config_init(&config);
    config.samples = member->samples;
    config.batch = member->batch;
    int rc = spotnik_join(&config, &member->job);

    if (rc)
        return rc;
    noticed = member->job;
    if (is_noticed)
        spotnik_notice(member->job);
    rc = spotnik_state_add(member->job, "w", member->w, member->count, SPOTNIK_F32);
    return rc ? rc : spotnik_patience_set(member->job, PATIENCE_MS * UINT64_C(1000000));
}

static int over(const struct member *member, int code)
{
    tell(member, "end %d %s (%s)", code, spotnik_strerror(code), code ? spotnik_last_error() : "");
    return code == 0 ? 75 : code == SPOTNIK_ERR_LINEAGE ? 76 : 1;
}

static int run(struct member *member)
{
    int rc = enrol(member);

    if (rc == SPOTNIK_ERR_LEAVING && !member->job)
        return over(member, 0);
    if (!rc)
        rc = train(member);
    noticed = NULL;
    if (rc == SPOTNIK_ERR_LEAVING || rc == SPOTNIK_ERR_DONE)
        return over(member, spotnik_leave(member->job));
    int status = over(member, rc); /* before the words of the error are gone */

    if (member->job)
        spotnik_abandon(member->job);
    return status;
}

static bool options(struct member *member, int argc, char **argv)
{
    int c;

    while ((c = getopt(argc, argv, "n:b:c:u:")) != -1) {
        uint64_t *number = c == 'n'   ? &member->samples
                           : c == 'b' ? &member->batch
                           : c == 'c' ? &member->count
                                      : &member->compute_us;

        if (c == '?')
            return false;
        *number = strtoull(optarg, NULL, 10);
    }
    return optind + 1 == argc && member->samples && member->batch && member->count;
}

int main(int argc, char **argv)
{
    static struct member member = {
        .samples = 1000, .batch = 64, .count = 20000, .compute_us = 20000
    };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    if (!options(&member, argc, argv)) {
        fputs("usage: member FILE [-n SAMPLES] [-b BATCH] [-c NUMBERS] [-u COMPUTE_US]\n", stderr);
        return 2;
    }
    member.fd = open(argv[optind], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    member.w = calloc(member.count, sizeof *member.w);
    member.g = calloc(member.count, sizeof *member.g);
    member.taken = calloc(member.samples, sizeof *member.taken);
    if (member.fd < 0 || !member.w || !member.g || !member.taken) {
        perror(argv[optind]);
        return 2;
    }
    srand((unsigned)(now_ns() ^ (uint64_t)getpid()));
    for (uint64_t i = 0; i < member.count; i++) /* so that two foundings never look alike */
        member.w[i] = (float)rand() / (float)RAND_MAX;
    member.digest = digest(&member);
    sigaction(SIGTERM, &action, NULL);
    tell(&member, "start %d", (int)getpid());
    return run(&member);
}
