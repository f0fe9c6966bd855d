/* SPDX-License-Identifier: Apache-2.0 */
/* Large buckets on one of several hosts, in pieces (docs/design/0007-data-path.md). While
 * the first pieces are on the wire, the last ones are still being copied. A piece is a few chunks
 * of every segment of the ring of hosts, since at every hop that ring needs the first chunks first.
 * Its chunks go round among the members of the host, each of which adds up every n-th.
 *
 * A sequence number goes up with nothing behind it, and a count beside it says how many pieces
 * there are. A member waits only for pieces of the same number or lower, and copying waits for no
 * member, so one member can always go on. This file decides which slice is next. The order of
 * additions is that of flat.c. */
#include <string.h>

#include "base/assert.h"
#include "shm/slices.h"

#define PIECES_MAX 16 /* each costs a wake-up or two per member */

static bool is_holder(const struct spotnik_flat_bucket *bucket)
{
    return bucket->order.part == SPOTNIK_FLAT_HOLDER;
}

/* ---- geometry ---- */

static struct spotnik_ring_chunk chunk_at(const struct spotnik_flat_bucket *bucket, uint64_t number)
{
    const struct spotnik_ring *ring = &bucket->ring;
    return spotnik_ring_at(ring, (uint32_t)(number % ring->size), number / ring->size);
}

/* One past the last chunk of a piece. */
static uint64_t piece_end(const struct spotnik_flat_bucket *bucket, uint32_t piece)
{
    uint64_t each = ((uint64_t)piece + 1) * bucket->grain;
    return (each < bucket->ring.chunks ? each : bucket->ring.chunks) * bucket->ring.size;
}

static uint32_t owner_of(const struct spotnik_flat *flat, uint64_t chunk)
{
    return (uint32_t)(chunk % flat->size);
}

/* Elements from one of a member's sums to its next. */
static uint64_t stride_of(const struct spotnik_ring *ring)
{
    uint64_t longest = (ring->count + ring->size - 1) / ring->size;
    return longest < ring->chunk_count ? longest : ring->chunk_count;
}

static size_t sum_offset(const struct spotnik_flat *flat, const struct spotnik_flat_bucket *bucket,
                         uint64_t chunk)
{
    return chunk / flat->size * stride_of(&bucket->ring) * bucket->one;
}

size_t spotnik_flat_pipeline_room(uint64_t count, size_t one, uint32_t hosts, uint64_t chunk_count,
                                  uint32_t size)
{
    struct spotnik_ring ring = spotnik_ring_make(hosts, 0, count, chunk_count);
    uint64_t chunks = ring.chunks * ring.size;
    return (chunks + size - 1) / size * stride_of(&ring) * one;
}

/* ---- cursors ---- */

static size_t slice_bytes(const struct spotnik_flat *flat, const struct spotnik_flat_bucket *bucket,
                          const struct spotnik_flat_cursor *cursor, size_t *ret_begin)
{
    struct spotnik_ring_chunk chunk = chunk_at(bucket, cursor->chunk);
    size_t left = chunk.count * bucket->one - cursor->at;
    *ret_begin = chunk.offset * bucket->one + cursor->at;
    return left < flat->limits.slice_bytes ? left : flat->limits.slice_bytes;
}

static void chunk_advance(const struct spotnik_flat_bucket *bucket,
                          struct spotnik_flat_cursor *cursor, size_t some)
{
    cursor->at += some;
    if (cursor->at < chunk_at(bucket, cursor->chunk).count * bucket->one)
        return;
    cursor->at = 0;
    cursor->chunk++;
}

static bool piece_ends(const struct spotnik_flat_bucket *bucket, struct spotnik_flat_cursor *cursor)
{
    if (cursor->chunk < piece_end(bucket, cursor->pieces))
        return false;
    cursor->pieces++;
    return true;
}

/* ---- our input ---- */

void spotnik_flat_pipeline_start(struct spotnik_flat *flat, uint32_t number,
                                 struct spotnik_flat_bucket *bucket, bool copied)
{
    const struct spotnik_flat_order *order = &bucket->order;
    struct spotnik_shm_header_slot *slot = spotnik_flat_slot(flat, flat->rank, number, order->step);
    bucket->ring = spotnik_ring_make(order->hosts, 0, order->count, order->chunk_count);
    bucket->grain = (bucket->ring.chunks + PIECES_MAX - 1) / PIECES_MAX;
    bucket->pieces = (uint32_t)((bucket->ring.chunks + bucket->grain - 1) / bucket->grain);
    bucket->phase = SPOTNIK_FLAT_PIPELINE;
    bucket->copied = copied;
    bool there = copied || order->in == order->input_area;
    bucket->copy.pieces = there ? bucket->pieces : 0;
    spotnik_shm_header_count_up(&slot->inputs, bucket->copy.pieces);
    spotnik_shm_header_put_up(&slot->input, order->sequence);
    spotnik_flat_wake(flat);
}

static enum spotnik_flat_verdict copy_some(struct spotnik_flat *flat, uint32_t number,
                                           struct spotnik_flat_bucket *bucket)
{
    size_t begin, some = slice_bytes(flat, bucket, &bucket->copy, &begin);
    if (some > 0)
        memcpy((uint8_t *)bucket->order.input_area + begin,
               (const uint8_t *)bucket->order.in + begin, some);
    chunk_advance(bucket, &bucket->copy, some);
    if (!piece_ends(bucket, &bucket->copy))
        return SPOTNIK_FLAT_MORE;
    spotnik_shm_header_count_up(&spotnik_flat_slot(flat, flat->rank, number, bucket->order.step)
                                     ->inputs,
                                bucket->copy.pieces);
    spotnik_flat_wake(flat);
    bucket->copied = bucket->copy.pieces == bucket->pieces;
    return SPOTNIK_FLAT_MORE;
}

/* ---- sums ---- */

/* The first member whose input of the next piece is not there; flat->size: none is missing. */
static uint32_t lacking(const struct spotnik_flat *flat, uint32_t number,
                        const struct spotnik_flat_bucket *bucket)
{
    uint32_t rank = 0;
    for (; rank < flat->size; rank++) {
        const struct spotnik_shm_header_slot *slot =
            spotnik_flat_slot(flat, rank, number, bucket->order.step);
        bool there =
            rank == flat->rank || spotnik_shm_header_counted(&slot->inputs) > bucket->add.pieces;
        if (!there)
            break;
    }
    return rank;
}

/* Our sums of a piece are there, if it was the inputs of this view that we read. */
static enum spotnik_flat_verdict piece_added(struct spotnik_flat *flat, uint32_t number,
                                             struct spotnik_flat_bucket *bucket)
{
    struct spotnik_shm_header_slot *slot =
        spotnik_flat_slot(flat, flat->rank, number, bucket->order.step);
    if (!spotnik_flat_inputs_stood(flat, number, bucket))
        return spotnik_flat_stale(bucket);
    if (is_holder(bucket))
        return SPOTNIK_FLAT_MORE;
    spotnik_shm_header_count_up(&slot->results, bucket->add.pieces);
    spotnik_shm_header_put_up(&slot->result, bucket->order.sequence);
    spotnik_flat_wake(flat);
    return SPOTNIK_FLAT_MORE;
}

static void skip_to_ours(const struct spotnik_flat *flat, struct spotnik_flat_bucket *bucket)
{
    uint64_t end = piece_end(bucket, bucket->add.pieces);
    while (bucket->add.chunk < end && owner_of(flat, bucket->add.chunk) != flat->rank)
        bucket->add.chunk++;
}

/* No member waits for us any more, so the step may be over, and its inputs released, before we
 * look. */
static bool all_added(const struct spotnik_flat *flat, const struct spotnik_flat_bucket *bucket)
{
    uint64_t from = bucket->add.chunk,
             ahead = (flat->rank + flat->size - from % flat->size) % flat->size;
    return from + ahead >= bucket->ring.chunks * bucket->ring.size;
}

static enum spotnik_flat_verdict add_some(struct spotnik_flat *flat, uint32_t number,
                                          struct spotnik_flat_bucket *bucket)
{
    struct spotnik_flat_cursor *cursor = &bucket->add;
    skip_to_ours(flat, bucket);
    if (piece_ends(bucket, cursor))
        return SPOTNIK_FLAT_MORE; /* none of it is ours */
    size_t begin, some = slice_bytes(flat, bucket, cursor, &begin);
    uint8_t *out = is_holder(bucket) ? (uint8_t *)bucket->order.out + begin
                                     : (uint8_t *)bucket->order.result_area
                                           + sum_offset(flat, bucket, cursor->chunk) + cursor->at;
    some -= some % bucket->one;
    spotnik_flat_add(flat, number, bucket, out, begin / bucket->one, (begin + some) / bucket->one);
    chunk_advance(bucket, cursor, some);
    skip_to_ours(flat, bucket);
    return piece_ends(bucket, cursor) ? piece_added(flat, number, bucket) : SPOTNIK_FLAT_MORE;
}

/* ---- the holder ---- */

/* The sum of the next chunk is there, wherever it was made. */
static bool is_added(const struct spotnik_flat *flat, uint32_t number,
                     const struct spotnik_flat_bucket *bucket)
{
    uint32_t rank = owner_of(flat, bucket->collect.chunk);
    const struct spotnik_shm_header_slot *slot =
        spotnik_flat_slot(flat, rank, number, bucket->order.step);
    if (rank == flat->rank)
        return bucket->add.pieces > bucket->collect.pieces;
    return spotnik_shm_header_hangs(&slot->result, bucket->order.sequence)
           && spotnik_shm_header_counted(&slot->results) > bucket->collect.pieces;
}

static enum spotnik_flat_verdict piece_collected(struct spotnik_flat *flat,
                                                 struct spotnik_flat_bucket *bucket)
{
    return bucket->collect.pieces == bucket->pieces ? spotnik_flat_summed(flat, bucket)
                                                    : SPOTNIK_FLAT_PART;
}

/* Each is looked at again when it is here: until then its owner may have gone on to another
 * view. */
static enum spotnik_flat_verdict collect_some(struct spotnik_flat *flat, uint32_t number,
                                              struct spotnik_flat_bucket *bucket)
{
    struct spotnik_flat_cursor *cursor = &bucket->collect;
    uint32_t rank = owner_of(flat, cursor->chunk);
    const struct spotnik_shm_header_slot *slot =
        spotnik_flat_slot(flat, rank, number, bucket->order.step);
    size_t begin, some = slice_bytes(flat, bucket, cursor, &begin),
                  from = sum_offset(flat, bucket, cursor->chunk) + cursor->at;
    if (rank == flat->rank)
        some = chunk_at(bucket, cursor->chunk).count * bucket->one;
    else if (!spotnik_flat_is_within(&flat->peer[rank], slot->result_offset, from + some))
        return spotnik_flat_differs(flat, rank, slot);
    else if (some > 0)
        memcpy((uint8_t *)bucket->order.out + begin,
               spotnik_flat_memory(flat, rank) + slot->result_offset + from, some);
    if (rank != flat->rank
        && !spotnik_shm_header_still_hangs(&slot->result, bucket->order.sequence))
        return spotnik_flat_stale(bucket);
    chunk_advance(bucket, cursor, some);
    return piece_ends(bucket, cursor) ? piece_collected(flat, bucket) : SPOTNIK_FLAT_MORE;
}

uint64_t spotnik_flat_collected(const struct spotnik_flat *flat, uint32_t number)
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    return bucket->small || bucket->collect.pieces == bucket->pieces
               ? UINT64_MAX
               : bucket->collect.pieces * bucket->grain;
}

/* ---- what next ---- */

static bool are_inputs_up(const struct spotnik_flat *flat, const struct spotnik_flat_bucket *bucket)
{
    return bucket->seen + 1 >= flat->size;
}

/* Which inputs of the others have come. False: a member's bucket is another one than ours. */
static bool inputs_fit(struct spotnik_flat *flat, uint32_t number,
                       struct spotnik_flat_bucket *bucket)
{
    if (spotnik_flat_look_round(flat, number, bucket) == SPOTNIK_FLAT_MISMATCH)
        return false;
    bucket->weight_sum =
        are_inputs_up(flat, bucket) ? spotnik_flat_weights(flat, number, bucket) : 0;
    return true;
}

static bool may_add(const struct spotnik_flat *flat, uint32_t number,
                    const struct spotnik_flat_bucket *bucket)
{
    return are_inputs_up(flat, bucket) && bucket->copy.pieces > bucket->add.pieces
           && lacking(flat, number, bucket) == flat->size;
}

/* Work on the lowest piece first, and there on the slice that is furthest. */
enum spotnik_flat_verdict spotnik_flat_pipeline_run(struct spotnik_flat *flat, uint32_t number,
                                                    struct spotnik_flat_bucket *bucket)
{
    bool adding =
        bucket->add.pieces < bucket->pieces && (is_holder(bucket) || !all_added(flat, bucket));
    if (adding && !are_inputs_up(flat, bucket) && !inputs_fit(flat, number, bucket))
        return SPOTNIK_FLAT_MISMATCH;
    if (is_holder(bucket) && are_inputs_up(flat, bucket) && is_added(flat, number, bucket))
        return collect_some(flat, number, bucket);
    if (adding && may_add(flat, number, bucket))
        return add_some(flat, number, bucket);
    if (bucket->copy.pieces < bucket->pieces)
        return copy_some(flat, number, bucket);
    if (is_holder(bucket) || adding)
        return SPOTNIK_FLAT_BLOCKED;
    bucket->phase = SPOTNIK_FLAT_AWAIT;
    return SPOTNIK_FLAT_MORE;
}

/* Others have not come as far with their inputs as we: until they have, ours are of no use. */
bool spotnik_flat_is_ahead(const struct spotnik_flat *flat)
{
    for (uint32_t i = 0; i < flat->last; i++) {
        const struct spotnik_flat_bucket *bucket = &flat->bucket[i];
        if (bucket->phase == SPOTNIK_FLAT_PIPELINE && bucket->copy.pieces > bucket->add.pieces
            && (!are_inputs_up(flat, bucket) || lacking(flat, i, bucket) < flat->size))
            return true;
    }
    return false;
}

/* A holder waits for the next piece of one member's input, and of one member's sums. */
uint32_t spotnik_flat_pipeline_awaits(const struct spotnik_flat *flat, uint32_t number,
                                      const struct spotnik_flat_bucket *bucket,
                                      uint32_t ret_rank[2])
{
    uint32_t count = 0;
    if (!are_inputs_up(flat, bucket)) {
        ret_rank[0] = (flat->rank + 1 + bucket->seen) % flat->size;
        return 1;
    }
    if (bucket->add.pieces < bucket->pieces)
        ret_rank[count] = lacking(flat, number, bucket);
    count += bucket->add.pieces < bucket->pieces && ret_rank[count] != flat->size;
    if (is_holder(bucket)) {
        uint32_t rank = owner_of(flat, bucket->collect.chunk);
        ret_rank[count] = rank;
        count += rank != flat->rank;
    }
    return count;
}
