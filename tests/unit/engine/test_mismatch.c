/* SPDX-License-Identifier: Apache-2.0 */
/* What a member is told whose buckets differ: the bucket, what was expected and what was found; and
 * no number that is the library's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/mismatch.h"
#include "spotnik/spotnik.h"

static void expect(struct spotnik_claim own, struct spotnik_claim found, uint32_t agreeing,
                   const char *wanted)
{
    char text[320];

    own.step = found.step = 7;
    found.bucket = own.bucket;
    spotnik_mismatch_say(&own, &found, agreeing, 3, text, sizeof text);
    assert_string_equal(text, wanted);
}

static struct spotnik_claim claim(uint32_t bucket, uint8_t kind, uint64_t count)
{
    struct spotnik_claim made = { .bucket = bucket, .kind = kind, .count = count };

    if (kind == SPOTNIK_CLAIM_BUCKET) {
        made.dtype = SPOTNIK_F32;
        made.op = SPOTNIK_SUM;
    }
    return made;
}

static void test_a_bucket_of_the_caller(void **state)
{
    (void)state;
    expect(claim(1, SPOTNIK_CLAIM_BUCKET, 9), claim(1, SPOTNIK_CLAIM_BUCKET, 10), 2,
           ": in step 7, bucket 1, this member has 9 elements, F32, SUM; 2 of 3 members have "
           "10 elements, F32, SUM");
    expect(claim(1, SPOTNIK_CLAIM_NONE, 0), claim(1, SPOTNIK_CLAIM_BUCKET, 10), 0,
           ": in step 7, bucket 1, this member has no such bucket; another member has, and no "
           "majority says which is right, 10 elements, F32, SUM");
    expect(claim(SPOTNIK_CLAIM_OF_NUMBER, SPOTNIK_CLAIM_BUCKET, 3),
           claim(SPOTNIK_CLAIM_OF_NUMBER, SPOTNIK_CLAIM_BUCKET, 2), 2,
           ": in step 7 this member has 3 buckets; 2 of 3 members have 2 buckets");
}

static void test_a_step_without_buckets(void **state)
{
    struct spotnik_claim empty = claim(SPOTNIK_BUCKET_BARRIER, SPOTNIK_CLAIM_BUCKET, 0);
    struct spotnik_claim full = claim(SPOTNIK_BUCKET_BARRIER, SPOTNIK_CLAIM_NONE, 0);

    (void)state;
    expect(empty, full, 2, ": in step 7 this member has no buckets; 2 of 3 members have buckets");
    expect(full, empty, 0,
           ": in step 7 this member has buckets; another member has, and no majority says which "
           "is right, no buckets");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_a_bucket_of_the_caller),
                                        cmocka_unit_test(test_a_step_without_buckets) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
