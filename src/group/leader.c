/* SPDX-License-Identifier: Apache-2.0 */
#include "group/leader.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/time.h"
#include "group/futex_word.h"
#include "link/slots.h"
#include "reduce/reduce.h"

/* How often the agent learns which processes a call waits for. */
#define LOOK_NS (100 * SPOTNIK_MS)

/* After it the status names those that the group waits for; where all compute, after longer. */
#define LATE_NS (5 * SPOTNIK_S)
#define ALL_LATE_NS (60 * SPOTNIK_S)

struct spotnik_group_leader {
    struct spotnik_group_control *control;
    struct spotnik_slots *slots; /* of the agent; NULL: there is none */
    uint32_t slot;
    pthread_t thread;
    uint32_t stopping; /* atomic */
    const spotnik_config *config;
    pthread_mutex_t lock; /* of `job`, which only the thread changes */
    spotnik_job *job;
    uint64_t absent, absent_since_ns; /* ranks that have not made the call that others have made */
    bool trains, is_named;            /* has committed a step; the status names them */
    bool is_in_step, is_set;          /* the step's weights and samples are what processes said */
    bool started[SPOTNIK_GROUP_BUCKETS];
    int failed; /* the first error of a bucket of this step, and what it says */
    char detail[512];
};

static void job_set(struct spotnik_group_leader *leader, spotnik_job *job)
{
    pthread_mutex_lock(&leader->lock);
    leader->job = job;
    if (job != NULL && __atomic_load_n(&leader->control->noticed, __ATOMIC_SEQ_CST) != 0)
        spotnik_notice(job);
    pthread_mutex_unlock(&leader->lock);
}

void spotnik_group_leader_notice(void *context)
{
    struct spotnik_group_leader *leader = context;

    pthread_mutex_lock(&leader->lock);
    if (leader->job != NULL)
        spotnik_notice(leader->job);
    pthread_mutex_unlock(&leader->lock);
}

spotnik_job *spotnik_group_leader_job(struct spotnik_group_leader *leader)
{
    pthread_mutex_lock(&leader->lock);
    spotnik_job *job = leader->job;
    pthread_mutex_unlock(&leader->lock);
    return job;
}

/* Called by the job inside a collective call: all processes wait for its answer meanwhile. */
static void refresh_everywhere(void *context)
{
    const struct spotnik_group_leader *leader = context;
    struct spotnik_group_control *control = leader->control;
    uint32_t done;

    /* this very call has loaded a checkpoint, or the state of others: what the processes hold is
     * older, and they take the new one when it returns */
    if (spotnik_state_loads(leader->job) != control->answer.loads)
        return;
    __atomic_store_n(&control->refreshed, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&control->refresh, 1, __ATOMIC_SEQ_CST);
    spotnik_futex_word_ring(&control->told);
    while ((done = __atomic_load_n(&control->refreshed, __ATOMIC_SEQ_CST)) < control->size)
        spotnik_futex_word_wait(&control->refreshed, done, SPOTNIK_NEVER);
}

/* ---- buckets ---- */

static int mismatch_return(uint32_t bucket)
{
    return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                "processes of the group handed over different data for bucket %u, "
                                "or not all of them did: they run different programs",
                                (unsigned)bucket);
}

/* What the processes have set for this step; all have, when the first bucket is complete. */
static int settings_apply(struct spotnik_group_leader *leader)
{
    const struct spotnik_group_process *process = leader->control->process;
    uint64_t weight = 0;
    bool weighs = false;
    int rc = 0;

    if (leader->is_set)
        return 0;
    leader->is_set = true;
    for (uint32_t rank = 0; rank < leader->control->size; rank++) {
        weight += process[rank].weight;
        weighs |= process[rank].weighs != 0;
    }
    if (process[0].declines != 0)
        rc = spotnik_samples_decline(leader->job);
    if (rc == 0 && weighs)
        rc = spotnik_weight_set(leader->job, weight);
    return rc;
}

/* Into the row of rank 0, weighed as the members of a job are. */
static void rows_reduce(const struct spotnik_group_control *control,
                        const struct spotnik_group_area *area)
{
    struct spotnik_reduce_source source[SPOTNIK_GROUP_PROCESSES_MAX];
    uint8_t *rows = (uint8_t *)control + area->offset;

    for (uint32_t rank = 0; rank < control->size; rank++)
        source[rank] = (struct spotnik_reduce_source){
            rows + rank * area->row_bytes,
            /* A source of weight 0 is left out of every operation. */
            area->op == SPOTNIK_MEAN ? control->process[rank].weight : 1
        };
    spotnik_reduce_flat(rows, source, control->size, area->count, (enum spotnik_dtype)area->dtype,
                        (enum spotnik_op)area->op, 0);
}

static int bucket_start(struct spotnik_group_leader *leader, uint32_t bucket)
{
    const struct spotnik_group_process *process = leader->control->process;
    const struct spotnik_group_area *area = &process[0].bucket[bucket];

    for (uint32_t rank = 1; rank < leader->control->size; rank++)
        if (memcmp(area, &process[rank].bucket[bucket], sizeof *area) != 0)
            return mismatch_return(bucket);
    int rc = settings_apply(leader);
    if (rc != 0)
        return rc;
    if (area->row_bytes != 0 && leader->control->size > 1)
        rows_reduce(leader->control, area);
    return spotnik_allreduce(leader->job, bucket, (uint8_t *)leader->control + area->offset,
                             area->count, (enum spotnik_dtype)area->dtype,
                             (enum spotnik_op)area->op);
}

static void buckets_start(struct spotnik_group_leader *leader)
{
    for (uint32_t bucket = 0; leader->is_in_step && bucket < SPOTNIK_GROUP_BUCKETS; bucket++) {
        uint32_t handed = __atomic_load_n(&leader->control->handed[bucket], __ATOMIC_SEQ_CST);
        if (leader->started[bucket] || leader->failed != 0 || handed < leader->control->size)
            continue;
        leader->started[bucket] = true;
        leader->failed = bucket_start(leader, bucket);
        if (leader->failed != 0)
            snprintf(leader->detail, sizeof leader->detail, "%s", spotnik_last_error());
    }
}

/* Called while all processes wait: none hands over a part. */
static int buckets_finish(struct spotnik_group_leader *leader)
{
    buckets_start(leader);
    if (leader->failed != 0)
        return spotnik_error_return(leader->failed, "%s", leader->detail);
    for (uint32_t bucket = 0; leader->is_in_step && bucket < SPOTNIK_GROUP_BUCKETS; bucket++)
        if (__atomic_load_n(&leader->control->handed[bucket], __ATOMIC_SEQ_CST) != 0
            && !leader->started[bucket])
            return mismatch_return(bucket);
    return leader->is_in_step ? settings_apply(leader) : 0;
}

static void buckets_begin(struct spotnik_group_leader *leader)
{
    for (uint32_t bucket = 0; bucket < SPOTNIK_GROUP_BUCKETS; bucket++)
        __atomic_store_n(&leader->control->handed[bucket], 0, __ATOMIC_SEQ_CST);
    memset(leader->started, 0, sizeof leader->started);
    leader->failed = 0;
    leader->is_in_step = true;
    leader->is_set = false;
}

/* ---- calls ---- */

static int join(struct spotnik_group_leader *leader)
{
    spotnik_job *job;

    if (leader->job != NULL)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "the group has joined a job already");
    int rc = spotnik_join(leader->config, &job);
    if (rc != 0)
        return rc;
    spotnik_state_refresh_set(job, refresh_everywhere, leader);
    job_set(leader, job);
    return 0;
}

static int begin(struct spotnik_group_leader *leader, struct spotnik_group_answer *answer)
{
    int rc = spotnik_step_begin(leader->job, &answer->step);

    answer->loads = spotnik_state_loads(leader->job);
    if (rc == 0)
        buckets_begin(leader);
    leader->trains &= rc == 0; /* behind the last step each process saves what it likes */
    return rc;
}

static int commit(struct spotnik_group_leader *leader)
{
    int rc = buckets_finish(leader);

    if (rc != 0)
        return rc;
    rc = spotnik_step_commit(leader->job);
    leader->trains |= rc == 0;
    leader->is_in_step =
        rc == SPOTNIK_ERR_PARKED || rc == SPOTNIK_ERR_AGAIN || rc == SPOTNIK_ERR_LEAVING;
    return rc;
}

static int part(struct spotnik_group_leader *leader, bool goodbye)
{
    spotnik_job *job = leader->job;

    job_set(leader, NULL); /* a notice has no job to reach from here on */
    if (goodbye)
        return spotnik_leave(job);
    spotnik_abandon(job);
    return 0;
}

static int call_make(struct spotnik_group_leader *leader, const struct spotnik_group_call *call,
                     struct spotnik_group_answer *answer)
{
    switch ((enum spotnik_group_kind)call->kind) {
    case SPOTNIK_GROUP_JOIN:
        return join(leader);
    case SPOTNIK_GROUP_STATE_ADD:
        return spotnik_state_add(leader->job, call->name,
                                 (uint8_t *)leader->control + call->area.offset, call->area.count,
                                 (enum spotnik_dtype)call->area.dtype);
    case SPOTNIK_GROUP_STEP_BEGIN:
        return begin(leader, answer);
    case SPOTNIK_GROUP_STEP_COMMIT:
        return commit(leader);
    case SPOTNIK_GROUP_DIGEST:
        answer->digest = spotnik_state_digest(leader->job);
        return 0;
    case SPOTNIK_GROUP_LEAVE:
    case SPOTNIK_GROUP_ABANDON:
        return part(leader, call->kind == SPOTNIK_GROUP_LEAVE);
    }
    return SPOTNIK_ERR_ARGUMENT;
}

static int calls_compare(const struct spotnik_group_control *control)
{
    const struct spotnik_group_call *first = &control->process[0].call;

    for (uint32_t rank = 1; rank < control->size; rank++)
        if (memcmp(first, &control->process[rank].call, sizeof *first) != 0)
            return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                        "process %u of the group makes another call than the "
                                        "leader, or with other arguments: all make the same ones",
                                        (unsigned)rank);
    return 0;
}

/* All processes have asked: answer them. */
static void serve(struct spotnik_group_leader *leader)
{
    struct spotnik_group_control *control = leader->control;
    struct spotnik_group_answer *answer = &control->answer;

    answer->code = calls_compare(control);
    if (answer->code == 0)
        answer->code = call_make(leader, &control->process[0].call, answer);
    if (leader->job != NULL)
        spotnik_status(leader->job, &answer->status);
    snprintf(answer->detail, sizeof answer->detail, "%s",
             answer->code != 0 ? spotnik_last_error() : "");
    __atomic_add_fetch(&control->answered, 1, __ATOMIC_SEQ_CST);
    spotnik_futex_word_ring(&control->told);
}

static bool is_asked(const struct spotnik_group_control *control)
{
    uint64_t rounds = __atomic_load_n(&control->answered, __ATOMIC_SEQ_CST) + 1;

    return __atomic_load_n(&control->asked, __ATOMIC_SEQ_CST) == rounds * control->size;
}

static uint64_t absent_ranks(const struct spotnik_group_control *control)
{
    uint64_t answered = __atomic_load_n(&control->answered, __ATOMIC_SEQ_CST), absent = 0;

    for (uint32_t rank = 0; rank < control->size; rank++)
        if (__atomic_load_n(&control->process[rank].rounds, __ATOMIC_SEQ_CST) <= answered)
            absent |= UINT64_C(1) << rank;
    return absent;
}

static void late_text(uint64_t absent, char *ret, size_t size)
{
    size_t used = (size_t)snprintf(ret, size, "its group waits for a call of rank");

    for (uint32_t rank = 0; rank < 64 && used < size; rank++)
        if (absent >> rank & 1)
            used += (size_t)snprintf(ret + used, size - used, " %u", rank);
}

/* Before the first commit processes load what they train, which may take long. */
static void late_name(struct spotnik_group_leader *leader, uint64_t absent)
{
    uint64_t now_ns = spotnik_clock_ns(), all = UINT64_MAX >> (64 - leader->control->size);
    char text[160] = "";

    if (absent != leader->absent)
        leader->absent_since_ns = now_ns;
    leader->absent = absent;
    bool late = absent != 0 && leader->job != NULL && leader->trains
                && now_ns - leader->absent_since_ns > (absent == all ? ALL_LATE_NS : LATE_NS);
    if (late == leader->is_named)
        return;
    leader->is_named = late;
    if (late)
        late_text(absent, text, sizeof text);
    spotnik_job_pausing_set(leader->job, text);
}

/* A process that hangs among its siblings makes no call: the agent may end it. */
static void absent_tell(struct spotnik_group_leader *leader, uint64_t absent)
{
    late_name(leader, absent);
    if (leader->slots != NULL)
        __atomic_store_n(&leader->slots->slot[leader->slot].absent, absent, __ATOMIC_SEQ_CST);
}

static void slot_find(struct spotnik_group_leader *leader)
{
    const char *fd = getenv("SPOTNIK_SLOTS_FD"), *slot = getenv("SPOTNIK_SLOT");

    if (fd == NULL || slot == NULL || spotnik_slots_map(atoi(fd), &leader->slots) != 0
        || leader->slots == NULL)
        return; /* the job finds what is wrong with the table */
    leader->slot = (uint32_t)atoi(slot);
    if (leader->slot < leader->slots->count)
        return;
    spotnik_slots_unmap(leader->slots);
    leader->slots = NULL;
}

static void *leader_main(void *context)
{
    struct spotnik_group_leader *leader = context;
    struct spotnik_group_control *control = leader->control;

    while (__atomic_load_n(&leader->stopping, __ATOMIC_SEQ_CST) == 0) {
        uint32_t bell = __atomic_load_n(&control->bell, __ATOMIC_SEQ_CST);
        buckets_start(leader);
        if (is_asked(control)) {
            absent_tell(leader, 0);
            serve(leader);
        } else {
            absent_tell(leader, absent_ranks(control));
            spotnik_futex_word_wait(&control->bell, bell, spotnik_clock_ns() + LOOK_NS);
        }
    }
    absent_tell(leader, 0);
    return NULL;
}

int spotnik_group_leader_new(struct spotnik_group_control *control,
                             struct spotnik_group_leader **ret_leader)
{
    struct spotnik_group_leader *leader = calloc(1, sizeof *leader);

    if (leader == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a group");
    leader->control = control;
    slot_find(leader);
    pthread_mutex_init(&leader->lock, NULL);
    int rc = spotnik_thread_create(&leader->thread, leader_main, leader);
    if (rc != 0) {
        spotnik_slots_unmap(leader->slots);
        free(leader);
        errno = rc;
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread for a group: %m");
    }
    *ret_leader = leader;
    return 0;
}

void spotnik_group_leader_config(struct spotnik_group_leader *leader, const spotnik_config *config)
{
    leader->config = config;
}

void spotnik_group_leader_free(struct spotnik_group_leader *leader)
{
    if (leader == NULL)
        return;
    __atomic_store_n(&leader->stopping, 1, __ATOMIC_SEQ_CST);
    spotnik_futex_word_ring(&leader->control->bell);
    pthread_join(leader->thread, NULL);
    spotnik_abandon(leader->job);
    pthread_mutex_destroy(&leader->lock);
    spotnik_slots_unmap(leader->slots);
    free(leader);
}
