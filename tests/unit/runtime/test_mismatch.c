/* SPDX-License-Identifier: Apache-2.0 */
/* What all are told when the buckets of two members differ: which bucket, of whom, and what each
 * has; and no number that is the library's own. */
#include <string.h>

#include "runtime/mismatch.h"
#include "spotnik/spotnik.h"
#include "tests.h"

static struct spotnik_entry entry[2];
static const struct spotnik_id self = { 1, 1 }, other = { 2, 2 }, stranger = { 3, 3 };

static void expect(const struct spotnik_mismatch *found, const char *wanted)
{
    struct spotnik_view view = { .size = 2, .entry = entry };
    char text[400];

    for (int i = 0; i < 2; i++) {
        entry[i].member.id = i ? other : self;
        memset(entry[i].member.address, 0, 16);
        memset(entry[i].member.address + 10, 0xff, 2);
        memcpy(entry[i].member.address + 12, (uint8_t[]){ 10, 0, 0, 7 }, 4);
        entry[i].member.port = 4000;
    }
    spotnik_mismatch_text(found, &view, self, text, sizeof text);
    assert_string_equal(text, wanted);
}

static struct spotnik_held held(struct spotnik_id id, uint64_t count)
{
    return (struct spotnik_held){ id, count, 1, SPOTNIK_F32, SPOTNIK_SUM };
}

TEST(a_bucket_of_the_caller)
{
    expect(&(struct spotnik_mismatch){ 7, 1, { held(self, 9), held(other, 10) } },
           "in step 7, bucket 1, this member has 9 elements, F32, SUM, and member 1 at "
           "10.0.0.7:4000 has 10 elements, F32, SUM");
    expect(&(struct spotnik_mismatch){ 7, 1, { held(other, 9), { .member = stranger } } },
           "in step 7, bucket 1, member 1 at 10.0.0.7:4000 has 9 elements, F32, SUM, and member "
           "0000000000000003 has no such bucket");
    expect(&(struct spotnik_mismatch){ 7, 1, { held(self, 9), held(other, 9) } },
           "in step 7, bucket 1, this member and member 1 at 10.0.0.7:4000 send 9 elements, F32, "
           "SUM by different ways; give all the same settings");
}

TEST(numbers_of_buckets)
{
    struct spotnik_held three = { self, 3, 1, 0, 0 }, two = { other, 2, 1, 0, 0 };

    expect(&(struct spotnik_mismatch){ 7, SPOTNIK_MISMATCH_OF_NUMBER, { three, two } },
           "in step 7, this member has 3 buckets, and member 1 at 10.0.0.7:4000 has 2 buckets");
    expect(&(struct spotnik_mismatch){ 7,
                                       SPOTNIK_BUCKET_BARRIER,
                                       { { .member = self }, held(other, 0) } },
           "in step 7, this member has buckets, and member 1 at 10.0.0.7:4000 has no buckets");
}
