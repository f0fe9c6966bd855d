/* SPDX-License-Identifier: Apache-2.0 */
/* Segments: the owner writes and grows, others read and can do nothing else; maps over them
 * outlive the owner. */
#include "shm/segment.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shm/map.h"
#include "spotnik/spotnik.h"
#include "tests.h"

/* Claim: areas are whole pages of zeros that do not overlap, and what is given back is used
 * again. */
TEST(areas)
{
    struct spotnik_segment segment;
    assert_int_equal(spotnik_segment_new(&segment), 0);
    uint8_t *a = spotnik_segment_take(&segment, 5000), *b = spotnik_segment_take(&segment, 1);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)a % SPOTNIK_SEGMENT_PAGE, 0);
    assert_true(b >= a + 2 * SPOTNIK_SEGMENT_PAGE);
    assert_int_equal(a[4999], 0);
    assert_true(spotnik_segment_holds(&segment, a, 5000));
    assert_false(spotnik_segment_holds(&segment, &segment, 1));
    spotnik_segment_give(&segment, a, 5000);
    assert_ptr_equal(spotnik_segment_take(&segment, 8192), a);
    assert_null(spotnik_segment_take(&segment, SIZE_MAX));
    spotnik_segment_free(&segment);
}

/* Claim: who has the descriptor reads what the owner writes, also in areas taken later; it cannot
 * map it for writing, write to it or shrink it. */
TEST(others_only_read)
{
    struct spotnik_segment segment;
    void *base;
    size_t bytes;
    assert_int_equal(spotnik_segment_new(&segment), 0);
    uint8_t *a = spotnik_segment_take(&segment, 100);
    assert_int_equal(spotnik_segment_map(segment.fd, &base, &bytes), 0);
    uint8_t *later = spotnik_segment_take(&segment, 100000);
    a[7] = 3;
    later[99999] = 4;
    assert_int_equal(((uint8_t *)base)[a - segment.base + 7], 3);
    assert_int_equal(((uint8_t *)base)[later - segment.base + 99999], 4);
    assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, segment.fd, 0),
                     MAP_FAILED);
    assert_int_equal(ftruncate(segment.fd, 0), -1);
    assert_int_equal(pwrite(segment.fd, "x", 1, 0), -1);
    spotnik_segment_unmap(base);
    spotnik_segment_free(&segment);
}

/* Claim: memory that its owner could take away under a reader is refused. */
TEST(unsealed_is_refused)
{
    void *base;
    size_t bytes;
    int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(spotnik_segment_map(fd, &base, &bytes), SPOTNIK_ERR_PEERS);
    close(fd);
}

#define COUNT 5000 /* floats: five pages, of which rank 0 has two and rank 1 three */

static void reduce(struct spotnik_segment *segment, struct spotnik_flat *flat,
                   const struct spotnik_flat_peer *peer, struct spotnik_reduce_source *source,
                   uint32_t rank, uint64_t step)
{
    static float in[2][COUNT];
    struct spotnik_flat_order order = { .sequence = spotnik_shm_header_sequence(1, step),
                                        .step = step,
                                        .count = COUNT,
                                        .weight = 1,
                                        .dtype = SPOTNIK_F32,
                                        .op = SPOTNIK_SUM,
                                        .in = in[rank],
                                        .input_area = spotnik_segment_take(segment, sizeof in[0]),
                                        .result_area =
                                            spotnik_segment_take(segment, sizeof in[0]) };
    for (int i = 0; i < COUNT; i++)
        in[rank][i] = (float)(i + (int)step * 1000);
    flat->limits = (struct spotnik_flat_limits){ 0, SPOTNIK_SEGMENT_PAGE, 4096, 0 };
    if (flat->peer == NULL)
        spotnik_flat_view(flat, peer, source, rank, 2);
    spotnik_flat_start(flat, 0, &order);
}

/* Claim: a map shows the result as one piece, still does when a holder's own mapping is gone,
 * and does not stand any more when a share is made anew. */
TEST(map)
{
    static struct spotnik_flat flat[2];
    struct spotnik_segment segment[2];
    struct spotnik_flat_peer peer[2];
    struct spotnik_reduce_source source[2];
    struct spotnik_map map = { .base = NULL };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(spotnik_segment_new(&segment[i]), 0);
        peer[i] =
            (struct spotnik_flat_peer){ spotnik_segment_take(&segment[i],
                                                             sizeof(struct spotnik_shm_header)),
                                        segment[i].reserved };
        spotnik_shm_header_init(peer[i].header, 1, (uint64_t)i, 0);
    }
    for (uint32_t i = 0; i < 2; i++)
        reduce(&segment[i], &flat[i], peer, source, i, 1);
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < 2; i++)
            spotnik_flat_run(&flat[i], 0);
    assert_int_equal(flat[0].bucket[0].phase, SPOTNIK_FLAT_DONE);
    assert_int_equal(spotnik_map_show(&map, &flat[0], 0), 0);
    const float *shown = (const float *)map.base;
    for (int i = 0; i < COUNT; i++)
        assert_true(shown[i] == 2 * (float)(i + 1000));
    assert_true(spotnik_shares_stand(&map.shares));
    spotnik_flat_commit(&flat[1]);
    reduce(&segment[1], &flat[1], peer, source, 1, 3); /* the same parity */
    assert_false(spotnik_shares_stand(&map.shares));
    spotnik_segment_free(&segment[1]);
    assert_true(shown[COUNT - 1] == 2 * (float)(COUNT - 1 + 1000));
    spotnik_map_free(&map);
    spotnik_segment_free(&segment[0]);
}
