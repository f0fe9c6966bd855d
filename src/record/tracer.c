/* SPDX-License-Identifier: Apache-2.0 */
/* Marks in two rings, one for the caller's thread and one for whoever holds the engine's lock: so
 * each has one writer and needs no lock. A thread makes text of them (tracer_text.c). A killed
 * member's file ends at its last flush; readers do without the bracket. */
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

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "record/tracer_text.h"
#include "spotnik/spotnik.h"

#define MARKS 32768u /* of a ring; a power of two */
#define FLUSH_MS 200

/* One thread puts marks in, the writer takes them out. */
struct ring {
    uint64_t put, taken; /* since the beginning */
    uint64_t lost, told; /* marks that found no room; those of them that the file tells of */
    struct spotnik_trace_mark mark[MARKS];
};

struct spotnik_tracer {
    struct ring caller, engine;
    pthread_mutex_t lock; /* of `stopping` */
    pthread_cond_t over;
    bool stopping;
    pthread_t thread;

    /* the writer's thread */
    int file;
    uint32_t pid; /* in the file: of the member's id */
    char *text_end, text[1 << 16];

    /* the caller's thread */
    enum spotnik_tracer_part part;
    uint64_t part_ns; /* 0: none runs */

    /* under the engine's lock */
    struct started {
        uint64_t from_ns, to_ns, bytes;
    } bucket[SPOTNIK_BUCKETS_MAX];
    uint32_t buckets;
    uint64_t begun_epoch; /* of the running step; 0: it is replayed */
    /* of a view that has not committed yet; 0: none */
    uint64_t restarted_ns, restarted_epoch, changes;
};

static void mark(struct ring *ring, const struct spotnik_trace_mark *mark)
{
    uint64_t put = ring->put;

    if (put - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) == MARKS) {
        __atomic_store_n(&ring->lost, ring->lost + 1, __ATOMIC_RELAXED);
        return;
    }
    ring->mark[put % MARKS] = *mark;
    __atomic_store_n(&ring->put, put + 1, __ATOMIC_RELEASE);
}

/* ---- marks ---- */

void spotnik_tracer_name(struct spotnik_tracer *trace, struct spotnik_id id, uint64_t now_ns)
{
    if (trace != NULL)
        mark(&trace->engine, &(struct spotnik_trace_mark){
                                 .kind = SPOTNIK_TRACE_NAME, .from_ns = now_ns, .peer = id.high });
}

void spotnik_tracer_turn(struct spotnik_tracer *trace, enum spotnik_tracer_part next, uint64_t step,
                         uint64_t now_ns)
{
    if (trace == NULL)
        return;
    if (trace->part_ns != 0)
        mark(&trace->caller, &(struct spotnik_trace_mark){ .kind = SPOTNIK_TRACE_PART,
                                                           .arg = trace->part,
                                                           .from_ns = trace->part_ns,
                                                           .to_ns = now_ns,
                                                           .step = step });
    trace->part_ns = now_ns;
    trace->part = next;
}

static bool is_death(const struct spotnik_event *event)
{
    return event->kind == SPOTNIK_EVENT_DEATH
           || (event->kind == SPOTNIK_EVENT_LINK_DOWN && event->ended.proof == SPOTNIK_PROOF_GONE);
}

/* The bucket that got on; UINT32_MAX: none did. */
static uint32_t bucket_of(const struct spotnik_event *event)
{
    if (event->kind == SPOTNIK_EVENT_CHUNK_DONE)
        return event->chunk.header.bucket;
    return event->kind == SPOTNIK_EVENT_FLAT_DONE ? event->flat.at.bucket : UINT32_MAX;
}

static bool is_trouble(const struct spotnik_event *event)
{
    return is_death(event) || event->kind == SPOTNIK_EVENT_LINK_DOWN
           || event->kind == SPOTNIK_EVENT_LANE_DOWN || event->kind == SPOTNIK_EVENT_PATH_DOWN;
}

void spotnik_tracer_event(struct spotnik_tracer *trace, const struct spotnik_event *event)
{
    uint64_t now_ns = event->now_ns;

    if (trace == NULL)
        return;
    if (event->kind == SPOTNIK_EVENT_BUCKET_START && event->start.bucket < SPOTNIK_BUCKETS_MAX) {
        now_ns = spotnik_clock_ns(); /* for the core no time passes with it */
        trace->bucket[event->start.bucket] =
            (struct started){ now_ns, now_ns, event->start.count * event->start.element_bytes };
        trace->buckets =
            event->start.bucket >= trace->buckets ? event->start.bucket + 1 : trace->buckets;
    }
    uint32_t bucket = bucket_of(event);
    if (bucket < trace->buckets)
        trace->bucket[bucket].to_ns = now_ns;
    if (is_trouble(event))
        mark(&trace->engine, &(struct spotnik_trace_mark){
                                 .kind = SPOTNIK_TRACE_PEER,
                                 .arg = is_death(event) ? SPOTNIK_EVENT_DEATH : event->kind,
                                 .from_ns = now_ns,
                                 .peer = spotnik_event_peer(event)->id.high });
}

static void phase(struct spotnik_tracer *trace, uint32_t which, uint64_t from_ns, uint64_t to_ns)
{
    if (from_ns != 0 && to_ns >= from_ns)
        mark(&trace->engine, &(struct spotnik_trace_mark){ .kind = SPOTNIK_TRACE_PHASE,
                                                           .arg = which,
                                                           .from_ns = from_ns,
                                                           .to_ns = to_ns,
                                                           .step = trace->restarted_epoch,
                                                           .more = trace->changes });
}

static void view(struct spotnik_tracer *trace, const struct spotnik_core *core)
{
    struct spotnik_core_status status;

    spotnik_core_status(core, &status);
    trace->restarted_epoch = status.epoch;
    trace->restarted_ns = status.restarted_ns;
    trace->changes = (uint64_t)status.last_lost << 32
                     | (uint64_t)(status.last_joined & 0xffff) << 16 | (status.last_left & 0xffff);
    if (status.detected_ns == 0)
        return;
    phase(trace, 0, status.detected_ns, status.reconciled_ns);
    phase(trace, 1, status.reconciled_ns, status.accepted_ns);
    phase(trace, 2, status.accepted_ns, status.restarted_ns);
}

static void committed(struct spotnik_tracer *trace, const struct spotnik_core *core, uint64_t step)
{
    uint64_t now_ns = spotnik_clock_ns();
    uint64_t epoch = spotnik_core_view(core)->epoch;

    for (uint32_t i = 0; i < trace->buckets; i++)
        if (trace->bucket[i].from_ns != 0)
            mark(&trace->engine, &(struct spotnik_trace_mark){
                                     .kind = SPOTNIK_TRACE_BUCKET,
                                     .arg = i,
                                     .from_ns = trace->bucket[i].from_ns,
                                     .to_ns = trace->bucket[i].to_ns > trace->bucket[i].from_ns
                                                  ? trace->bucket[i].to_ns
                                                  : now_ns,
                                     .step = step,
                                     .more = trace->bucket[i].bytes,
                                     .peer = epoch == trace->begun_epoch ? epoch : 0 });
    memset(trace->bucket, 0, trace->buckets * sizeof *trace->bucket);
    trace->buckets = 0;
    phase(trace, 3, trace->restarted_ns, now_ns);
    trace->restarted_ns = 0;
}

void spotnik_tracer_action(struct spotnik_tracer *trace, const struct spotnik_core *core,
                           const struct spotnik_action *action)
{
    if (trace == NULL)
        return;
    if (action->kind == SPOTNIK_ACTION_VIEW)
        view(trace, core);
    if (action->kind == SPOTNIK_ACTION_COMMITTED)
        committed(trace, core, action->step);
    if (action->kind == SPOTNIK_ACTION_STEP_BEGUN)
        trace->begun_epoch = !action->begun.replay ? spotnik_core_view(core)->epoch : 0;
    if (action->kind == SPOTNIK_ACTION_PARKED || action->kind >= SPOTNIK_ACTION_EXCLUDED)
        mark(&trace->engine, &(struct spotnik_trace_mark){ .kind = SPOTNIK_TRACE_SELF,
                                                           .arg = action->kind,
                                                           .from_ns = spotnik_clock_ns() });
}

/* ---- the file ---- */

static int write_all(int file, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t wrote = write(file, at, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -1;
        at += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

/* What the disk refuses is gone: the job does not wait for it. */
static void text_flush(struct spotnik_tracer *trace)
{
    (void)write_all(trace->file, trace->text, (size_t)(trace->text_end - trace->text));
    trace->text_end = trace->text;
}

static void text_add(struct spotnik_tracer *trace, const struct spotnik_trace_mark *mark)
{
    if (trace->text + sizeof trace->text - trace->text_end < SPOTNIK_TRACE_TEXT_MAX)
        text_flush(trace);
    trace->text_end = spotnik_trace_text(trace->text_end, trace->pid, mark);
}

static void lost_add(struct spotnik_tracer *trace, struct ring *ring)
{
    uint64_t lost = __atomic_load_n(&ring->lost, __ATOMIC_RELAXED);

    if (lost != ring->told)
        text_add(trace, &(struct spotnik_trace_mark){ .kind = SPOTNIK_TRACE_LOST,
                                                      .from_ns = spotnik_clock_ns(),
                                                      .more = lost - ring->told });
    ring->told = lost;
}

static void ring_write(struct spotnik_tracer *trace, struct ring *ring)
{
    uint64_t put = __atomic_load_n(&ring->put, __ATOMIC_ACQUIRE);

    for (uint64_t at = ring->taken; at != put; at++) {
        text_add(trace, &ring->mark[at % MARKS]);
        __atomic_store_n(&ring->taken, at + 1, __ATOMIC_RELEASE);
    }
    lost_add(trace, ring);
    text_flush(trace);
}

static bool wait_for_more(struct spotnik_tracer *trace)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += FLUSH_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&trace->lock);
    if (!trace->stopping)
        pthread_cond_timedwait(&trace->over, &trace->lock, &until);
    bool goes_on = !trace->stopping;
    pthread_mutex_unlock(&trace->lock);
    return goes_on;
}

static void *writer_main(void *context)
{
    struct spotnik_tracer *trace = context;
    bool goes_on = true;

    while (goes_on) {
        goes_on = wait_for_more(trace);
        ring_write(trace, &trace->engine); /* has our name */
        ring_write(trace, &trace->caller);
    }
    return NULL;
}

static int head_write(struct spotnik_tracer *trace, const struct spotnik_member *self,
                      uint64_t epoch_us)
{
    uint64_t now_ns = spotnik_clock_ns();

    trace->pid = (uint32_t)(self->id.high >> 33); /* positive for readers that take it for an int */
    trace->text_end = spotnik_trace_text_head(trace->text, trace->pid, self, epoch_us, now_ns);
    int rc = write_all(trace->file, trace->text, (size_t)(trace->text_end - trace->text));
    trace->text_end = trace->text;
    return rc;
}

static int file_open(struct spotnik_tracer *trace, const char *dir,
                     const struct spotnik_member *self, uint64_t epoch_us)
{
    char path[4096];

    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/spotnik-%08" PRIx64 "-%ld.trace.json", dir, self->id.high >> 32,
             (long)getpid());
    trace->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (trace->file >= 0 && head_write(trace, self, epoch_us) == 0)
        return 0;
    return spotnik_error_return(
        SPOTNIK_ERR_SYSTEM,
        "cannot write the trace %.300s: %s; SPOTNIK_TRACE must name a folder that can be written",
        path, strerror(errno));
}

static void release(struct spotnik_tracer *trace)
{
    if (trace->file >= 0)
        close(trace->file);
    pthread_mutex_destroy(&trace->lock);
    pthread_cond_destroy(&trace->over);
    free(trace);
}

static int begin(struct spotnik_tracer *trace, const char *dir, const struct spotnik_member *self,
                 uint64_t epoch_us)
{
    pthread_condattr_t attributes;

    trace->file = -1;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&trace->over, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&trace->lock, NULL);
    int rc = file_open(trace, dir, self, epoch_us);
    if (rc != 0)
        return rc;
    rc = pthread_create(&trace->thread, NULL, writer_main, trace);
    return rc == 0 ? 0
                   : spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start the trace's thread: %s",
                                          strerror(rc));
}

int spotnik_tracer_new(const char *dir, const struct spotnik_member *self, uint64_t epoch_us,
                       struct spotnik_tracer **ret)
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
