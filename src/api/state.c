/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: what a joiner receives, and its digest. */
#include "api/job.h"
#include "base/error.h"

int spotnik_state_add(spotnik_job *job, const char *name, void *data, size_t count, enum spotnik_dtype dtype)
{
    if (!job)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no job was given");
    if (job->sealed)
        return spotnik_error_return(
            SPOTNIK_ERR_STATE, "tensor %s comes too late: register all before the first spotnik_step_begin()",
            name ? name : "");
    return spotnik_registry_add(&job->registry, name, data, count, (int)dtype);
}

uint64_t spotnik_state_digest(spotnik_job *job)
{
    return job ? spotnik_registry_digest(&job->registry) : 0;
}
