/* SPDX-License-Identifier: Apache-2.0 */
/* Starting collectives: what this member contributes to the all-reduce underneath. Once a bucket is
 * started, everything that may happen to the step is the runtime's business; what becomes of the
 * result is collective_result.c's. */
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/assert.h"
#include "base/error.h"

static bool has_share(const struct spotnik_collectives *all)
{
    return all->share < all->shares;
}

struct spotnik_collectives *spotnik_collectives_of(spotnik_job *job)
{
    SPOTNIK_ASSERT(job);
    if (!job->collectives)
        job->collectives = calloc(1, sizeof *job->collectives);
    if (!job->collectives)
        (void)spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for collectives");
    return job->collectives;
}

/* With the first collective of a step. All members start the same buckets, so all have it or
 * none. */
static int census(spotnik_job *job, struct spotnik_collectives *all)
{
    if (all->counted)
        return 0;
    if (job->config.members_max > SPOTNIK_CENSUS_SHARES)
        return spotnik_error_return(
            SPOTNIK_ERR_LIMIT,
            "collectives other than all-reduce want members_max of at most %d; it is %u",
            SPOTNIK_CENSUS_SHARES, job->config.members_max);
    all->share = job->share;
    all->shares = job->shares;
    memset(all->census, 0, sizeof all->census);
    if (has_share(all))
        all->census[all->share / 64] = UINT64_C(1) << (all->share % 64);
    all->counted = true;
    return 0;
}

int spotnik_collectives_seal(spotnik_job *job, struct spotnik_collectives *all)
{
    if (!all || !all->counted || all->number || job->excluded)
        return 0;
    uint32_t last = SPOTNIK_CALLER_BUCKETS - 1;
    uint32_t number = job->started[last] ? SPOTNIK_BUCKET_CENSUS : last;
    int rc = spotnik_runtime_allreduce_from(job->runtime, number, all->census, SPOTNIK_CENSUS_WORDS,
                                            SPOTNIK_U64, SPOTNIK_SUM);

    if (!rc)
        all->number = number;
    return rc;
}

/* Everything that can be wrong with any of them, and the census. */
static int prepare(spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                   enum spotnik_dtype dtype, enum spotnik_op op, struct spotnik_collectives **ret)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    rc = spotnik_job_reduce_check(job, bucket, data, count, dtype, op);
    if (rc)
        return rc;
    *ret = spotnik_collectives_of(job);
    return *ret ? census(job, *ret) : SPOTNIK_ERR_MEMORY;
}

static int start(spotnik_job *job, uint32_t bucket, const void *source, size_t bytes,
                 struct spotnik_collective what)
{
    struct spotnik_collective *to = &job->collectives->of[bucket];
    int rc = spotnik_job_reduce(job, bucket, (void *)(uintptr_t)source, bytes, SPOTNIK_U8,
                                SPOTNIK_SUM, true);

    if (!rc)
        *to = what;
    return rc;
}

static int root_check(const struct spotnik_job *job, uint32_t bucket, uint32_t root)
{
    uint32_t most = job->shares ? job->shares : SPOTNIK_CENSUS_SHARES; /* a replay does not know */

    return root < most ? 0
                       : spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                              "bucket %u: root %u, but the step was dealt out to "
                                              "members 0 to %u only",
                                              bucket, root, most - 1);
}

int spotnik_broadcast(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                      enum spotnik_dtype dtype, uint32_t root)
{
    struct spotnik_collectives *all;
    int rc = job && job->begun ? root_check(job, bucket, root) : 0;

    if (!rc)
        rc = prepare(job, bucket, data, count, dtype, SPOTNIK_SUM, &all);
    if (rc)
        return rc;
    struct spotnik_collective what = all->of[bucket];
    size_t one = spotnik_registry_element_bytes((int)dtype), bytes = count * one;
    const void *source = data;

    if (!has_share(all) || all->share != root) {
        const void *zeros = spotnik_job_grow(job, all->zeros, &all->zeros_bytes, bytes);
        if (!zeros)
            return SPOTNIK_ERR_MEMORY;
        source = all->zeros = zeros;
    }
    what.kind = SPOTNIK_COLLECTIVE_BROADCAST;
    what.data = data;
    what.count = count;
    what.one = one;
    what.root = root;
    return start(job, bucket, source, bytes, what);
}

/* Our row of the table, the rest zero. */
static int table_fill(spotnik_job *job, struct spotnik_collective *what, uint32_t share,
                      const void *row, size_t row_bytes)
{
    size_t before = what->table_bytes;
    uint8_t *table =
        spotnik_job_grow(job, what->table, &what->table_bytes, row_bytes * what->slots);

    if (!table)
        return SPOTNIK_ERR_MEMORY;
    if (table == what->table && before && what->dirty_bytes)
        memset(table + what->dirty_at, 0, what->dirty_bytes);
    what->table = table;
    what->dirty_at = share * row_bytes;
    what->dirty_bytes = share < what->slots ? row_bytes : 0;
    if (what->dirty_bytes)
        memcpy(table + what->dirty_at, row, row_bytes);
    return 0;
}

static int slots_check(const struct spotnik_job *job, uint32_t bucket, const void *out,
                       uint32_t slots, size_t row_bytes)
{
    if (!slots || slots > SPOTNIK_CENSUS_SHARES || (row_bytes && slots > SIZE_MAX / 2 / row_bytes))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "bucket %u: slots is 1 to %d, and all of them together must fit "
            "into memory",
            bucket, SPOTNIK_CENSUS_SHARES);
    if (!out && row_bytes)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u: no memory given for the result", bucket);
    if (job->shares > slots)
        return spotnik_error_return(
            SPOTNIK_ERR_LIMIT,
            "bucket %u: %u slots for %u members; give as many as the job may "
            "have members",
            bucket, slots, job->shares);
    return 0;
}

int spotnik_allgather(spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                      enum spotnik_dtype dtype, void *out, uint32_t slots)
{
    size_t one = spotnik_registry_element_bytes((int)dtype);
    struct spotnik_collectives *all;
    int rc = 0;

    if (job && job->begun && one && count <= SIZE_MAX / 2 / one)
        rc = slots_check(job, bucket, out, slots, count * one);
    if (!rc)
        rc = prepare(job, bucket, data, count, dtype, SPOTNIK_SUM, &all);
    if (rc)
        return rc;
    struct spotnik_collective *kept = &all->of[bucket];

    kept->slots = slots;
    rc = table_fill(job, kept, has_share(all) ? all->share : slots, data, count * one);
    if (rc)
        return rc;
    struct spotnik_collective what = *kept;
    what.kind = SPOTNIK_COLLECTIVE_ALLGATHER;
    what.data = out;
    what.count = count;
    what.one = one;
    return start(job, bucket, what.table, count * one * slots, what);
}

int spotnik_reduce_scatter(spotnik_job *job, uint32_t bucket, void *data, size_t count,
                           enum spotnik_dtype dtype, enum spotnik_op op, spotnik_range *ret_part)
{
    struct spotnik_collectives *all;
    int rc = prepare(job, bucket, data, count, dtype, op, &all);

    if (!rc)
        rc = spotnik_job_reduce(job, bucket, data, count, dtype, op, true);
    if (rc)
        return rc;
    struct spotnik_collective *to = &all->of[bucket];
    to->kind = SPOTNIK_COLLECTIVE_REDUCE_SCATTER;
    to->data = data;
    to->count = count;
    to->one = spotnik_registry_element_bytes((int)dtype);
    to->part = ret_part;
    return 0;
}
