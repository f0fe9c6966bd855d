/* SPDX-License-Identifier: Apache-2.0 */
/* What every call asks first: is the job one of this process, and has a notice come? */
#include "api/job.h"
#include "base/error.h"
#include "base/fork.h"

int spotnik_job_handle_check(const struct spotnik_job *job)
{
    if (!job)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no job was given");
    if (job->generation != spotnik_fork_generation())
        return spotnik_error_return(
            SPOTNIK_ERR_STATE,
            "this process was forked from a member and is none itself; leave the job to the "
            "parent, or join one here with spotnik_join()");
    return 0;
}

bool spotnik_job_is_noticed(const struct spotnik_job *job)
{
    return __atomic_load_n(&job->noticed, __ATOMIC_RELAXED)
           || spotnik_runtime_is_noticed(job->runtime);
}

void spotnik_notice(spotnik_job *job)
{
    /* no text: this may be a signal handler */
    if (!job || job->generation != spotnik_fork_generation())
        return;
    __atomic_store_n(&job->noticed, true, __ATOMIC_RELAXED);
    spotnik_runtime_notice(job->runtime);
}
