/* SPDX-License-Identifier: Apache-2.0 */
/* Which marks a step leaves. The path of a step comes through here a dozen times: see what one
 * costs in docs/results/observability.md before it does more. */
#include "record/tracer.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "record/tracer_file.h"
#include "spotnik/spotnik.h"

struct spotnik_tracer {
    struct spotnik_trace_file *file;

    /* the caller's thread */
    enum spotnik_tracer_part part;
    uint64_t part_ns; /* 0: none runs */
    bool joined;      /* the file knows that it began then */

    /* under the runtime's lock */
    struct started {
        uint64_t from_ns, to_ns, bytes; /* from_ns 0: it is not */
    } bucket[SPOTNIK_BUCKETS_MAX];
    uint16_t begun[SPOTNIK_BUCKETS_MAX]; /* those of the running step */
    uint32_t begun_count;
    uint64_t begun_epoch; /* of the running step; 0: it is replayed */
    /* of a view that has not committed yet; 0: none */
    uint64_t restarted_ns, restarted_epoch, changes;
};

static void put(struct spotnik_tracer *trace, enum spotnik_trace_kind kind, uint32_t arg,
                struct spotnik_trace_mark *mark)
{
    mark->cell.what = spotnik_trace_what(kind, arg, 0);
    spotnik_trace_put_mark(trace->file, SPOTNIK_TRACE_RUNTIME, mark);
}

/* `name`: shorter than the mark's. */
static void put_event(struct spotnik_tracer *trace, uint64_t at_ns, const char *name, uint64_t peer)
{
    struct spotnik_trace_mark mark = { .cell = { .at_ns = at_ns }, .peer = peer };

    strncpy(mark.name, name, sizeof mark.name - 1);
    put(trace, SPOTNIK_TRACE_EVENT, 0, &mark);
}

void spotnik_tracer_name(struct spotnik_tracer *trace, struct spotnik_id id, uint64_t now_ns)
{
    if (trace != NULL)
        put(trace, SPOTNIK_TRACE_NAME, 0,
            &(struct spotnik_trace_mark){ .cell = { .at_ns = now_ns }, .peer = id.high });
}

/* Parts follow one on another: so it is enough to say when one ends. */
static bool put_turn(struct spotnik_tracer *trace, enum spotnik_trace_kind kind, uint64_t step,
                     uint64_t at_ns)
{
    struct spotnik_trace_cell cell = { at_ns, spotnik_trace_what(kind, trace->part, step) };

    return spotnik_trace_put(trace->file, SPOTNIK_TRACE_CALLER, &cell);
}

void spotnik_tracer_turn(struct spotnik_tracer *trace, enum spotnik_tracer_part next, uint64_t step,
                         uint64_t now_ns)
{
    if (trace == NULL)
        return;
    if (trace->part_ns != 0)
        trace->joined =
            (trace->joined || put_turn(trace, SPOTNIK_TRACE_START, step, trace->part_ns))
            && put_turn(trace, SPOTNIK_TRACE_TURN, step, now_ns);
    trace->part_ns = now_ns;
    trace->part = next;
}

static void trouble(struct spotnik_tracer *trace, const struct spotnik_event *event)
{
    bool gone = event->kind == SPOTNIK_EVENT_LINK_DOWN && event->ended.proof == SPOTNIK_PROOF_GONE;

    put_event(trace, event->now_ns, spotnik_event_name(gone ? SPOTNIK_EVENT_DEATH : event->kind),
              spotnik_event_peer(event)->id.high);
}

/* A bucket may start more than once: after a change of the view. */
static void start(struct spotnik_tracer *trace, uint32_t bucket, uint64_t bytes)
{
    uint64_t now_ns = spotnik_clock_ns(); /* for the core no time passes with it */

    if (bucket >= SPOTNIK_BUCKETS_MAX)
        return;
    if (trace->bucket[bucket].from_ns == 0)
        trace->begun[trace->begun_count++] = (uint16_t)bucket;
    trace->bucket[bucket] = (struct started){ now_ns, now_ns, bytes };
}

static void get_on(struct spotnik_tracer *trace, uint32_t bucket, uint64_t now_ns)
{
    if (bucket < SPOTNIK_BUCKETS_MAX)
        trace->bucket[bucket].to_ns = now_ns;
}

void spotnik_tracer_event(struct spotnik_tracer *trace, const struct spotnik_event *event)
{
    if (trace == NULL)
        return;
    switch (event->kind) {
    case SPOTNIK_EVENT_BUCKET_START:
        start(trace, event->start.bucket, event->start.count * event->start.element_bytes);
        break;
    case SPOTNIK_EVENT_CHUNK_DONE:
        get_on(trace, event->chunk.header.bucket, event->now_ns);
        break;
    case SPOTNIK_EVENT_FLAT_DONE:
        get_on(trace, event->flat.at.bucket, event->now_ns);
        break;
    case SPOTNIK_EVENT_DEATH:
    case SPOTNIK_EVENT_LINK_DOWN:
    case SPOTNIK_EVENT_CHANNEL_DOWN:
    case SPOTNIK_EVENT_PATH_DOWN:
        trouble(trace, event);
        break;
    default:
        break;
    }
}

/* Returns where the next phase begins. One that this member was told of late, by the next one, has
 * no instant: its time counts to the next. */
static uint64_t phase(struct spotnik_tracer *trace, uint32_t which, uint64_t from_ns,
                      uint64_t to_ns)
{
    if (from_ns == 0 || to_ns < from_ns)
        return from_ns;
    put(trace, SPOTNIK_TRACE_PHASE, which,
        &(struct spotnik_trace_mark){ .cell = { .at_ns = from_ns },
                                      .to_ns = to_ns,
                                      .step = trace->restarted_epoch,
                                      .more = trace->changes });
    return to_ns;
}

static void view(struct spotnik_tracer *trace, const struct spotnik_core *core)
{
    struct spotnik_core_status status;
    uint64_t at_ns;

    spotnik_core_status(core, &status);
    trace->restarted_epoch = status.epoch;
    trace->restarted_ns = status.restarted_ns;
    trace->changes = (uint64_t)status.last_lost << 32
                     | (uint64_t)(status.last_joined & 0xffff) << 16 | (status.last_left & 0xffff);
    at_ns = phase(trace, 0, status.detected_ns, status.reconciled_ns);
    at_ns = phase(trace, 1, at_ns, status.accepted_ns);
    phase(trace, 2, at_ns, status.restarted_ns);
}

/* What arrived with the commit itself has no time of its own. */
static void bucket_put(struct spotnik_tracer *trace, uint32_t bucket, uint64_t step, uint64_t epoch)
{
    struct started *started = &trace->bucket[bucket];
    uint64_t to_ns = started->to_ns > started->from_ns ? started->to_ns : spotnik_clock_ns();

    put(trace, SPOTNIK_TRACE_BUCKET, bucket,
        &(struct spotnik_trace_mark){ .cell = { .at_ns = started->from_ns },
                                      .to_ns = to_ns,
                                      .step = step,
                                      .more = started->bytes,
                                      .peer = epoch == trace->begun_epoch ? epoch : 0 });
    started->from_ns = 0;
}

static void committed(struct spotnik_tracer *trace, const struct spotnik_core *core, uint64_t step)
{
    uint64_t epoch = spotnik_core_view(core)->epoch;

    for (uint32_t i = 0; i < trace->begun_count; i++)
        bucket_put(trace, trace->begun[i], step, epoch);
    trace->begun_count = 0;
    if (trace->restarted_ns != 0)
        phase(trace, 3, trace->restarted_ns, spotnik_clock_ns());
    trace->restarted_ns = 0;
}

void spotnik_tracer_action(struct spotnik_tracer *trace, const struct spotnik_core *core,
                           const struct spotnik_action *action)
{
    if (trace == NULL)
        return;
    switch (action->kind) {
    case SPOTNIK_ACTION_VIEW:
        view(trace, core);
        break;
    case SPOTNIK_ACTION_COMMITTED:
        committed(trace, core, action->step);
        break;
    case SPOTNIK_ACTION_STEP_BEGUN:
        trace->begun_epoch = !action->begun.replay ? spotnik_core_view(core)->epoch : 0;
        break;
    case SPOTNIK_ACTION_PARKED:
    case SPOTNIK_ACTION_EXCLUDED:
    case SPOTNIK_ACTION_LEFT:
    case SPOTNIK_ACTION_FAILED:
        put_event(trace, spotnik_clock_ns(), spotnik_action_name(action->kind), 0);
        break;
    default:
        break;
    }
}

int spotnik_tracer_new(const char *dir, const struct spotnik_member *self, uint64_t epoch_us,
                       struct spotnik_tracer **ret)
{
    struct spotnik_tracer *trace = calloc(1, sizeof *trace);

    if (trace == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the trace");
    int rc = spotnik_trace_file_new(dir, self, epoch_us, &trace->file);
    if (rc != 0)
        free(trace);
    else
        *ret = trace;
    return rc;
}

void spotnik_tracer_free(struct spotnik_tracer *trace)
{
    if (trace == NULL)
        return;
    spotnik_trace_file_free(trace->file);
    free(trace);
}
