/* SPDX-License-Identifier: Apache-2.0 */
#include "base/epoll.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* At most a minute, which fits; the caller looks at its clock and waits again. */
static int milliseconds(uint64_t ns)
{
    return (int)((spotnik_time_min(ns, 60 * SPOTNIK_S) + SPOTNIK_MS - 1) / SPOTNIK_MS);
}

int spotnik_epoll_wait(int fd, struct epoll_event *event, int count, uint64_t timeout_ns)
{
    struct timespec timeout = spotnik_clock_timespec(timeout_ns);
    int got = (int)syscall(SYS_epoll_pwait2, fd, event, count, &timeout, NULL, (size_t)0);

    if (got < 0 && (errno == ENOSYS || errno == EPERM)) /* EPERM: the filter of an old container */
        got = epoll_wait(fd, event, count, milliseconds(timeout_ns));
    return got;
}
