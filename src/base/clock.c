/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

#include "base/time.h"

static uint64_t read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

uint64_t spotnik_clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t spotnik_clock_boot_ns(void)
{
    return read_ns(CLOCK_BOOTTIME);
}
