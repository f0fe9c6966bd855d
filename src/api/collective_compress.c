/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces of F32 that travel as halves: what is contributed is narrowed here, once, and kept until the commit, so that
 * a step reduced again is reduced from the same bits. The conversions are src/reduce's, the way back collective_result.c's. */
#include "reduce/compress.h"

#include "api/job.h"
#include "base/error.h"

int spotnik_allreduce_compressed(spotnik_job *job, uint32_t bucket, float *data, size_t count,
                                 enum spotnik_dtype wire, enum spotnik_op op)
{
    if (!job)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no job was given");
    if (bucket >= SPOTNIK_CENSUS_BUCKET || (wire != SPOTNIK_F16 && wire != SPOTNIK_BF16))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u: compressed ones are 0 to %d and travel as F16 or BF16",
                                    bucket, SPOTNIK_CENSUS_BUCKET - 1);
    int rc = spotnik_job_reduce_check(job, bucket, data, count, SPOTNIK_F32, op);

    if (rc)
        return rc;
    struct spotnik_collectives *all = spotnik_collectives_of(job);

    if (!all)
        return SPOTNIK_ERR_MEMORY;
    struct spotnik_collective *one = &all->of[bucket];
    uint8_t *halves = spotnik_collective_grow(job, one->halves, &one->halves_bytes, 2 * count);

    if (!halves)
        return SPOTNIK_ERR_MEMORY;
    one->halves = halves;
    spotnik_compress_narrow(halves, data, count, wire);
    rc = spotnik_job_reduce(job, bucket, halves, count, wire, op, true);
    if (rc)
        return rc;
    one->kind = SPOTNIK_COLLECTIVE_COMPRESSED;
    one->data = data;
    one->count = count;
    one->wire = wire;
    return 0;
}
