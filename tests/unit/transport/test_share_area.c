/* SPDX-License-Identifier: Apache-2.0 */
/* Where the results of two steps that follow each other lie: a member that is late may still read
 * the older one while we add up the younger. */
#include <string.h>

#include "tests.h"
#include "transport/share.h"

#define SMALL_BYTES 4096u
#define BUCKET 3

static struct spotnik_loop loop;
static struct spotnik_share share;
static struct spotnik_transport transport = { .loop = &loop, .share = &share };
static float input[4 * SMALL_BYTES];

static int open_segment(void **state)
{
    (void)state;
    memset(&share, 0, sizeof(share));
    spotnik_loop_init(&loop, NULL, NULL);
    share.flat.size = 3;
    share.flat.limits.small_bytes = SMALL_BYTES;
    return spotnik_segment_new(&share.segment);
}

static int close_segment(void **state)
{
    (void)state;
    spotnik_segment_free(&share.segment);
    return 0;
}

static struct spotnik_flat_order order_of(uint64_t step, enum spotnik_flat_part part, size_t count)
{
    return (struct spotnik_flat_order){ .part = part,
                                        .step = step,
                                        .count = count,
                                        .dtype = SPOTNIK_F32,
                                        .in = input,
                                        .hosts = 2,
                                        .chunk_count = 1024 };
}

/* The bucket with its areas, as a step of that number finds them. */
static struct spotnik_flat_order find(uint64_t step, enum spotnik_flat_part part, size_t count)
{
    struct spotnik_flat_order order = order_of(step, part, count);
    if (spotnik_area_find(&transport, BUCKET, &order))
        return order;
    share.wanted[BUCKET] = order;
    spotnik_loop_lock(&loop);
    assert_int_equal(spotnik_area_get(&transport, BUCKET), 0);
    spotnik_loop_unlock(&loop);
    assert_true(spotnik_area_find(&transport, BUCKET, &order));
    return order;
}

static bool apart(const void *a, const void *b, size_t bytes)
{
    const uint8_t *low = a < b ? a : b, *high = a < b ? b : a;
    return low != NULL && (size_t)(high - low) >= bytes;
}

/* Claim: the shares of a large bucket of two steps lie apart, and the third takes the first's. */
TEST_WITH(shares_of_two_steps, open_segment, close_segment)
{
    size_t count = sizeof(input) / sizeof(*input), share_bytes = sizeof(input) / 3;
    struct spotnik_flat_order older = find(7, SPOTNIK_FLAT_ALL, count),
                              younger = find(8, SPOTNIK_FLAT_ALL, count),
                              third = find(9, SPOTNIK_FLAT_ALL, count);
    assert_true(apart(older.result_area, younger.result_area, share_bytes));
    assert_ptr_equal(older.result_area, third.result_area);
}

/* Claim: the sums that a holder shows its host lie apart, for large and small buckets. */
TEST_WITH(sums_of_a_holder, open_segment, close_segment)
{
    const size_t counts[] = { sizeof(input) / sizeof(*input), SMALL_BYTES / sizeof(*input) };
    for (unsigned i = 0; i < 2; i++) {
        struct spotnik_flat_order older = find(7, SPOTNIK_FLAT_HOLDER, counts[i]),
                                  younger = find(8, SPOTNIK_FLAT_HOLDER, counts[i]);
        assert_true(apart(older.whole_area, younger.whole_area, counts[i] * sizeof(*input)));
        assert_ptr_equal(older.whole_area, older.out);
        assert_ptr_equal(younger.whole_area, younger.out);
    }
}
