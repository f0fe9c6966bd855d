/* SPDX-License-Identifier: Apache-2.0 */
/* See training_log.h. All values are numbers and identifiers of our own, so nothing needs
 * quoting. */
#include "training_log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct line {
    char text[8192]; /* SPOTNIK_RANGES_MAX ranges of the largest numbers fit */
    size_t used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof line->text - line->used;

    va_start(arguments, format);
    int length = vsnprintf(line->text + line->used, room, format, arguments);
    va_end(arguments);
    if (length > 0)
        line->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void begin(struct line *line, const char *kind, const spotnik_job_status *status)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    line->used = 0;
    add(line, "{\"kind\":\"%s\",\"member\":\"%s\",\"pid\":%d,\"t_ns\":%" PRIu64, kind,
        status->member, (int)getpid(), (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
}

static int end(struct line *line, int fd)
{
    add(line, "}\n");
    ssize_t written = write(fd, line->text, line->used);

    if (written >= 0 && written != (ssize_t)line->used)
        errno = ENOSPC;
    return written == (ssize_t)line->used ? 0 : -1;
}

int training_log_open(struct training_log *log, const char *where)
{
    char *rest;
    long fd = strtol(where, &rest, 10);

    if (*where && !*rest)
        log->fd = fcntl((int)fd, F_GETFD) < 0 ? -1 : (int)fd;
    else
        log->fd = open(where, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return log->fd < 0 ? -1 : 0;
}

static int log_recovery(struct training_log *log, const spotnik_job_status *status,
                        const spotnik_recovery *r)
{
    struct line line;

    begin(&line, "recovery", status);
    add(&line, ",\"view\":%" PRIu64 ",\"lost\":%u,\"joined\":%u,\"left\":%u", r->epoch, r->lost,
        r->joined, r->left);
    add(&line,
        ",\"detected_ns\":%" PRIu64 ",\"reconciled_ns\":%" PRIu64 ",\"accepted_ns\":%" PRIu64,
        r->detected_ns, r->reconciled_ns, r->accepted_ns);
    add(&line, ",\"restarted_ns\":%" PRIu64 ",\"committed_ns\":%" PRIu64, r->restarted_ns,
        r->committed_ns);
    log->recovery_logged = r->epoch;
    return end(&line, log->fd);
}

static int log_recoveries(struct training_log *log, const spotnik_job_status *status)
{
    int rc = 0;

    for (uint32_t i = 0; i < status->recovery_count && !rc; i++) {
        const spotnik_recovery *r = &status->recovery[i];
        /* Over once a step was committed in the new view, or another view followed. */
        int over = r->committed_ns || i + 1 < status->recovery_count;

        if (over && r->epoch > log->recovery_logged)
            rc = log_recovery(log, status, r);
    }
    return rc;
}

/* Where shares follow the members' speed: ours, and how far apart the members' times are. */
static void log_batch(struct line *line, spotnik_job *job)
{
    spotnik_batch_info info = { .size = sizeof info };

    spotnik_batch_status(job, &info);
    if (info.compute_most_us)
        add(line, ",\"adjustments\":%" PRIu64 ",\"compute_us\":[%u,%u]", info.adjustments,
            info.compute_least_us, info.compute_most_us);
    if (info.noise_steps)
        add(line, ",\"noise_scale\":%.6g", info.noise_scale);
}

int training_log_step(struct training_log *log, spotnik_job *job, const spotnik_step *step,
                      double loss, double count, uint64_t digest)
{
    spotnik_job_status status;
    struct line line;

    if (log->fd < 0)
        return 0;
    spotnik_status(job, &status);
    if (log_recoveries(log, &status) < 0)
        return -1;
    begin(&line, "step", &status);
    add(&line, ",\"step\":%" PRIu64 ",\"count\":%.0f", step->number, count);
    if (isfinite(loss)) /* JSON has no word for the others */
        add(&line, ",\"loss\":%.9g", loss);
    add(&line, ",\"view\":%" PRIu64 ",\"rank\":%u,\"size\":%u", status.view_epoch, status.rank,
        status.size);
    add(&line, ",\"replay\":%u,\"data_epoch\":%" PRIu64 ",\"samples\":[", step->replay,
        step->data_epoch);
    for (uint32_t r = 0; r < step->range_count; r++)
        add(&line, "%s[%" PRIu64 ",%" PRIu64 "]", r ? "," : "", step->samples[r].begin,
            step->samples[r].end);
    add(&line, "]");
    log_batch(&line, job);
    if (log->digest_every && step->number % log->digest_every == 0)
        add(&line, ",\"digest\":\"%016" PRIx64 "\"", digest);
    return end(&line, log->fd);
}

int training_log_end(struct training_log *log, spotnik_job *job, int exit_status)
{
    spotnik_job_status status;
    struct line line;

    if (log->fd < 0)
        return 0;
    spotnik_status(job, &status);
    begin(&line, "end", &status);
    add(&line, ",\"exit_status\":%d,\"step\":%" PRIu64, exit_status, status.step_committed);
    return end(&line, log->fd);
}
