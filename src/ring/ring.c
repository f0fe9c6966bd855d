/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a ring all-reduce; the picture is in ring.h. */
#include "ring/ring.h"

#include "base/assert.h"

static uint64_t segment_begin(const struct spotnik_ring *ring, uint32_t segment)
{
    uint64_t quotient = ring->count / ring->size, remainder = ring->count % ring->size;
    return quotient * segment + (segment < remainder ? segment : remainder);
}

struct spotnik_ring spotnik_ring_make(uint32_t size, uint32_t rank, uint64_t count,
                                      uint64_t chunk_count)
{
    SPOTNIK_ASSERT(size >= 1);
    SPOTNIK_ASSERT(rank < size);
    SPOTNIK_ASSERT(chunk_count >= 1);
    uint64_t longest = (count + size - 1) / size;
    uint64_t chunks = (longest + chunk_count - 1) / chunk_count;
    return (struct spotnik_ring){ .size = size,
                                  .rank = rank,
                                  .count = count,
                                  .chunk_count = chunk_count,
                                  .chunks = chunks ? chunks : 1 };
}

uint64_t spotnik_ring_total(const struct spotnik_ring *ring)
{
    return 2 * (uint64_t)(ring->size - 1) * ring->chunks;
}

static struct spotnik_ring_chunk chunk_of(const struct spotnik_ring *ring, uint32_t segment,
                                          uint32_t hop, uint64_t index)
{
    uint64_t begin = segment_begin(ring, segment), end = segment_begin(ring, segment + 1);
    uint64_t from = begin + index * ring->chunk_count;
    uint64_t to = from + ring->chunk_count;
    if (from > end)
        from = end;
    if (to > end)
        to = end;
    enum spotnik_ring_kind kind = hop + 2 < ring->size    ? SPOTNIK_RING_REDUCE
                                  : hop + 2 == ring->size ? SPOTNIK_RING_REDUCE_LAST
                                                          : SPOTNIK_RING_COPY;
    return (struct spotnik_ring_chunk){
        .offset = from, .count = to - from, .hop = hop, .kind = kind
    };
}

/* Chunk q of the stream that `sender` sends. */
static struct spotnik_ring_chunk stream_chunk(const struct spotnik_ring *ring, uint32_t sender,
                                              uint64_t q)
{
    SPOTNIK_ASSERT(q < spotnik_ring_total(ring));
    uint32_t hop = (uint32_t)(q / ring->chunks);
    uint32_t back = hop % ring->size;
    uint32_t segment = (sender + ring->size - back) % ring->size;
    return chunk_of(ring, segment, hop, q % ring->chunks);
}

struct spotnik_ring_chunk spotnik_ring_sent(const struct spotnik_ring *ring, uint64_t q)
{
    return stream_chunk(ring, ring->rank, q);
}

struct spotnik_ring_chunk spotnik_ring_received(const struct spotnik_ring *ring, uint64_t q)
{
    return stream_chunk(ring, (ring->rank + ring->size - 1) % ring->size, q);
}

struct spotnik_ring_chunk spotnik_ring_at(const struct spotnik_ring *ring, uint32_t segment,
                                          uint64_t index)
{
    SPOTNIK_ASSERT(segment < ring->size);
    SPOTNIK_ASSERT(index < ring->chunks);
    return chunk_of(ring, segment, 0, index);
}

bool spotnik_ring_ready(const struct spotnik_ring *ring, uint64_t q, uint64_t received)
{
    return q < spotnik_ring_total(ring) && (q < ring->chunks || q - ring->chunks < received);
}

struct spotnik_ring_chunk spotnik_ring_own(const struct spotnik_ring *ring)
{
    uint64_t begin = segment_begin(ring, ring->rank), end = segment_begin(ring, ring->rank + 1);
    return (struct spotnik_ring_chunk){ .offset = begin, .count = end - begin };
}
