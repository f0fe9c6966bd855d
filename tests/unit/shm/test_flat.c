/* SPDX-License-Identifier: Apache-2.0 */
/* The flat all-reduce over plain memory: right sums in the ring's order at all sizes, and nobody
 * takes the bytes of one step or view for those of another, whoever stops where. */
#include "shm/shares.h"

#include <stdlib.h>
#include <string.h>

#include "tests.h"

#define MEMBERS_MAX 7
#define AREA 4096

struct member {
    struct spotnik_shm_header *header;
    struct spotnik_flat flat;
    struct spotnik_flat_peer peer[MEMBERS_MAX];
    struct spotnik_reduce_source source[MEMBERS_MAX];
    float in[256], out[256];
};

struct group {
    uint32_t size;
    struct member member[MEMBERS_MAX];
    bool again;
};

static uint8_t *area(const struct member *member, int which)
{
    return (uint8_t *)member->header + sizeof(struct spotnik_shm_header) + which * AREA;
}

static struct group *group_new(uint32_t size, size_t small_bytes)
{
    struct group *group = calloc(1, sizeof *group);
    group->size = size;
    for (uint32_t i = 0; i < size; i++) {
        struct member *member = &group->member[i];
        member->header = calloc(1, sizeof(struct spotnik_shm_header) + 4 * AREA);
        spotnik_shm_header_init(member->header, 1, i, 0);
        member->flat.limits = (struct spotnik_flat_limits){ small_bytes, 16, 24, 0 };
        for (int k = 0; k < 256; k++)
            member->in[k] = 0.1f * (float)(i + 1) + 1.7f * (float)k;
    }
    for (uint32_t i = 0; i < size; i++) {
        for (uint32_t k = 0; k < size; k++)
            group->member[i].peer[k] =
                (struct spotnik_flat_peer){ group->member[k].header,
                                            sizeof(struct spotnik_shm_header) + 4 * AREA };
        spotnik_flat_view(&group->member[i].flat, group->member[i].peer, group->member[i].source, i,
                          size);
    }
    return group;
}

static void group_free(struct group *group)
{
    for (uint32_t i = 0; i < MEMBERS_MAX; i++)
        free(group->member[i].header); /* of those that were lost too */
    free(group);
}

static void start(struct group *group, uint32_t index, uint64_t epoch, uint64_t step,
                  uint64_t count, uint8_t op)
{
    struct member *member = &group->member[index];
    bool small = spotnik_flat_is_small(&member->flat, count * sizeof(float));
    struct spotnik_flat_order order = { .sequence = spotnik_shm_header_sequence(epoch, step),
                                        .step = step,
                                        .count = count,
                                        .weight = op == SPOTNIK_MEAN ? index + 1 : 1,
                                        .dtype = SPOTNIK_F32,
                                        .op = op,
                                        .in = member->in,
                                        .input_area = area(member, small ? (int)(step & 1) : 0),
                                        .result_area = area(member, 2 + (int)(step & 1)),
                                        .out = member->out,
                                        .again = group->again };
    spotnik_flat_start(&member->flat, 3, &order);
}

/* As long as anything gets on. Returns how many have the result. */
static uint32_t run_all(struct group *group)
{
    uint32_t ready = 0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < group->size; i++) {
            struct spotnik_flat *flat = &group->member[i].flat;
            if (!spotnik_flat_is_active(flat, 3))
                continue;
            enum spotnik_flat_verdict verdict = spotnik_flat_run(flat, 3);
            ready += verdict == SPOTNIK_FLAT_READY;
            any |= verdict == SPOTNIK_FLAT_MORE || verdict == SPOTNIK_FLAT_READY;
            assert_int_not_equal(verdict, SPOTNIK_FLAT_MISMATCH);
        }
    }
    return ready;
}

/* Whole result as the caller of `index` gets it: its own, or everybody's shares, copied over what
 * was there before. */
static void result_of(struct group *group, uint32_t index, uint64_t step, uint64_t count,
                      float *out)
{
    struct member *member = &group->member[index];
    struct spotnik_share_place place[MEMBERS_MAX];
    struct spotnik_shares shares = { .place = place };
    size_t bytes = count * sizeof(float);
    (void)step;
    memset(out, 0xff, bytes);
    if (spotnik_flat_is_small(&member->flat, bytes)) {
        memcpy(out, member->out, bytes);
        return;
    }
    spotnik_shares_find(&shares, &member->flat, 3);
    spotnik_shares_copy(&shares, (uint8_t *)out);
    assert_true(spotnik_shares_stand(&shares));
    spotnik_shares_copy_own(&shares, (uint8_t *)out);
}

/* Element by element, from the rank of its ring segment on. */
static float expected(const struct group *group, uint64_t count, uint64_t at, uint8_t op)
{
    uint64_t begin = 0;
    uint32_t segment = 0;
    float sum = 0, weights = 0;
    while (at >= begin + count / group->size + (segment < count % group->size))
        begin += count / group->size + (segment++ < count % group->size);
    for (uint32_t i = 0; i < group->size; i++) {
        uint32_t rank = (segment + i) % group->size;
        float weight = op == SPOTNIK_MEAN ? (float)(rank + 1) : 1;
        float term = weight == 1 ? group->member[rank].in[at] : weight * group->member[rank].in[at];
        sum = i == 0 ? term : sum + term;
        weights += weight;
    }
    return op == SPOTNIK_MEAN ? sum / weights : sum;
}

/* Slices long enough to go past the caches. */
static void slices_stream(struct group *group)
{
    for (uint32_t i = 0; i < group->size; i++) {
        group->member[i].flat.limits.slice_bytes = 264;
        group->member[i].flat.limits.stream_bytes = 256;
    }
}

/* Claim: every N up to 7, lengths from nothing to many pages, small, large and past the caches: the
 * ring's sums, bit for bit, on all members. */
TEST(sums)
{
    static const uint64_t counts[] = { 0, 1, 2, 3, 5, 7, 8, 31, 64, 65, 250 };
    for (uint32_t size = 1; size <= MEMBERS_MAX; size++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
            for (int way = 0; way < 3; way++)
                for (int op = SPOTNIK_SUM; op <= SPOTNIK_MEAN; op++) {
                    struct group *group = group_new(size, way == 0 ? 4096 : 0);
                    float out[256];
                    if (way == 2)
                        slices_stream(group);
                    for (uint32_t i = 0; i < size; i++)
                        start(group, i, 1, 5, counts[c], (uint8_t)op);
                    assert_int_equal(run_all(group), size);
                    for (uint32_t i = 0; i < size; i++) {
                        result_of(group, i, 5, counts[c], out);
                        for (uint64_t k = 0; k < counts[c]; k++)
                            assert_true(out[k] == expected(group, counts[c], k, (uint8_t)op));
                    }
                    group_free(group);
                }
}

/* Claim: steps follow each other, though some members are one ahead; a small step leaves readers of
 * the one before alone. */
TEST(steps_follow)
{
    for (int small = 0; small < 2; small++) {
        struct group *group = group_new(3, small ? 4096 : 0);
        for (uint64_t step = 1; step < 9; step++) {
            for (uint32_t i = 0; i < 3; i++) {
                group->member[i].in[0] = (float)step;
                start(group, i, 1, step, 40, SPOTNIK_SUM);
            }
            assert_int_equal(run_all(group), 3);
            float out[256];
            result_of(group, 1, step, 40, out);
            assert_true(out[0] == 3 * (float)step);
            for (uint32_t i = 0; i < 3; i++)
                spotnik_flat_commit(&group->member[i].flat);
        }
        group_free(group);
    }
}

/* Claim: nobody completes a step that a member has put nothing into; nor one of which a share is
 * missing. */
TEST(everybody_is_needed)
{
    for (int small = 0; small < 2; small++) {
        struct group *group = group_new(4, small ? 4096 : 0);
        for (uint32_t i = 0; i < 3; i++)
            start(group, i, 1, 1, 100, SPOTNIK_SUM);
        assert_int_equal(run_all(group), 0);
        uint32_t awaited[2];
        assert_int_equal(spotnik_flat_awaits(&group->member[0].flat, 3, awaited), 1);
        assert_int_equal(awaited[0], 3);
        start(group, 3, 1, 1, 100, SPOTNIK_SUM);
        while (group->member[3].flat.bucket[3].phase != SPOTNIK_FLAT_GATHER)
            spotnik_flat_run(&group->member[3].flat, 3);
        group->size = 3; /* the last one stops here, its input up, its share not made */
        assert_int_equal(run_all(group), small ? 3 : 0);
        group->size = 4;
        group_free(group);
    }
}

/* Claim: a member of another epoch, or one epoch behind, is not mistaken for one of ours. */
TEST(epochs_do_not_mix)
{
    struct group *group = group_new(2, 0);
    start(group, 0, 1, 7, 50, SPOTNIK_SUM);
    start(group, 1, 2, 7, 50, SPOTNIK_SUM);
    assert_int_equal(run_all(group), 0);
    group_free(group);
}

/* Claim: an input that goes away while it is read is noticed, and what was made of it is not put
 * up. */
TEST(second_look)
{
    for (int small = 0; small < 2; small++) {
        struct group *group = group_new(2, small ? 4096 : 0);
        struct spotnik_flat *reader = &group->member[0].flat;
        for (uint32_t i = 0; i < 2; i++)
            start(group, i, 1, 1, 200, SPOTNIK_SUM);
        while (group->member[1].flat.bucket[3].phase != SPOTNIK_FLAT_GATHER)
            spotnik_flat_run(&group->member[1].flat, 3);
        while (reader->bucket[3].phase != SPOTNIK_FLAT_REDUCE)
            assert_int_equal(spotnik_flat_run(reader, 3), SPOTNIK_FLAT_MORE);
        /* a recovery, of which the reader knows nothing yet */
        spotnik_flat_cut(&group->member[1].flat);
        memset(area(&group->member[1], 0), 0xff, AREA);
        enum spotnik_flat_verdict verdict;
        do
            verdict = spotnik_flat_run(reader, 3);
        while (verdict == SPOTNIK_FLAT_MORE);
        assert_int_equal(verdict, SPOTNIK_FLAT_BLOCKED);
        assert_int_equal(reader->bucket[3].phase, SPOTNIK_FLAT_STALE);
        assert_int_equal(group->member[0].header->slot[3][1].result, 0);
        spotnik_flat_cut(reader);
        assert_int_equal(reader->active, 0);
        group_free(group);
    }
}

/* Claim: after a cut no input hangs anywhere, so nobody reads what the caller may now change;
 * results stay up. */
TEST(cut)
{
    struct group *group = group_new(2, 0);
    for (uint32_t i = 0; i < 2; i++)
        start(group, i, 1, 1, 100, SPOTNIK_SUM);
    assert_int_equal(run_all(group), 2);
    spotnik_flat_seal(&group->member[0].flat, spotnik_shm_header_sequence(1, 1));
    assert_int_not_equal(group->member[0].header->sealed, 0);
    spotnik_flat_cut(&group->member[0].flat);
    assert_int_equal(group->member[0].header->sealed, 0);
    assert_int_equal(group->member[0].header->slot[3][1].input, 0);
    assert_int_equal(group->member[0].header->slot[3][1].result, spotnik_shm_header_sequence(1, 1));
    group_free(group);
}

/* Claim: members whose programs differ find out: by size, by operation, or by a bucket that the
 * other has not. */
static uint32_t slices_of_copy(struct group *group, uint32_t index)
{
    struct spotnik_flat *flat = &group->member[index].flat;
    uint32_t slices = 0;
    for (; flat->bucket[3].phase == SPOTNIK_FLAT_COPY; slices++)
        spotnik_flat_run(flat, 3);
    return slices;
}

static void view_without_last(struct group *group)
{
    group->size--;
    for (uint32_t i = 0; i < group->size; i++) {
        spotnik_flat_cut(&group->member[i].flat);
        spotnik_flat_view(&group->member[i].flat, group->member[i].peer, group->member[i].source, i,
                          group->size);
    }
}

static void check_sums(struct group *group, uint64_t step, uint64_t count)
{
    float out[256];
    assert_int_equal(run_all(group), group->size);
    for (uint32_t i = 0; i < group->size; i++) {
        result_of(group, i, step, count, out);
        for (uint64_t at = 0; at < count; at++)
            assert_true(out[at] == expected(group, count, at, SPOTNIK_SUM));
    }
}

/* Claim: a step that is reduced again copies only what was its own share before, whether one
 * recovery came between or two, and sums come out right. The area is scribbled over where it must
 * be copied anew. */
TEST(again_copies_little)
{
    enum { COUNT = 250 };
    for (uint32_t left = 2; left <= 5; left++) {
        struct group *group = group_new(6, 16);
        group->again = true;
        for (uint32_t i = 0; i < group->size; i++) {
            size_t begin, end;
            start(group, i, 1, 1, COUNT, SPOTNIK_SUM);
            assert_in_range(slices_of_copy(group, i), 34, 40);
            spotnik_flat_share(&group->member[i].flat, COUNT * sizeof(float), i, &begin, &end);
            /* nobody was to read that */
            memset(area(&group->member[i], 0) + begin, 0xee, end - begin);
        }
        while (group->size > left) {
            view_without_last(group);
            for (uint32_t i = 0; i < group->size; i++) {
                start(group, i, 8 - group->size, 1, COUNT, SPOTNIK_SUM);
                assert_in_range(slices_of_copy(group, i), 1, 22);
            }
        }
        check_sums(group, 1, COUNT);
        group_free(group);
    }
}

/* Claim: a copy that a recovery cut short is made from the start, and so is that of another step,
 * or of an input begun anew. */
TEST(again_only_what_stands)
{
    enum { COUNT = 250 };
    struct group *group = group_new(4, 16);
    group->again = true;
    for (uint32_t i = 0; i < group->size; i++) {
        start(group, i, 1, 1, COUNT, SPOTNIK_SUM);
        spotnik_flat_run(&group->member[i].flat, 3);
        memset(area(&group->member[i], 0), 0xee, COUNT * sizeof(float));
    }
    view_without_last(group);
    for (uint32_t i = 0; i < group->size; i++)
        start(group, i, 2, 1, COUNT, SPOTNIK_SUM);
    check_sums(group, 1, COUNT);
    for (uint32_t anew = 0; anew < 2; anew++) {
        /* the next step; then the same once more, as by a member that has joined anew */
        group->again = anew == 0;
        for (uint32_t i = 0; i < group->size; i++) {
            spotnik_flat_commit(&group->member[i].flat);
            for (uint32_t k = 0; k < COUNT; k++)
                group->member[i].in[k] += 1;
            start(group, i, 2 + anew, 2, COUNT, SPOTNIK_SUM);
        }
        check_sums(group, 2, COUNT);
    }
    group_free(group);
}

/* Claim: what was copied counts only while the sequence number of everybody hangs: whoever was
 * stopped meanwhile sees that a later step lies there. */
TEST(copies_stand_by_tickets)
{
    struct spotnik_share_place place[MEMBERS_MAX];
    struct group *group = group_new(3, 0);
    for (uint32_t i = 0; i < 3; i++)
        start(group, i, 1, 5, 250, SPOTNIK_SUM);
    assert_int_equal(run_all(group), 3);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t owner = 0; owner < 3; owner++) {
            struct spotnik_shares shares = { .place = place };
            uint64_t *sequence = &group->member[owner].header->slot[3][5 & 1].result,
                     hung = *sequence;
            spotnik_shares_find(&shares, &group->member[i].flat, 3);
            assert_true(spotnik_shares_stand(&shares));
            spotnik_shm_header_take_down(sequence);
            assert_false(spotnik_shares_stand(&shares));
            spotnik_shm_header_put_up(sequence, hung);
        }
    group_free(group);
}

/* Claim: a member that was cut before it looked finds the result of its step afterwards, if
 * everybody had put up its share, and not otherwise, nor in another step's. */
TEST(late_look)
{
    enum { COUNT = 250 };
    struct group *group = group_new(3, 16);
    for (uint32_t i = 0; i < 3; i++)
        start(group, i, 1, 1, COUNT, SPOTNIK_SUM);
    for (uint32_t i = 0; i < 2; i++)
        while (spotnik_flat_run(&group->member[i].flat, 3) == SPOTNIK_FLAT_MORE)
            continue;
    assert_false(spotnik_flat_stands(&group->member[0].flat, 3, 1)); /* nobody has even reduced */
    assert_int_equal(run_all(group), 3);
    for (uint32_t i = 0; i < 3; i++) {
        spotnik_flat_cut(&group->member[i].flat);
        assert_true(spotnik_flat_stands(&group->member[i].flat, 3, 1));
        assert_false(spotnik_flat_stands(&group->member[i].flat, 3, 3));
    }
    start(group, 1, 2, 1, COUNT, SPOTNIK_SUM); /* would be a mistake: the step was settled */
    assert_false(spotnik_flat_stands(&group->member[0].flat, 3, 1));
    group_free(group);
}

TEST(mismatch)
{
    struct group *group = group_new(2, 4096);
    start(group, 0, 1, 1, 10, SPOTNIK_SUM);
    start(group, 1, 1, 1, 11, SPOTNIK_SUM);
    assert_int_equal(spotnik_flat_run(&group->member[0].flat, 3), SPOTNIK_FLAT_MISMATCH);
    group_free(group);
    group = group_new(2, 4096);
    start(group, 0, 1, 1, 10, SPOTNIK_SUM);
    start(group, 1, 1, 1, 10, SPOTNIK_MAX);
    assert_int_equal(spotnik_flat_run(&group->member[0].flat, 3), SPOTNIK_FLAT_MISMATCH);
    group_free(group);
    group = group_new(2, 4096);
    start(group, 0, 1, 1, 10, SPOTNIK_SUM);
    assert_int_equal(spotnik_flat_run(&group->member[0].flat, 3), SPOTNIK_FLAT_BLOCKED);
    spotnik_flat_seal(&group->member[1].flat, spotnik_shm_header_sequence(1, 1));
    assert_int_equal(spotnik_flat_run(&group->member[0].flat, 3), SPOTNIK_FLAT_MISMATCH);
    group_free(group);
}

/* Claim: a seal waits for the copies of large inputs. */
TEST(seal_comes_last)
{
    struct group *group = group_new(2, 0);
    struct spotnik_flat *flat = &group->member[0].flat;
    uint64_t sequence = spotnik_shm_header_sequence(1, 1);
    start(group, 0, 1, 1, 200, SPOTNIK_SUM);
    spotnik_flat_seal(flat, sequence);
    assert_int_equal(group->member[0].header->sealed, 0);
    while (flat->bucket[3].phase == SPOTNIK_FLAT_COPY)
        spotnik_flat_run(flat, 3);
    assert_int_equal(group->member[0].header->sealed, sequence);
    group_free(group);
}

/* Claim: numbers too large for a sequence number give none, and the smallest of two epochs differ.
 * */
TEST(sequences)
{
    assert_int_equal(spotnik_shm_header_sequence(UINT64_C(1) << 24, 1), 0);
    assert_int_equal(spotnik_shm_header_sequence(1, UINT64_C(1) << 40), 0);
    assert_int_not_equal(spotnik_shm_header_sequence(1, 2), spotnik_shm_header_sequence(2, 1));
}
