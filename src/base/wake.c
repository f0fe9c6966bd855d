/* SPDX-License-Identifier: Apache-2.0 */
/* An eventfd; taking also from a timerfd. Both are non-blocking. */
#include "base/wake.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"

void spotnik_wake(int fd)
{
    if (fd >= 0 && eventfd_write(fd, 1) != 0)
        spotnik_descriptor_check(errno);
}

uint64_t spotnik_wake_take(int fd)
{
    uint64_t count = 0;
    ssize_t got = read(fd, &count, sizeof count);
    if (got < 0)
        spotnik_descriptor_check(errno);
    return got == (ssize_t)sizeof count ? count : 0;
}
