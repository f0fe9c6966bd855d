/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a job: join, notice, leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/job.h"
#include "api/key.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/secret.h"
#include "base/time.h"

#define FIND_TIMEOUT_NS (30 * SPOTNIK_S)
#define LEAVE_TIMEOUT_NS (60 * SPOTNIK_S)
#define FINISH_TIMEOUT_NS (60 * SPOTNIK_S)

static bool stop(void *context)
{
    return spotnik_job_is_noticed(context);
}

/* The progress thread reads it when a status is requested. */
static struct spotnik_discovery *peers_set(struct spotnik_job *job, struct spotnik_discovery *peers)
{
    pthread_mutex_lock(&job->rate.lock);
    struct spotnik_discovery *before = job->peers;
    job->peers = peers;
    pthread_mutex_unlock(&job->rate.lock);
    return before;
}

/* Found the job, or learn of a member of it. */
static int find(struct spotnik_job *job, const spotnik_config *config)
{
    struct spotnik_discovery *peers = NULL;
    bool found = true;
    int rc = 0;

    if (config->peers)
        rc = spotnik_discovery_new(config->peers, job->runtime, &peers);
    peers_set(job, peers);
    if (!rc && config->peers)
        spotnik_discovery_done_at(peers, config->checkpoint_dir, config->steps_max);
    if (!rc && config->peers)
        rc = spotnik_discovery_find(job->peers, true, FIND_TIMEOUT_NS, stop, job, &found,
                                    &job->sponsor);
    if (rc == SPOTNIK_ERR_PEERS && spotnik_job_is_noticed(job))
        return spotnik_error_return(SPOTNIK_ERR_LEAVING,
                                    "a notice came while the job was looked for");
    if (rc == SPOTNIK_ERR_DONE)
        return spotnik_job_late(job);
    if (!rc && !found)
        rc = spotnik_job_from_compare(job);
    if (rc == SPOTNIK_ERR_LINEAGE)
        spotnik_runtime_end(job->runtime, rc, spotnik_last_error()); /* and tell the agent */
    if (rc)
        return rc;
    if (found)
        return spotnik_job_found(job);
    job->has_sponsor = job->outside = true;
    return 0;
}

static void keep_settings(struct spotnik_job *job, const spotnik_config *config)
{
    job->config = *config;
    job->config.job_name = job->config.key_file = job->config.peers = job->config.bind = NULL;
    job->config.checkpoint_dir = NULL;
    job->is_alone = config->peers == NULL;
    snprintf(job->name, sizeof job->name, "%s", config->job_name);
    snprintf(job->checkpoint_dir, sizeof job->checkpoint_dir, "%s",
             config->checkpoint_dir ? config->checkpoint_dir : "");
    job->born_ns = spotnik_clock_ns();
}

/* Sessions end before the runtime they ask, and the donor after the runtime that calls it. */
static void job_free(struct spotnik_job *job, bool goodbye)
{
    spotnik_job_signal_close(job);
    spotnik_job_watch_close(job);
    struct spotnik_discovery *peers = peers_set(job, NULL);

    spotnik_discovery_withdraw(peers);
    if (job->runtime)
        spotnik_runtime_interrupt(job->runtime);
    spotnik_joiner_free(job->joiner);
    if (job->donor)
        spotnik_donor_stop(job->donor);
    spotnik_sync_use_end(job->sync);
    if (job->p2p)
        spotnik_p2p_stop(job->p2p);
    struct spotnik_checkpoint *checkpoint = spotnik_job_checkpoint_set(job, NULL);
    spotnik_checkpoint_free(checkpoint); /* it asks the runtime, and the peers */
    if (job->checkpoint_hold > 0)
        close(job->checkpoint_hold);
    spotnik_discovery_free(peers);
    spotnik_runtime_free(job->runtime, goodbye);
    spotnik_job_watch_free(job);
    spotnik_donor_free(job->donor);
    spotnik_p2p_free(job->p2p);
    free(job->collectives);
    spotnik_sync_free(job->sync);
    spotnik_step_stats_free(job);
    free(job->batching);
    free(job->noise);
    spotnik_registry_done(&job->registry);
    pthread_mutex_destroy(&job->rate.lock);
    spotnik_signer_done(&job->signer[0]);
    spotnik_signer_done(&job->signer[1]);
    spotnik_secret_free(job->key, SPOTNIK_KEY_PAIR_BYTES);
    free(job);
}

static struct spotnik_job *job_new(const spotnik_config *config, const char *from)
{
    struct spotnik_job *job = calloc(1, sizeof *job);

    if (!job) {
        (void)spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a job");
        return NULL;
    }
    keep_settings(job, config);
    spotnik_job_from_open(job, from);
    job->generation = spotnik_fork_generation();
    pthread_mutex_init(&job->rate.lock, NULL);
    spotnik_registry_init(&job->registry);
    spotnik_job_refresh_open(job);
    return job;
}

/* What the environment and the settings say, before anybody hears of us. */
static int parts_open(struct spotnik_job *job)
{
    int rc = spotnik_job_price(job);

    if (!rc)
        rc = spotnik_batching_open(job);
    return rc ? rc : spotnik_noise_open(job);
}

static int enter(struct spotnik_job *job, const spotnik_config *config)
{
    int rc = spotnik_job_open(job, config);

    if (!rc && (job->batching || job->noise))
        rc = spotnik_step_stats_on(job);
    if (!rc && config->checkpoint_dir)
        rc = spotnik_job_checkpoint_open(job);
    if (!rc)
        spotnik_job_signal_open(job);
    if (!rc)
        rc = find(job, config);
    return rc ? rc : spotnik_job_watch_open(job);
}

int spotnik_join(const spotnik_config *cfg, spotnik_job **ret_job)
{
    struct spotnik_path_resolved place;
    spotnik_config config;
    int rc = spotnik_config_complete(cfg, &config);

    if (!rc)
        rc = spotnik_config_check(&config);
    if (!rc)
        rc = spotnik_config_paths_resolve(&config, &place);
    if (rc)
        return rc;
    if (!ret_job)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no place for the job was given");
    struct spotnik_job *job = job_new(&config, place.from);

    if (!job)
        return SPOTNIK_ERR_MEMORY;
    rc = parts_open(job);
    if (!rc)
        rc = enter(job, &config);
    if (rc) {
        job_free(job, true);
        return rc;
    }
    *ret_job = job;
    return 0;
}

/* The view that let us go is empty. If a notice ended our work early, a member that was cut off
 * from us goes on. */
static void end_if_last(struct spotnik_job *job)
{
    bool done = job->config.steps_max && job->committed >= job->config.steps_max;
    spotnik_job_status status;

    spotnik_runtime_status(job->runtime, &status);
    if (!job->peers || status.size != 0)
        return;
    bool interrupted = spotnik_job_is_noticed(job) && !done;
    spotnik_discovery_over_set(job->peers, interrupted);
    if (!interrupted)
        spotnik_runtime_tell_last(job->runtime);
}

/* They cannot go on without newcomers, and may have a notice as well. */
static void save_if_too_few_stay(struct spotnik_job *job)
{
    spotnik_job_status status;

    spotnik_runtime_status(job->runtime, &status);
    if (status.size < job->config.members_min)
        spotnik_checkpoint_final(job->checkpoint);
}

/* Told to go, and cut off: as from step_commit, so that a program ends as after any notice. */
static int leave_end(struct spotnik_job *job, int rc)
{
    spotnik_job_status status;

    if (rc != SPOTNIK_ERR_PARKED)
        return rc;
    spotnik_runtime_status(job->runtime, &status);
    if (status.parked && job->config.on_minority == SPOTNIK_MINORITY_STOP)
        rc = spotnik_job_minority(job);
    if (!spotnik_job_is_noticed(job))
        return rc;
    return spotnik_error_return(SPOTNIK_ERR_LEAVING,
                                "a notice came to this member, which is cut off from the majority: "
                                "it has gone without agreement");
}

static const char *how_it_left(const struct spotnik_job *job, int rc)
{
    if (rc)
        return "left without agreement";
    return job->config.steps_max && job->committed >= job->config.steps_max
               ? "done: all steps are committed"
               : "left in good order";
}

/* A member that has founded the job again, alone, holds the newest state. The others that were cut
 * off with it gave theirs up for that, and come for it within T. Were it to go at once, they would
 * begin anew. */
static void company_wait(struct spotnik_job *job, uint64_t patience_ns)
{
    uint64_t followers_ns = job->peers ? spotnik_discovery_followers_ns(job->peers) : 0,
             until_ns = spotnik_time_add(spotnik_clock_ns(), patience_ns);
    bool done = job->config.steps_max && job->committed >= job->config.steps_max;

    if (followers_ns && !done)
        spotnik_runtime_company_wait(job->runtime,
                                     followers_ns < until_ns ? followers_ns : until_ns);
}

/* As a member between two steps: with the agreement of the others. */
static int depart(struct spotnik_job *job)
{
    bool hurries = job->config.on_minority == SPOTNIK_MINORITY_STOP || spotnik_job_is_noticed(job);
    uint64_t patience_ns = hurries ? job->config.minority_wait_ns : LEAVE_TIMEOUT_NS;

    if (job->checkpoint && !spotnik_runtime_is_noticed(job->runtime)
        && !spotnik_runtime_gives_up(job->runtime))
        spotnik_checkpoint_parting(job->checkpoint, job->committed);
    company_wait(job, patience_ns);
    return leave_end(job, spotnik_runtime_leave(job->runtime, patience_ns));
}

static void departed(struct spotnik_job *job)
{
    if (job->checkpoint)
        save_if_too_few_stay(job);
    end_if_last(job);
}

static bool is_member(const struct spotnik_job *job)
{
    spotnik_job_status status;

    spotnik_runtime_status(job->runtime, &status);
    return !job->outside && !status.joining;
}

int spotnik_leave(spotnik_job *job)
{
    int rc = job ? spotnik_job_handle_check(job) : 0;

    if (!job || rc)
        return rc;
    bool was_member = is_member(job), parts = was_member && !job->begun;
    /* it is cut off, and its parts of a checkpoint that others take part in are of no use */
    bool stops = spotnik_runtime_gives_up(job->runtime);

    if (parts)
        rc = depart(job);
    if (job->checkpoint)
        spotnik_checkpoint_finish(job->checkpoint, !rc && !job->outside && !job->begun,
                                  stops ? 0 : FINISH_TIMEOUT_NS);
    if (parts && !rc)
        departed(job);
    job->shown.how = how_it_left(job, stops ? SPOTNIK_ERR_PARKED : rc);
    /* Members that have not agreed to it cannot tell a goodbye from silence, and may wait for us
     * for ever: end as the dead do. */
    job_free(job, !was_member || (parts && !rc));
    return rc;
}

void spotnik_abandon(spotnik_job *job)
{
    if (job && !spotnik_job_handle_check(job))
        job_free(job, false);
}
