/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that every process of the group makes: asking, waiting, and what each of them checks
 * first. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/time.h"
#include "group/futex_word.h"
#include "group/inside.h"

static void post(struct spotnik_group *group, const struct spotnik_group_call *call)
{
    struct spotnik_group_control *control = group->control;

    control->process[group->rank].call = *call;
    group->rounds++;
    group->is_waiting = true;
    __atomic_store_n(&control->process[group->rank].rounds, group->rounds, __ATOMIC_SEQ_CST);
    if (__atomic_add_fetch(&control->asked, 1, __ATOMIC_SEQ_CST) == group->rounds * group->size)
        spotnik_futex_word_ring(&control->bell);
}

/* The job is about to copy the state, inside the call that we wait for. */
static void refresh_if_due(struct spotnik_group *group)
{
    struct spotnik_group_control *control = group->control;
    uint32_t wanted = __atomic_load_n(&control->refresh, __ATOMIC_SEQ_CST);

    if (wanted == group->refreshed)
        return;
    group->refreshed = wanted;
    if (group->refresh != NULL)
        group->refresh(group->refresh_context);
    spotnik_group_state_in(group);
    spotnik_futex_word_ring(&control->refreshed);
}

static int answer_await(struct spotnik_group *group)
{
    struct spotnik_group_control *control = group->control;
    uint64_t until_ns = group->patience_ns != 0
                            ? spotnik_time_add(spotnik_clock_ns(), group->patience_ns)
                            : SPOTNIK_NEVER;

    for (;;) {
        uint32_t told = __atomic_load_n(&control->told, __ATOMIC_SEQ_CST);
        refresh_if_due(group);
        if (__atomic_load_n(&control->answered, __ATOMIC_SEQ_CST) == group->rounds)
            return 0;
        if (until_ns != SPOTNIK_NEVER && spotnik_clock_ns() > until_ns)
            return spotnik_error_return(SPOTNIK_ERR_AGAIN,
                                        "not all processes of the group have made this call, or it "
                                        "is not done");
        spotnik_futex_word_wait(&control->told, told, until_ns);
    }
}

int spotnik_group_ask(struct spotnik_group *group, const struct spotnik_group_call *call)
{
    const struct spotnik_group_answer *answer = &group->control->answer;

    if (!group->is_waiting)
        post(group, call);
    else if (memcmp(&group->control->process[group->rank].call, call, sizeof *call) != 0)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "another collective call of the group is not done yet");
    int rc = answer_await(group);
    if (rc != 0)
        return rc;
    group->is_waiting = false;
    if (answer->code != 0)
        spotnik_error_set("%s", answer->detail);
    return answer->code;
}

int spotnik_group_join(spotnik_group *group, const spotnik_config *config)
{
    struct spotnik_group_call call = { .kind = SPOTNIK_GROUP_JOIN };
    int rc = spotnik_group_handle_check(group);

    if (rc != 0)
        return rc;
    if (group->leader != NULL)
        spotnik_group_leader_config(group->leader, config);
    return spotnik_group_ask(group, &call);
}

int spotnik_group_state_add(spotnik_group *group, const char *name, void *data, size_t count,
                            enum spotnik_dtype dtype)
{
    struct spotnik_group_call call = { .kind = SPOTNIK_GROUP_STATE_ADD };
    int rc = spotnik_group_handle_check(group);

    if (rc == 0)
        rc = spotnik_group_area_of(group, data, count, dtype, &call.area);
    if (rc != 0)
        return rc;
    if (name == NULL || strlen(name) > SPOTNIK_GROUP_NAME_MAX)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "a name has 1 to %d bytes",
                                    SPOTNIK_GROUP_NAME_MAX);
    snprintf(call.name, sizeof call.name, "%s", name);
    return spotnik_group_ask(group, &call);
}

int spotnik_group_refresh_set(spotnik_group *group, void (*refresh)(void *context), void *context)
{
    int rc = spotnik_group_handle_check(group);

    if (rc != 0)
        return rc;
    group->refresh = refresh;
    group->refresh_context = context;
    return 0;
}

int spotnik_group_patience_set(spotnik_group *group, uint64_t patience_ns)
{
    int rc = spotnik_group_handle_check(group);

    if (rc == 0)
        group->patience_ns = patience_ns;
    return rc;
}

uint64_t spotnik_group_loads(const spotnik_group *group)
{
    return spotnik_group_handle_check(group) == 0 ? group->loads : 0;
}

/* The state of others has come: into this process's own copies, too. */
static void loads_look(struct spotnik_group *group)
{
    if (!group->is_alike || group->loads != group->control->answer.loads)
        spotnik_group_state_out(group);
    group->is_alike = true;
    group->loads = group->control->answer.loads;
}

/* The leader's thread reads these when this process has handed over a bucket, or commits. */
static void step_open(struct spotnik_group *group)
{
    struct spotnik_group_process *own = &group->control->process[group->rank];

    own->declines = own->weighs = 0;
    own->weight = 1;
    memset(group->handed, 0, sizeof group->handed);
    memset(group->bucket, 0, sizeof group->bucket);
    group->is_in_step = true;
}

static int setting_check(const struct spotnik_group *group)
{
    int rc = spotnik_group_handle_check(group);

    if (rc == 0 && (!group->is_in_step || group->is_waiting))
        rc = spotnik_error_return(SPOTNIK_ERR_STATE,
                                  "weights and samples are those of a begun step");
    for (uint32_t bucket = 0; rc == 0 && bucket < SPOTNIK_GROUP_BUCKETS; bucket++)
        if (group->handed[bucket])
            rc = spotnik_error_return(SPOTNIK_ERR_STATE,
                                      "this must be set before the first bucket of the step");
    return rc;
}

int spotnik_group_weight_set(spotnik_group *group, uint64_t weight)
{
    int rc = setting_check(group);

    if (rc != 0)
        return rc;
    group->control->process[group->rank].weight = weight;
    group->control->process[group->rank].weighs = 1;
    return 0;
}

int spotnik_group_samples_decline(spotnik_group *group)
{
    int rc = setting_check(group);

    if (rc == 0)
        group->control->process[group->rank].declines = 1;
    return rc;
}

int spotnik_group_step_begin(spotnik_group *group, spotnik_step *ret_step)
{
    struct spotnik_group_call call = { .kind = SPOTNIK_GROUP_STEP_BEGIN };
    int rc = spotnik_group_handle_check(group);

    if (rc != 0)
        return rc;
    if (ret_step == NULL)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no place for the step was given");
    if (!group->is_alike && !group->is_waiting)
        spotnik_group_state_in(group); /* the leader's replica is that of all */
    rc = spotnik_group_ask(group, &call);
    if (!group->is_waiting)
        loads_look(group);
    if (rc != 0)
        return rc;
    *ret_step = group->control->answer.step;
    step_open(group);
    return 0;
}

int spotnik_group_bucket_check(const struct spotnik_group *group, uint32_t bucket,
                               enum spotnik_op op)
{
    if (!group->is_in_step || group->is_waiting)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "allreduce belongs between step_begin and step_commit");
    if (bucket >= SPOTNIK_GROUP_BUCKETS || !spotnik_op_is_known((uint64_t)op))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u, operation %d: at most %d buckets, and known "
                                    "operations",
                                    (unsigned)bucket, (int)op, SPOTNIK_GROUP_BUCKETS);
    if (group->handed[bucket])
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "bucket %u was handed over already in this step",
                                    (unsigned)bucket);
    return 0;
}

int spotnik_group_allreduce(spotnik_group *group, uint32_t bucket, void *data, size_t count,
                            enum spotnik_dtype dtype, enum spotnik_op op)
{
    struct spotnik_group_area area;
    int rc = spotnik_group_handle_check(group);

    if (rc == 0)
        rc = spotnik_group_bucket_check(group, bucket, op);
    if (rc == 0)
        rc = spotnik_group_area_of(group, data, count, dtype, &area);
    if (rc != 0)
        return rc;
    area.op = (uint32_t)op;
    spotnik_group_hand_over(group, bucket, &area);
    return 0;
}

void spotnik_group_hand_over(struct spotnik_group *group, uint32_t bucket,
                             const struct spotnik_group_area *area)
{
    group->control->process[group->rank].bucket[bucket] = *area;
    group->handed[bucket] = true;
    if (__atomic_add_fetch(&group->control->handed[bucket], 1, __ATOMIC_SEQ_CST) == group->size)
        spotnik_futex_word_ring(&group->control->bell);
}

int spotnik_group_step_commit(spotnik_group *group)
{
    struct spotnik_group_call call = { .kind = SPOTNIK_GROUP_STEP_COMMIT };
    int rc = spotnik_group_handle_check(group);

    if (rc != 0)
        return rc;
    rc = spotnik_group_ask(group, &call);
    if (rc != SPOTNIK_ERR_AGAIN && rc != SPOTNIK_ERR_PARKED && rc != SPOTNIK_ERR_LEAVING)
        group->is_in_step = false;
    if (rc == 0)
        spotnik_group_results_copy(group);
    return rc;
}

int spotnik_group_digest(spotnik_group *group, uint64_t *ret_digest)
{
    struct spotnik_group_call call = { .kind = SPOTNIK_GROUP_DIGEST };
    int rc = spotnik_group_handle_check(group);

    if (rc == 0)
        rc = spotnik_group_ask(group, &call);
    if (rc == 0)
        *ret_digest = group->control->answer.digest;
    return rc;
}

void spotnik_group_status(const spotnik_group *group, spotnik_job_status *ret)
{
    *ret = spotnik_group_handle_check(group) == 0 ? group->control->answer.status
                                                  : (spotnik_job_status){ .rank = UINT32_MAX };
}
