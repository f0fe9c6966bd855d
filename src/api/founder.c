/* SPDX-License-Identifier: Apache-2.0 */
/* The founder of a job, or of a new life of one: where its data begin, and which checkpoint it goes
 * on from. */
#include "api/job.h"
#include "base/error.h"
#include "base/time.h"
#include "checkpoint/resume.h"
#include "checkpoint/checkpoint_store.h"

void spotnik_job_ledger(const spotnik_config *config, struct spotnik_ledger *ret)
{
    if (config->batch_per_member)
        spotnik_ledger_init_per_member(ret, config->samples, config->batch_per_member);
    else
        spotnik_ledger_init(ret, config->samples, config->batch);
}

int spotnik_job_found(struct spotnik_job *job)
{
    struct spotnik_ledger ledger;
    struct spotnik_founding founding = { .id = 0 };
    int rc = spotnik_job_from_check(job);

    if (rc)
        return rc;
    if (job->peers)
        founding =
            spotnik_discovery_lineage(job->peers); /* a directory has it in its founding record */
    if (!founding.id)
        spotnik_discovery_founding_make(NULL, 0, &founding);
    job->registry.founding = founding.id;
    job->founder = true;
    if (job->peers)
        spotnik_discovery_founding_set(job->peers, job->registry.founding);
    spotnik_job_ledger(&job->config, &ledger);
    return spotnik_runtime_found(job->runtime, &ledger, &founding);
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
        return spotnik_error_return(SPOTNIK_ERR_CHECKPOINT,
                                    "a batch of %llu is too small for checkpoint %s: more samples "
                                    "than that wait in it to be used again; use the batch that "
                                    "it was written with",
                                    (unsigned long long)ours.batch, resume->name);
    return 0;
}

/* A job of one that is begun again: what its earlier lives have written is its own to prune. In a
 * folder the root tells which those are; with a list, no member can know whether they live. */
static void inherit(struct spotnik_job *job, uint64_t from)
{
    const char *dir = job->checkpoint_dir;
    uint64_t root = spotnik_checkpoint_store_root(dir, from);

    if (!job->is_alone || from == job->registry.founding)
        return;
    spotnik_checkpoint_store_root_set(dir, from, root ? root : from);
    spotnik_checkpoint_store_root_set(dir, job->registry.founding, root ? root : from);
}

static int resume(struct spotnik_job *job)
{
    struct spotnik_resume found;
    bool named = job->from.due;
    int rc = named
                 ? spotnik_checkpoint_load_from(job->from.path, job->signer, &job->registry, &found)
                 : spotnik_checkpoint_load(job->checkpoint_dir, job->name, job->signer,
                                           &job->registry, &found);

    if (!rc && found.step)
        rc = place(job, &found);
    if (rc)
        return rc;
    job->from.due = false;
    if (job->checkpoint)
        spotnik_checkpoint_resumed(job->checkpoint, found.step, found.message);
    if (!found.step)
        return 0;
    if (!named)
        inherit(job, found.founding);
    spotnik_runtime_resume(job->runtime, found.step, &found.ledger);
    job->committed = found.step;
    job->state_loads++;
    if (job->sync)
        spotnik_sync_resumed(job->sync);
    return 0;
}

int spotnik_job_resume_newer(struct spotnik_job *job, bool *ret_resumed)
{
    struct spotnik_checkpoint_store_entry newer;

    *ret_resumed = job->from.due || spotnik_job_newer(job, job->committed, &newer);
    return *ret_resumed ? resume(job) : 0;
}

/* Workers of a job that has just been ended may take this long to leave. */
#define HOLD_NS (15 * SPOTNIK_S)

int spotnik_job_hold(struct spotnik_job *job, bool founds)
{
    struct spotnik_founding past = spotnik_runtime_past(job->runtime);
    uint64_t ours = job->registry.founding, root = past.id == ours && past.root ? past.root : ours;

    return !job->checkpoint || job->checkpoint_hold > 0
               ? 0
               : spotnik_checkpoint_store_hold(job->checkpoint_dir, job->name, root,
                                               founds ? HOLD_NS : 0, &job->checkpoint_hold);
}

int spotnik_job_seal(struct spotnik_job *job)
{
    int rc = job->founder ? spotnik_job_hold(job, true) : 0; /* before it loads what others write */

    if (!rc && job->founder && (job->checkpoint || job->from.due))
        rc = resume(job);

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
