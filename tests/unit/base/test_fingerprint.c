/* SPDX-License-Identifier: Apache-2.0 */
/* Every byte of a result is looked at once in SPOTNIK_FINGERPRINT_TURNS steps, whatever the size of
 * the result. */
#include "base/fingerprint.h"

#include <stdlib.h>

#include "tests.h"

static uint64_t of(uint64_t step, const unsigned char *data, size_t bytes)
{
    return spotnik_fingerprint_add(0, 3, step, data, bytes);
}

/* Steps out of TURNS in which the change of one byte shows. */
static int shows(unsigned char *data, size_t bytes, size_t at)
{
    int count = 0;
    for (uint64_t step = 1000; step < 1000 + SPOTNIK_FINGERPRINT_TURNS; step++) {
        uint64_t before = of(step, data, bytes);
        data[at] ^= 0x10;
        count += of(step, data, bytes) != before;
        data[at] ^= 0x10;
    }
    return count;
}

TEST(every_byte_is_looked_at)
{
    static const size_t sizes[] = { 1, 4, 511, 512, 513, 1024, 4096, 32768, 32769, 100003 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = calloc(sizes[i], 1);
        for (size_t at = 0; at < sizes[i]; at += 1 + sizes[i] / 97)
            assert_true(shows(data, sizes[i], at) >= 1);
        assert_true(shows(data, sizes[i], sizes[i] - 1) >= 1);
        free(data);
    }
}

TEST(what_it_depends_on)
{
    unsigned char data[600] = { 0 };
    assert_true(of(1, data, 600) != of(1, data, 599));
    assert_true(of(1, NULL, 0) == of(2, NULL, 0));
    assert_true(spotnik_fingerprint_add(0, 3, 1, data, 8)
                != spotnik_fingerprint_add(0, 4, 1, data, 8));
    assert_true(spotnik_fingerprint_add(5, 3, 1, data, 8)
                != spotnik_fingerprint_add(6, 3, 1, data, 8));
}
