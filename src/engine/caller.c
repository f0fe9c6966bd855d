/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side: the step from begin to commit, leaving, and handing results to a joiner.
 * Events run in place on the calling thread; what cannot be done at once is waited for, asleep. */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/time.h"
#include "engine/inside.h"
#include "reduce/reduce.h"

#define COMING_IN_NS                                                                               \
    (3 * SPOTNIK_S) /* a joiner waits at least so long to be let in, and then leaves */
#define BOUNDARY_NS (5 * SPOTNIK_MS) /* how often the boundary hook runs while step_begin waits */
#define INLINE_BYTES                                                                               \
    (64u * 1024) /* more than this is left to the progress thread: the caller has work to do */

static void changed_wait(struct spotnik_engine *engine, uint64_t until_ns)
{
    spotnik_cond_wait(&engine->changed, &engine->loop.lock, until_ns);
}

/* An event of the caller, and as much receiving and sending as is worth doing here: what waited for
 * this event, and what it makes ready. */
static void post(struct spotnik_engine *engine, struct spotnik_event *event)
{
    spotnik_engine_drive(engine, event);
    spotnik_engine_changed(engine); /* a donor's frame may wait for this bucket */
    spotnik_carriage_move(engine->carriage);
}

static bool patience_is_over(const struct spotnik_engine *engine)
{
    return engine->config.on_minority == SPOTNIK_MINORITY_STOP && engine->parked_ns != 0
           && spotnik_time_since(spotnik_clock_ns(), engine->parked_ns)
                  >= engine->config.minority_wait_ns;
}

bool spotnik_engine_gives_up(struct spotnik_engine *engine)
{
    spotnik_engine_lock(engine);
    bool over = patience_is_over(engine);
    spotnik_engine_unlock(engine);
    return over;
}

/* When a call that begins to wait now has to come back; NEVER: when it is done. */
static uint64_t patience_until(const struct spotnik_engine *engine)
{
    return engine->patience_ns == 0 ? SPOTNIK_NEVER
                                    : spotnik_time_add(spotnik_clock_ns(), engine->patience_ns);
}

/* Why waiting makes no sense any more; 0: it does. */
static int trouble(const struct spotnik_engine *engine)
{
    const struct spotnik_divergence *diverged = &engine->diverged;
    if (engine->failed == SPOTNIK_ERR_DIVERGED)
        return spotnik_error_return(
            engine->failed,
            "the results of this member and of member %016llx differ, in a step after %llu and up "
            "to "
            "%llu; end this process and start it again, it joins with a good copy",
            (unsigned long long)diverged->peer.id.high, (unsigned long long)diverged->after_step,
            (unsigned long long)diverged->step);
    if (engine->ended != 0)
        return spotnik_error_return(engine->ended, "%s", engine->end);
    if (engine->failed != 0)
        return spotnik_error_return(engine->failed, "the members run different programs: %s",
                                    engine->mismatch);
    if (engine->excluded)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "the others went on without us");
    if (engine->left || engine->stopping)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "this member has left the job");
    if (patience_is_over(engine))
        return spotnik_error_return(SPOTNIK_ERR_PARKED, "cut off from the majority");
    return 0;
}

static void boundary_call(struct spotnik_engine *engine, bool waiting)
{
    uint64_t committed = engine->stand.committed;
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    engine->boundary_due = false;
    if (hooks->boundary == NULL)
        return;
    spotnik_engine_unlock(engine);
    hooks->boundary(hooks->context, committed, waiting);
    spotnik_engine_lock(engine);
}

/* A joiner that has asked to be let in stands in a view before it hears of it. Were it to go now,
 * the others would lose a member whose death nobody can prove. So it comes in first, which takes no
 * longer than a step, and then leaves as members do. Where silence is borne for longer, machines
 * are slow. */
static bool is_coming_in(struct spotnik_engine *engine)
{
    struct spotnik_core_status status;
    uint64_t now_ns = spotnik_clock_ns(), borne_ns = engine->config.limits.silence_ceiling_ns;
    if (engine->noticed_ns == 0)
        engine->noticed_ns = now_ns;
    spotnik_core_status(engine->core, &status);
    return engine->entering && status.role == SPOTNIK_ROLE_JOINER
           && now_ns - engine->noticed_ns < (borne_ns > COMING_IN_NS ? borne_ns : COMING_IN_NS);
}

static bool noticed(struct spotnik_engine *engine)
{
    return __atomic_load_n(&engine->noticed, __ATOMIC_SEQ_CST) != 0 && !is_coming_in(engine);
}

/* Shall the job's first step wait for more members than members_min, as the agent wants it? Not
 * once anybody has begun: then data wait for us. */
static bool is_held(const struct spotnik_engine *engine, const struct spotnik_core_status *status)
{
    return engine->stand.committed == engine->origin
           && status->size < spotnik_death_start(engine->death)
           && !spotnik_carriage_is_waiting(engine->carriage);
}

static uint32_t needed(const struct spotnik_engine *engine,
                       const struct spotnik_core_status *status)
{
    uint32_t start = is_held(engine, status) ? spotnik_death_start(engine->death) : 0;
    return start > engine->config.members_min ? start : engine->config.members_min;
}

uint32_t spotnik_engine_members_needed(struct spotnik_engine *engine)
{
    struct spotnik_core_status status;
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    uint32_t count = needed(engine, &status);
    spotnik_engine_unlock(engine);
    return count;
}

static void minimum_set(struct spotnik_engine *engine, uint32_t members_min)
{
    spotnik_recorder_minimum(engine->recorder, members_min);
    spotnik_core_members_min_set(engine->core, members_min);
}

/* Ask for the step with as many members as are wanted now, and tell the agent if it has to wait for
 * them. */
static void begin_ask(struct spotnik_engine *engine, uint32_t *asked)
{
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    uint32_t wanted = needed(engine, &status);
    bool waits = status.role == SPOTNIK_ROLE_MEMBER && status.size < wanted;
    spotnik_death_waits(engine->death, status.size, waits ? wanted : 0);
    if (*asked == wanted)
        return;
    *asked = wanted;
    minimum_set(engine, wanted);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_STEP_BEGIN };
    post(engine, &event);
}

static int begin_wait(struct spotnik_engine *engine)
{
    uint64_t until_ns = patience_until(engine);
    uint32_t asked = 0;
    while (!engine->stand.begun) {
        begin_ask(engine, &asked);
        if (engine->stand.begun)
            break;
        int rc = trouble(engine);
        if (rc != 0)
            return rc;
        if (noticed(engine))
            return SPOTNIK_ERR_LEAVING;
        if (spotnik_clock_ns() >= until_ns)
            return SPOTNIK_ERR_AGAIN;
        changed_wait(engine, spotnik_time_add(spotnik_clock_ns(), BOUNDARY_NS));
        if (!engine->stand.begun)
            boundary_call(engine, true);
    }
    minimum_set(engine, engine->config.members_min);
    spotnik_death_waits(engine->death, 0, 0);
    return 0;
}

static void step_describe(struct spotnik_engine *engine, spotnik_step *step)
{
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    step->number = engine->stand.begun_step;
    step->view_epoch = engine->step_epoch;
    step->size = status.size > 0 ? status.size : 1;
    step->rank = status.rank == SPOTNIK_NO_RANK ? step->size : status.rank;
    spotnik_death_rank(engine->death, status.rank);
    step->data_epoch = spotnik_core_ledger(engine->core)->data_epoch;
    step->sample_count = spotnik_core_share(engine->core, step->samples, &step->range_count);
    step->share = spotnik_core_share_number(engine->core, &step->shares);
    step->replay = engine->replay;
}

/* What the caller got of the last step: compared with what the neighbours got. */
static void result_tell(struct spotnik_engine *engine)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_RESULT,
                                   .result = { engine->result_step, engine->result_digest } };
    if (engine->result_step == 0)
        return;
    engine->result_step = 0;
    spotnik_engine_drive(engine, &event);
}

int spotnik_engine_step_begin(struct spotnik_engine *engine, spotnik_step *ret_step)
{
    int rc = 0;
    spotnik_engine_lock(engine);
    if (engine->stand.begun && engine->handed_out)
        rc = spotnik_error_return(SPOTNIK_ERR_STATE, "step %llu is begun and not committed",
                                  (unsigned long long)engine->stand.begun_step);
    if (rc == 0)
        spotnik_carriage_prune(engine->carriage);
    if (rc == 0)
        boundary_call(engine, false);
    if (rc == 0 && noticed(engine))
        rc = SPOTNIK_ERR_LEAVING;
    if (rc == 0)
        result_tell(engine);
    if (rc == 0)
        rc = begin_wait(engine);
    if (rc == 0) {
        step_describe(engine, ret_step);
        engine->handed_out = true;
    }
    spotnik_engine_unlock(engine);
    return rc;
}

/* Between begin and commit? */
static int step_check(struct spotnik_engine *engine)
{
    if (engine->stand.begun && engine->handed_out && !engine->stand.sealed)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_STATE,
                                "no step is begun; call spotnik_step_begin() first");
}

int spotnik_engine_weight_set(struct spotnik_engine *engine, uint64_t weight)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WEIGHT, .weight = weight };
    spotnik_engine_lock(engine);
    int rc = step_check(engine);
    if (rc == 0)
        post(engine, &event);
    spotnik_engine_unlock(engine);
    return rc;
}

int spotnik_engine_samples_decline(struct spotnik_engine *engine)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_DECLINE };
    spotnik_engine_lock(engine);
    int rc = step_check(engine);
    if (rc == 0)
        post(engine, &event);
    spotnik_engine_unlock(engine);
    return rc;
}

void spotnik_engine_patience_set(struct spotnik_engine *engine, uint64_t patience_ns)
{
    spotnik_engine_lock(engine);
    engine->patience_ns = patience_ns;
    spotnik_engine_unlock(engine);
}

static int bucket_check(uint32_t number, const void *data, size_t count, enum spotnik_dtype dtype,
                        enum spotnik_op op)
{
    if (number >= SPOTNIK_BUCKETS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT, "buckets are numbered 0 to %d",
                                    SPOTNIK_BUCKETS_MAX - 1);
    if (!spotnik_reduce_supported(dtype, op))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u: this type does not take this operation", number);
    if ((data == NULL && count > 0) || count > SIZE_MAX / 2 / SPOTNIK_DTYPE_BYTES_MAX)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u: no data, or more than memory holds", number);
    return 0;
}

static int reduce(struct spotnik_engine *engine, uint32_t bucket, void *data, size_t count,
                  enum spotnik_dtype dtype, enum spotnik_op op, bool kept)
{
    int rc = bucket_check(bucket, data, count, dtype, op);
    if (rc != 0)
        return rc;
    spotnik_engine_lock(engine);
    rc = step_check(engine);
    if (rc == 0)
        rc = spotnik_carriage_begin(engine->carriage, bucket, data, count, dtype, op, kept);
    if (rc == 0) {
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_BUCKET_START,
                                       .start = { .bucket = bucket,
                                                  .count = count,
                                                  .dtype = (uint8_t)dtype,
                                                  .op = (uint8_t)op,
                                                  .element_bytes =
                                                      (uint32_t)spotnik_dtype_size(dtype) } };
        post(engine, &event);
        if (event.start.element_bytes * count > INLINE_BYTES)
            spotnik_attend_resume(engine);
    }
    spotnik_engine_unlock(engine);
    return rc;
}

int spotnik_engine_allreduce(struct spotnik_engine *engine, uint32_t bucket, void *data,
                             size_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    return reduce(engine, bucket, data, count, dtype, op, false);
}

int spotnik_engine_allreduce_from(struct spotnik_engine *engine, uint32_t bucket, const void *data,
                                  size_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    /* inputs are never written */
    return reduce(engine, bucket, (void *)(uintptr_t)data, count, dtype, op, true);
}

/* Towards the commit: our part of the work in shared memory, or sleep until others have done
 * theirs. */
static void step_on(struct spotnik_engine *engine, uint64_t until_ns)
{
    if (!spotnik_carriage_is_busy(engine->carriage)) {
        spotnik_attend(engine,
                       spotnik_time_min(until_ns, spotnik_time_add(spotnik_clock_ns(), SPOTNIK_S)));
        return;
    }
    /* a view may have taken the step from the wire to shared memory: others may yet want data from
     * us */
    spotnik_attend_leave(engine);
    if (!spotnik_carriage_work(engine->carriage) && !spotnik_carriage_early(engine->carriage)) {
        spotnik_carriage_wait(engine->carriage, until_ns, engine->attend.place);
    } else if (engine->stand.committed < engine->stand.begun_step) {
        bool ahead = spotnik_carriage_is_ahead(engine->carriage);
        spotnik_engine_unlock(engine); /* the progress thread may have something to say */
        if (ahead)
            sched_yield();
        spotnik_engine_lock(engine);
    }
}

/* Told to go, with a step that cannot be finished: those who would let us go do not hear us. As
 * long as spotnik_leave() waits for them at a boundary, and no longer: then we are killed, and
 * nobody has learnt that we went. */
static bool is_stranded(struct spotnik_engine *engine)
{
    if (engine->parked_ns == 0 || !noticed(engine))
        return false;
    uint64_t since_ns =
        engine->parked_ns > engine->noticed_ns ? engine->parked_ns : engine->noticed_ns;
    return spotnik_time_since(spotnik_clock_ns(), since_ns) >= engine->config.minority_wait_ns;
}

static int commit_wait(struct spotnik_engine *engine)
{
    uint64_t until_ns = patience_until(engine);
    int rc = 0;
    while (rc == 0 && engine->stand.committed < engine->stand.begun_step) {
        rc = trouble(engine);
        if (rc == 0 && is_stranded(engine))
            rc = spotnik_error_return(SPOTNIK_ERR_LEAVING,
                                      "a notice came to this member, which is cut off from the "
                                      "majority: its step is not finished");
        if (rc == 0 && until_ns != SPOTNIK_NEVER && spotnik_clock_ns() >= until_ns)
            rc = SPOTNIK_ERR_AGAIN;
        if (rc == 0)
            step_on(engine, until_ns);
    }
    spotnik_attend_leave(engine);
    if (rc != 0)
        spotnik_carriage_undo(engine->carriage);
    return rc;
}

uint32_t spotnik_engine_results_get(struct spotnik_engine *engine, uint64_t step, uint32_t max,
                                    struct spotnik_bucket_result *ret)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    spotnik_engine_lock(engine);
    uint32_t count = spotnik_carriage_result(engine->carriage, step, result);
    spotnik_engine_unlock(engine);
    count = count < max ? count : max;
    memcpy(ret, result, count * sizeof *ret);
    return count;
}

const void *spotnik_engine_result(struct spotnik_engine *engine, uint32_t bucket)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    spotnik_engine_lock(engine);
    uint64_t step = engine->stand.committed;
    uint32_t count = engine->stand.begun && !engine->stand.sealed
                         ? 0
                         : spotnik_carriage_result(engine->carriage, step, result);
    spotnik_engine_unlock(engine);
    return bucket < count ? result[bucket].data : NULL;
}

/* Without the lock: until the caller starts buckets again, nobody writes these results and nobody
 * reads the inputs. */
static bool deliver(struct spotnik_engine *engine, uint64_t step)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    uint32_t count = spotnik_carriage_result(engine->carriage, step, result);
    if (hooks->committed != NULL)
        hooks->committed(hooks->context, step, count, result);
    engine->result_step = step;
    return spotnik_carriage_deliver(engine->carriage, step, result, count, &engine->result_digest);
}

int spotnik_engine_step_commit(struct spotnik_engine *engine)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_STEP_SEAL };
    spotnik_engine_lock(engine);
    int rc = engine->stand.sealed && engine->stand.begun ? 0 : step_check(engine);
    if (rc == 0 && !engine->stand.sealed) {
        engine->stand.sealed = true;
        post(engine, &event);
        spotnik_carriage_seal(engine->carriage);
    }
    if (rc == 0)
        rc = commit_wait(engine);
    uint64_t step = engine->stand.begun_step;
    if (rc == 0) /* nobody but this thread begins another */
        engine->stand.begun = engine->handed_out = engine->stand.sealed = false;
    spotnik_engine_unlock(engine);
    if (rc != 0 || deliver(engine, step))
        return rc;
    /* the memory they lay in is used again, so a view has been made without us */
    spotnik_engine_lock(engine);
    engine->stand.begun = engine->handed_out = engine->stand.sealed = true;
    engine->excluded = true;
    rc = trouble(engine);
    spotnik_engine_unlock(engine);
    return rc;
}

void *spotnik_engine_alloc(struct spotnik_engine *engine, size_t bytes)
{
    return spotnik_carriage_alloc(engine->carriage, bytes);
}

void spotnik_engine_unalloc(struct spotnik_engine *engine, void *memory)
{
    spotnik_carriage_unalloc(engine->carriage, memory);
}

void spotnik_engine_interrupt(struct spotnik_engine *engine)
{
    struct spotnik_core_status status;
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    if (status.role != SPOTNIK_ROLE_MEMBER) {
        engine->excluded = true;
        spotnik_engine_changed(engine);
    }
    spotnik_engine_unlock(engine);
}

void spotnik_engine_wake(struct spotnik_engine *engine)
{
    spotnik_engine_lock(engine);
    engine->boundary_due = true;
    spotnik_engine_changed(engine);
    spotnik_engine_unlock(engine);
}

void spotnik_engine_company_wait(struct spotnik_engine *engine, uint64_t until_ns)
{
    spotnik_engine_lock(engine);
    while (spotnik_core_view(engine->core)->size < 2 && !engine->excluded && trouble(engine) == 0
           && spotnik_clock_ns() < until_ns) {
        changed_wait(engine, spotnik_time_add(spotnik_clock_ns(), BOUNDARY_NS));
        boundary_call(engine, true); /* where copies of the state are made */
    }
    spotnik_engine_unlock(engine);
}

int spotnik_engine_leave(struct spotnik_engine *engine, uint64_t timeout_ns)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_LEAVE };
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    spotnik_engine_lock(engine);
    post(engine, &event);
    while (!engine->left && !engine->excluded && engine->failed == 0 && engine->ended == 0
           && !patience_is_over(engine) && spotnik_clock_ns() < until_ns)
        changed_wait(engine, until_ns);
    bool out = engine->left || engine->excluded, wrong = engine->failed != 0 || engine->ended != 0;
    int rc = out ? 0 : wrong ? trouble(engine) : SPOTNIK_ERR_PARKED;
    spotnik_engine_unlock(engine);
    return rc;
}

/* ---- results for a joiner ---- */

static int handover_take(struct spotnik_engine *engine, const struct spotnik_chunk_header *header,
                         const struct spotnik_placement *placement, const void *payload,
                         size_t bytes)
{
    int rc = spotnik_carriage_handover(engine->carriage, header, placement, payload, bytes);
    if (rc != 0)
        return rc;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_CHUNK_DONE, .chunk.header = *header };
    spotnik_engine_drive(engine, &event);
    if (spotnik_carriage_is_waiting(engine->carriage))
        spotnik_engine_kick(engine); /* a commit may have been what they wait for */
    return 0;
}

/* One try: 0 or an error, or 1 when the frame has to wait. */
static int handover_try(struct spotnik_engine *engine, const struct spotnik_chunk_header *header,
                        const void *payload, size_t bytes)
{
    struct spotnik_placement placement =
        spotnik_core_place(engine->core, (struct spotnik_id){ 0, 0 }, header);
    spotnik_recorder_placed(engine->recorder, (struct spotnik_id){ 0, 0 }, header,
                            placement.verdict);
    spotnik_engine_act(engine);
    switch (placement.verdict) {
    case SPOTNIK_VERDICT_TAKE:
        return handover_take(engine, header, &placement, payload, bytes);
    case SPOTNIK_VERDICT_DROP:
        return 0;
    case SPOTNIK_VERDICT_WAIT:
        return 1;
    case SPOTNIK_VERDICT_BAD:
        break;
    }
    return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                "a donor sent a result that does not fit the last one");
}

int spotnik_engine_handover(struct spotnik_engine *engine,
                            const struct spotnik_chunk_header *header, const void *payload,
                            size_t bytes)
{
    int rc = SPOTNIK_ERR_ARGUMENT;
    if (header->bucket >= SPOTNIK_BUCKET_SLOTS
        || spotnik_dtype_size((enum spotnik_dtype)header->dtype) == 0)
        return rc;
    spotnik_engine_lock(engine);
    for (;;) {
        rc = engine->stopping || engine->excluded ? SPOTNIK_ERR_STATE
                                                  : handover_try(engine, header, payload, bytes);
        if (rc <= 0)
            break;
        changed_wait(engine, spotnik_time_add(spotnik_clock_ns(), SPOTNIK_S));
    }
    spotnik_engine_unlock(engine);
    return rc;
}
