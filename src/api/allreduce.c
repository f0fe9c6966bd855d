/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets of the begun step: what a caller may start, and the results. An excluded member starts
 * nothing; step_commit returns the error, where the caller's loop expects it. */
#include "api/job.h"
#include "base/dtype.h"
#include "base/error.h"

static int reduce_check(const struct spotnik_job *job, uint32_t bucket, const void *data,
                        size_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    uint32_t element_bytes = spotnik_registry_element_bytes((int)dtype);

    if (!job->begun)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "allreduce belongs between step_begin and step_commit");
    if (bucket >= SPOTNIK_CALLER_BUCKETS)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "bucket %u: at most %d buckets", bucket,
                                    SPOTNIK_CALLER_BUCKETS);
    if (job->started[bucket])
        return spotnik_error_return(SPOTNIK_ERR_STATE, "bucket %u was started already in this step",
                                    bucket);
    if (!data && count)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "bucket %u: no memory given", bucket);
    if (!element_bytes || count > SIZE_MAX / 2 / element_bytes)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u: unknown element type or too many elements", bucket);
    if (!spotnik_op_is_known((uint64_t)op))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "bucket %u: unknown operation %d", bucket,
                                    (int)op);
    return 0;
}

int spotnik_job_reduce_check(const struct spotnik_job *job, uint32_t bucket, const void *data,
                             size_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    if (dtype == SPOTNIK_Q8)
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "bucket %u: Q8 is for all-reduces; send other values as they are, or as U8", bucket);
    return reduce_check(job, bucket, data, count, dtype, op);
}

int spotnik_job_reduce(struct spotnik_job *job, uint32_t bucket, void *data, size_t count,
                       enum spotnik_dtype dtype, enum spotnik_op op, bool from)
{
    int rc = reduce_check(job, bucket, data, count, dtype, op);

    if (rc)
        return rc;
    spotnik_noise_reduce(job, bucket, data, count, dtype, op);
    if (!job->excluded)
        rc = from ? spotnik_runtime_allreduce_from(job->runtime, bucket, data, count, dtype, op)
                  : spotnik_runtime_allreduce(job->runtime, bucket, data, count, dtype, op);
    if (!rc)
        spotnik_pace_reduce(&job->pace,
                            (uint64_t)count * spotnik_registry_element_bytes((int)dtype));
    if (rc == SPOTNIK_ERR_PEERS) { /* step_commit returns it */
        job->excluded = true;
        rc = 0;
    }
    job->started[bucket] = rc == 0;
    return rc;
}

int spotnik_allreduce(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                      enum spotnik_dtype dtype, enum spotnik_op op)
{
    int rc = spotnik_job_handle_check(job);

    return rc ? rc : spotnik_job_reduce(job, bucket, data, count, dtype, op, false);
}

int spotnik_allreduce_from(spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                           enum spotnik_dtype dtype, enum spotnik_op op)
{
    int rc = spotnik_job_handle_check(job);

    return rc ? rc
              : spotnik_job_reduce(job, bucket, (void *)(uintptr_t)data, count, dtype, op, true);
}

const void *spotnik_result(spotnik_job *job, uint32_t bucket)
{
    return !spotnik_job_handle_check(job) && bucket < SPOTNIK_CALLER_BUCKETS && job->started[bucket]
               ? spotnik_runtime_result(job->runtime, bucket)
               : NULL;
}
