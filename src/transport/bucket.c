/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of buckets and the kernels over it. Results are written at out[step & 1], so that the
 * result of the step before can still be handed on. Allocates when a bucket is new or has grown,
 * never on the steady path. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "transport/inside.h"
#include "reduce/reduce.h"

#define ALIGNMENT 4096u

static bool grow(uint8_t **memory, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity)
        return true;
    uint8_t *fresh = malloc(bytes);
    if (fresh == NULL)
        return false;
    free(*memory);
    *memory = fresh;
    *capacity = bytes;
    return true;
}

/* For a view of any size that does not send a bucket of this size round the ring. What the step
 * before offered may still be on its way out; the inputs of others to it are not needed any
 * more. */
static bool small_prepare(struct spotnik_bucket_memory *bucket, const struct spotnik_limits *limits,
                          unsigned half, size_t bytes)
{
    uint32_t places = spotnik_choice_places(limits->choice, bytes);
    return places == 0
           || (grow(&bucket->offer[half], &bucket->offer_bytes[half], bytes)
               && grow(&bucket->tray, &bucket->tray_bytes, places * bytes));
}

int spotnik_bucket_prepare(struct spotnik_bucket_memory *bucket,
                           const struct spotnik_limits *limits, uint64_t step, void *in,
                           uint64_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    unsigned half = step & 1;
    size_t bytes = count * spotnik_dtype_size(dtype);
    if (!small_prepare(bucket, limits, half, bytes))
        return spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                    "no memory to exchange a bucket of %zu bytes", bytes);
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
    bucket->spread[half] = NULL;
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

void spotnik_bucket_scale(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    size_t at = work->scale.offset * spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[half]);
    if (work->scale.count > 0)
        contribute(spotnik_bucket_out(bucket, half) + at, (const uint8_t *)bucket->in + at,
                   work->scale.count, bucket->dtype[half], bucket->op[half], work->scale.weight);
}

/* Alone, the mean of one is its own input, whatever its weight, unless it has none. */
void spotnik_bucket_copy_own(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    uint64_t weight = work->copy_own.weight > 0 ? 1 : 0;
    if (bucket->step[half] == work->step)
        contribute(spotnik_bucket_out(bucket, half), bucket->in, bucket->count[half],
                   bucket->dtype[half], bucket->op[half], weight);
}

/* A chunk of a reducing hop has come. A weight of 0 on either side means that this side carries
 * nothing. */
void spotnik_bucket_combine(struct spotnik_bucket_memory *bucket, uint64_t step,
                            const void *received, const struct spotnik_placement *placement,
                            uint64_t received_weight)
{
    unsigned half = step & 1;
    enum spotnik_dtype dtype = (enum spotnik_dtype)bucket->dtype[half];
    enum spotnik_op op = (enum spotnik_op)bucket->op[half];
    size_t at = placement->offset * spotnik_dtype_size(dtype);
    uint64_t count = placement->count;
    if (count == 0)
        return;
    uint8_t *out = spotnik_bucket_out(bucket, half) + at;
    const uint8_t *in = placement->summed ? out : (const uint8_t *)bucket->in + at;
    uint64_t weight = placement->summed && spotnik_reduce_sums_mean(dtype) ? 1 : placement->weight;
    if (placement->weight == 0)
        memcpy(out, received, count * spotnik_dtype_size(dtype));
    else if (received_weight == 0 && placement->summed)
        (void)out; /* it is there */
    else if (received_weight == 0)
        contribute(out, in, count, bucket->dtype[half], bucket->op[half], placement->weight);
    else
        spotnik_reduce_combine(out, received, in, count, dtype, op, weight, received_weight);
    if (placement->kind == SPOTNIK_RING_REDUCE_LAST && op == SPOTNIK_MEAN)
        spotnik_reduce_divide(out, count, dtype, placement->weight_total);
}

void spotnik_bucket_offer(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    size_t bytes = work->offer.count * spotnik_dtype_size((enum spotnik_dtype)bucket->dtype[half]);
    if (bytes > 0)
        memcpy(bucket->offer[half], bucket->in, bytes);
}

/* Where the input of another member goes. */
uint8_t *spotnik_bucket_place(struct spotnik_bucket_memory *bucket,
                              const struct spotnik_chunk_header *header)
{
    size_t bytes = header->count * spotnik_dtype_size((enum spotnik_dtype)header->dtype);
    SPOTNIK_ASSERT((header->sequence + 1) * bytes <= bucket->tray_bytes);
    return bytes > 0 ? bucket->tray + header->sequence * bytes : NULL;
}

void spotnik_bucket_sum(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    struct spotnik_reduce_source source[SPOTNIK_SMALL_MEMBERS_MAX];
    enum spotnik_dtype dtype = (enum spotnik_dtype)bucket->dtype[half];
    size_t bytes = bucket->count[half] * spotnik_dtype_size(dtype);
    if (bytes == 0 || bucket->step[half] != work->step)
        return; /* empty, or the barrier */
    for (uint32_t rank = 0; rank < work->sum.members; rank++)
        source[rank] = (struct spotnik_reduce_source){ bucket->tray + rank * bytes,
                                                       bucket->tray_weight[rank] };
    source[work->sum.rank] = (struct spotnik_reduce_source){ bucket->in, work->sum.weight };
    spotnik_reduce_rounds(spotnik_bucket_out(bucket, half), source, work->sum.members,
                          bucket->count[half], dtype, (enum spotnik_op)bucket->op[half]);
}

/* Ours, and what has come from below us in the tree. */
void spotnik_bucket_gather(struct spotnik_bucket_memory *bucket, const struct spotnik_work *work)
{
    unsigned half = work->step & 1;
    struct spotnik_reduce_source source[SPOTNIK_TREE_FAN_MAX + 1];
    enum spotnik_dtype dtype = (enum spotnik_dtype)bucket->dtype[half];
    size_t bytes = bucket->count[half] * spotnik_dtype_size(dtype);
    bool summed = work->gather.summed;
    if (bytes == 0 || bucket->step[half] != work->step)
        return;
    uint8_t *out = spotnik_bucket_out(bucket, half);
    SPOTNIK_ASSERT(work->gather.children <= SPOTNIK_TREE_FAN_MAX);
    source[0] = (struct spotnik_reduce_source){ summed ? out : bucket->in, work->gather.weight };
    for (uint32_t slot = 1; slot <= work->gather.children; slot++)
        source[slot] = (struct spotnik_reduce_source){ bucket->tray + slot * bytes,
                                                       bucket->tray_weight[slot] };
    spotnik_reduce_partials(out, source, work->gather.children + 1, summed, work->gather.finishes,
                            bucket->count[half], dtype, (enum spotnik_op)bucket->op[half]);
}

void spotnik_bucket_free(struct spotnik_bucket_memory *bucket)
{
    spotnik_early_free(bucket->early);
    free(bucket->offer[0]);
    free(bucket->offer[1]);
    free(bucket->tray);
    free(bucket->out[0]);
    free(bucket->out[1]);
    memset(bucket, 0, sizeof *bucket);
}
