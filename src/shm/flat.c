/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of a flat all-reduce, and when each may go on. Every read of another member's memory
 * stands between two looks at the sequence number that names it. */
#include "shm/slices.h"

#include <string.h>

#include "base/assert.h"
#include "base/copy.h"

static struct spotnik_shm_header *own(const struct spotnik_flat *flat)
{
    return flat->peer[flat->rank].header;
}

static struct spotnik_shm_header_slot *slot_of(struct spotnik_shm_header *header, uint32_t number,
                                               uint64_t step)
{
    return &header->slot[number][step & 1];
}

static struct spotnik_shm_header_whole *whole_of(struct spotnik_shm_header *header, uint32_t number,
                                                 uint64_t step)
{
    return &header->whole[number][step & 1];
}

void spotnik_flat_wake(struct spotnik_flat *flat)
{
    flat->rung = true;
}

void spotnik_shm_header_init(struct spotnik_shm_header *header, uint64_t id_high, uint64_t id_low,
                             uint64_t kernels)
{
    memset(header, 0, sizeof *header);
    header->magic = SPOTNIK_BOARD_MAGIC;
    header->version = SPOTNIK_BOARD_VERSION;
    header->id_high = id_high;
    header->id_low = id_low;
    header->kernels = kernels;
}

void spotnik_flat_view(struct spotnik_flat *flat, const struct spotnik_flat_peer *peer,
                       struct spotnik_reduce_source *source, uint32_t rank, uint32_t size)
{
    SPOTNIK_ASSERT(flat->active == 0);
    SPOTNIK_ASSERT(rank < size);
    flat->peer = peer;
    flat->source = source;
    flat->rank = rank;
    flat->size = size;
}

bool spotnik_flat_is_small(const struct spotnik_flat *flat, size_t bytes)
{
    return bytes <= flat->limits.small_bytes;
}

bool spotnik_flat_is_streamed(const struct spotnik_flat *flat, size_t bytes)
{
    size_t least = flat->limits.stream_bytes;
    return least > 0 && bytes >= least / flat->size;
}

static size_t edge(const struct spotnik_flat *flat, size_t bytes, uint32_t rank)
{
    size_t pages = (bytes + flat->limits.page_bytes - 1) / flat->limits.page_bytes;
    size_t at = pages * rank / flat->size * flat->limits.page_bytes;
    return at < bytes ? at : bytes;
}

void spotnik_flat_share(const struct spotnik_flat *flat, size_t bytes, uint32_t rank,
                        size_t *ret_begin, size_t *ret_end)
{
    *ret_begin = edge(flat, bytes, rank);
    *ret_end = edge(flat, bytes, rank + 1);
}

/* ---- our input ---- */

static void seal_try(struct spotnik_flat *flat)
{
    if (flat->sealing == 0 || flat->copying > 0)
        return;
    spotnik_shm_header_put_up(&own(flat)->sealed, flat->sealing);
    flat->sealing = 0;
    spotnik_flat_wake(flat);
}

static void input_put_up(struct spotnik_flat *flat, uint32_t number,
                         struct spotnik_flat_bucket *bucket)
{
    struct spotnik_shm_header_slot *slot = slot_of(own(flat), number, bucket->order.step);
    spotnik_shm_header_put_up(&slot->input, bucket->order.sequence);
    spotnik_flat_wake(flat);
    /* the holder adds up all of it */
    bool alone = bucket->small && bucket->order.part == SPOTNIK_FLAT_SERVED;
    bucket->phase = alone ? SPOTNIK_FLAT_AWAIT : SPOTNIK_FLAT_GATHER;
    bucket->seen = 0;
}

/* No member that could still commit an earlier step reads its bytes there. */
static void slot_clear(struct spotnik_flat *flat, uint32_t number,
                       const struct spotnik_flat_bucket *bucket)
{
    const struct spotnik_flat_order *order = &bucket->order;
    struct spotnik_shm_header_slot *slot = slot_of(own(flat), number, order->step);
    struct spotnik_shm_header_whole *whole = whole_of(own(flat), number, order->step);
    uint64_t *sequence[] = { &slot->input, &slot->result, &whole->sequence };
    spotnik_shm_header_take_down_all(sequence, 3);
    slot->input_offset =
        (uint64_t)((const uint8_t *)order->input_area - spotnik_flat_memory(flat, flat->rank));
    slot->result_offset = order->result_area == NULL
                              ? 0
                              : (uint64_t)((const uint8_t *)order->result_area
                                           - spotnik_flat_memory(flat, flat->rank));
    whole->offset = order->whole_area == NULL ? 0
                                              : (uint64_t)((const uint8_t *)order->whole_area
                                                           - spotnik_flat_memory(flat, flat->rank));
    slot->count = order->count;
    slot->weight = order->weight;
    slot->dtype = order->dtype;
    slot->op = order->op;
    spotnik_shm_header_count_up(&slot->inputs, 0);
    spotnik_shm_header_count_up(&slot->results, 0);
}

/* After a recovery the area still holds what we copied, and lacks only what was our own share
 * then. */
static bool is_copied(const struct spotnik_flat_bucket *before,
                      const struct spotnik_flat_order *order)
{
    return order->again && before->copied && before->order.step == order->step
           && before->order.in == order->in && before->order.input_area == order->input_area
           && before->order.count == order->count && before->order.dtype == order->dtype;
}

void spotnik_flat_start(struct spotnik_flat *flat, uint32_t number,
                        const struct spotnik_flat_order *order)
{
    struct spotnik_flat_bucket *bucket = &flat->bucket[number], before = *bucket;
    SPOTNIK_ASSERT(number < SPOTNIK_BOARD_BUCKETS && order->sequence != 0);
    SPOTNIK_ASSERT(!spotnik_flat_is_active(flat, number));
    *bucket = (struct spotnik_flat_bucket){ .order = *order };
    bucket->one = spotnik_dtype_size((enum spotnik_dtype)order->dtype);
    bucket->bytes = order->count * bucket->one;
    bucket->small = spotnik_flat_is_small(flat, bucket->bytes);
    if (bucket->small)
        bucket->end = bucket->bytes;
    else
        spotnik_flat_share(flat, bucket->bytes, flat->rank, &bucket->begin, &bucket->end);
    slot_clear(flat, number, bucket);
    flat->active++;
    if (number >= flat->last)
        flat->last = number + 1;
    bool copied = is_copied(&before, order);
    if (!bucket->small && order->part != SPOTNIK_FLAT_ALL) {
        spotnik_flat_pipeline_start(flat, number, bucket,
                                    copied && before.gap_begin == before.gap_end);
        return;
    }
    if (bucket->small || order->in == order->input_area) {
        if (order->in != order->input_area && bucket->bytes > 0)
            memcpy(order->input_area, order->in, bucket->bytes);
        input_put_up(flat, number, bucket);
        return;
    }
    bucket->phase = SPOTNIK_FLAT_COPY;
    bucket->at = copied ? before.gap_begin : 0;
    bucket->copy_end = copied ? before.gap_end : bucket->bytes;
    bucket->gap_begin = bucket->begin;
    bucket->gap_end = bucket->end;
    flat->copying++;
}

void spotnik_flat_seal(struct spotnik_flat *flat, uint64_t sequence)
{
    if (flat->sealing == sequence
        || __atomic_load_n(&own(flat)->sealed, __ATOMIC_RELAXED) == sequence)
        /* a recovery took the seal down; a caller that asks again need not know whether there was
         * one */
        return;
    flat->sealing = sequence;
    seal_try(flat);
}

/* What the others read of our input, which is all but our own share, and what is needed to put it
 * back. */
static enum spotnik_flat_verdict copy_slice(struct spotnik_flat *flat, uint32_t number,
                                            struct spotnik_flat_bucket *bucket)
{
    if (bucket->at >= bucket->gap_begin && bucket->at < bucket->gap_end)
        bucket->at = bucket->gap_end;
    size_t until = bucket->copy_end;
    if (bucket->at < bucket->gap_begin && bucket->gap_begin < until)
        until = bucket->gap_begin;
    size_t some = until > bucket->at ? until - bucket->at : 0;
    some = some < flat->limits.slice_bytes ? some : flat->limits.slice_bytes;
    uint8_t *to = (uint8_t *)bucket->order.input_area + bucket->at;
    const uint8_t *from = (const uint8_t *)bucket->order.in + bucket->at;
    if (some > 0)
        spotnik_copy(to, from, some,
                     spotnik_flat_is_streamed(flat, bucket->bytes) ? SPOTNIK_COPY_PAST_CACHES : 0);
    bucket->at += some;
    if (bucket->at < bucket->copy_end)
        return SPOTNIK_FLAT_MORE;
    bucket->copied = true;
    flat->copying--;
    input_put_up(flat, number, bucket);
    seal_try(flat);
    return SPOTNIK_FLAT_MORE;
}

/* ---- the others ---- */

static bool fits(const struct spotnik_flat *flat, uint32_t rank,
                 const struct spotnik_flat_bucket *bucket,
                 const struct spotnik_shm_header_slot *slot)
{
    return slot->count == bucket->order.count && slot->dtype == bucket->order.dtype
           && slot->op == bucket->order.op && slot->input_offset <= flat->peer[rank].bytes_max
           && bucket->bytes <= flat->peer[rank].bytes_max - slot->input_offset;
}

static bool is_sealed(const struct spotnik_shm_header *header, uint64_t sequence)
{
    uint64_t sealed = __atomic_load_n(&header->sealed, __ATOMIC_ACQUIRE);
    return spotnik_shm_header_epoch_of(sealed) == spotnik_shm_header_epoch_of(sequence)
           && sealed >= sequence;
}

/* It has put up all it ever will in this step, and this bucket is not among it. Look at the seal on
 * both sides of the sequence number. Before, because it goes up after the inputs; after, because a
 * recovery takes it down before them. */
static bool lacks(const struct spotnik_shm_header *header, const uint64_t *input, uint64_t sequence)
{
    if (!is_sealed(header, sequence) || spotnik_shm_header_hangs(input, sequence))
        return false;
    return is_sealed(header, sequence);
}

static uint32_t awaited(const struct spotnik_flat *flat, const struct spotnik_flat_bucket *bucket)
{
    return (flat->rank + 1 + bucket->seen) % flat->size;
}

enum spotnik_flat_verdict spotnik_flat_differs(struct spotnik_flat *flat, uint32_t rank,
                                               const struct spotnik_shm_header_slot *slot)
{
    flat->odd = (struct spotnik_flat_odd){ .rank = rank };
    if (slot != NULL) {
        flat->odd.has = true;
        flat->odd.count = slot->count;
        flat->odd.dtype = slot->dtype;
        flat->odd.op = slot->op;
    }
    return SPOTNIK_FLAT_MISMATCH;
}

enum spotnik_flat_verdict spotnik_flat_look_round(struct spotnik_flat *flat, uint32_t number,
                                                  struct spotnik_flat_bucket *bucket)
{
    bool gathering = bucket->phase != SPOTNIK_FLAT_SPREAD;
    for (; bucket->seen + 1 < flat->size; bucket->seen++) {
        uint32_t rank = awaited(flat, bucket);
        struct spotnik_shm_header *header = flat->peer[rank].header;
        const struct spotnik_shm_header_slot *slot = slot_of(header, number, bucket->order.step);
        if (!spotnik_shm_header_hangs(gathering ? &slot->input : &slot->result,
                                      bucket->order.sequence)) {
            bool mismatch = gathering && lacks(header, &slot->input, bucket->order.sequence);
            return mismatch ? spotnik_flat_differs(flat, rank, NULL) : SPOTNIK_FLAT_BLOCKED;
        }
        if (gathering && !fits(flat, rank, bucket, slot)
            && spotnik_shm_header_still_hangs(&slot->input, bucket->order.sequence))
            return spotnik_flat_differs(flat, rank, slot);
    }
    return SPOTNIK_FLAT_MORE;
}

bool spotnik_flat_inputs_stood(const struct spotnik_flat *flat, uint32_t number,
                               const struct spotnik_flat_bucket *bucket)
{
    for (uint32_t rank = 0; rank < flat->size; rank++) {
        const struct spotnik_shm_header_slot *slot =
            slot_of(flat->peer[rank].header, number, bucket->order.step);
        if (!spotnik_shm_header_still_hangs(&slot->input, bucket->order.sequence))
            return false;
    }
    return true;
}

bool spotnik_flat_stands(const struct spotnik_flat *flat, uint32_t number, uint64_t step)
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    if (bucket->order.step != step || bucket->small)
        return false;
    for (uint32_t rank = 0; rank < flat->size; rank++)
        if (!spotnik_shm_header_hangs(&slot_of(flat->peer[rank].header, number, step)->result,
                                      bucket->order.sequence))
            return false;
    return true;
}

/* ---- sums ---- */

/* The segment of the ring that element `at` belongs to. */
static uint32_t segment_of(uint64_t count, uint32_t size, uint64_t at)
{
    uint64_t quotient = count / size, longer = count % size;
    if (at < (quotient + 1) * longer)
        return (uint32_t)(at / (quotient + 1));
    return (uint32_t)(longer + (at - (quotient + 1) * longer) / quotient);
}

/* Elements [from, to) lie in one segment. */
static void sum(struct spotnik_flat *flat, uint32_t number,
                const struct spotnik_flat_bucket *bucket, uint8_t *out, uint32_t segment,
                uint64_t from, uint64_t to)
{
    for (uint32_t i = 0; i < flat->size; i++) {
        uint32_t rank = (segment + i) % flat->size;
        const struct spotnik_shm_header_slot *slot =
            slot_of(flat->peer[rank].header, number, bucket->order.step);
        const uint8_t *input = rank == flat->rank
                                   ? bucket->order.in
                                   : spotnik_flat_memory(flat, rank) + slot->input_offset;
        flat->source[i].data = input + from * bucket->one;
        flat->source[i].weight = slot->weight;
    }
    spotnik_reduce_flat(out, flat->source, flat->size, to - from,
                        (enum spotnik_dtype)bucket->order.dtype, (enum spotnik_op)bucket->order.op,
                        bucket->order.part != SPOTNIK_FLAT_ALL          ? SPOTNIK_REDUCE_PARTIAL
                        : spotnik_flat_is_streamed(flat, bucket->bytes) ? SPOTNIK_REDUCE_STREAM
                                                                        : 0);
}

void spotnik_flat_add(struct spotnik_flat *flat, uint32_t number,
                      const struct spotnik_flat_bucket *bucket, uint8_t *out, uint64_t from,
                      uint64_t to)
{
    for (uint64_t at = from; at < to;) {
        uint32_t segment = segment_of(bucket->order.count, flat->size, at);
        struct spotnik_ring ring = spotnik_ring_make(flat->size, segment, bucket->order.count, 1);
        struct spotnik_ring_chunk whole = spotnik_ring_own(&ring);
        uint64_t until = whole.offset + whole.count < to ? whole.offset + whole.count : to;
        sum(flat, number, bucket, out + (at - from) * bucket->one, segment, at, until);
        at = until;
    }
}

static void sum_slice(struct spotnik_flat *flat, uint32_t number,
                      struct spotnik_flat_bucket *bucket)
{
    const struct spotnik_flat_order *order = &bucket->order;
    uint64_t from = bucket->at / bucket->one, to = bucket->end / bucket->one;
    uint64_t most = flat->limits.slice_bytes / bucket->one;
    uint8_t *out = bucket->small ? order->out : (uint8_t *)order->result_area - bucket->begin;
    if (to - from > most)
        to = from + most;
    spotnik_flat_add(flat, number, bucket, out + from * bucket->one, from, to);
    bucket->at = to * bucket->one;
}

static enum spotnik_flat_verdict finished(struct spotnik_flat *flat,
                                          struct spotnik_flat_bucket *bucket)
{
    bucket->phase = SPOTNIK_FLAT_DONE;
    flat->active--;
    return SPOTNIK_FLAT_READY;
}

enum spotnik_flat_verdict spotnik_flat_stale(struct spotnik_flat_bucket *bucket)
{
    bucket->phase = SPOTNIK_FLAT_STALE;
    return SPOTNIK_FLAT_BLOCKED;
}

uint64_t spotnik_flat_weights(const struct spotnik_flat *flat, uint32_t number,
                              const struct spotnik_flat_bucket *bucket)
{
    uint64_t sum = 0;
    for (uint32_t rank = 0; rank < flat->size; rank++)
        sum += slot_of(flat->peer[rank].header, number, bucket->order.step)->weight;
    return sum;
}

enum spotnik_flat_verdict spotnik_flat_summed(struct spotnik_flat *flat,
                                              struct spotnik_flat_bucket *bucket)
{
    bucket->phase = SPOTNIK_FLAT_SUMMED;
    flat->active--;
    return SPOTNIK_FLAT_READY;
}

static enum spotnik_flat_verdict share_done(struct spotnik_flat *flat, uint32_t number,
                                            struct spotnik_flat_bucket *bucket)
{
    bucket->phase = SPOTNIK_FLAT_SPREAD;
    bucket->seen = 0;
    spotnik_shm_header_put_up(&slot_of(own(flat), number, bucket->order.step)->result,
                              bucket->order.sequence);
    spotnik_flat_wake(flat);
    return SPOTNIK_FLAT_MORE;
}

static enum spotnik_flat_verdict reduce_slice(struct spotnik_flat *flat, uint32_t number,
                                              struct spotnik_flat_bucket *bucket)
{
    if (bucket->at < bucket->end)
        sum_slice(flat, number, bucket);
    if (bucket->at < bucket->end)
        return SPOTNIK_FLAT_MORE;
    bucket->weight_sum = spotnik_flat_weights(flat, number, bucket);
    if (!spotnik_flat_inputs_stood(flat, number, bucket))
        return spotnik_flat_stale(bucket);
    if (bucket->small)
        return bucket->order.part == SPOTNIK_FLAT_HOLDER ? spotnik_flat_summed(flat, bucket)
                                                         : finished(flat, bucket);
    return share_done(flat, number, bucket);
}

static enum spotnik_flat_verdict gather(struct spotnik_flat *flat, uint32_t number,
                                        struct spotnik_flat_bucket *bucket)
{
    enum spotnik_flat_verdict verdict = spotnik_flat_look_round(flat, number, bucket);
    if (verdict != SPOTNIK_FLAT_MORE)
        return verdict;
    bucket->phase = SPOTNIK_FLAT_REDUCE;
    bucket->at = bucket->begin;
    return reduce_slice(flat, number, bucket);
}

static enum spotnik_flat_verdict spread(struct spotnik_flat *flat, uint32_t number,
                                        struct spotnik_flat_bucket *bucket)
{
    enum spotnik_flat_verdict verdict = spotnik_flat_look_round(flat, number, bucket);
    return verdict == SPOTNIK_FLAT_MORE ? finished(flat, bucket) : verdict;
}

/* ---- one host of several ---- */

void spotnik_flat_spread(struct spotnik_flat *flat, uint32_t number, const void *result)
{
    struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    SPOTNIK_ASSERT(bucket->phase == SPOTNIK_FLAT_SUMMED);
    if (bucket->bytes > 0 && result != bucket->order.whole_area)
        memcpy(bucket->order.whole_area, result, bucket->bytes);
    spotnik_shm_header_put_up(&whole_of(own(flat), number, bucket->order.step)->sequence,
                              bucket->order.sequence);
    spotnik_flat_wake(flat);
    bucket->phase = SPOTNIK_FLAT_DONE;
}

/* Small: copied out of the holder's memory, and looked at again. Large: stays there. */
static enum spotnik_flat_verdict await(struct spotnik_flat *flat, uint32_t number,
                                       struct spotnik_flat_bucket *bucket)
{
    struct spotnik_shm_header *holder = flat->peer[0].header;
    const struct spotnik_shm_header_whole *whole = whole_of(holder, number, bucket->order.step);
    const struct spotnik_shm_header_slot *slot = slot_of(holder, number, bucket->order.step);
    uint64_t sequence = bucket->order.sequence;
    bool is_whole = spotnik_shm_header_hangs(&whole->sequence, sequence);
    if (!is_whole && spotnik_flat_more_is_shown(flat, number, bucket))
        return SPOTNIK_FLAT_PART;
    if (!is_whole)
        return lacks(holder, &slot->input, sequence)
                       /* it has committed, and taken its input down */
                       && !spotnik_shm_header_hangs(&whole->sequence, sequence)
                   ? spotnik_flat_differs(flat, 0, NULL)
                   : SPOTNIK_FLAT_BLOCKED;
    if (!spotnik_flat_is_within(&flat->peer[0], whole->offset, bucket->bytes))
        return spotnik_flat_differs(flat, 0, slot);
    if (bucket->small && bucket->bytes > 0)
        memcpy(bucket->order.out, spotnik_flat_memory(flat, 0) + whole->offset, bucket->bytes);
    return spotnik_shm_header_still_hangs(&whole->sequence, sequence) ? finished(flat, bucket)
                                                                      : spotnik_flat_stale(bucket);
}

enum spotnik_flat_verdict spotnik_flat_run(struct spotnik_flat *flat, uint32_t number)
{
    struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    switch (bucket->phase) {
    case SPOTNIK_FLAT_COPY:
        return copy_slice(flat, number, bucket);
    case SPOTNIK_FLAT_GATHER:
        return gather(flat, number, bucket);
    case SPOTNIK_FLAT_REDUCE:
        return reduce_slice(flat, number, bucket);
    case SPOTNIK_FLAT_SPREAD:
        return spread(flat, number, bucket);
    case SPOTNIK_FLAT_PIPELINE:
        return spotnik_flat_pipeline_run(flat, number, bucket);
    case SPOTNIK_FLAT_AWAIT:
        return await(flat, number, bucket);
    case SPOTNIK_FLAT_IDLE:
    case SPOTNIK_FLAT_SUMMED:
    case SPOTNIK_FLAT_DONE:
    case SPOTNIK_FLAT_STALE:
        break;
    }
    return SPOTNIK_FLAT_BLOCKED;
}

uint32_t spotnik_flat_awaits(const struct spotnik_flat *flat, uint32_t number, uint32_t ret_rank[2])
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    bool waits = bucket->phase == SPOTNIK_FLAT_GATHER || bucket->phase == SPOTNIK_FLAT_SPREAD;
    if (bucket->phase == SPOTNIK_FLAT_PIPELINE)
        return spotnik_flat_pipeline_awaits(flat, number, bucket, ret_rank);
    ret_rank[0] = bucket->phase == SPOTNIK_FLAT_AWAIT ? 0 : awaited(flat, bucket);
    return bucket->phase == SPOTNIK_FLAT_AWAIT || (waits && bucket->seen + 1 < flat->size);
}

const uint64_t *spotnik_flat_awaited_sequence(const struct spotnik_flat *flat, uint32_t number)
{
    const struct spotnik_flat_bucket *bucket = &flat->bucket[number];
    uint64_t step = bucket->order.step;
    switch (bucket->phase) {
    case SPOTNIK_FLAT_GATHER:
        return &slot_of(flat->peer[awaited(flat, bucket)].header, number, step)->input;
    case SPOTNIK_FLAT_SPREAD:
        return &slot_of(flat->peer[awaited(flat, bucket)].header, number, step)->result;
    case SPOTNIK_FLAT_AWAIT:
        return &whole_of(flat->peer[0].header, number, step)->sequence;
    default:
        return NULL;
    }
}

/* ---- the end of a step, and of a view ---- */

void spotnik_flat_commit(struct spotnik_flat *flat)
{
    for (uint32_t i = 0; i < flat->last; i++) {
        struct spotnik_flat_bucket *bucket = &flat->bucket[i];
        SPOTNIK_ASSERT(!spotnik_flat_is_active(flat, i));
        if (bucket->phase == SPOTNIK_FLAT_DONE && !bucket->small)
            spotnik_shm_header_take_down(&slot_of(own(flat), i, bucket->order.step)->input);
        bucket->phase = SPOTNIK_FLAT_IDLE;
    }
    flat->last = 0;
}

void spotnik_flat_cut(struct spotnik_flat *flat)
{
    if (flat->peer != NULL) {
        spotnik_shm_header_put_up(&own(flat)->sealed, 0);
        for (uint32_t i = 0; i < SPOTNIK_BOARD_BUCKETS; i++)
            for (int parity = 0; parity < 2; parity++)
                spotnik_shm_header_put_up(&own(flat)->slot[i][parity].input, 0);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    }
    for (uint32_t i = 0; i < flat->last; i++)
        flat->bucket[i].phase = SPOTNIK_FLAT_IDLE;
    flat->last = flat->active = flat->copying = 0;
    flat->sealing = 0;
}
