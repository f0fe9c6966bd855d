/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a step: begin, add and start buckets, receive, commit. Sending is in inbound.c. */
#include "step/transaction.h"

#include <string.h>

#include "base/assert.h"

void spotnik_transaction_init(struct spotnik_transaction *step, uint64_t committed)
{
    memset(step, 0, sizeof(*step));
    step->committed = committed;
}

void spotnik_transaction_begin(struct spotnik_transaction *step)
{
    uint64_t generation = (step->committed + 1) & 1;

    SPOTNIK_ASSERT(!step->begun);
    for (uint32_t i = step->first[generation]; i < step->last[generation]; i++)
        step->bucket[generation][i].used = false;
    step->first[generation] = step->last[generation] = 0;
    step->started = step->completed = 0;
    step->begun = true;
    step->sealed = false;
}

struct spotnik_bucket *spotnik_transaction_add(struct spotnik_transaction *step, uint32_t bucket,
                                               uint64_t count, uint8_t dtype, uint8_t op,
                                               uint32_t element_bytes, uint64_t weight)
{
    uint64_t generation = (step->committed + 1) & 1;
    struct spotnik_bucket *added = &step->bucket[generation][bucket];

    SPOTNIK_ASSERT(step->begun);
    SPOTNIK_ASSERT(!step->sealed);
    SPOTNIK_ASSERT(bucket < SPOTNIK_STEP_BUCKETS);
    SPOTNIK_ASSERT(!added->used);
    *added = (struct spotnik_bucket){ .used = true,
                                      .dtype = dtype,
                                      .op = op,
                                      .element_bytes = element_bytes,
                                      .count = count,
                                      .weight = weight };
    added->ring = spotnik_ring_make(1, 0, count, 1); /* until it is started on the view's ring */
    step->started++;
    if (step->last[generation] == 0 || bucket < step->first[generation])
        step->first[generation] = bucket;
    if (bucket >= step->last[generation])
        step->last[generation] = bucket + 1;
    return added;
}

uint64_t spotnik_transaction_chunk_count(uint32_t chunk_bytes, uint32_t element_bytes)
{
    SPOTNIK_ASSERT(element_bytes > 0);
    return chunk_bytes > element_bytes ? chunk_bytes / element_bytes : 1;
}

void spotnik_transaction_start(struct spotnik_transaction *step, struct spotnik_bucket *bucket,
                               uint32_t size, uint32_t rank, uint32_t chunk_bytes)
{
    SPOTNIK_ASSERT(bucket->used);
    if (bucket->complete)
        step->completed--;
    bucket->ring =
        spotnik_ring_make(size, rank, bucket->count,
                          spotnik_transaction_chunk_count(chunk_bytes, bucket->element_bytes));
    bucket->flat = bucket->hosts = bucket->summed = false;
    bucket->ring_weight = bucket->weight;
    bucket->ready = UINT64_MAX;
    bucket->schedule = SPOTNIK_SCHEDULE_RING;
    bucket->sent = bucket->received = bucket->handed = bucket->handover_received = 0;
    bucket->complete = size == 1;
    step->completed += bucket->complete;
}

/* On a ring of one there is nothing to send. */
void spotnik_transaction_start_flat(struct spotnik_transaction *step, struct spotnik_bucket *bucket)
{
    spotnik_transaction_start(step, bucket, 1, 0, 1);
    bucket->flat = true;
    bucket->complete = false;
    step->completed--;
}

void spotnik_transaction_start_hosts(struct spotnik_transaction *step,
                                     struct spotnik_bucket *bucket, uint32_t hosts, uint32_t index,
                                     uint32_t chunk_bytes)
{
    spotnik_transaction_start(step, bucket, hosts, index, chunk_bytes);
    bucket->hosts = true;
}

void spotnik_transaction_start_summed(struct spotnik_transaction *step,
                                      struct spotnik_bucket *bucket, uint32_t hosts, uint32_t index,
                                      uint32_t chunk_bytes, uint64_t weight)
{
    spotnik_transaction_start_hosts(step, bucket, hosts, index, chunk_bytes);
    bucket->summed = true;
    bucket->ring_weight = weight;
    bucket->ready = 0;
}

bool spotnik_transaction_done(const struct spotnik_transaction *step)
{
    SPOTNIK_ASSERT(step->completed <= step->started);
    return step->begun && step->sealed && step->completed == step->started;
}

void spotnik_transaction_commit(struct spotnik_transaction *step)
{
    SPOTNIK_ASSERT(spotnik_transaction_done(step));
    step->committed++;
    step->begun = step->sealed = false;
    step->started = step->completed = 0;
}

void spotnik_transaction_cut(struct spotnik_transaction *step)
{
    for (int generation = 0; generation < 2; generation++)
        for (uint32_t i = step->first[generation]; i < step->last[generation]; i++) {
            struct spotnik_bucket *bucket = &step->bucket[generation][i];
            bucket->sent = spotnik_ring_total(&bucket->ring);
            bucket->told = UINT64_MAX;
            bucket->handed = bucket->handover_received = 0;
        }
}

static bool completed(struct spotnik_transaction *step, struct spotnik_bucket *bucket, bool full)
{
    if (!full || bucket->complete)
        return false;
    bucket->complete = true;
    step->completed++;
    return true;
}

bool spotnik_transaction_receive(struct spotnik_transaction *step, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->received < spotnik_ring_total(&bucket->ring));
    bucket->received++;
    return completed(step, bucket, bucket->received == spotnik_ring_total(&bucket->ring));
}

void spotnik_transaction_receive_flat(struct spotnik_transaction *step,
                                      struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->flat);
    completed(step, bucket, true);
}

bool spotnik_transaction_receive_handover(struct spotnik_transaction *step,
                                          struct spotnik_bucket *bucket, uint32_t chunk_bytes)
{
    uint64_t total = spotnik_transaction_handover_total(bucket, chunk_bytes);
    SPOTNIK_ASSERT(bucket->handover_received < total);
    bucket->handover_received++;
    return completed(step, bucket, bucket->handover_received == total);
}

uint64_t spotnik_transaction_handover_total(const struct spotnik_bucket *bucket,
                                            uint32_t chunk_bytes)
{
    uint64_t elements = spotnik_transaction_chunk_count(chunk_bytes, bucket->element_bytes);
    uint64_t total = (bucket->count + elements - 1) / elements;
    /* an empty bucket is handed over as one empty chunk, or nobody would notice it */
    return total ? total : 1;
}

struct spotnik_ring_chunk spotnik_transaction_handover_chunk(const struct spotnik_bucket *bucket,
                                                             uint32_t chunk_bytes,
                                                             uint64_t sequence)
{
    uint64_t elements = spotnik_transaction_chunk_count(chunk_bytes, bucket->element_bytes);
    uint64_t offset = sequence * elements;
    uint64_t left = offset < bucket->count ? bucket->count - offset : 0;
    return (struct spotnik_ring_chunk){ .offset = offset,
                                        .count = left < elements ? left : elements,
                                        .kind = SPOTNIK_RING_COPY };
}
