/* SPDX-License-Identifier: Apache-2.0 */
/* The other host's clock by the fastest of several round trips, wherever it stands among them. */
#include "doctor/doctor.h"
#include "tests.h"

#define MS UINT64_C(1000000)
#define PINGS 3

/* Answered at our 1000 ms, by a clock that is 40 ms ahead of ours. The answer takes all of the
 * time. */
static struct doctor_ping ping(uint64_t took_ms)
{
    return (struct doctor_ping){ .took_ns = took_ms * MS,
                                 .theirs_ms = 1040,
                                 .ours_ms = 1000 + (int64_t)took_ms };
}

TEST(fastest_decides)
{
    const uint64_t slow_ms[] = { 6000, 9000 };

    for (int fastest = 0; fastest < PINGS; fastest++) {
        struct doctor_ping all[PINGS];
        int64_t doubt_ms;
        for (int i = 0, next = 0; i < PINGS; i++)
            all[i] = ping(i == fastest ? 2 : slow_ms[next++]);
        assert_int_equal(doctor_clock_apart_ms(all, PINGS, &doubt_ms), 39);
        assert_int_equal(doubt_ms, 1);
    }
}

TEST(one_is_enough)
{
    struct doctor_ping only = ping(10);
    int64_t doubt_ms;

    assert_int_equal(doctor_clock_apart_ms(&only, 1, &doubt_ms), 35);
    assert_int_equal(doubt_ms, 5);
}
