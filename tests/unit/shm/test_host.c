/* SPDX-License-Identifier: Apache-2.0 */
/* Members of one host of several: the holder gets their sum and nobody else gets anything, until
 * the holder spreads the result of all; and nothing of another view is taken for a share or for a
 * result. */
#include "shm/flat.h"

#include <stdlib.h>
#include <string.h>

#include "tests.h"

#define MEMBERS_MAX 5
#define AREA 4096
#define AREAS 5 /* input, share and whole; small inputs and shares by parity are not needed here */
#define BUCKET 7

struct member {
    struct spotnik_shm_header *header;
    struct spotnik_flat flat;
    struct spotnik_flat_peer peer[MEMBERS_MAX];
    struct spotnik_reduce_source source[MEMBERS_MAX];
    float in[256], out[256];
};

struct host {
    uint32_t size, hosts, place;
    uint64_t chunk_count;
    struct member member[MEMBERS_MAX];
};

static uint8_t *area(const struct member *member, int which)
{
    return (uint8_t *)member->header + sizeof(struct spotnik_shm_header) + which * AREA;
}

static struct host *host_new(uint32_t size, size_t small_bytes)
{
    struct host *host = calloc(1, sizeof *host);
    host->size = size;
    host->hosts = 2;
    host->chunk_count = 7;
    for (uint32_t i = 0; i < size; i++) {
        struct member *member = &host->member[i];
        member->header = calloc(1, sizeof(struct spotnik_shm_header) + AREAS * AREA);
        spotnik_shm_header_init(member->header, 1, i, 0);
        member->flat.limits = (struct spotnik_flat_limits){ small_bytes, 16, 24, 0 };
        for (int k = 0; k < 256; k++)
            member->in[k] = 0.1f * (float)(i + 1) + 1.7f * (float)k;
    }
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t k = 0; k < size; k++)
            host->member[i].peer[k] =
                (struct spotnik_flat_peer){ host->member[k].header,
                                            sizeof(struct spotnik_shm_header) + AREAS * AREA };
        spotnik_flat_view(&host->member[i].flat, host->member[i].peer, host->member[i].source, i,
                          size);
    }
    return host;
}

static void host_free(struct host *host)
{
    for (uint32_t i = 0; i < host->size; i++)
        free(host->member[i].header);
    free(host);
}

static void start(struct host *host, uint32_t index, uint64_t epoch, uint64_t count, uint8_t op)
{
    struct member *member = &host->member[index];
    struct spotnik_flat_order order = { .part =
                                            index == 0 ? SPOTNIK_FLAT_HOLDER : SPOTNIK_FLAT_SERVED,
                                        .sequence = spotnik_shm_header_sequence(epoch, 5),
                                        .step = 5,
                                        .count = count,
                                        .weight = op == SPOTNIK_MEAN ? index + 1 : 1,
                                        .dtype = SPOTNIK_F32,
                                        .op = op,
                                        .in = member->in,
                                        .input_area = area(member, 0),
                                        .result_area = area(member, 1),
                                        .hosts = host->hosts,
                                        .host = host->place,
                                        .chunk_count = host->chunk_count,
                                        .whole_area = index == 0 ? area(member, 2) : NULL,
                                        .out = member->out };
    spotnik_flat_start(&member->flat, BUCKET, &order);
}

/* As long as anything gets on. Returns a bit for each that became ready. */
static uint32_t run_all(struct host *host)
{
    uint32_t ready = 0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < host->size; i++) {
            struct spotnik_flat *flat = &host->member[i].flat;
            if (!spotnik_flat_is_active(flat, BUCKET))
                continue;
            enum spotnik_flat_verdict verdict = spotnik_flat_run(flat, BUCKET);
            ready |= (uint32_t)(verdict == SPOTNIK_FLAT_READY) << i;
            any |= verdict != SPOTNIK_FLAT_BLOCKED;
            assert_int_not_equal(verdict, SPOTNIK_FLAT_MISMATCH);
        }
    }
    return ready;
}

/* From the rank of its segment on, weighted and not divided. */
static float expected(const struct host *host, uint64_t count, uint64_t at, uint8_t op)
{
    uint64_t begin = 0;
    uint32_t segment = 0;
    float sum = 0;
    while (at >= begin + count / host->size + (segment < count % host->size))
        begin += count / host->size + (segment++ < count % host->size);
    for (uint32_t i = 0; i < host->size; i++) {
        uint32_t rank = (segment + i) % host->size;
        float weight = op == SPOTNIK_MEAN ? (float)(rank + 1) : 1;
        float term = weight == 1 ? host->member[rank].in[at] : weight * host->member[rank].in[at];
        sum = i == 0 ? term : sum + term;
    }
    return sum;
}

static void check_sum(struct host *host, uint64_t count, uint8_t op)
{
    const struct member *holder = &host->member[0];
    uint64_t weights = op == SPOTNIK_MEAN ? host->size * (host->size + 1) / 2 : host->size;
    assert_int_equal(holder->flat.bucket[BUCKET].weight_sum, weights);
    for (uint64_t at = 0; at < count; at++)
        assert_true(holder->out[at] == expected(host, count, at, op));
}

static void check_spread(struct host *host, uint64_t count, bool small)
{
    float result[256];
    for (int i = 0; i < 256; i++)
        result[i] = 1000.0f + (float)i;
    spotnik_flat_spread(&host->member[0].flat, BUCKET, result);
    assert_int_equal(run_all(host), ((1u << host->size) - 1) & ~1u);
    for (uint32_t i = 1; i < host->size; i++)
        assert_memory_equal(small ? (void *)host->member[i].out : area(&host->member[0], 2), result,
                            count * sizeof(float));
    for (uint32_t i = 0; i < host->size; i++) {
        spotnik_flat_commit(&host->member[i].flat);
        assert_int_equal(host->member[i].flat.active, 0);
    }
}

/* Claim: two to five members, lengths from nothing to many pages, small and large, sums and
 * weighted means: the sum is the holder's alone, with all weights, and the result comes to the
 * others only when it is spread. */
TEST(sum_then_spread)
{
    static const uint64_t counts[] = { 0, 1, 2, 3, 5, 8, 31, 64, 65, 250 };
    for (uint32_t size = 2; size <= MEMBERS_MAX; size++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int small = 0; small < 2; small++)
                for (int op = SPOTNIK_SUM; op <= SPOTNIK_MEAN; op++) {
                    struct host *host = host_new(size, small ? 4096 : 0);
                    host->hosts = 2 + (uint32_t)c % 3;
                    host->chunk_count = 1 + c;
                    for (uint32_t i = 0; i < size; i++)
                        start(host, i, 1, counts[c], (uint8_t)op);
                    assert_int_equal(run_all(host), 1);
                    check_sum(host, counts[c], (uint8_t)op);
                    check_spread(host, counts[c], small || counts[c] == 0);
                    host_free(host);
                }
}

/* Claim: whoever is missing, the holder has no sum; and what members of another view put up is
 * nothing to it. */
TEST(everybody_is_needed)
{
    for (int small = 0; small < 2; small++)
        for (uint32_t missing = 0; missing < 3; missing++) {
            struct host *host = host_new(3, small ? 4096 : 0);
            for (uint32_t i = 0; i < 3; i++)
                start(host, i, i == missing ? 2 : 1, 100, SPOTNIK_SUM);
            assert_int_equal(run_all(host), 0);
            host_free(host);
        }
}

/* Claim: the sum comes to the holder piece by piece, while inputs are still being copied, and what
 * it is told is there is there: the first chunks of every segment of the ring of hosts. */
TEST(pieces)
{
    struct host *host = host_new(3, 0);
    struct spotnik_ring ring = spotnik_ring_make(host->hosts, 0, 250, host->chunk_count);
    uint32_t parts = 0;
    for (uint32_t i = 0; i < 3; i++)
        start(host, i, 1, 250, SPOTNIK_SUM);
    while (host->member[0].flat.bucket[BUCKET].phase != SPOTNIK_FLAT_SUMMED)
        for (uint32_t i = 0; i < 3; i++) {
            struct spotnik_flat *flat = &host->member[i].flat;
            if (!spotnik_flat_is_active(flat, BUCKET)
                || spotnik_flat_run(flat, BUCKET) != SPOTNIK_FLAT_PART)
                continue;
            assert_int_equal(i, 0);
            assert_true(flat->bucket[BUCKET].copy.pieces < flat->bucket[BUCKET].pieces
                        || parts > 0);
            assert_int_equal(spotnik_flat_collected(flat, BUCKET),
                             ++parts * flat->bucket[BUCKET].grain);
            for (uint32_t segment = 0; segment < host->hosts; segment++)
                for (uint64_t k = 0; k < spotnik_flat_collected(flat, BUCKET); k++) {
                    struct spotnik_ring_chunk chunk = spotnik_ring_at(&ring, segment, k);
                    for (uint64_t at = chunk.offset; at < chunk.offset + chunk.count; at++)
                        assert_true(host->member[0].out[at]
                                    == expected(host, 250, at, SPOTNIK_SUM));
                }
        }
    assert_in_range(parts, 4, 15);
    assert_true(spotnik_flat_collected(&host->member[0].flat, BUCKET) == UINT64_MAX);
    host_free(host);
}

/* One slice each, in turn. True: the holder has the whole sum. */
static bool run_slice(struct host *host, uint32_t turn)
{
    struct spotnik_flat *flat = &host->member[turn % host->size].flat;
    return spotnik_flat_is_active(flat, BUCKET)
           && spotnik_flat_run(flat, BUCKET) == SPOTNIK_FLAT_READY;
}

/* Claim: at whatever moment a member goes on to another view, and writes other inputs and sums to
 * its memory, what the holder is told is there is the sum of its own view: and unless all of it was
 * there, it never is. */
TEST(overwritten)
{
    bool summed = false;
    uint32_t stale = 0;
    for (uint32_t slices = 0; !summed; slices++) {
        struct host *host = host_new(3, 0);
        struct spotnik_ring ring = spotnik_ring_make(host->hosts, 0, 200, host->chunk_count);
        struct spotnik_flat *holder = &host->member[0].flat;
        float sum[200];
        for (uint64_t at = 0; at < 200; at++)
            sum[at] = expected(host, 200, at, SPOTNIK_SUM);
        for (uint32_t i = 0; i < 3; i++)
            start(host, i, 1, 200, SPOTNIK_SUM);
        for (uint32_t turn = 0; turn < slices; turn++)
            summed |= run_slice(host, turn);
        spotnik_flat_cut(&host->member[2].flat);
        for (int at = 0; at < 256; at++)
            host->member[2].in[at] = -1000;
        start(host, 2, 2, 200, SPOTNIK_SUM);
        for (uint32_t turn = 0; turn < 3000; turn++)
            assert_true(!run_slice(host, turn) || summed);
        stale += holder->bucket[BUCKET].phase == SPOTNIK_FLAT_STALE;
        for (uint32_t segment = 0; segment < host->hosts; segment++)
            for (uint64_t k = 0; k < ring.chunks && k < spotnik_flat_collected(holder, BUCKET);
                 k++) {
                struct spotnik_ring_chunk chunk = spotnik_ring_at(&ring, segment, k);
                assert_memory_equal(host->member[0].out + chunk.offset, sum + chunk.offset,
                                    chunk.count * sizeof(float));
            }
        host_free(host);
    }
    assert_true(stale > 10);
}

static float *whole(const struct host *host)
{
    return (float *)area(&host->member[0], 2);
}

/* What member 1 is shown is the result, and nothing is the result yet. */
static void shown_check(struct host *host, const float *result)
{
    struct spotnik_flat *flat = &host->member[1].flat;
    assert_ptr_equal(spotnik_flat_shown_result(flat, BUCKET), whole(host));
    for (uint64_t i = 0; i < spotnik_flat_shown(flat, BUCKET); i++) {
        struct spotnik_ring_chunk chunk = spotnik_flat_shown_chunk(flat, BUCKET, i);
        assert_memory_equal(whole(host) + chunk.offset, result + chunk.offset,
                            chunk.count * sizeof(float));
    }
    assert_true(spotnik_flat_shown_stands(flat, BUCKET));
    assert_int_equal(flat->bucket[BUCKET].phase, SPOTNIK_FLAT_AWAIT);
}

/* The stream of hosts brings the result: each chunk as it comes, the final ones with what is in
 * `result`. Returns how often the others were shown more. */
static uint32_t receive(struct host *host, uint64_t count, float *out, const float *result)
{
    struct spotnik_ring ring =
        spotnik_ring_make(host->hosts, host->place, count, host->chunk_count);
    uint32_t shows = 0;
    for (uint64_t q = 0; q < spotnik_ring_total(&ring); q++) {
        struct spotnik_ring_chunk chunk = spotnik_ring_received(&ring, q);
        if (chunk.kind != SPOTNIK_RING_REDUCE)
            memcpy(out + chunk.offset, result + chunk.offset, chunk.count * sizeof(float));
        spotnik_flat_show(&host->member[0].flat, BUCKET, q + 1, out);
        enum spotnik_flat_verdict verdict = spotnik_flat_run(&host->member[1].flat, BUCKET);
        assert_int_equal(verdict == SPOTNIK_FLAT_PART || verdict == SPOTNIK_FLAT_BLOCKED, true);
        shows += verdict == SPOTNIK_FLAT_PART;
        if (verdict == SPOTNIK_FLAT_PART)
            shown_check(host, result);
    }
    return shows;
}

/* Claim: two to four hosts, ours at any place among them: the others are shown nothing but what is
 * final, chunk by chunk but a bounded number of times, before it is whole; and that is not the end
 * of it for them. */
TEST(shown)
{
    float result[256], out[256];
    for (int i = 0; i < 256; i++)
        result[i] = 1000.0f + (float)i;
    for (uint32_t hosts = 2; hosts <= 4; hosts++)
        for (uint32_t place = 0; place < hosts; place++)
            for (uint64_t chunk = 1; chunk <= 40; chunk += 3) {
                struct host *host = host_new(3, 0);
                memset(out, 0, sizeof out);
                host->hosts = hosts;
                host->place = place;
                host->chunk_count = chunk;
                for (uint32_t i = 0; i < 3; i++)
                    start(host, i, 1, 250, SPOTNIK_SUM);
                assert_int_equal(run_all(host), 1);
                uint32_t shows = receive(host, 250, out, result);
                assert_in_range(shows, 1, 33);
                assert_memory_equal(out, result, 250 * sizeof(float));
                check_spread(host, 250, false);
                host_free(host);
            }
}

/* Claim: what is shown in another view is not shown in ours, and who goes on to another view shows
 * no more in the one before. */
TEST(shown_in_another_view)
{
    float result[256] = { 0 }, out[256] = { 0 };
    struct host *host = host_new(3, 0);
    for (uint32_t i = 0; i < 3; i++)
        start(host, i, 1, 250, SPOTNIK_SUM);
    run_all(host);
    spotnik_flat_cut(&host->member[2].flat);
    start(host, 2, 2, 250, SPOTNIK_SUM);
    assert_true(receive(host, 250, out, result) > 0);
    run_all(host);
    assert_int_equal(spotnik_flat_shown(&host->member[1].flat, BUCKET) > 0, true);
    assert_int_equal(spotnik_flat_shown(&host->member[2].flat, BUCKET), 0);
    spotnik_flat_cut(&host->member[0].flat);
    start(host, 0, 2, 250, SPOTNIK_SUM);
    assert_false(spotnik_flat_shown_stands(&host->member[1].flat, BUCKET));
    assert_int_equal(spotnik_flat_run(&host->member[1].flat, BUCKET), SPOTNIK_FLAT_BLOCKED);
    host_free(host);
}

/* Claim: small buckets are not shown, nor anything to a holder whose step has been cut. */
TEST(not_shown)
{
    float out[256] = { 0 };
    for (int small = 0; small < 2; small++) {
        struct host *host = host_new(2, small ? 4096 : 0);
        for (uint32_t i = 0; i < 2; i++)
            start(host, i, 1, 100, SPOTNIK_SUM);
        run_all(host);
        if (!small)
            spotnik_flat_cut(&host->member[0].flat);
        spotnik_flat_show(&host->member[0].flat, BUCKET, 20, out);
        assert_int_equal(run_all(host), 0);
        assert_int_equal(spotnik_flat_shown(&host->member[1].flat, BUCKET), 0);
        host_free(host);
    }
}

/* Claim: whoever has nothing to add up, or has added up all it had to, may come to look when all
 * others have committed the step and taken their inputs down: it gets the result all the same, and
 * takes nobody's program for another. */
TEST(slow_one)
{
    for (uint64_t count = 3; count <= 250; count += 13) {
        struct host *host = host_new(3, 0);
        struct spotnik_flat *slow = &host->member[2].flat;
        host->chunk_count = 125;
        for (uint32_t i = 0; i < 3; i++)
            start(host, i, 1, count, SPOTNIK_SUM);
        for (bool summed = false; !summed;) {
            summed |= run_slice(host, 0);
            run_slice(host, 1);
            if (slow->bucket[BUCKET].copy.pieces < slow->bucket[BUCKET].pieces)
                run_slice(host, 2); /* its input is all that the others need */
        }
        for (uint32_t i = 0; i < 3; i++)
            spotnik_flat_seal(&host->member[i].flat, spotnik_shm_header_sequence(1, 5));
        spotnik_flat_spread(&host->member[0].flat, BUCKET, host->member[0].out);
        while (!run_slice(host, 1))
            ;
        for (uint32_t i = 0; i < 2; i++)
            spotnik_flat_commit(&host->member[i].flat);
        for (int turn = 0; turn < 100 && slow->bucket[BUCKET].phase != SPOTNIK_FLAT_DONE; turn++)
            assert_int_not_equal(spotnik_flat_run(slow, BUCKET), SPOTNIK_FLAT_MISMATCH);
        assert_int_equal(slow->bucket[BUCKET].phase, SPOTNIK_FLAT_DONE);
        host_free(host);
    }
}

/* Claim: what a holder of an earlier view has spread is not the result of this one. */
TEST(old_result)
{
    for (int small = 0; small < 2; small++) {
        struct host *host = host_new(3, small ? 4096 : 0);
        for (uint32_t i = 0; i < 3; i++)
            start(host, i, 1, 100, SPOTNIK_SUM);
        assert_int_equal(run_all(host), 1);
        spotnik_flat_spread(&host->member[0].flat, BUCKET, host->member[0].out);
        for (uint32_t i = 1; i < 3; i++) {
            spotnik_flat_cut(&host->member[i].flat);
            start(host, i, 2, 100, SPOTNIK_SUM);
        }
        assert_int_equal(run_all(host), 0);
        host_free(host);
    }
}

/* Claim: members of one host whose programs differ find out. */
TEST(mismatch)
{
    struct host *host = host_new(2, 4096);
    start(host, 1, 1, 10, SPOTNIK_SUM);
    assert_int_equal(spotnik_flat_run(&host->member[1].flat, BUCKET), SPOTNIK_FLAT_BLOCKED);
    spotnik_flat_seal(&host->member[0].flat, spotnik_shm_header_sequence(1, 5));
    assert_int_equal(spotnik_flat_run(&host->member[1].flat, BUCKET), SPOTNIK_FLAT_MISMATCH);
    host_free(host);
    host = host_new(2, 4096);
    start(host, 0, 1, 10, SPOTNIK_SUM);
    start(host, 1, 1, 11, SPOTNIK_SUM);
    assert_int_equal(spotnik_flat_run(&host->member[0].flat, BUCKET), SPOTNIK_FLAT_MISMATCH);
    host_free(host);
}
