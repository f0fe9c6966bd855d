/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of buckets and the kernels over it. Results are written at out[step & 1], so that the result
 * of the step before can still be handed on. Allocates when a bucket is new or has grown, never on the
 * steady path. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/state.h"
#include "reduce/reduce.h"

#define ALIGNMENT 4096u

int spotnik_bucket_prepare(struct spotnik_bucket_memory *bucket, uint64_t step, void *in, uint64_t count,
                           enum spotnik_dtype dtype, enum spotnik_op op)
{
    unsigned half = step & 1;
    size_t bytes = count * spotnik_dtype_size(dtype);
    if (bytes > bucket->capacity[half]) {
        size_t rounded = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
        uint8_t *memory = rounded >= bytes ? aligned_alloc(ALIGNMENT, rounded) : NULL;
        if (memory == NULL)
            return spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                        "no memory for the result of a bucket of %zu bytes", bytes);
        free(bucket->out[half]);
        bucket->out[half] = memory;
        bucket->capacity[half] = rounded;
    }
    bucket->in = in;
    bucket->flat_begun = false;
    bucket->step[half] = step;
    bucket->count[half] = count;
    bucket->dtype[half] = (uint8_t)dtype;
    bucket->op[half] = (uint8_t)op;
    return 0;
}

/* out = weight * in */
static void contribute(uint8_t *out, const uint8_t *in, uint64_t count, uint8_t dtype, uint8_t op,
                       uint64_t weight)
{
    if (count == 0)
        return;
    if (op == SPOTNIK_MEAN)
        spotnik_reduce_scale(out, in, count, (enum spotnik_dtype)dtype, weight);
    else
        memcpy(out, in, count * spotnik_dtype_size((enum spotnik_dtype)dtype));
}

void spotnik_bucket_scale(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action)
{
    unsigned half = action->step & 1;
    size_t at = action->offset * spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[half]);
    if (action->count > 0)
        contribute(bucket->out[half] + at, (const uint8_t *)bucket->in + at, action->count,
                   bucket->dtype[half], bucket->op[half], action->weight);
}

/* Alone, the mean of one is its own input, whatever its weight, unless it has none. */
void spotnik_bucket_copy_own(struct spotnik_bucket_memory *bucket, const struct spotnik_action *action)
{
    unsigned half = action->step & 1;
    uint64_t weight = action->weight > 0 ? 1 : 0;
    if (bucket->step[half] == action->step)
        contribute(bucket->out[half], bucket->in, bucket->count[half], bucket->dtype[half], bucket->op[half],
                   weight);
}

/* A chunk of a reducing hop has come. A weight of 0 on either side means that this side carries nothing. */
void spotnik_bucket_combine(struct spotnik_bucket_memory *bucket, uint64_t step, const void *received,
                            const struct spotnik_placement *placement, uint64_t received_weight)
{
    unsigned half = step & 1;
    enum spotnik_dtype dtype = (enum spotnik_dtype)bucket->dtype[half];
    enum spotnik_op op = (enum spotnik_op)bucket->op[half];
    size_t at = placement->offset * spotnik_dtype_size(dtype);
    uint64_t count = placement->count;
    if (count == 0)
        return;
    uint8_t *out = bucket->out[half] + at;
    const uint8_t *in = (const uint8_t *)bucket->in + at;
    if (placement->weight == 0)
        memcpy(out, received, count * spotnik_dtype_size(dtype));
    else if (received_weight == 0)
        contribute(out, in, count, bucket->dtype[half], bucket->op[half], placement->weight);
    else
        spotnik_reduce_combine(out, received, in, count, dtype, op, placement->weight, received_weight);
    if (placement->kind == SPOTNIK_RING_REDUCE_LAST && op == SPOTNIK_MEAN)
        spotnik_reduce_divide(out, count, dtype, placement->weight_total);
}

void spotnik_bucket_free(struct spotnik_bucket_memory *bucket)
{
    free(bucket->out[0]);
    free(bucket->out[1]);
    memset(bucket, 0, sizeof *bucket);
}
