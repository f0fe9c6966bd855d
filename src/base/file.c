/* SPDX-License-Identifier: Apache-2.0 */
/* Opening regular files. See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int spotnik_file_open(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat facts;

    if (fd < 0)
        return -errno;
    int error = fstat(fd, &facts) ? errno : S_ISREG(facts.st_mode) ? 0 : EINVAL;
    if (error) {
        close(fd);
        return -error;
    }
    return fd; /* O_NONBLOCK means nothing to a regular file */
}

const char *spotnik_file_why(int error)
{
    return error == -EINVAL ? "it is no regular file" : strerror(-error);
}
