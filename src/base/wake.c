/* SPDX-License-Identifier: Apache-2.0 */
/* What has no type as a file is an eventfd, or something else of the kernel's that does not take
 * writes. */
#include "base/wake.h"

#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
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

void spotnik_wake_close(int fd)
{
    if (is_ours(fd))
        close(fd);
}
