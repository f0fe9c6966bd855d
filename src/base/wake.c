/* SPDX-License-Identifier: Apache-2.0 */
/* What has no type as a file is an eventfd, or something else of the kernel's that does not take
 * writes. */
#include "base/wake.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_ours(int fd)
{
    struct stat facts;
    return fd >= 0 && fstat(fd, &facts) == 0 && (facts.st_mode & S_IFMT) == 0;
}

void spotnik_wake(int fd)
{
    if (is_ours(fd))
        eventfd_write(fd, 1);
}

/* Kernels before 5.12 (timerfd: 6.9) cannot be asked in one call. */
static bool is_waiting(int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    return poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0;
}

uint64_t spotnik_wake_take(int fd)
{
    uint64_t count = 0;
    struct iovec piece = { .iov_base = &count, .iov_len = sizeof count };
    ssize_t got = preadv2(fd, &piece, 1, -1, RWF_NOWAIT);
    if (got < 0 && (errno == EOPNOTSUPP || errno == ENOSYS) && is_waiting(fd))
        got = read(fd, &count, sizeof count);
    return got == (ssize_t)sizeof count ? count : 0;
}

void spotnik_wake_close(int fd)
{
    if (is_ours(fd))
        close(fd);
}
