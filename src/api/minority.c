/* SPDX-License-Identifier: Apache-2.0 */
/* A member that is cut off from the majority and stops (SPOTNIK_MINORITY_STOP) keeps its state for
 * its operator: as a checkpoint that no job takes by itself. What to do with it is his decision,
 * since he alone can know whether the others live. */
#include <stdio.h>

#include "api/job.h"
#include "base/error.h"
#include "checkpoint/checkpoint_store.h"

static int not_written(const char *why)
{
    return spotnik_error_return(SPOTNIK_ERR_PARKED,
                                "cut off from the majority, and the state of this member is not "
                                "written: %s",
                                why);
}

int spotnik_job_minority(struct spotnik_job *job)
{
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], why[300];
    uint64_t digest;

    if (!job->checkpoint)
        return not_written("no checkpoint folder is set, see SPOTNIK_CHECKPOINT");
    if (!job->committed)
        return not_written("it has committed no step");
    if (spotnik_checkpoint_minority(job->checkpoint, job->committed, &digest)) {
        snprintf(why, sizeof why, "%s", spotnik_last_error());
        return not_written(why);
    }
    spotnik_checkpoint_store_minority_name(job->committed, digest, name);
    spotnik_runtime_tell_minority(job->runtime, job->committed, digest);
    return spotnik_error_return(
        SPOTNIK_ERR_PARKED,
        "cut off from the majority; the state of this member is written, see %s/%s: start it again "
        "to join the others, and with that as SPOTNIK_FROM (spotnik run --from) only if they are "
        "gone for good",
        job->checkpoint_dir, name);
}
