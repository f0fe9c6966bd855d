/* SPDX-License-Identifier: Apache-2.0 */
/* The ring schedule, played out: every N from 1 to 9, every length from nothing to three chunks a
 * segment and one more. An "addition" here is x * 31 + y, which depends on the order, and every
 * element carries the set of its contributors. So a wrong order, a missing or double contribution,
 * and a chunk sent too early all show. */
#include "ring/ring.h"

#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define N_MAX 9
#define CHUNK_MAX 3
#define COUNT_MAX (N_MAX * 3 * CHUNK_MAX + 1)
#define QUEUE_MAX 64

struct element {
    uint64_t value;
    uint32_t contributors; /* bit per rank */
};

struct rank {
    struct spotnik_ring ring;
    uint64_t sent, received;
    struct element in[COUNT_MAX], out[COUNT_MAX];
    uint32_t moves[COUNT_MAX][2]; /* receptions of this element: while reducing, while copying */
    /* the stream from the predecessor, chunks on their way */
    struct element queue[QUEUE_MAX][CHUNK_MAX];
    uint32_t queue_begin, queue_end;
};

struct game {
    uint32_t size;
    uint64_t count;
    struct rank rank[N_MAX];
    struct spotnik_prng prng;
};

static struct game game;

static void game_start(uint32_t size, uint64_t count, uint64_t chunk_count)
{
    memset(&game, 0, sizeof game);
    game.size = size;
    game.count = count;
    spotnik_prng_seed(&game.prng, size * 1000003 + count * 1009 + chunk_count);
    for (uint32_t r = 0; r < size; r++) {
        game.rank[r].ring = spotnik_ring_make(size, r, count, chunk_count);
        for (uint64_t i = 0; i < count; i++)
            game.rank[r].in[i] = (struct element){ spotnik_prng_next(&game.prng), 1u << r };
    }
}

/* Rank `first` contributes first, then its successors round the ring. */
static uint64_t expected_value(uint64_t i, uint32_t first)
{
    uint64_t value = game.rank[first].in[i].value;

    for (uint32_t k = 1; k < game.size; k++)
        value = value * 31 + game.rank[(first + k) % game.size].in[i].value;
    return value;
}

/* Does the rank hold what chunk q must carry: hop + 1 contributions, all of them when copying? */
static bool has_content(const struct rank *self, const struct spotnik_ring_chunk *chunk)
{
    uint32_t wanted = chunk->hop + 1 < game.size ? chunk->hop + 1 : game.size;

    for (uint64_t i = chunk->offset; i < chunk->offset + chunk->count; i++)
        if ((uint32_t)__builtin_popcount(self->out[i].contributors) != wanted)
            return false;
    return true;
}

static bool try_send(uint32_t r)
{
    struct rank *self = &game.rank[r], *next = &game.rank[(r + 1) % game.size];

    if (self->sent == spotnik_ring_total(&self->ring)
        || next->queue_end - next->queue_begin == QUEUE_MAX)
        return false;
    struct spotnik_ring_chunk chunk = spotnik_ring_sent(&self->ring, self->sent);
    bool ready = spotnik_ring_ready(&self->ring, self->sent, self->received);
    if (chunk.hop > 0 && chunk.count > 0)
        assert_int_equal(ready, has_content(self, &chunk));
    if (!ready)
        return false;
    const struct element *from = chunk.hop == 0 ? self->in : self->out;
    assert_true(chunk.count <= CHUNK_MAX);
    memcpy(next->queue[next->queue_end++ % QUEUE_MAX], from + chunk.offset,
           chunk.count * sizeof *from);
    self->sent++;
    return true;
}

static struct element combine(struct element received, struct element own)
{
    assert_int_equal(received.contributors & own.contributors, 0);
    return (struct element){ received.value * 31 + own.value,
                             received.contributors | own.contributors };
}

static bool try_receive(uint32_t r)
{
    struct rank *self = &game.rank[r];

    if (self->queue_begin == self->queue_end)
        return false;
    const struct element *from = self->queue[self->queue_begin++ % QUEUE_MAX];
    struct spotnik_ring_chunk chunk = spotnik_ring_received(&self->ring, self->received++);
    for (uint64_t k = 0; k < chunk.count; k++) {
        uint64_t i = chunk.offset + k;
        bool copies = chunk.kind == SPOTNIK_RING_COPY;
        self->out[i] = copies ? from[k] : combine(from[k], self->in[i]);
        self->moves[i][copies]++;
        uint32_t contributors = (uint32_t)__builtin_popcount(self->out[i].contributors);
        assert_int_equal(chunk.kind == SPOTNIK_RING_REDUCE, contributors < game.size);
    }
    return true;
}

/* In an order drawn by lot, until nobody can move. */
static void game_play(void)
{
    for (uint32_t idle = 0; idle < 2 * game.size;) {
        uint32_t first = (uint32_t)spotnik_prng_below(&game.prng, 2 * game.size);
        for (idle = 0; idle < 2 * game.size; idle++) {
            uint32_t turn = (first + idle) % (2 * game.size);
            if (turn < game.size ? try_send(turn) : try_receive(turn - game.size))
                break;
        }
    }
}

/* The segment of element i, by the definition: the first count mod N segments are one longer. */
static uint32_t segment_of(uint64_t i)
{
    uint64_t quotient = game.count / game.size, longer = game.count % game.size;

    if (i < longer * (quotient + 1))
        return (uint32_t)(i / (quotient + 1));
    return (uint32_t)(longer + (i - longer * (quotient + 1)) / quotient);
}

static void game_check(void)
{
    uint32_t everybody = (1u << game.size) - 1;

    for (uint32_t r = 0; r < game.size; r++) {
        struct rank *self = &game.rank[r];
        assert_int_equal(self->sent, spotnik_ring_total(&self->ring));
        assert_int_equal(self->received, spotnik_ring_total(&self->ring));
        for (uint64_t i = 0; i < game.count && game.size > 1; i++) {
            uint32_t segment = segment_of(i);
            assert_int_equal(self->out[i].contributors, everybody);
            assert_int_equal(self->out[i].value, expected_value(i, segment));
            /* Nobody receives its own first contribution; nobody receives the result it finished
             * itself. */
            assert_int_equal(self->moves[i][0], segment != r);
            assert_int_equal(self->moves[i][1], segment != (r + 1) % game.size);
        }
    }
}

TEST(every_rank_ends_with_the_sum_in_one_order)
{
    for (uint32_t size = 1; size <= N_MAX; size++)
        for (uint64_t chunk_count = 1; chunk_count <= CHUNK_MAX; chunk_count++)
            for (uint64_t count = 0; count <= size * 3 * chunk_count + 1; count++) {
                game_start(size, count, chunk_count);
                game_play();
                game_check();
            }
}

static void assert_chunk_equal(struct spotnik_ring_chunk a, struct spotnik_ring_chunk b)
{
    assert_int_equal(a.offset, b.offset);
    assert_int_equal(a.count, b.count);
    assert_int_equal(a.hop, b.hop);
    assert_int_equal(a.kind, b.kind);
}

TEST(both_ends_of_a_stream_agree)
{
    for (uint32_t size = 2; size <= N_MAX; size++)
        for (uint64_t count = 0; count <= size * 6 + 1; count++)
            for (uint32_t r = 0; r < size; r++) {
                struct spotnik_ring sender = spotnik_ring_make(size, r, count, 2);
                struct spotnik_ring receiver = spotnik_ring_make(size, (r + 1) % size, count, 2);
                assert_int_equal(spotnik_ring_total(&sender), spotnik_ring_total(&receiver));
                for (uint64_t q = 0; q < spotnik_ring_total(&sender); q++)
                    assert_chunk_equal(spotnik_ring_sent(&sender, q),
                                       spotnik_ring_received(&receiver, q));
            }
}

/* Chunks of one hop lie one after the other and make up one segment; hop 0 is the rank's own. */
TEST(a_hop_is_one_segment)
{
    for (uint32_t size = 2; size <= N_MAX; size++)
        for (uint64_t count = 0; count <= size * 9 + 1; count++) {
            struct spotnik_ring ring = spotnik_ring_make(size, size / 2, count, 3);
            struct spotnik_ring_chunk own = spotnik_ring_own(&ring);
            for (uint32_t hop = 0; hop < 2 * (size - 1); hop++) {
                struct spotnik_ring_chunk first = spotnik_ring_sent(&ring, hop * ring.chunks);
                uint64_t end = first.offset;
                for (uint64_t k = 0; k < ring.chunks; k++) {
                    struct spotnik_ring_chunk chunk =
                        spotnik_ring_sent(&ring, hop * ring.chunks + k);
                    assert_int_equal(chunk.hop, hop);
                    assert_int_equal(chunk.offset, end);
                    assert_true(chunk.count <= 3);
                    end = chunk.offset + chunk.count;
                }
                assert_true(end - first.offset == count / size
                            || end - first.offset == count / size + 1);
                if (hop == 0) {
                    assert_int_equal(first.offset, own.offset);
                    assert_int_equal(end, own.offset + own.count);
                }
            }
        }
}

TEST(segments_cover_the_bucket)
{
    for (uint32_t size = 1; size <= N_MAX; size++)
        for (uint64_t count = 0; count <= 40; count++) {
            uint64_t end = 0;
            for (uint32_t r = 0; r < size; r++) {
                struct spotnik_ring ring = spotnik_ring_make(size, r, count, 4);
                struct spotnik_ring_chunk own = spotnik_ring_own(&ring);
                assert_int_equal(own.offset, end);
                end += own.count;
            }
            assert_int_equal(end, count);
        }
}

TEST(a_ring_of_one_sends_nothing)
{
    struct spotnik_ring ring = spotnik_ring_make(1, 0, 100, 7);

    assert_int_equal(spotnik_ring_total(&ring), 0);
    assert_false(spotnik_ring_ready(&ring, 0, 0));
    assert_int_equal(spotnik_ring_own(&ring).count, 100);
}

TEST(readiness_ends_with_the_stream)
{
    struct spotnik_ring ring = spotnik_ring_make(3, 1, 30, 5);

    assert_int_equal(ring.chunks, 2);
    assert_int_equal(spotnik_ring_total(&ring), 8);
    assert_true(spotnik_ring_ready(&ring, 1, 0));
    assert_false(spotnik_ring_ready(&ring, 2, 0));
    assert_true(spotnik_ring_ready(&ring, 2, 1));
    assert_false(spotnik_ring_ready(&ring, 7, 5));
    assert_true(spotnik_ring_ready(&ring, 7, 6));
    assert_false(spotnik_ring_ready(&ring, 8, 8));
}

TEST(large_buckets_do_not_overflow)
{
    uint64_t count = UINT64_C(1) << 60;
    struct spotnik_ring ring = spotnik_ring_make(1000, 999, count, 1 << 16);
    uint64_t last = spotnik_ring_total(&ring) - 1;

    assert_int_equal(spotnik_ring_own(&ring).offset + spotnik_ring_own(&ring).count, count);
    assert_int_equal(spotnik_ring_sent(&ring, last).hop, 2 * 999 - 1);
    assert_true(spotnik_ring_sent(&ring, last).offset + spotnik_ring_sent(&ring, last).count
                <= count);
}
