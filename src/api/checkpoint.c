/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of a job: opening the directory, and what a program can ask about them. The founder
 * loads them (founder.c). */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "api/job.h"
#include "base/error.h"

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
    struct spotnik_discovery *peers = job->peers;
    bool alone = job->is_alone;
    pthread_mutex_unlock(&job->rate.lock);
    return alone || (peers && spotnik_discovery_is_youngest(peers));
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
                                                .signer = job->signer[0],
                                                .steps = job->config.checkpoint_steps,
                                                .interval_ns = job->config.checkpoint_interval_ns,
                                                .keep = job->config.checkpoint_keep,
                                                .may_publish = may_publish,
                                                .context = job };
    struct spotnik_checkpoint *checkpoint = NULL;
    int rc = spotnik_checkpoint_new(&config, &job->registry, job->runtime, &checkpoint);

    spotnik_job_checkpoint_set(job, checkpoint);
    if (!rc)
        advise(job);
    return rc;
}

void spotnik_checkpoint_status(spotnik_job *job, spotnik_checkpoint_info *ret)
{
    if (!ret || ret->size < sizeof ret->size)
        return;
    size_t size = ret->size;

    memset(ret, 0, size);
    ret->size = size;
    if (spotnik_job_handle_check(job))
        return;
    pthread_mutex_lock(&job->rate.lock);
    if (job->checkpoint)
        spotnik_checkpoint_info_get(job->checkpoint, ret);
    pthread_mutex_unlock(&job->rate.lock);
}
