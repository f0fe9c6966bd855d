/* SPDX-License-Identifier: Apache-2.0 */
/* The step transaction, driven whole: rings of one to six, several buckets, an in-memory mover, and
 * a lot that decides who moves next. Elements are integers, the operation a sum, so every result is
 * known exactly. */
#include "step/transaction.h"

#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define N_MAX 6
#define BUCKETS 4
#define COUNT 41
#define CHUNK_BYTES 24 /* three elements */
#define QUEUE_MAX 512

static const uint64_t counts[BUCKETS] = { COUNT, 0, 7, 1 };

struct chunk {
    uint64_t step, sequence;
    uint32_t bucket;
    bool handover;
    uint64_t payload[COUNT];
};

struct rank {
    struct spotnik_transaction step;
    uint64_t in[BUCKETS][COUNT], out[2][BUCKETS][COUNT];
    struct chunk queue[QUEUE_MAX]; /* from the predecessor */
    uint32_t begin, end;
    bool laggard; /* waits for the result of the settled step */
};

static struct rank ring[N_MAX];
static uint32_t size;
static struct spotnik_prng prng;

static uint64_t input(uint32_t rank, uint64_t step, uint32_t bucket, uint64_t i)
{
    return 1000000 * (rank + 1) + 10000 * step + 100 * bucket + i;
}

static uint64_t sum(uint32_t ranks, uint64_t step, uint32_t bucket, uint64_t i)
{
    uint64_t total = 0;
    for (uint32_t r = 0; r < N_MAX; r++)
        if (ranks >> r & 1)
            total += input(r, step, bucket, i);
    return total;
}

static void start_buckets(uint32_t r)
{
    for (uint32_t b = 0; b < BUCKETS; b++)
        spotnik_transaction_start(&ring[r].step,
                                  spotnik_transaction_bucket(&ring[r].step,
                                                             ring[r].step.committed + 1, b),
                                  size, r, CHUNK_BYTES);
}

/* The caller of rank r, known by its number in the first ring, begins a step with all its
 * buckets. */
static void begin(uint32_t r, uint32_t number)
{
    struct spotnik_transaction *step = &ring[r].step;

    spotnik_transaction_begin(step);
    for (uint32_t b = 0; b < BUCKETS; b++) {
        for (uint64_t i = 0; i < counts[b]; i++)
            ring[r].in[b][i] = input(number, step->committed + 1, b, i);
        spotnik_transaction_add(step, b, counts[b], 0, 0, sizeof(uint64_t), 1);
    }
}

static void open_ring(uint32_t ranks, uint64_t seed)
{
    memset(ring, 0, sizeof ring);
    size = ranks;
    spotnik_prng_seed(&prng, seed);
    for (uint32_t r = 0; r < size; r++)
        spotnik_transaction_init(&ring[r].step, 10);
}

static void copy_out(struct chunk *chunk, uint32_t r, struct spotnik_ring_chunk at)
{
    const uint64_t *from = at.hop == 0 && !chunk->handover
                               ? ring[r].in[chunk->bucket]
                               : ring[r].out[chunk->step & 1][chunk->bucket];
    memcpy(chunk->payload, from + at.offset, at.count * sizeof *from);
}

static struct chunk *next_slot(uint32_t r)
{
    struct rank *successor = &ring[(r + 1) % size];
    return successor->end < QUEUE_MAX ? &successor->queue[successor->end] : NULL;
}

static bool send(uint32_t r)
{
    struct chunk *chunk = next_slot(r);
    if (!chunk || size < 2
        || !spotnik_transaction_next(&ring[r].step,
                                     &(struct spotnik_towards){ .to = (r + 1) % size,
                                                                .successor = true },
                                     &chunk->step, &chunk->bucket, &chunk->sequence))
        return false;
    struct spotnik_bucket *bucket =
        spotnik_transaction_bucket(&ring[r].step, chunk->step, chunk->bucket);
    chunk->handover = false;
    copy_out(chunk, r, spotnik_ring_sent(&bucket->ring, chunk->sequence));
    ring[(r + 1) % size].end++;
    return true;
}

static bool hand_over(uint32_t r, uint64_t number)
{
    struct chunk *chunk = next_slot(r);
    if (!chunk
        || !spotnik_transaction_next_handover(&ring[r].step, number, CHUNK_BYTES, &chunk->bucket,
                                              &chunk->sequence))
        return false;
    struct spotnik_bucket *bucket =
        spotnik_transaction_bucket(&ring[r].step, number, chunk->bucket);
    chunk->handover = true;
    chunk->step = number;
    copy_out(chunk, r, spotnik_transaction_handover_chunk(bucket, CHUNK_BYTES, chunk->sequence));
    ring[(r + 1) % size].end++;
    return true;
}

static void drop(struct rank *rank)
{
    if (++rank->begin == rank->end)
        rank->begin = rank->end = 0;
}

/* The head of the queue, unless its step has not been begun here. */
static bool receive(uint32_t r)
{
    struct rank *rank = &ring[r];
    struct chunk *chunk = &rank->queue[rank->begin];
    struct spotnik_ring_chunk at;

    if (rank->begin == rank->end || !rank->step.begun || chunk->step != rank->step.committed + 1)
        return false;
    struct spotnik_bucket *bucket =
        spotnik_transaction_bucket(&rank->step, chunk->step, chunk->bucket);
    uint64_t *out = rank->out[chunk->step & 1][chunk->bucket];
    if (chunk->handover && bucket->complete) {
        drop(rank); /* reduced before the view changed: the same bits */
        return true;
    }
    if (chunk->handover) {
        assert_int_equal(chunk->sequence, bucket->handover_received);
        at = spotnik_transaction_handover_chunk(bucket, CHUNK_BYTES, chunk->sequence);
    } else {
        assert_int_equal(chunk->sequence, bucket->received);
        at = spotnik_ring_received(&bucket->ring, chunk->sequence);
    }
    for (uint64_t i = 0; i < at.count; i++)
        out[at.offset + i] =
            chunk->payload[i]
            + (at.kind == SPOTNIK_RING_COPY ? 0 : rank->in[chunk->bucket][at.offset + i]);
    bool complete = chunk->handover
                        ? spotnik_transaction_receive_handover(&rank->step, bucket, CHUNK_BYTES)
                        : spotnik_transaction_receive(&rank->step, bucket);
    assert_int_equal(complete, bucket->complete);
    drop(rank);
    return true;
}

static bool commit(uint32_t r)
{
    struct rank *rank = &ring[r];
    if (!spotnik_transaction_done(&rank->step))
        return false;
    if (size == 1)
        memcpy(rank->out[(rank->step.committed + 1) & 1], rank->in, sizeof rank->in);
    spotnik_transaction_commit(&rank->step);
    return true;
}

static void assert_result(uint32_t r, uint64_t step, uint32_t ranks)
{
    for (uint32_t b = 0; b < BUCKETS; b++)
        for (uint64_t i = 0; i < counts[b]; i++)
            assert_true(ring[r].out[step & 1][b][i] == sum(ranks, step, b, i));
}

static uint32_t all(void)
{
    return (1u << size) - 1;
}

/* One move of a rank drawn by lot: begin the next step, send, receive or commit. */
static void move(uint64_t last)
{
    uint32_t r = (uint32_t)spotnik_prng_below(&prng, size);
    struct spotnik_transaction *step = &ring[r].step;

    switch (spotnik_prng_below(&prng, 4)) {
    case 0:
        send(r);
        break;
    case 1:
        receive(r);
        break;
    case 2:
        if (commit(r))
            assert_result(r, step->committed, all());
        break;
    default:
        if (step->begun || step->committed == last)
            break;
        begin(r, r);
        start_buckets(r);
        step->sealed = true;
    }
}

static bool all_committed(uint64_t step)
{
    for (uint32_t r = 0; r < size; r++)
        if (ring[r].step.committed < step)
            return false;
    return true;
}

/* Chunks of the committed step that the successor still lacks. */
static bool has_tail(uint32_t r)
{
    struct spotnik_transaction *step = &ring[r].step;
    for (uint32_t b = 0; b < BUCKETS; b++) {
        struct spotnik_bucket *bucket = spotnik_transaction_bucket(step, step->committed, b);
        if (bucket->used && bucket->sent < spotnik_ring_total(&bucket->ring))
            return true;
    }
    return false;
}

/* Claim: whoever moves when, every rank commits the exact sum in every step; ranks differ by at
 * most one committed step, so the tail of a committed step goes on being sent while the next has
 * begun. */
TEST(rings)
{
    uint32_t tails = 0;

    for (uint32_t n = 1; n <= N_MAX; n++)
        for (uint64_t seed = 0; seed < 30; seed++) {
            open_ring(n, 1000 * n + seed);
            for (uint32_t moves = 0; !all_committed(14); moves++) {
                assert_true(moves < 200000);
                move(14);
                uint64_t low = UINT64_MAX, high = 0;
                for (uint32_t r = 0; r < n; r++) {
                    uint64_t committed = ring[r].step.committed;
                    low = committed < low ? committed : low;
                    high = committed > high ? committed : high;
                    tails += ring[r].step.begun && has_tail(r);
                }
                assert_true(high - low <= 1);
            }
        }
    assert_true(tails > 100);
}

/* Rank `lost` is gone: the ring closes over it. Nothing on its way counts any more. */
static void close_over(uint32_t lost)
{
    for (uint32_t r = lost; r + 1 < size; r++)
        ring[r] = ring[r + 1];
    size--;
    for (uint32_t r = 0; r < size; r++)
        ring[r].begin = ring[r].end = 0;
}

/* Claim: interrupted anywhere and started again on the ring without one of them, the step commits
 * the exact sum of the rest, as if it had begun there; the inputs are as they were. */
TEST(restart)
{
    for (uint32_t n = 2; n <= N_MAX; n++)
        for (uint64_t seed = 0; seed < 60; seed++) {
            open_ring(n, 77 * n + seed);
            for (uint32_t r = 0; r < n; r++) {
                begin(r, r);
                start_buckets(r);
                ring[r].step.sealed = true;
            }
            for (uint64_t moves = spotnik_prng_below(&prng, 600); moves > 0; moves--) {
                uint32_t r = (uint32_t)spotnik_prng_below(&prng, n);
                spotnik_prng_chance(&prng, 1, 2) ? send(r) : receive(r);
            }
            uint32_t lost = (uint32_t)spotnik_prng_below(&prng, n), rest = all() & ~(1u << lost);
            close_over(lost);
            for (uint32_t r = 0; r < size; r++) {
                spotnik_transaction_cut(&ring[r].step);
                start_buckets(r);
            }
            for (uint32_t moves = 0; !all_committed(11); moves++) {
                uint32_t r = (uint32_t)spotnik_prng_below(&prng, size);
                assert_true(moves < 100000);
                send(r);
                receive(r);
                commit(r);
            }
            for (uint32_t r = 0; r < size; r++) {
                uint32_t number = r + (r >= lost);
                assert_result(r, 11, rest);
                for (uint32_t b = 0; b < BUCKETS; b++)
                    for (uint64_t i = 0; i < counts[b]; i++)
                        assert_true(ring[r].in[b][i] == input(number, 11, b, i));
            }
        }
}

static void move_data(uint32_t r)
{
    if (!send(r))
        receive(r);
}

/* What was not finished may hold anything. */
static void spoil(uint32_t r)
{
    for (uint32_t b = 0; b < BUCKETS; b++)
        if (ring[r].laggard && !spotnik_transaction_bucket(&ring[r].step, 11, b)->complete)
            memset(ring[r].out[1][b], 0xEE, sizeof ring[r].out[1][b]);
}

/* Claim: a chain of laggards behind one holder is served through one another, an empty bucket
 * included, while nothing is taken from the old ring; all end with the holder's bits. */
TEST(handover_chain)
{
    uint32_t chains = 0;

    for (uint32_t n = 2; n <= N_MAX; n++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            open_ring(n, 5 * n + seed);
            for (uint32_t r = 0; r < n; r++) {
                begin(r, r);
                start_buckets(r);
                ring[r].step.sealed = true;
            }
            while (!commit(0))
                move_data((uint32_t)spotnik_prng_below(&prng, n));
            for (uint32_t r = 0; r < n; r++) {
                ring[r].laggard = ring[r].step.committed == 10;
                ring[r].begin = ring[r].end = 0;
                spotnik_transaction_cut(&ring[r].step);
                spoil(r);
                chains += r >= 2 && ring[r].laggard && ring[r - 1].laggard;
            }
            for (uint32_t moves = 0; !all_committed(11); moves++) {
                uint32_t r = (uint32_t)spotnik_prng_below(&prng, n);
                assert_true(moves < 100000);
                assert_false(send(r));
                if (ring[(r + 1) % n].laggard)
                    hand_over(r, 11);
                receive(r);
                commit(r);
            }
            for (uint32_t r = 0; r < n; r++)
                assert_result(r, 11, all());
        }
    assert_true(chains > 20);
}

/* Claim: a laggard whose caller has not begun the step has nothing to pass on, and asks for
 * nothing. */
TEST(handover_before_begin)
{
    uint32_t bucket;
    uint64_t sequence;

    open_ring(2, 1);
    assert_false(spotnik_transaction_next_handover(&ring[0].step, 11, CHUNK_BYTES, &bucket,
                                                   &sequence));
    begin(0, 0);
    assert_false(spotnik_transaction_next_handover(&ring[0].step, 11, CHUNK_BYTES, &bucket,
                                                   &sequence));
}

/* Claim: hand-over chunks cover a bucket once, in order; an empty one is one empty chunk; an
 * element larger than a chunk goes alone. */
TEST(handover_chunks)
{
    for (uint64_t count = 0; count < 20; count++)
        for (uint32_t bytes = 8; bytes <= 40; bytes += 8) {
            struct spotnik_bucket bucket = { .used = true, .count = count, .element_bytes = 16 };
            uint64_t total = spotnik_transaction_handover_total(&bucket, bytes), at = 0;
            assert_true(total >= 1);
            for (uint64_t q = 0; q < total; q++) {
                struct spotnik_ring_chunk chunk =
                    spotnik_transaction_handover_chunk(&bucket, bytes, q);
                assert_int_equal(chunk.offset, at);
                assert_int_equal(chunk.kind, SPOTNIK_RING_COPY);
                assert_true(chunk.count > 0 || count == 0);
                assert_true(chunk.count * 16 <= bytes || chunk.count == 1);
                at += chunk.count;
            }
            assert_int_equal(at, count);
        }
}

/* Claim: nothing is done before it is sealed, and a bucket may be added as long as it is not. */
TEST(seal)
{
    struct spotnik_transaction *step = &ring[0].step;

    open_ring(1, 0);
    assert_false(spotnik_transaction_done(step));
    begin(0, 0);
    start_buckets(0);
    assert_false(spotnik_transaction_done(step));
    spotnik_transaction_add(step, 200, 5, 0, 0, 8, 1);
    step->sealed = true;
    assert_false(spotnik_transaction_done(step)); /* added, not started */
    spotnik_transaction_start(step, spotnik_transaction_bucket(step, 11, 200), 1, 0, CHUNK_BYTES);
    assert_true(spotnik_transaction_done(step));
    spotnik_transaction_commit(step);
    assert_int_equal(step->committed, 11);
    assert_false(step->begun);
    spotnik_transaction_begin(step);
    /* the committed generation stays */
    assert_true(spotnik_transaction_bucket(step, 11, 200)->used);
    step->sealed = true;
    spotnik_transaction_commit(step);
    spotnik_transaction_begin(step);
    assert_false(spotnik_transaction_bucket(step, 13, 200)->used); /* until its place is needed */
}
