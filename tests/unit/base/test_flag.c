/* SPDX-License-Identifier: Apache-2.0 */
#include "tests.h"

#include "base/clock.h"
#include "base/flag.h"
#include "base/time.h"

static void *raise_it(void *flag)
{
    spotnik_flag_raise(flag);
    return NULL;
}

TEST(a_raised_flag_ends_one_wait_however_often_it_was_raised)
{
    struct spotnik_flag flag;

    spotnik_flag_init(&flag);
    spotnik_flag_raise(&flag);
    spotnik_flag_raise(&flag);
    assert_true(spotnik_flag_wait(&flag, 0));
    assert_false(spotnik_flag_wait(&flag, 0));
    spotnik_flag_destroy(&flag);
}

TEST(a_wait_ends_when_another_thread_raises_the_flag)
{
    struct spotnik_flag flag;
    pthread_t thread;

    spotnik_flag_init(&flag);
    assert_int_equal(pthread_create(&thread, NULL, raise_it, &flag), 0);
    assert_true(spotnik_flag_wait(&flag, 60 * SPOTNIK_S));
    pthread_join(thread, NULL);
    spotnik_flag_destroy(&flag);
}

TEST(a_wait_ends_with_its_time)
{
    struct spotnik_flag flag;
    uint64_t begin_ns = spotnik_clock_ns();

    spotnik_flag_init(&flag);
    assert_false(spotnik_flag_wait(&flag, 3 * SPOTNIK_MS));
    assert_true(spotnik_clock_ns() - begin_ns >= 3 * SPOTNIK_MS);
    spotnik_flag_destroy(&flag);
}
