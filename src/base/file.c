/* SPDX-License-Identifier: Apache-2.0 */
/* Regular files, and descriptors that may not be ours any more. See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_regular(int rc, const struct stat *facts)
{
    if (rc == 0 && !S_ISREG(facts->st_mode))
        errno = EINVAL;
    return rc == 0 && S_ISREG(facts->st_mode);
}

int spotnik_regular_open(const char *path, int flags)
{
    struct stat facts;
    if (!is_regular(fstatat(AT_FDCWD, path, &facts, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0), &facts))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (fd >= 0 && !is_regular(fstat(fd, &facts), &facts)) { /* exchanged in between */
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

int spotnik_file_open(const char *path)
{
    int fd = spotnik_regular_open(path, 0);

    return fd < 0 ? -errno : fd; /* O_NONBLOCK means nothing to a regular file */
}

const char *spotnik_file_why(int error)
{
    return error == -EINVAL ? "it is no regular file" : strerror(-error);
}

uint64_t spotnik_file_identity(int fd)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return 0;
    return (uint64_t)facts.st_ino ^ (uint64_t)facts.st_dev << 48;
}

void spotnik_file_close(int fd, uint64_t identity)
{
    if (fd >= 0 && spotnik_file_identity(fd) == identity)
        close(fd);
}

void spotnik_file_shutdown(int fd, uint64_t identity)
{
    if (fd >= 0 && spotnik_file_identity(fd) == identity)
        shutdown(fd, SHUT_RDWR);
}
