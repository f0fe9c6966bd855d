/* SPDX-License-Identifier: Apache-2.0 */
/* Emulated speeds: what the text means, and that a step takes as long as it says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "api/throttle.h"
#include "spotnik/spotnik.h"

static bool is_near(double a, double b)
{
    return a > b - 1e-9 && a < b + 1e-9;
}

static void test_texts(void **state)
{
    static const char *const wrong[] = { "",        "0",        "-1",         "1.5",
                                         "x",       "9:",       ":9",         "9:0:2",
                                         "9 12",    "nan",      "inf",        "0.5x",
                                         "2:1e9",   "0.5@",     "0.5@30",     "0.5@30s",
                                         "@30us",   "0.5@-1us", "0.5@ 1us",   "0.5@30usx",
                                         "0.5@0us", "9:@1us",   "1@1us:2",    "1@1us~",
                                         "1@1us~%", "1@1us~2",  "1@1us~100%", "1@1us~-1%",
                                         "1~2%",    "1@1us~2%x" };
    struct spotnik_throttle throttle;

    (void)state;
    assert_true(spotnik_throttle_parse("0.25", 7, 2, &throttle) && is_near(throttle.speed, 0.25));
    assert_true(spotnik_throttle_parse("1", 0, 2, &throttle) && is_near(throttle.speed, 1));
    assert_true(spotnik_throttle_parse("9:12:18", 2, 64, &throttle) && is_near(throttle.speed, 1));
    assert_true(spotnik_throttle_parse("9:12:18", 0, 64, &throttle)
                && is_near(throttle.speed, 0.5));
    /* place 4 of 3 */
    assert_true(spotnik_throttle_parse("9:12:18", 4, 64, &throttle)
                && is_near(throttle.speed, 12. / 18));
    double all = 0;
    for (uint32_t place = 0; place < 3; place++) {
        assert_true(spotnik_throttle_parse("2:17:20", place, 1, &throttle));
        all += throttle.speed;
    }
    assert_true(is_near(all, 0.5)); /* all of them at once, on one processor */
    assert_true(throttle.sample_ns == 0 && throttle.jitter == 0);
    assert_true(spotnik_throttle_parse("2:17:20@30us", 1, 1, &throttle)
                && is_near(throttle.speed, 0.85) && is_near(throttle.sample_ns, 30000));
    assert_true(spotnik_throttle_parse("0.5@0.4ms", 1, 1, &throttle) && is_near(throttle.speed, 0.5)
                && is_near(throttle.sample_ns, 400000));
    assert_true(spotnik_throttle_parse("9:12:18@0.4ms~2%", 1, 1, &throttle)
                && is_near(throttle.jitter, 0.02));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(spotnik_throttle_parse(wrong[i], 0, 2, &throttle));
}

/* Half the speed: at least twice the processor time. (A busy machine makes it longer.) */
static void test_a_step_takes_as_long(void **state)
{
    struct spotnik_throttle throttle;
    struct timespec from, cpu_from, to, cpu_to;
    volatile double x = 1;

    (void)state;
    assert_int_equal(setenv("SPOTNIK_THROTTLE", "0.5", 1), 0);
    assert_int_equal(spotnik_throttle_open(&throttle), 0);
    clock_gettime(CLOCK_MONOTONIC, &from);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_from);
    spotnik_throttle_begin(&throttle, 1);
    for (int i = 0; i < 5000000; i++)
        x = x * 1.0000001;
    spotnik_throttle_end(&throttle);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_to);
    spotnik_throttle_end(&throttle); /* once for a step */
    clock_gettime(CLOCK_MONOTONIC, &to);
    double wall = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    double cpu = (double)(cpu_to.tv_sec - cpu_from.tv_sec)
                 + 1e-9 * (double)(cpu_to.tv_nsec - cpu_from.tv_nsec);
    assert_true(wall > 1.8 * cpu);
    assert_int_equal(setenv("SPOTNIK_THROTTLE", "half", 1), 0);
    assert_int_equal(spotnik_throttle_open(&throttle), SPOTNIK_ERR_ARGUMENT);
    unsetenv("SPOTNIK_THROTTLE");
    assert_int_equal(spotnik_throttle_open(&throttle), 0);
    assert_true(throttle.speed == 0);
}

/* A time for samples: just that long, if nothing else holds us up; an empty share takes nothing. */
static void test_a_sample_takes_as_long(void **state)
{
    struct spotnik_throttle throttle;
    struct timespec from, to;
    double least = 1;

    (void)state;
    assert_int_equal(setenv("SPOTNIK_THROTTLE", "0.25@50us", 1), 0);
    assert_int_equal(spotnik_throttle_open(&throttle), 0);
    for (int i = 0; i < 20; i++) {
        clock_gettime(CLOCK_MONOTONIC, &from);
        spotnik_throttle_begin(&throttle, i < 19 ? 50 : 0);
        spotnik_throttle_end(&throttle);
        clock_gettime(CLOCK_MONOTONIC, &to);
        double wall =
            (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
        least = i < 19 && wall < least ? wall : least;
        assert_true(i == 19 || wall >= 0.010);
    }
    assert_true(least < 0.011);
    unsetenv("SPOTNIK_THROTTLE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_a_step_takes_as_long),
        cmocka_unit_test(test_a_sample_takes_as_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
