/* SPDX-License-Identifier: Apache-2.0 */
/* Marks in one of two arrays, which the writer's thread takes in turns and writes in Chrome's JSON array format: a line each, and no
 * bracket at the end is needed, so the file of a member that was killed is whole but for its last moment. */
#include "record/tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

#define MARKS 32768
#define FLUSH_MS 200

enum mark_kind {
    MARK_PART,   /* arg: which */
    MARK_BUCKET, /* arg: which; more: bytes; peer: the epoch, 0 where the step was begun in another one, or replayed */
    MARK_PHASE,  /* of a view change. arg: which; step: the epoch; more: lost, joined and left */
    MARK_PEER,   /* an instant that concerns `peer`. arg: which event of the core */
    MARK_NAME,   /* our identity: `peer` */
    MARK_SELF,   /* an instant of our own. arg: which action of the core */
};

struct mark {
    uint64_t from_ns, to_ns, step, more, peer;
    uint32_t kind, arg;
};

struct marks {
    uint32_t count, lost;
    struct mark mark[MARKS];
};

struct spotnik_tracer {
    pthread_mutex_t lock; /* of the arrays */
    pthread_cond_t over;
    struct marks *now, *full;
    bool stopping;
    pthread_t thread;
    FILE *file;
    uint32_t pid; /* in the file: of the member's id */

    /* the caller's thread */
    enum spotnik_tracer_part part;
    uint64_t part_ns; /* 0: none runs */

    /* under the engine's lock */
    struct started {
        uint64_t from_ns, to_ns, bytes;
    } bucket[SPOTNIK_BUCKETS_MAX];
    uint32_t buckets;
    uint64_t begun_epoch; /* of the running step; 0: it is replayed */
    uint64_t restarted_ns, restarted_epoch, changes; /* of a view that has not committed yet; 0: none */
};

static void mark(struct spotnik_tracer *trace, const struct mark *mark)
{
    pthread_mutex_lock(&trace->lock);
    if (trace->now->count < MARKS)
        trace->now->mark[trace->now->count++] = *mark;
    else
        trace->now->lost++;
    pthread_mutex_unlock(&trace->lock);
}

/* ---- marks ---- */

void spotnik_tracer_name(struct spotnik_tracer *trace, struct spotnik_id id, uint64_t now_ns)
{
    if (trace != NULL)
        mark(trace, &(struct mark){ .kind = MARK_NAME, .from_ns = now_ns, .peer = id.high });
}

void spotnik_tracer_turn(struct spotnik_tracer *trace, enum spotnik_tracer_part next, uint64_t step, uint64_t now_ns)
{
    if (trace == NULL)
        return;
    if (trace->part_ns != 0)
        mark(trace, &(struct mark){ .kind = MARK_PART, .arg = trace->part, .from_ns = trace->part_ns, .to_ns = now_ns, .step = step });
    trace->part_ns = now_ns;
    trace->part = next;
}

static bool is_death(const struct spotnik_event *event)
{
    return event->kind == SPOTNIK_EVENT_DEATH || (event->kind == SPOTNIK_EVENT_LINK_DOWN && event->proof == SPOTNIK_PROOF_GONE);
}

static bool is_trouble(const struct spotnik_event *event)
{
    return is_death(event) || event->kind == SPOTNIK_EVENT_LINK_DOWN || event->kind == SPOTNIK_EVENT_LANE_DOWN
           || event->kind == SPOTNIK_EVENT_PATH_DOWN;
}

void spotnik_tracer_event(struct spotnik_tracer *trace, const struct spotnik_event *event, uint64_t now_ns)
{
    if (trace == NULL)
        return;
    if (event->kind == SPOTNIK_EVENT_BUCKET_START && event->bucket < SPOTNIK_BUCKETS_MAX) {
        trace->bucket[event->bucket] = (struct started){ now_ns, now_ns, event->count * event->element_bytes };
        trace->buckets = event->bucket >= trace->buckets ? event->bucket + 1 : trace->buckets;
    }
    if ((event->kind == SPOTNIK_EVENT_CHUNK_DONE || event->kind == SPOTNIK_EVENT_FLAT_DONE) && event->header.bucket < trace->buckets)
        trace->bucket[event->header.bucket].to_ns = now_ns;
    if (is_trouble(event))
        mark(trace, &(struct mark){ .kind = MARK_PEER, .arg = is_death(event) ? SPOTNIK_EVENT_DEATH : event->kind, .from_ns = now_ns,
                                    .peer = event->peer.id.high });
}

static void phase(struct spotnik_tracer *trace, uint32_t which, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns != 0 && to_ns >= from_ns)
        mark(trace, &(struct mark){ .kind = MARK_PHASE, .arg = which, .from_ns = from_ns, .to_ns = to_ns,
                                    .step = trace->restarted_epoch, .more = trace->changes });
}

static void view(struct spotnik_tracer *trace, const struct spotnik_core *core)
{
    struct spotnik_core_status status;

    spotnik_core_status(core, &status);
    trace->restarted_epoch = status.epoch;
    trace->restarted_ns = status.restarted_ns;
    trace->changes = (uint64_t)status.last_lost << 32 | (uint64_t)(status.last_joined & 0xffff) << 16 | (status.last_left & 0xffff);
    if (status.detected_ns == 0)
        return;
    phase(trace, 0, status.detected_ns, status.reconciled_ns);
    phase(trace, 1, status.reconciled_ns, status.accepted_ns);
    phase(trace, 2, status.accepted_ns, status.restarted_ns);
}

static void committed(struct spotnik_tracer *trace, const struct spotnik_core *core, uint64_t step, uint64_t now_ns)
{
    uint64_t epoch = spotnik_core_view(core)->epoch;

    for (uint32_t i = 0; i < trace->buckets; i++)
        if (trace->bucket[i].from_ns != 0)
            mark(trace, &(struct mark){ .kind = MARK_BUCKET, .arg = i, .from_ns = trace->bucket[i].from_ns,
                                        .to_ns = trace->bucket[i].to_ns > trace->bucket[i].from_ns ? trace->bucket[i].to_ns : now_ns,
                                        .step = step, .more = trace->bucket[i].bytes,
                                        .peer = epoch == trace->begun_epoch ? epoch : 0 });
    memset(trace->bucket, 0, trace->buckets * sizeof *trace->bucket);
    trace->buckets = 0;
    phase(trace, 3, trace->restarted_ns, now_ns);
    trace->restarted_ns = 0;
}

void spotnik_tracer_action(struct spotnik_tracer *trace, const struct spotnik_core *core, const struct spotnik_action *action,
                          uint64_t now_ns)
{
    if (trace == NULL)
        return;
    if (action->kind == SPOTNIK_ACTION_VIEW)
        view(trace, core);
    if (action->kind == SPOTNIK_ACTION_COMMITTED)
        committed(trace, core, action->step, now_ns);
    if (action->kind == SPOTNIK_ACTION_STEP_BEGUN)
        trace->begun_epoch = action->count == 0 ? spotnik_core_view(core)->epoch : 0;
    if (action->kind == SPOTNIK_ACTION_PARKED || action->kind >= SPOTNIK_ACTION_EXCLUDED)
        mark(trace, &(struct mark){ .kind = MARK_SELF, .arg = action->kind, .from_ns = now_ns });
}

/* ---- text ---- */

static const char *const part_names[SPOTNIK_TRACER_PARTS] = { "apply", "begin", "compute", "commit" };
static const char *const phase_names[] = { "reconcile", "accept", "restart", "first commit" };

static void span_head(const struct spotnik_tracer *trace, const struct mark *mark, const char *name, int row, const char *category)
{
    fprintf(trace->file, "{\"ph\":\"X\",\"pid\":%" PRIu32 ",\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\",\"cat\":\"%s\",\"args\":{",
            trace->pid, row, (double)mark->from_ns / 1e3, (double)(mark->to_ns - mark->from_ns) / 1e3, name, category);
}

static void bucket_write(const struct spotnik_tracer *trace, const struct mark *mark)
{
    const char *name = mark->arg < 250 ? "bucket" : "spotnik's own";

    for (int end = 0; end < 2; end++)
        fprintf(trace->file,
                "{\"ph\":\"%c\",\"pid\":%" PRIu32 ",\"tid\":1,\"ts\":%.3f,\"id\":\"%" PRIu64 ".%" PRIu32
                "\",\"name\":\"%s %" PRIu32 "\",\"cat\":\"bucket\",\"args\":{\"step\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"bytes\":%" PRIu64 "}},\n",
                end ? 'e' : 'b', trace->pid, (double)(end ? mark->to_ns : mark->from_ns) / 1e3, mark->step, mark->arg, name, mark->arg,
                mark->step, mark->peer, mark->more);
}

static void instant_write(const struct spotnik_tracer *trace, const struct mark *mark)
{
    const char *name = mark->kind == MARK_PEER ? spotnik_event_name((enum spotnik_event_kind)mark->arg)
                                               : spotnik_action_name((enum spotnik_action_kind)mark->arg);

    fprintf(trace->file, "{\"ph\":\"i\",\"s\":\"p\",\"pid\":%" PRIu32 ",\"tid\":2,\"ts\":%.3f,\"name\":\"%s\",\"cat\":\"event\",\"args\":{",
            trace->pid, (double)mark->from_ns / 1e3, name);
    if (mark->kind == MARK_PEER)
        fprintf(trace->file, "\"peer\":\"%016" PRIx64 "\"", mark->peer);
    fputs("}},\n", trace->file);
}

static void name_write(const struct spotnik_tracer *trace, uint64_t id)
{
    fprintf(trace->file,
            "{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"name\":\"process_name\",\"args\":{\"name\":\"member %08" PRIx64 "\",\"member\":\"%016" PRIx64
            "\"}},\n",
            trace->pid, id >> 32, id);
}

static void mark_write(const struct spotnik_tracer *trace, const struct mark *mark)
{
    switch ((enum mark_kind)mark->kind) {
    case MARK_PART:
        span_head(trace, mark, part_names[mark->arg], 1, "step");
        fprintf(trace->file, "\"step\":%" PRIu64 "}},\n", mark->step);
        break;
    case MARK_PHASE:
        span_head(trace, mark, phase_names[mark->arg], 2, "view");
        fprintf(trace->file, "\"epoch\":%" PRIu64 ",\"lost\":%u,\"joined\":%u,\"left\":%u}},\n", mark->step, (unsigned)(mark->more >> 32),
                (unsigned)(mark->more >> 16 & 0xffff), (unsigned)(mark->more & 0xffff));
        break;
    case MARK_BUCKET:
        bucket_write(trace, mark);
        break;
    case MARK_NAME:
        name_write(trace, mark->peer);
        break;
    case MARK_PEER:
    case MARK_SELF:
        instant_write(trace, mark);
        break;
    }
}

static void name_row(const struct spotnik_tracer *trace, int row, const char *name)
{
    fprintf(trace->file, "{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}},\n", trace->pid,
            row, name);
}

static void head_write(const struct spotnik_tracer *trace, const struct spotnik_member *self, uint64_t epoch_us)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    fputs("[\n", trace->file);
    name_write(trace, self->id.high);
    fprintf(trace->file,
            "{\"ph\":\"M\",\"pid\":%" PRIu32 ",\"name\":\"spotnik\",\"args\":{\"version\":\"%s\",\"member\":\"%016" PRIx64 "\",\"host\":\"%016" PRIx64
            "\",\"process\":%ld,\"date_us\":%" PRIu64 ",\"clock_us\":%.3f}},\n",
            trace->pid, SPOTNIK_VERSION, self->id.high, self->host, (long)getpid(), epoch_us + (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000,
            (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3);
    name_row(trace, 1, "step");
    name_row(trace, 2, "view");
}

/* ---- the writer ---- */

static void write_full(struct spotnik_tracer *trace)
{
    for (uint32_t i = 0; i < trace->full->count; i++)
        mark_write(trace, &trace->full->mark[i]);
    if (trace->full->lost != 0)
        fprintf(trace->file, "{\"ph\":\"i\",\"s\":\"p\",\"pid\":%" PRIu32 ",\"tid\":1,\"ts\":%.3f,\"name\":\"%" PRIu32 " marks lost\",\"args\":{}},\n",
                trace->pid, (double)trace->full->mark[MARKS - 1].to_ns / 1e3, trace->full->lost);
    trace->full->count = trace->full->lost = 0;
    fflush(trace->file);
}

static void *writer_main(void *context)
{
    struct spotnik_tracer *trace = context;
    bool stopping = false;

    while (!stopping) {
        struct timespec until;
        pthread_mutex_lock(&trace->lock);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += FLUSH_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        if (!trace->stopping)
            pthread_cond_timedwait(&trace->over, &trace->lock, &until);
        stopping = trace->stopping;
        struct marks *full = trace->now;
        trace->now = trace->full;
        trace->full = full;
        pthread_mutex_unlock(&trace->lock);
        write_full(trace);
    }
    return NULL;
}

static int file_open(struct spotnik_tracer *trace, const char *dir, const struct spotnik_member *self)
{
    char path[4096];

    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/spotnik-%08" PRIx64 "-%ld.trace.json", dir, self->id.high >> 32, (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    trace->file = fd < 0 ? NULL : fdopen(fd, "w");
    if (trace->file != NULL)
        return 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write the trace %.300s: %s; SPOTNIK_TRACE must name a folder that can be written",
                                path, strerror(error));
}

static void release(struct spotnik_tracer *trace)
{
    if (trace->file != NULL)
        fclose(trace->file);
    pthread_mutex_destroy(&trace->lock);
    pthread_cond_destroy(&trace->over);
    free(trace->now);
    free(trace->full);
    free(trace);
}

static int begin(struct spotnik_tracer *trace, const char *dir, const struct spotnik_member *self, uint64_t epoch_us)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&trace->over, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&trace->lock, NULL);
    trace->now = calloc(1, sizeof *trace->now);
    trace->full = calloc(1, sizeof *trace->full);
    if (trace->now == NULL || trace->full == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the trace");
    int rc = file_open(trace, dir, self);
    if (rc != 0)
        return rc;
    trace->pid = (uint32_t)(self->id.high >> 33);
    head_write(trace, self, epoch_us);
    rc = pthread_create(&trace->thread, NULL, writer_main, trace);
    return rc == 0 ? 0 : spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start the trace's thread: %s", strerror(rc));
}

int spotnik_tracer_new(const char *dir, const struct spotnik_member *self, uint64_t epoch_us, struct spotnik_tracer **ret)
{
    struct spotnik_tracer *trace = calloc(1, sizeof *trace);

    if (trace == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the trace");
    int rc = begin(trace, dir, self, epoch_us);
    if (rc != 0)
        release(trace);
    else
        *ret = trace;
    return rc;
}

void spotnik_tracer_free(struct spotnik_tracer *trace)
{
    if (trace == NULL)
        return;
    pthread_mutex_lock(&trace->lock);
    trace->stopping = true;
    pthread_cond_signal(&trace->over);
    pthread_mutex_unlock(&trace->lock);
    pthread_join(trace->thread, NULL);
    release(trace);
}
