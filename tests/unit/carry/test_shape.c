/* SPDX-License-Identifier: Apache-2.0 */
/* A shaped link on a clock of its own. Claims: over time it lets go what its speed says, whatever
 * the sizes; a sender that comes late makes up for it, one that was idle does not; what was not
 * sent does not count; the wait it names is long enough and not longer; speeds are read
 * strictly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/prng.h"
#include "base/time.h"
#include "carry/shape.h"
#include "spotnik/spotnik.h"

#define GBIT UINT64_C(125000000)

/* Send `bytes` in calls of at most `each`, coming `late_ns` after the link says. Returns when the
 * last has left. */
static uint64_t send_all(struct spotnik_shape *shape, uint64_t bytes, uint64_t each,
                         uint64_t now_ns, uint64_t late_ns)
{
    while (bytes > 0) {
        uint64_t again_ns = 0;
        size_t let = spotnik_shape_let(shape, bytes < each ? bytes : each, now_ns, &again_ns);

        assert_true(let <= bytes);
        bytes -= let;
        if (let == 0) {
            assert_true(again_ns > now_ns);
            now_ns = again_ns + late_ns;
        }
    }
    return shape->free_ns;
}

static void assert_near(uint64_t value, uint64_t expected, uint64_t percent)
{
    assert_true(value * 100 >= expected * (100 - percent)
                && value * 100 <= expected * (100 + percent));
}

static void keeps_its_speed(void **state)
{
    static const uint64_t sizes[] = { 100, 1500, 16384, 65536, 1 << 20, 1 << 26 };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct spotnik_shape fast = { .bytes_per_s = GBIT }, slow = { .bytes_per_s = GBIT / 1000 };

        assert_near(send_all(&fast, GBIT / 2, sizes[i], SPOTNIK_S, 0) - SPOTNIK_S, SPOTNIK_S / 2,
                    1);
        assert_near(send_all(&slow, GBIT / 1000, sizes[i], SPOTNIK_S, 0) - SPOTNIK_S, SPOTNIK_S, 1);
    }
}

static void lateness_is_made_up_for(void **state)
{
    struct spotnik_shape shape = { .bytes_per_s = GBIT };

    (void)state;
    assert_near(send_all(&shape, GBIT, 1 << 20, SPOTNIK_S, 10 * SPOTNIK_MS) - SPOTNIK_S, SPOTNIK_S,
                2);
}

/* After a pause of a second no more goes at once than a card's queue holds. */
static void idleness_is_not_saved(void **state)
{
    struct spotnik_shape shape = { .bytes_per_s = GBIT };
    uint64_t again_ns;

    (void)state;
    assert_int_equal(spotnik_shape_let(&shape, 1000, SPOTNIK_S, &again_ns), 1000);
    size_t let = spotnik_shape_let(&shape, 1 << 30, 2 * SPOTNIK_S, &again_ns);
    assert_true(let >= 16384 && let <= GBIT / 1000);
    assert_int_equal(spotnik_shape_let(&shape, 1 << 30, 2 * SPOTNIK_S, &again_ns), 0);
    assert_true(again_ns > 2 * SPOTNIK_S && again_ns <= 2 * SPOTNIK_S + SPOTNIK_MS);
    assert_true(spotnik_shape_let(&shape, 1 << 30, again_ns, &again_ns) > 0);
}

static void what_stays_does_not_count(void **state)
{
    struct spotnik_shape shape = { .bytes_per_s = GBIT };
    uint64_t again_ns;

    (void)state;
    size_t let = spotnik_shape_let(&shape, 1 << 30, SPOTNIK_S, &again_ns);
    uint64_t before_ns = shape.free_ns;
    spotnik_shape_undo(&shape, let);
    assert_int_equal(spotnik_shape_let(&shape, let, SPOTNIK_S, &again_ns), let);
    assert_true(shape.free_ns + 16 > before_ns && shape.free_ns < before_ns + 16);
}

/* Several senders of random sizes, some late: never faster than the speed by more than a queue. */
static void never_faster(void **state)
{
    struct spotnik_prng prng;
    struct spotnik_shape shape = { .bytes_per_s = GBIT / 10 };
    uint64_t now_ns = SPOTNIK_S, sent = 0, again_ns;

    (void)state;
    spotnik_prng_seed(&prng, 7);
    while (now_ns < 11 * SPOTNIK_S) {
        sent +=
            spotnik_shape_let(&shape, 1 + spotnik_prng_below(&prng, 1 << 17), now_ns, &again_ns);
        now_ns += spotnik_prng_below(&prng, 2 * SPOTNIK_MS);
        assert_true((double)sent
                    <= (double)(now_ns - SPOTNIK_S + 3 * SPOTNIK_MS) / 1e9 * (double)GBIT / 10);
    }
    assert_true(sent > 9 * (GBIT / 10)); /* and it was nearly always busy */
}

static void off_it_holds_nothing(void **state)
{
    uint64_t again_ns;

    (void)state;
    assert_false(spotnik_shape_is_on());
    assert_int_equal(spotnik_shape_take((size_t)1 << 40, &again_ns), (size_t)1 << 40);
    spotnik_shape_give_back(5);
    spotnik_shape_wait((size_t)1 << 40);
    assert_int_equal(spotnik_shape_set("1gbit"), 0);
    assert_true(spotnik_shape_is_on());
    assert_int_equal(spotnik_shape_set("fast"), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_shape_set(NULL), 0);
    assert_false(spotnik_shape_is_on());
}

static void speeds_are_read_strictly(void **state)
{
    static const char *const wrong[] = { "1",     "gbit",     "1 gbit", "-1gbit", "1gbits",
                                         "0gbit", "1e99gbit", "1kbit",  "nan" };
    uint64_t speed;

    (void)state;
    assert_true(spotnik_shape_parse("1gbit", &speed) && speed == GBIT);
    assert_true(spotnik_shape_parse("2.5gbit", &speed) && speed == 312500000);
    assert_true(spotnik_shape_parse("100mbit", &speed) && speed == 12500000);
    assert_true(spotnik_shape_parse("300kbit", &speed) && speed == 37500);
    assert_true(spotnik_shape_parse("", &speed) && speed == 0);
    assert_true(spotnik_shape_parse(NULL, &speed) && speed == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(spotnik_shape_parse(wrong[i], &speed));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_its_speed),
        cmocka_unit_test(lateness_is_made_up_for),
        cmocka_unit_test(idleness_is_not_saved),
        cmocka_unit_test(what_stays_does_not_count),
        cmocka_unit_test(never_faster),
        cmocka_unit_test(off_it_holds_nothing),
        cmocka_unit_test(speeds_are_read_strictly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
