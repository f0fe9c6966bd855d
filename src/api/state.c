/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory and blobs: what a joiner receives, what a checkpoint holds, and its digest. */
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "spotnik/state.h"

static int too_late(const char *name)
{
    return spotnik_error_return(
        SPOTNIK_ERR_STATE,
        "tensor %s comes too late: register all before the first spotnik_step_begin()",
        name ? name : "");
}

int spotnik_state_add(spotnik_job *job, const char *name, void *data, size_t count,
                      enum spotnik_dtype dtype)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->sealed)
        return too_late(name);
    return spotnik_registry_add(&job->registry, name, data, count, (int)dtype);
}

int spotnik_state_reach_set(spotnik_job *job,
                            int (*read)(void *context, uint64_t offset, void *out, size_t size),
                            int (*write)(void *context, uint64_t offset, const void *bytes,
                                         size_t size),
                            void *context)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!read || !write)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "both calls are needed");
    job->registry.reach = (struct spotnik_reach){ read, write, context };
    return 0;
}

int spotnik_state_add_remote(spotnik_job *job, const char *name, size_t count,
                             enum spotnik_dtype dtype)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->sealed)
        return too_late(name);
    if (!job->registry.reach.read)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "tensor %s: call spotnik_state_reach_set() before",
                                    name ? name : "");
    return spotnik_registry_add_remote(&job->registry, name, count, (int)dtype);
}

int spotnik_state_changed(spotnik_job *job)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    job->registry.at_once = true;
    spotnik_donor_spoil(job->donor);
    if (job->checkpoint)
        spotnik_checkpoint_spoil(job->checkpoint);
    spotnik_job_copies_settle(job);
    return 0;
}

void spotnik_job_copies_confirm(struct spotnik_job *job)
{
    spotnik_donor_confirm(job->donor);
    if (job->checkpoint)
        spotnik_checkpoint_confirm(job->checkpoint);
}

void spotnik_job_copies_settle(struct spotnik_job *job)
{
    spotnik_donor_settle(job->donor);
    if (job->checkpoint)
        spotnik_checkpoint_settle(job->checkpoint);
}

uint64_t spotnik_state_digest(spotnik_job *job)
{
    if (!job)
        return 0;
    if (job->refresh && !job->begun) /* what is registered may be a copy, of the step before */
        job->refresh(job->refresh_context);
    return spotnik_registry_digest(&job->registry);
}

int spotnik_state_blob_set(spotnik_job *job, const char *name, const void *bytes, size_t length)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->begun)
        return spotnik_error_return(
            SPOTNIK_ERR_STATE,
            "blob %s: blobs belong to the boundary between two steps; set it after "
            "spotnik_step_commit() and before spotnik_step_begin()",
            name ? name : "");
    return spotnik_blobs_set(&job->registry.blobs, name, bytes, length);
}

int spotnik_state_blob_get(spotnik_job *job, const char *name, void *ret_bytes, size_t capacity,
                           size_t *ret_length)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!name || !ret_length || (!ret_bytes && capacity))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "no name, or no place for the blob was given");
    const struct spotnik_blob *blob = spotnik_blobs_find(&job->registry.blobs, name);
    size_t size = blob ? blob->size : 0;

    if (ret_bytes && size > capacity)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "blob %s has %zu bytes, there is room for %zu", name, size,
                                    capacity);
    if (ret_bytes && size)
        memcpy(ret_bytes, blob->bytes, size);
    *ret_length = size;
    return 0;
}

/* Ours first: the program's may look at nothing of it. */
static void all_refresh(void *context)
{
    struct spotnik_job *job = context;

    spotnik_batching_refresh(job);
    if (job->refresh)
        job->refresh(job->refresh_context);
}

void spotnik_job_refresh_open(struct spotnik_job *job)
{
    job->registry.refresh = all_refresh;
    job->registry.refresh_context = job;
}

int spotnik_state_refresh_set(spotnik_job *job, void (*refresh)(void *context), void *context)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    job->refresh = refresh;
    job->refresh_context = context;
    return 0;
}

uint64_t spotnik_state_loads(spotnik_job *job)
{
    return job ? job->state_loads : 0;
}
