/* SPDX-License-Identifier: Apache-2.0 */
/* Opening regular files. See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
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
