/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

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

struct timespec spotnik_clock_timespec(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / SPOTNIK_S),
                              .tv_nsec = (long)(ns % SPOTNIK_S) };
}

void spotnik_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

bool spotnik_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    struct timespec until = spotnik_clock_timespec(until_ns);
    return pthread_cond_timedwait(cond, lock, &until) == 0;
}
