/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: the log keeps copies of an unbroken run of steps, drops them from the front, and an entry
 * that is being sent outlives its place in the log. */
#include <string.h>

#include "spotnik/spotnik.h"
#include "transfer/log.h"
#include "tests.h"

static void append(struct spotnik_log *log, uint64_t step)
{
    float a[3] = { (float)step, 1, 2 };
    uint8_t b[2] = { (uint8_t)step, 9 };
    struct spotnik_bucket_result result[4] = {
        [0] = { a, 3, SPOTNIK_F32, SPOTNIK_MEAN },
        [2] = { b, 2, SPOTNIK_U8, SPOTNIK_MAX },
        /* a bucket of no elements is used all the same */
        [3] = { NULL, 0, SPOTNIK_I64, SPOTNIK_SUM },
    };

    struct spotnik_log_entry *entry = spotnik_log_entry_new(step, 4, result);

    assert_non_null(entry);
    spotnik_log_append(log, entry);
    memset(a, 0xee, sizeof a);
    memset(b, 0xee, sizeof b);
}

TEST(run_of_steps)
{
    struct spotnik_log log = { 0 };

    for (uint64_t step = 5; step <= 8; step++)
        append(&log, step);
    assert_int_equal(log.bytes, 4 * 14);
    struct spotnik_log_entry *entry = spotnik_log_hold(&log, 6);
    assert_non_null(entry);
    assert_null(spotnik_log_hold(&log, 4));
    assert_null(spotnik_log_hold(&log, 9));
    spotnik_log_prune(&log, 8);
    assert_int_equal(log.first->step, 8);
    assert_int_equal(log.bytes, 14);
    assert_int_equal(entry->bucket_count, 3);
    assert_int_equal(entry->bucket[1].bucket, 2);
    assert_int_equal(entry->bucket[1].data[0], 6);
    assert_int_equal(entry->bucket[2].bucket, 3);
    assert_int_equal(entry->bucket[2].bytes, 0);
    float first;
    memcpy(&first, entry->bucket[0].data, sizeof first);
    assert_true(first == 6);
    spotnik_log_release(entry);
    spotnik_log_prune(&log, UINT64_MAX);
    assert_null(log.first);
    assert_null(log.last);
    assert_int_equal(log.bytes, 0);
    append(&log, 100); /* empty: any step may begin a new run */
    spotnik_log_prune(&log, UINT64_MAX);
}
