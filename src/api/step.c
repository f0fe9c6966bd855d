/* SPDX-License-Identifier: Apache-2.0 */
/* The step as the caller's loop sees it. Losses, recoveries and joins are the runtime's. This file
 * checks calls. A member that the others went on without joins again without the caller's help:
 *
 *     step_commit  -> EXCLUDED: the begun step is void for us, nothing to apply
 *     step_begin   -> copies the state and goes on */
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "spotnik/state.h"
#include "transfer/thread.h"

static bool is_finished(struct spotnik_job *job)
{
    return job->config.steps_max && !job->outside && job->committed >= job->config.steps_max;
}

/* The thread that brought us in has nothing left to do. */
static void tidy(struct spotnik_job *job)
{
    if (job->joiner && spotnik_joiner_is_done(job->joiner)) {
        spotnik_joiner_free(job->joiner);
        job->joiner = NULL;
    }
}

static int begin(struct spotnik_job *job, spotnik_step *ret_step)
{
    for (;;) {
        int rc = job->outside ? spotnik_job_rejoin(job) : 0;

        if (rc)
            return rc;
        if (is_finished(job) && job->checkpoint)
            spotnik_checkpoint_boundary(job->checkpoint, job->committed, SPOTNIK_BOUNDARY_LAST);
        if (is_finished(job))
            return spotnik_error_return(SPOTNIK_ERR_DONE, "%llu steps are committed",
                                        (unsigned long long)job->config.steps_max);
        rc = spotnik_runtime_step_begin(job->runtime, job->continues, ret_step);
        if (rc == SPOTNIK_ERR_PARKED)
            return spotnik_job_minority(job);
        if (rc == SPOTNIK_ERR_LEAVING && job->checkpoint)
            spotnik_checkpoint_part(job->checkpoint, job->committed);
        if (rc != SPOTNIK_ERR_PEERS)
            return rc;
        spotnik_job_exclude(job);
    }
}

int spotnik_step_begin(spotnik_job *job, spotnik_step *ret_step)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!ret_step)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no place for the step was given");
    if (job->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "the step begun before was not committed");
    spotnik_job_turn(job, SPOTNIK_PACE_BEGIN);
    spotnik_job_show(job);
    rc = job->sealed ? 0 : spotnik_job_seal(job);
    if (rc)
        return rc;
    rc = begin(job, ret_step);
    if (rc == SPOTNIK_ERR_DONE)
        spotnik_runtime_tell_over(job->runtime, false);
    tidy(job);
    if (rc) {
        spotnik_job_copies_confirm(job);
        spotnik_job_copies_settle(job);
        return rc;
    }
    if (job->checkpoint)
        spotnik_checkpoint_begun(job->checkpoint, ret_step);
    memset(job->started, 0, sizeof job->started);
    spotnik_collectives_begin(job->collectives);
    spotnik_step_stats_begin(job);
    spotnik_batching_begin(job);
    job->begun = true;
    job->barrier = job->continues = false;
    job->step = ret_step->number;
    job->share = ret_step->share;
    job->shares = ret_step->shares;
    job->samples = ret_step->sample_count;
    job->shown.replay = ret_step->replay;
    spotnik_job_show(job);
    spotnik_noise_begin(job);
    spotnik_job_turn(job, SPOTNIK_PACE_COMPUTE);
    return 0;
}

int spotnik_batch_continue(spotnik_job *job)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "step %llu is begun and not committed",
                                    (unsigned long long)job->step);
    job->continues = true;
    return 0;
}

int spotnik_patience_set(spotnik_job *job, uint64_t patience_ns)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    spotnik_runtime_patience_set(job->runtime, patience_ns);
    return 0;
}

static bool has_started(const spotnik_job *job)
{
    for (uint32_t i = 0; i < SPOTNIK_CALLER_BUCKETS; i++)
        if (job->started[i])
            return true;
    return false;
}

int spotnik_weight_set(spotnik_job *job, uint64_t weight)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!job->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "a weight belongs to a begun step");
    if (has_started(job))
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "the weight must be set before the first allreduce");
    rc = spotnik_runtime_weight_set(job->runtime, weight);

    return rc == SPOTNIK_ERR_PEERS ? 0 : rc; /* excluded: step_commit returns it */
}

int spotnik_samples_decline(spotnik_job *job)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!job->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "samples are those of a begun step");
    if (has_started(job))
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "samples must be declined before the first allreduce");
    rc = spotnik_runtime_samples_decline(job->runtime);

    return rc == SPOTNIK_ERR_PEERS ? 0 : rc; /* excluded: step_commit returns it */
}

int spotnik_step_commit(spotnik_job *job)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!job->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "no step was begun");
    spotnik_job_copies_confirm(job);
    spotnik_job_turn(job, SPOTNIK_PACE_COMMIT);
    spotnik_counters_commit(&job->shown.counters, job->pace.since_ns);
    rc = spotnik_collectives_seal(job, job->collectives);
    spotnik_noise_seal(job);
    if (!rc)
        rc = job->excluded ? SPOTNIK_ERR_PEERS : spotnik_step_stats_start(job);
    if (!rc)
        rc = spotnik_runtime_step_commit(job->runtime);
    spotnik_job_turn(job, SPOTNIK_PACE_APPLY);
    tidy(job);
    if (rc == SPOTNIK_ERR_PARKED)
        rc = spotnik_job_minority(job);
    if (rc == SPOTNIK_ERR_PEERS) {
        spotnik_job_exclude(job);
        return spotnik_error_return(SPOTNIK_ERR_EXCLUDED, "the others went on without this member");
    }
    /* still ours to finish, or to go without */
    job->begun = rc == SPOTNIK_ERR_PARKED || rc == SPOTNIK_ERR_AGAIN || rc == SPOTNIK_ERR_LEAVING;
    if (!job->begun) /* the program may do as it likes with its state */
        spotnik_job_copies_settle(job);
    if (!rc) {
        job->committed = job->step;
        spotnik_noise_committed(job);
        spotnik_batch_publish(job);
        spotnik_rate_count(&job->rate, job->committed, job->pace.since_ns);
        spotnik_counters_step(&job->shown.counters, job->samples, job->pace.bytes,
                              job->shown.replay, job->pace.since_ns);
        spotnik_pace_step(&job->pace);
        rc = spotnik_step_stats_outcome(job);
        if (!rc)
            rc = spotnik_collectives_outcome(job->collectives);
    }
    return rc;
}

int spotnik_barrier(spotnik_job *job)
{
    spotnik_step step;
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->begun && !job->barrier)
        return spotnik_error_return(
            SPOTNIK_ERR_STATE,
            "a barrier is a step of its own, and step %llu is begun: its commit "
            "is a barrier already",
            (unsigned long long)job->step);
    if (!job->begun)
        rc = spotnik_step_begin(job, &step);
    if (!rc && !job->barrier)
        rc = spotnik_samples_decline(job);
    if (rc)
        return rc;
    job->barrier = true;
    rc = spotnik_step_commit(job);
    job->barrier = job->begun; /* to go on with: AGAIN, PARKED */
    return rc;
}
