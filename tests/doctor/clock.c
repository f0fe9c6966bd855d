/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded, it makes a process believe that it is an hour later. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);

    if (!rc && clock == CLOCK_REALTIME)
        ret->tv_sec += 3600;
    return rc;
}

/* libcurl dates what it signs by this. */
__attribute__((visibility("default"))) time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}
