/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the runtime, which lives as long as the job: for the caller's buckets, and for ours. */
#include "api/job.h"

void *spotnik_alloc(spotnik_job *job, size_t bytes)
{
    return spotnik_job_handle_check(job) ? NULL : spotnik_runtime_alloc(job->runtime, bytes);
}

void spotnik_free(spotnik_job *job, void *memory)
{
    if (memory && !spotnik_job_handle_check(job))
        spotnik_runtime_unalloc(job->runtime, memory);
}

void *spotnik_job_grow(spotnik_job *job, const void *have, size_t *have_bytes, size_t bytes)
{
    if (have && *have_bytes >= bytes)
        return (void *)(uintptr_t)have;
    size_t wanted = bytes > 2 * *have_bytes ? bytes : 2 * *have_bytes;
    void *memory = spotnik_runtime_alloc(job->runtime, wanted > 0 ? wanted : 1);

    if (memory)
        *have_bytes = wanted;
    return memory;
}
