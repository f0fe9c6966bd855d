/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a result that are with the caller before the commit: whatever has been moved, the input
 * comes back whole, or the result is complete. */
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "transport/early.h"
#include "tests.h"

#define BYTES 10007u

static uint8_t input[BYTES], result[BYTES], data[BYTES];

static void begin(void)
{
    for (size_t i = 0; i < BYTES; i++) {
        input[i] = (uint8_t)(i * 7 + 1);
        result[i] = (uint8_t)(i * 13 + 101);
    }
    memcpy(data, input, BYTES);
}

static void pieces(struct spotnik_early *early, uint64_t step, unsigned count)
{
    for (unsigned i = 0; i < count && spotnik_early_is_due(early, step); i++)
        spotnik_early_move(early, data, result, BYTES, 100);
}

TEST(what_is_final_moves_and_comes_back)
{
    struct spotnik_early early = { 0 };
    begin();
    assert_false(spotnik_early_is_due(&early, 3));
    spotnik_early_add(&early, 3, 500, 700);
    spotnik_early_add(&early, 3, 700, 750); /* goes on where the last one ended */
    spotnik_early_add(&early, 3, 0, 120);
    assert_int_equal(early.count, 2);
    assert_false(spotnik_early_is_due(&early, 2));
    pieces(&early, 3, 100);
    assert_memory_equal(data, result, 120);
    assert_memory_equal(data + 120, input + 120, 380);
    assert_memory_equal(data + 500, result + 500, 250);
    assert_memory_equal(data + 750, input + 750, BYTES - 750);
    spotnik_early_undo(&early, data);
    assert_memory_equal(data, input, BYTES);
    assert_false(spotnik_early_is_due(&early, 3));
    spotnik_early_finish(&early, data, result, BYTES);
    assert_memory_equal(data, result, BYTES);
    free(early.saved);
}

TEST(more_ranges_than_there_is_room_for)
{
    struct spotnik_early early = { 0 };
    begin();
    for (size_t i = 0; i < 2 * SPOTNIK_EARLY_RANGES; i++)
        spotnik_early_add(&early, 1, 20 * i, 20 * i + 10);
    assert_int_equal(early.count, SPOTNIK_EARLY_RANGES);
    pieces(&early, 1, 40);
    spotnik_early_finish(&early, data, result, BYTES);
    assert_memory_equal(data, result, BYTES);
    free(early.saved);
}

TEST(a_step_does_not_see_the_one_before)
{
    struct spotnik_early early = { 0 };
    begin();
    spotnik_early_add(&early, 1, 0, BYTES);
    pieces(&early, 1, 3);
    spotnik_early_finish(&early, data, result, BYTES);
    begin();
    spotnik_early_add(&early, 2, 10, 20);
    pieces(&early, 2, 3);
    spotnik_early_undo(&early, data);
    assert_memory_equal(data, input, BYTES);
    free(early.saved);
}

/* Segments in any order, chunk by chunk, as a ring has them; moved as far as it happens to be; then
 * lost, or committed. */
TEST(any_history)
{
    struct spotnik_early early = { 0 };
    struct spotnik_prng prng;
    spotnik_prng_seed(&prng, 42);
    for (uint64_t step = 1; step <= 3000; step++) {
        size_t segments = 1 + spotnik_prng_below(&prng, 9),
               first = spotnik_prng_below(&prng, segments);
        bool lost = spotnik_prng_below(&prng, 2) == 0;
        begin();
        for (size_t i = 0; i < segments; i++) {
            size_t segment = (first + segments - i) % segments, at = segment * BYTES / segments;
            for (size_t end = (segment + 1) * BYTES / segments, to; at < end; at = to) {
                to = at + 1 + spotnik_prng_below(&prng, 900);
                to = to < end ? to : end;
                spotnik_early_add(&early, step, at, to);
                pieces(&early, step, (unsigned)spotnik_prng_below(&prng, 9));
                if (lost && spotnik_prng_below(&prng, 40) == 0) {
                    spotnik_early_undo(&early, data);
                    assert_memory_equal(data, input, BYTES);
                }
            }
        }
        spotnik_early_finish(&early, data, result, BYTES);
        assert_memory_equal(data, result, BYTES);
    }
    free(early.saved);
}

/* Claim: where a copy of the input is lent nothing is saved, and it is what comes back; after that
 * it is not looked at any more. */
TEST(lent)
{
    struct spotnik_early early = { 0 };
    uint8_t copy[BYTES];
    begin();
    memcpy(copy, input, BYTES);
    spotnik_early_lend(&early, 4, copy);
    assert_false(spotnik_early_is_due(&early, 4));
    spotnik_early_add(&early, 4, 200, 900);
    pieces(&early, 4, 3);
    assert_null(early.saved);
    assert_memory_equal(data + 200, result + 200, 300);
    assert_memory_equal(data + 500, input + 500, BYTES - 500);
    spotnik_early_undo(&early, data);
    assert_memory_equal(data, input, BYTES);
    memset(copy, 0, BYTES); /* it lasts no longer than that */
    spotnik_early_add(&early, 4, 0, 300);
    pieces(&early, 4, 2);
    spotnik_early_undo(&early, data);
    assert_memory_equal(data, input, BYTES);
    spotnik_early_lend(&early, 5, copy);
    spotnik_early_add(&early, 5, 0, BYTES);
    pieces(&early, 5, 7);
    spotnik_early_finish(&early, data, result, BYTES);
    assert_memory_equal(data, result, BYTES);
    begin();
    spotnik_early_add(&early, 6, 0, 300); /* nor in the next step, unless it is lent again */
    pieces(&early, 6, 2);
    spotnik_early_undo(&early, data);
    assert_memory_equal(data, input, BYTES);
    free(early.saved);
}
