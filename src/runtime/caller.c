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
#include "runtime/inside.h"
#include "reduce/reduce.h"

#define COMING_IN_NS                                                                               \
    (3 * SPOTNIK_S) /* a joiner waits at least so long to be let in, and then leaves */
#define BOUNDARY_NS (5 * SPOTNIK_MS) /* how often the boundary hook runs while step_begin waits */
#define INLINE_BYTES                                                                               \
    (64u * 1024) /* more than this is left to the progress thread: the caller has work to do */

static void changed_wait(struct spotnik_runtime *runtime, uint64_t until_ns)
{
    spotnik_cond_wait(&runtime->changed, &runtime->loop.lock, until_ns);
}

/* An event of the caller, and as much receiving and sending as is worth doing here: what waited for
 * this event, and what it makes ready. */
static void post(struct spotnik_runtime *runtime, struct spotnik_event *event)
{
    spotnik_runtime_dispatch(runtime, event);
    spotnik_runtime_changed(runtime); /* a donor's frame may wait for this bucket */
    spotnik_transport_move(runtime->transport);
}

static bool patience_is_over(const struct spotnik_runtime *runtime)
{
    return runtime->config.on_minority == SPOTNIK_MINORITY_STOP && runtime->parked_ns != 0
           && spotnik_time_since(spotnik_clock_ns(), runtime->parked_ns)
                  >= runtime->config.minority_wait_ns;
}

bool spotnik_runtime_gives_up(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    bool over = patience_is_over(runtime);
    spotnik_runtime_unlock(runtime);
    return over;
}

/* When a call that begins to wait now has to come back; NEVER: when it is done. */
static uint64_t patience_until(const struct spotnik_runtime *runtime)
{
    return runtime->patience_ns == 0 ? SPOTNIK_NEVER
                                     : spotnik_time_add(spotnik_clock_ns(), runtime->patience_ns);
}

/* Why waiting makes no sense any more; 0: it does. */
static int trouble(const struct spotnik_runtime *runtime)
{
    const struct spotnik_divergence *diverged = &runtime->diverged;
    if (runtime->failed == SPOTNIK_ERR_DIVERGED)
        return spotnik_error_return(
            runtime->failed,
            "the results of this member and of member %016llx differ, in a step after %llu and up "
            "to "
            "%llu; end this process and start it again, it joins with a good copy",
            (unsigned long long)diverged->peer.id.high, (unsigned long long)diverged->after_step,
            (unsigned long long)diverged->step);
    if (runtime->ended != 0)
        return spotnik_error_return(runtime->ended, "%s", runtime->end);
    if (runtime->failed != 0)
        return spotnik_error_return(runtime->failed, "the members run different programs: %s",
                                    runtime->mismatch);
    if (runtime->excluded)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "the others went on without us");
    if (runtime->left || runtime->stopping)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "this member has left the job");
    if (patience_is_over(runtime))
        return spotnik_error_return(SPOTNIK_ERR_PARKED, "cut off from the majority");
    return 0;
}

static void boundary_call(struct spotnik_runtime *runtime, bool waiting)
{
    uint64_t committed = runtime->stand.committed;
    const struct spotnik_runtime_hooks *hooks = &runtime->config.hooks;
    runtime->boundary_due = false;
    if (hooks->boundary == NULL)
        return;
    spotnik_runtime_unlock(runtime);
    hooks->boundary(hooks->context, committed, waiting);
    spotnik_runtime_lock(runtime);
}

/* A joiner that has asked to be let in stands in a view before it hears of it. Were it to go now,
 * the others would lose a member whose death nobody can prove. So it comes in first, which takes no
 * longer than a step, and then leaves as members do. Where silence is borne for longer, machines
 * are slow. */
static bool is_coming_in(struct spotnik_runtime *runtime)
{
    struct spotnik_core_status status;
    uint64_t now_ns = spotnik_clock_ns(), borne_ns = runtime->config.limits.silence_ceiling_ns;
    if (runtime->noticed_ns == 0)
        runtime->noticed_ns = now_ns;
    spotnik_core_status(runtime->core, &status);
    return runtime->entering && status.role == SPOTNIK_ROLE_JOINER
           && now_ns - runtime->noticed_ns < (borne_ns > COMING_IN_NS ? borne_ns : COMING_IN_NS);
}

static bool noticed(struct spotnik_runtime *runtime)
{
    return __atomic_load_n(&runtime->noticed, __ATOMIC_SEQ_CST) != 0 && !is_coming_in(runtime);
}

/* Shall the job's first step wait for more members than members_min, as the agent wants it? Not
 * once anybody has begun: then data wait for us. */
static bool is_held(const struct spotnik_runtime *runtime, const struct spotnik_core_status *status)
{
    return runtime->stand.committed == runtime->origin
           && status->size < spotnik_death_start(runtime->death)
           && !spotnik_transport_is_waiting(runtime->transport);
}

static uint32_t needed(const struct spotnik_runtime *runtime,
                       const struct spotnik_core_status *status)
{
    uint32_t start = is_held(runtime, status) ? spotnik_death_start(runtime->death) : 0;
    return start > runtime->config.members_min ? start : runtime->config.members_min;
}

uint32_t spotnik_runtime_members_needed(struct spotnik_runtime *runtime)
{
    struct spotnik_core_status status;
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    uint32_t count = needed(runtime, &status);
    spotnik_runtime_unlock(runtime);
    return count;
}

static void minimum_set(struct spotnik_runtime *runtime, uint32_t members_min)
{
    spotnik_recorder_minimum(runtime->recorder, members_min);
    spotnik_core_members_min_set(runtime->core, members_min);
}

/* Ask for the step with as many members as are wanted now, and tell the agent if it has to wait for
 * them. */
static void begin_ask(struct spotnik_runtime *runtime, uint32_t *asked)
{
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    uint32_t wanted = needed(runtime, &status);
    bool waits = status.role == SPOTNIK_ROLE_MEMBER && status.size < wanted;
    spotnik_death_waits(runtime->death, status.size, waits ? wanted : 0);
    if (*asked == wanted)
        return;
    *asked = wanted;
    minimum_set(runtime, wanted);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_STEP_BEGIN };
    post(runtime, &event);
}

/* `continues`: a notice may wait for a step that needs no wait itself. */
static int begin_wait(struct spotnik_runtime *runtime, bool continues)
{
    uint64_t until_ns = patience_until(runtime);
    uint64_t heeded_ns = continues ? spotnik_time_add(spotnik_clock_ns(), BOUNDARY_NS) : 0;
    uint32_t asked = 0;
    while (!runtime->stand.begun) {
        begin_ask(runtime, &asked);
        if (runtime->stand.begun)
            break;
        int rc = trouble(runtime);
        if (rc != 0)
            return rc;
        if (noticed(runtime) && spotnik_clock_ns() >= heeded_ns)
            return SPOTNIK_ERR_LEAVING;
        if (spotnik_clock_ns() >= until_ns)
            return SPOTNIK_ERR_AGAIN;
        changed_wait(runtime, spotnik_time_add(spotnik_clock_ns(), BOUNDARY_NS));
        if (!runtime->stand.begun)
            boundary_call(runtime, true);
    }
    minimum_set(runtime, runtime->config.members_min);
    spotnik_death_waits(runtime->death, 0, 0);
    return 0;
}

static void step_describe(struct spotnik_runtime *runtime, spotnik_step *step)
{
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    step->number = runtime->stand.begun_step;
    step->view_epoch = runtime->step_epoch;
    step->size = status.size > 0 ? status.size : 1;
    step->rank = status.rank == SPOTNIK_NO_RANK ? step->size : status.rank;
    spotnik_death_rank(runtime->death, status.rank);
    step->data_epoch = spotnik_core_ledger(runtime->core)->data_epoch;
    step->sample_count = spotnik_core_share(runtime->core, step->samples, &step->range_count);
    step->share = spotnik_core_share_number(runtime->core, &step->shares);
    step->replay = runtime->replay;
}

/* What the caller got of the last step: compared with what the neighbours got. */
static void result_tell(struct spotnik_runtime *runtime)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_RESULT,
                                   .result = { runtime->result_step, runtime->result_digest } };
    if (runtime->result_step == 0)
        return;
    runtime->result_step = 0;
    spotnik_runtime_dispatch(runtime, &event);
}

int spotnik_runtime_step_begin(struct spotnik_runtime *runtime, bool continues,
                               spotnik_step *ret_step)
{
    int rc = 0;
    spotnik_runtime_lock(runtime);
    if (runtime->stand.begun && runtime->handed_out)
        rc = spotnik_error_return(SPOTNIK_ERR_STATE, "step %llu is begun and not committed",
                                  (unsigned long long)runtime->stand.begun_step);
    if (rc == 0)
        spotnik_transport_prune(runtime->transport);
    if (rc == 0)
        boundary_call(runtime, false);
    if (rc == 0 && !continues && noticed(runtime))
        rc = SPOTNIK_ERR_LEAVING;
    if (rc == 0)
        result_tell(runtime);
    if (rc == 0)
        rc = begin_wait(runtime, continues);
    if (rc == 0) {
        step_describe(runtime, ret_step);
        runtime->handed_out = true;
    }
    spotnik_runtime_unlock(runtime);
    return rc;
}

/* Between begin and commit? */
static int step_check(struct spotnik_runtime *runtime)
{
    if (runtime->stand.begun && runtime->handed_out && !runtime->stand.sealed)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_STATE,
                                "no step is begun; call spotnik_step_begin() first");
}

int spotnik_runtime_weight_set(struct spotnik_runtime *runtime, uint64_t weight)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WEIGHT, .weight = weight };
    spotnik_runtime_lock(runtime);
    int rc = step_check(runtime);
    if (rc == 0)
        post(runtime, &event);
    spotnik_runtime_unlock(runtime);
    return rc;
}

int spotnik_runtime_samples_decline(struct spotnik_runtime *runtime)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_DECLINE };
    spotnik_runtime_lock(runtime);
    int rc = step_check(runtime);
    if (rc == 0)
        post(runtime, &event);
    spotnik_runtime_unlock(runtime);
    return rc;
}

void spotnik_runtime_patience_set(struct spotnik_runtime *runtime, uint64_t patience_ns)
{
    spotnik_runtime_lock(runtime);
    runtime->patience_ns = patience_ns;
    spotnik_runtime_unlock(runtime);
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

static int reduce(struct spotnik_runtime *runtime, uint32_t bucket, void *data, size_t count,
                  enum spotnik_dtype dtype, enum spotnik_op op, bool kept)
{
    int rc = bucket_check(bucket, data, count, dtype, op);
    if (rc != 0)
        return rc;
    spotnik_runtime_lock(runtime);
    rc = step_check(runtime);
    if (rc == 0)
        rc = spotnik_transport_begin(runtime->transport, bucket, data, count, dtype, op, kept);
    if (rc == 0) {
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_BUCKET_START,
                                       .start = { .bucket = bucket,
                                                  .count = count,
                                                  .dtype = (uint8_t)dtype,
                                                  .op = (uint8_t)op,
                                                  .element_bytes =
                                                      (uint32_t)spotnik_dtype_size(dtype) } };
        post(runtime, &event);
        if (event.start.element_bytes * count > INLINE_BYTES)
            spotnik_data_poller_resume(runtime);
    }
    spotnik_runtime_unlock(runtime);
    return rc;
}

int spotnik_runtime_allreduce(struct spotnik_runtime *runtime, uint32_t bucket, void *data,
                              size_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    return reduce(runtime, bucket, data, count, dtype, op, false);
}

int spotnik_runtime_allreduce_from(struct spotnik_runtime *runtime, uint32_t bucket,
                                   const void *data, size_t count, enum spotnik_dtype dtype,
                                   enum spotnik_op op)
{
    /* inputs are never written */
    return reduce(runtime, bucket, (void *)(uintptr_t)data, count, dtype, op, true);
}

/* Towards the commit: our part of the work in shared memory, or sleep until others have done
 * theirs. */
static void step_on(struct spotnik_runtime *runtime, uint64_t until_ns)
{
    if (!spotnik_transport_is_busy(runtime->transport)) {
        spotnik_data_poller(runtime, spotnik_time_min(until_ns, spotnik_time_add(spotnik_clock_ns(),
                                                                                 SPOTNIK_S)));
        return;
    }
    /* a view may have taken the step from the wire to shared memory: others may yet want data from
     * us */
    spotnik_data_poller_leave(runtime);
    if (!spotnik_transport_work(runtime->transport)
        && !spotnik_transport_early(runtime->transport)) {
        spotnik_transport_wait(runtime->transport, until_ns, runtime->data_poller.place);
    } else if (runtime->stand.committed < runtime->stand.begun_step) {
        bool ahead = spotnik_transport_is_ahead(runtime->transport);
        spotnik_runtime_unlock(runtime); /* the progress thread may have something to say */
        if (ahead)
            sched_yield();
        spotnik_runtime_lock(runtime);
    }
}

/* Told to go, with a step that cannot be finished: those who would let us go do not hear us. As
 * long as spotnik_leave() waits for them at a boundary, and no longer: then we are killed, and
 * nobody has learnt that we went. */
static bool is_stranded(struct spotnik_runtime *runtime)
{
    if (runtime->parked_ns == 0 || !noticed(runtime))
        return false;
    uint64_t since_ns =
        runtime->parked_ns > runtime->noticed_ns ? runtime->parked_ns : runtime->noticed_ns;
    return spotnik_time_since(spotnik_clock_ns(), since_ns) >= runtime->config.minority_wait_ns;
}

static int commit_wait(struct spotnik_runtime *runtime)
{
    uint64_t until_ns = patience_until(runtime);
    int rc = 0;
    while (rc == 0 && runtime->stand.committed < runtime->stand.begun_step) {
        rc = trouble(runtime);
        if (rc == 0 && is_stranded(runtime))
            rc = spotnik_error_return(SPOTNIK_ERR_LEAVING,
                                      "a notice came to this member, which is cut off from the "
                                      "majority: its step is not finished");
        if (rc == 0 && until_ns != SPOTNIK_NEVER && spotnik_clock_ns() >= until_ns)
            rc = SPOTNIK_ERR_AGAIN;
        if (rc == 0)
            step_on(runtime, until_ns);
    }
    spotnik_data_poller_leave(runtime);
    if (rc != 0)
        spotnik_transport_undo(runtime->transport);
    return rc;
}

uint32_t spotnik_runtime_results_get(struct spotnik_runtime *runtime, uint64_t step, uint32_t max,
                                     struct spotnik_bucket_result *ret)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    spotnik_runtime_lock(runtime);
    uint32_t count = spotnik_transport_result(runtime->transport, step, result);
    spotnik_runtime_unlock(runtime);
    count = count < max ? count : max;
    memcpy(ret, result, count * sizeof *ret);
    return count;
}

const void *spotnik_runtime_result(struct spotnik_runtime *runtime, uint32_t bucket)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    spotnik_runtime_lock(runtime);
    uint64_t step = runtime->stand.committed;
    uint32_t count = runtime->stand.begun && !runtime->stand.sealed
                         ? 0
                         : spotnik_transport_result(runtime->transport, step, result);
    spotnik_runtime_unlock(runtime);
    return bucket < count ? result[bucket].data : NULL;
}

/* Without the lock: until the caller starts buckets again, nobody writes these results and nobody
 * reads the inputs. */
static bool deliver(struct spotnik_runtime *runtime, uint64_t step)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    const struct spotnik_runtime_hooks *hooks = &runtime->config.hooks;
    uint32_t count = spotnik_transport_result(runtime->transport, step, result);
    if (hooks->committed != NULL)
        hooks->committed(hooks->context, step, count, result);
    runtime->result_step = step;
    return spotnik_transport_deliver(runtime->transport, step, result, count,
                                     &runtime->result_digest);
}

int spotnik_runtime_step_commit(struct spotnik_runtime *runtime)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_STEP_SEAL };
    spotnik_runtime_lock(runtime);
    int rc = runtime->stand.sealed && runtime->stand.begun ? 0 : step_check(runtime);
    if (rc == 0 && !runtime->stand.sealed) {
        runtime->stand.sealed = true;
        post(runtime, &event);
        spotnik_transport_seal(runtime->transport);
    }
    if (rc == 0)
        rc = commit_wait(runtime);
    uint64_t step = runtime->stand.begun_step;
    if (rc == 0) /* no other thread begins one */
        runtime->stand.begun = runtime->handed_out = runtime->stand.sealed = false;
    spotnik_runtime_unlock(runtime);
    if (rc != 0 || deliver(runtime, step))
        return rc;
    /* the memory they lay in is used again, so a view has been made without us */
    spotnik_runtime_lock(runtime);
    runtime->stand.begun = runtime->handed_out = runtime->stand.sealed = true;
    runtime->excluded = true;
    rc = trouble(runtime);
    spotnik_runtime_unlock(runtime);
    return rc;
}

void *spotnik_runtime_alloc(struct spotnik_runtime *runtime, size_t bytes)
{
    return spotnik_transport_alloc(runtime->transport, bytes);
}

void spotnik_runtime_unalloc(struct spotnik_runtime *runtime, void *memory)
{
    spotnik_transport_unalloc(runtime->transport, memory);
}

void spotnik_runtime_interrupt(struct spotnik_runtime *runtime)
{
    struct spotnik_core_status status;
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    if (status.role != SPOTNIK_ROLE_MEMBER) {
        runtime->excluded = true;
        spotnik_runtime_changed(runtime);
    }
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_wake(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    runtime->boundary_due = true;
    spotnik_runtime_changed(runtime);
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_company_wait(struct spotnik_runtime *runtime, uint64_t until_ns)
{
    spotnik_runtime_lock(runtime);
    while (spotnik_core_view(runtime->core)->size < 2 && !runtime->excluded && trouble(runtime) == 0
           && spotnik_clock_ns() < until_ns) {
        changed_wait(runtime, spotnik_time_add(spotnik_clock_ns(), BOUNDARY_NS));
        boundary_call(runtime, true); /* where copies of the state are made */
    }
    spotnik_runtime_unlock(runtime);
}

int spotnik_runtime_leave(struct spotnik_runtime *runtime, uint64_t timeout_ns)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_LEAVE };
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    spotnik_runtime_lock(runtime);
    post(runtime, &event);
    while (!runtime->left && !runtime->excluded && runtime->failed == 0 && runtime->ended == 0
           && !patience_is_over(runtime) && spotnik_clock_ns() < until_ns)
        changed_wait(runtime, until_ns);
    bool out = runtime->left || runtime->excluded,
         wrong = runtime->failed != 0 || runtime->ended != 0;
    int rc = out ? 0 : wrong ? trouble(runtime) : SPOTNIK_ERR_PARKED;
    spotnik_runtime_unlock(runtime);
    return rc;
}

/* ---- results for a joiner ---- */

static int handover_take(struct spotnik_runtime *runtime, const struct spotnik_chunk_header *header,
                         const struct spotnik_placement *placement, const void *payload,
                         size_t bytes)
{
    int rc = spotnik_transport_handover(runtime->transport, header, placement, payload, bytes);
    if (rc != 0)
        return rc;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_CHUNK_DONE, .chunk.header = *header };
    spotnik_runtime_dispatch(runtime, &event);
    if (spotnik_transport_is_waiting(runtime->transport))
        spotnik_runtime_kick(runtime); /* a commit may have been what they wait for */
    return 0;
}

/* One try: 0 or an error, or 1 when the frame has to wait. */
static int handover_try(struct spotnik_runtime *runtime, const struct spotnik_chunk_header *header,
                        const void *payload, size_t bytes)
{
    struct spotnik_placement placement =
        spotnik_core_place(runtime->core, (struct spotnik_id){ 0, 0 }, header);
    spotnik_recorder_placed(runtime->recorder, (struct spotnik_id){ 0, 0 }, header,
                            placement.verdict);
    spotnik_runtime_act(runtime);
    switch (placement.verdict) {
    case SPOTNIK_VERDICT_TAKE:
        return handover_take(runtime, header, &placement, payload, bytes);
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

int spotnik_runtime_handover(struct spotnik_runtime *runtime,
                             const struct spotnik_chunk_header *header, const void *payload,
                             size_t bytes)
{
    int rc = SPOTNIK_ERR_ARGUMENT;
    if (header->bucket >= SPOTNIK_BUCKET_SLOTS
        || spotnik_dtype_size((enum spotnik_dtype)header->dtype) == 0)
        return rc;
    spotnik_runtime_lock(runtime);
    for (;;) {
        rc = runtime->stopping || runtime->excluded ? SPOTNIK_ERR_STATE
                                                    : handover_try(runtime, header, payload, bytes);
        if (rc <= 0)
            break;
        changed_wait(runtime, spotnik_time_add(spotnik_clock_ns(), SPOTNIK_S));
    }
    spotnik_runtime_unlock(runtime);
    return rc;
}
