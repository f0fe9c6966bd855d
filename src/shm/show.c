/* SPDX-License-Identifier: Apache-2.0 */
/* The result of all hosts, shown to the members of one before it is whole
 * (docs/design/0007-data-path.md). Chunks of the ring of hosts become final at the
 * holder one after the other. The holder writes into its slot how many of them lie in its memory;
 * other members use theirs for their sums. A member that copies some of them checks the sequence
 * number again afterwards. No member waits for this or commits by it: a commit takes the whole
 * result (flat.c). */
#include <string.h>

#include "base/assert.h"
#include "shm/slices.h"

#define SHOWS_MAX 32 /* each wakes everybody on the host */

/* Chunks that come before the first final one: those of all reducing hops but the last. */
static uint64_t partial_chunks(const struct spotnik_ring *ring)
{
    return (ring->size - 2) * ring->chunks;
}

static uint64_t final_chunks(const struct spotnik_ring *ring)
{
    return spotnik_ring_total(ring) - partial_chunks(ring);
}

static struct spotnik_ring ring_here(const struct spotnik_flat_bucket *bucket)
{
    struct spotnik_ring ring = bucket->ring;
    ring.rank = bucket->order.host;
    return ring;
}

struct spotnik_ring_chunk spotnik_flat_shown_chunk(const struct spotnik_flat *flat, uint32_t number,
                                                   uint64_t index)
{
    struct spotnik_ring ring = ring_here(&flat->bucket[number]);
    return spotnik_ring_received(&ring, partial_chunks(&ring) + index);
}

/* ---- the holder ---- */

/* To where the others read, unless they were made there. */
static void put_there(const struct spotnik_flat *flat, uint32_t number,
                      const struct spotnik_flat_bucket *bucket, uint64_t until,
                      const uint8_t *result)
{
    uint8_t *area = bucket->order.whole_area;
    for (uint64_t i = bucket->shown; i < until && result != area; i++) {
        struct spotnik_ring_chunk chunk = spotnik_flat_shown_chunk(flat, number, i);
        if (chunk.count > 0)
            memcpy(area + chunk.offset * bucket->one, result + chunk.offset * bucket->one,
                   chunk.count * bucket->one);
    }
}

void spotnik_flat_show(struct spotnik_flat *flat, uint32_t number, uint64_t received,
                       const void *result)
{
    struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    bool running = bucket->phase == SPOTNIK_FLAT_PIPELINE || bucket->phase == SPOTNIK_FLAT_SUMMED;
    if (!running || bucket->small || bucket->order.part != SPOTNIK_FLAT_HOLDER
        || received <= partial_chunks(&bucket->ring))
        return;
    uint64_t all = final_chunks(&bucket->ring), there = received - partial_chunks(&bucket->ring);
    uint64_t grain = (all + SHOWS_MAX - 1) / SHOWS_MAX;
    if (there - bucket->shown < grain || there >= all || there > UINT32_MAX)
        return; /* when all are there they are spread at once */
    struct spotnik_shm_header_slot *slot =
        spotnik_flat_slot(flat, flat->rank, number, bucket->order.step);
    put_there(flat, number, bucket, there, result);
    bucket->shown = there;
    spotnik_shm_header_count_up(&slot->results, (uint32_t)there);
    spotnik_shm_header_put_up(&slot->result, bucket->order.sequence);
    spotnik_flat_wake(flat);
}

/* ---- the others ---- */

bool spotnik_flat_more_is_shown(const struct spotnik_flat *flat, uint32_t number,
                                struct spotnik_flat_bucket *bucket)
{
    const struct spotnik_shm_header_slot *slot =
        spotnik_flat_slot(flat, 0, number, bucket->order.step);
    if (bucket->small || !spotnik_shm_header_hangs(&slot->result, bucket->order.sequence))
        return false;
    uint64_t there = spotnik_shm_header_counted(&slot->results);
    uint64_t offset = flat->peer[0].header->whole[number][bucket->order.step & 1].offset;
    if (!spotnik_shm_header_still_hangs(&slot->result, bucket->order.sequence)
        || there <= bucket->shown || there > final_chunks(&bucket->ring)
        || !spotnik_flat_is_within(&flat->peer[0], offset, bucket->bytes))
        return false;
    bucket->shown = there;
    bucket->shown_offset = offset;
    return true;
}

uint64_t spotnik_flat_shown(const struct spotnik_flat *flat, uint32_t number)
{
    return flat->bucket[number].shown;
}

const void *spotnik_flat_shown_result(const struct spotnik_flat *flat, uint32_t number)
{
    return spotnik_flat_memory(flat, 0) + flat->bucket[number].shown_offset;
}

bool spotnik_flat_shown_stands(const struct spotnik_flat *flat, uint32_t number)
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    return spotnik_shm_header_still_hangs(&spotnik_flat_slot(flat, 0, number, bucket->order.step)
                                               ->result,
                                          bucket->order.sequence);
}
