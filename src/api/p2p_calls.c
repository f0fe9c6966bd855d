/* SPDX-License-Identifier: Apache-2.0 */
/* Point to point in the public API: what a caller may ask for. The work is done in src/p2p. */
#include "api/job.h"
#include "base/dtype.h"
#include "base/error.h"
#include "wire/p2p_frame.h"

/* What all these calls have in common; `data` may be absent where there is nothing to move. */
static int check(const struct spotnik_job *job, const char *name, const void *data, size_t count,
                 enum spotnik_dtype dtype)
{
    uint32_t one = spotnik_dtype_bytes((uint64_t)dtype);
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (job->config.members_max > SPOTNIK_P2P_MEMBERS_MAX)
        return spotnik_error_return(
            SPOTNIK_ERR_LIMIT, "exchanges between members want members_max of at most %d; it is %u",
            SPOTNIK_P2P_MEMBERS_MAX, job->config.members_max);
    if (!name || !spotnik_p2p_is_name(name))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "a name of 1 to %d printable bytes is needed",
                                    SPOTNIK_P2P_NAME_MAX);
    if (!one || count > SPOTNIK_P2P_BYTES_MAX / one || (!data && count))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "%s: no memory, an unknown element type, or too many elements",
                                    name);
    return 0;
}

/* The same of a call that hands out a request. */
static int request_check(const struct spotnik_job *job, const char *name, const void *data,
                         size_t count, enum spotnik_dtype dtype, spotnik_request **ret_request)
{
    int rc = check(job, name, data, count, dtype);

    if (!rc && !ret_request)
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s: no place for the request was given",
                                  name);
    return rc;
}

int spotnik_publish(spotnik_job *job, const char *name, const void *data, size_t count,
                    enum spotnik_dtype dtype, uint64_t version)
{
    int rc = check(job, name, data, count, dtype);

    if (!rc && version == 0)
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s: versions count from 1", name);
    return rc ? rc : spotnik_p2p_publish(job->p2p, name, data, count, dtype, version);
}

int spotnik_pull(spotnik_job *job, const char *name, uint32_t rank, uint64_t version_min,
                 void *data, size_t count, enum spotnik_dtype dtype, uint64_t timeout_ns,
                 spotnik_request **ret_request)
{
    int rc = request_check(job, name, data, count, dtype, ret_request);

    return rc ? rc
              : spotnik_p2p_pull(job->p2p, name, rank, version_min, data, count, dtype, timeout_ns,
                                 ret_request);
}

int spotnik_store_open(spotnik_job *job, const char *name, const float *initial, size_t count,
                       uint32_t copies)
{
    int rc = check(job, name, initial, count, SPOTNIK_F32);

    if (!rc && (count == 0 || copies < 1 || copies > SPOTNIK_P2P_COPIES_MAX))
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                  "%s: a store has elements, and 1 to %d copies of each", name,
                                  SPOTNIK_P2P_COPIES_MAX);
    return rc ? rc : spotnik_p2p_store_open(job->p2p, name, initial, count, copies);
}

int spotnik_push(spotnik_job *job, const char *name, const float *update, size_t count,
                 uint64_t timeout_ns, spotnik_request **ret_request)
{
    int rc = request_check(job, name, update, count, SPOTNIK_F32, ret_request);

    return rc ? rc : spotnik_p2p_push(job->p2p, name, update, count, timeout_ns, ret_request);
}

int spotnik_fetch(spotnik_job *job, const char *name, float *data, size_t count,
                  uint64_t timeout_ns, spotnik_request **ret_request)
{
    int rc = request_check(job, name, data, count, SPOTNIK_F32, ret_request);

    return rc ? rc : spotnik_p2p_fetch(job->p2p, name, data, count, timeout_ns, ret_request);
}

int spotnik_common(spotnik_job *job, const char *name, const float *initial, size_t count,
                   float **ret_memory)
{
    int rc = check(job, name, initial, count, SPOTNIK_F32);

    if (!rc && (count == 0 || !ret_memory))
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                  "%s: no elements, or no place for the memory", name);
    return rc ? rc : spotnik_p2p_common(job->p2p, name, initial, count, ret_memory);
}
