/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a job: opening the directory, loading as its founder, and what a program can ask
 * about them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/job.h"
#include "base/error.h"
#include "checkpoint/resume.h"
#include "checkpoint/shelf.h"

struct spotnik_checkpoint *spotnik_job_checkpoint_set(struct spotnik_job *job,
                                                      struct spotnik_checkpoint *checkpoint)
{
    pthread_mutex_lock(&job->rate.lock);
    struct spotnik_checkpoint *before = job->checkpoint;
    job->checkpoint = checkpoint;
    pthread_mutex_unlock(&job->rate.lock);
    return before;
}

/* Thread of checkpoints, which ends before the peers do. */
static bool may_publish(void *context)
{
    struct spotnik_job *job = context;

    pthread_mutex_lock(&job->rate.lock);
    struct spotnik_peers *peers = job->peers;
    bool alone = job->is_alone;
    pthread_mutex_unlock(&job->rate.lock);
    return alone || (peers && spotnik_peers_is_youngest(peers));
}

void spotnik_job_yielded(struct spotnik_job *job)
{
    uint64_t founding = spotnik_engine_yielded(job->engine);
    char why[512];

    if (!founding || !job->checkpoint_dir[0])
        return;
    snprintf(why, sizeof why, "%s", spotnik_last_error());
    (void)spotnik_shelf_yield(job->checkpoint_dir, founding);
    spotnik_error_set("%s", why);
}

static void advise(struct spotnik_job *job)
{
    struct stat facts;

    pthread_mutex_lock(&job->rate.lock);
    if (!stat(job->checkpoint_dir, &facts) && facts.st_mode & S_IWOTH)
        snprintf(job->advice, sizeof job->advice,
                 "everybody on this host may write to the checkpoint directory: chmod o-w %.150s",
                 job->checkpoint_dir);
    pthread_mutex_unlock(&job->rate.lock);
}

int spotnik_job_checkpoint_open(struct spotnik_job *job)
{
    struct spotnik_checkpoint_config config = { .dir = job->checkpoint_dir,
                                                .job = job->name,
                                                .steps = job->config.checkpoint_steps,
                                                .interval_ns = job->config.checkpoint_interval_ns,
                                                .keep = job->config.checkpoint_keep,
                                                .may_publish = may_publish,
                                                .context = job };
    struct spotnik_checkpoint *checkpoint = NULL;
    int rc = spotnik_checkpoint_new(&config, &job->registry, job->engine, &checkpoint);

    spotnik_job_checkpoint_set(job, checkpoint);
    if (!rc)
        advise(job);
    return rc;
}

void spotnik_job_ledger(const spotnik_config *config, struct spotnik_ledger *ret)
{
    if (config->batch_per_member)
        spotnik_ledger_init_per_member(ret, config->samples, config->batch_per_member);
    else
        spotnik_ledger_init(ret, config->samples, config->batch);
}

/* The position is the checkpoint's, the batch this run's, which may be another one. */
static int place(const struct spotnik_job *job, struct spotnik_resume *resume)
{
    struct spotnik_ledger ours;

    spotnik_job_ledger(&job->config, &ours);
    if (ours.samples != resume->ledger.samples)
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "checkpoint %s is of a job with %llu samples, this one has %llu: the data are not "
            "the same, so its position means nothing",
            resume->name, (unsigned long long)resume->ledger.samples,
            (unsigned long long)ours.samples);
    resume->ledger.batch = ours.batch;
    resume->ledger.per_member = ours.per_member;
    if (!spotnik_ledger_is_valid(&resume->ledger))
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "a batch of %llu is too small to go on from checkpoint %s, in which more samples "
            "than that wait to be consumed again: use the batch of then",
            (unsigned long long)ours.batch, resume->name);
    return 0;
}

/* A job of one that is begun again: what its earlier lives have written is its own to prune. With a
 * folder the root says so by itself; with a list nobody can know whether they live. */
static void inherit(struct spotnik_job *job, uint64_t from)
{
    const char *dir = job->checkpoint_dir;
    uint64_t root = spotnik_shelf_root(dir, from);

    if (!job->is_alone || from == job->registry.founding)
        return;
    spotnik_shelf_root_set(dir, from, root ? root : from);
    spotnik_shelf_root_set(dir, job->registry.founding, root ? root : from);
}

static int resume(struct spotnik_job *job)
{
    struct spotnik_resume found;
    int rc = spotnik_checkpoint_load(job->checkpoint_dir, job->name, &job->registry, &found);

    if (!rc && found.step)
        rc = place(job, &found);
    if (rc)
        return rc;
    spotnik_checkpoint_resumed(job->checkpoint, found.step, found.message);
    if (!found.step)
        return 0;
    inherit(job, found.founding);
    spotnik_engine_resume(job->engine, found.step, &found.ledger);
    job->committed = found.step;
    job->state_loads++;
    if (job->sync)
        spotnik_sync_resumed(job->sync);
    return 0;
}

/* A whole one that is further than this member: what it took part in, others may have carried on
 * without it. */
static bool has_newer(const struct spotnik_job *job)
{
    struct spotnik_shelf_list list;
    bool has = false;

    if (!job->checkpoint || spotnik_shelf_list(job->checkpoint_dir, &list))
        return false;
    for (uint32_t i = 0; i < list.count && !has && list.entry[i].step > job->committed; i++) {
        if (spotnik_shelf_has_yielded(job->checkpoint_dir, list.entry[i].founding))
            continue;
        struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);

        has = manifest && list.entry[i].written_s
              && !spotnik_checkpoint_verify(job->checkpoint_dir, list.entry[i].name, manifest);
        if (has)
            spotnik_manifest_done(manifest);
        free(manifest);
    }
    spotnik_shelf_list_done(&list);
    return has;
}

int spotnik_job_resume_newer(struct spotnik_job *job, bool *ret_resumed)
{
    *ret_resumed = has_newer(job);
    return *ret_resumed ? resume(job) : 0;
}

int spotnik_job_seal(struct spotnik_job *job)
{
    int rc = job->checkpoint && job->founder ? resume(job) : 0;

    if (rc)
        return rc;
    job->founder = false; /* it was done; what comes later is for joiners */
    rc = job->checkpoint ? spotnik_checkpoint_seal(job->checkpoint) : 0;
    if (rc)
        return rc;
    job->sealed = true;
    spotnik_donor_seal(job->donor);
    return 0;
}

void spotnik_checkpoint_status(spotnik_job *job, spotnik_checkpoint_info *ret)
{
    if (!ret || ret->size < sizeof ret->size)
        return;
    size_t size = ret->size;

    memset(ret, 0, size);
    ret->size = size;
    if (spotnik_job_usable(job))
        return;
    pthread_mutex_lock(&job->rate.lock);
    if (job->checkpoint)
        spotnik_checkpoint_info_get(job->checkpoint, ret);
    pthread_mutex_unlock(&job->rate.lock);
}
