/* SPDX-License-Identifier: Apache-2.0 */
/* A copy is a copy, whichever way it goes: every alignment, every end, and nothing beyond it. */
#include <string.h>

#include "base/copy.h"
#include "tests.h"

#define ROOM 512
#define AROUND 0xa5

static void copied(size_t to_at, size_t from_at, size_t bytes, size_t whole)
{
    uint8_t from[ROOM], to[ROOM];

    for (size_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    memset(to, AROUND, sizeof to);
    spotnik_copy(to + to_at, from + from_at, bytes, whole);
    assert_memory_equal(to + to_at, from + from_at, bytes);
    for (size_t i = 0; i < ROOM; i++)
        if (i < to_at || i >= to_at + bytes)
            assert_int_equal(to[i], AROUND);
}

TEST(every_alignment_and_end)
{
    for (size_t to_at = 0; to_at < 70; to_at++)
        for (size_t bytes = 0; bytes < 300; bytes += bytes < 140 ? 1 : 13) {
            copied(to_at, (to_at * 5) % 64, bytes, bytes);
            copied(to_at, (to_at * 5) % 64, bytes, SPOTNIK_COPY_PAST_CACHES);
        }
}

TEST(nothing_from_nowhere)
{
    spotnik_copy(NULL, NULL, 0, 0);
}
