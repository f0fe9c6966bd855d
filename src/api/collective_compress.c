/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduces of F32 that travel as something shorter. This file narrows the input once and keeps
 * it until the commit. So a step that is reduced again is reduced from the same bits. The
 * conversions are src/reduce's, the way back collective_result.c's. */
#include "reduce/compress.h"

#include "api/job.h"
#include "base/error.h"

static bool is_wire(enum spotnik_dtype wire)
{
    return wire == SPOTNIK_F16 || wire == SPOTNIK_BF16 || wire == SPOTNIK_Q8;
}

static void narrow(void *out, const float *in, size_t count, enum spotnik_dtype wire)
{
    if (wire == SPOTNIK_Q8)
        spotnik_quant_pack(out, in, count);
    else
        spotnik_compress_narrow(out, in, count, wire);
}

int spotnik_allreduce_compressed(spotnik_job *job, uint32_t bucket, float *data, size_t count,
                                 enum spotnik_dtype wire, enum spotnik_op op)
{
    int rc = spotnik_job_handle_check(job);

    if (rc)
        return rc;
    if (!is_wire(wire))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "bucket %u: compressed ones travel as F16, BF16 or Q8", bucket);
    rc = spotnik_job_reduce_check(job, bucket, data, count, SPOTNIK_F32, op);

    if (rc)
        return rc;
    struct spotnik_collectives *all = spotnik_collectives_of(job);

    if (!all)
        return SPOTNIK_ERR_MEMORY;
    struct spotnik_collective *one = &all->of[bucket];
    size_t elements = wire == SPOTNIK_Q8 ? spotnik_quant_blocks(count) : count;
    uint8_t *narrowed = spotnik_job_grow(job, one->narrowed, &one->narrowed_bytes,
                                         elements * spotnik_registry_element_bytes((int)wire));

    if (!narrowed)
        return SPOTNIK_ERR_MEMORY;
    one->narrowed = narrowed;
    narrow(narrowed, data, count, wire);
    rc = spotnik_job_reduce(job, bucket, narrowed, elements, wire, op, true);
    if (rc)
        return rc;
    one->kind = SPOTNIK_COLLECTIVE_COMPRESSED;
    one->data = data;
    one->count = count;
    one->wire = wire;
    return 0;
}
