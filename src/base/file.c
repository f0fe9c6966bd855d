/* SPDX-License-Identifier: Apache-2.0 */
/* Opening regular files, and putting whole ones into place. See file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_regular(int rc, const struct stat *facts)
{
    if (rc == 0 && !S_ISREG(facts->st_mode))
        errno = EINVAL;
    return rc == 0 && S_ISREG(facts->st_mode);
}

static int regular_open(int folder, const char *path, int flags)
{
    struct stat facts;
    if (!is_regular(fstatat(folder, path, &facts, flags & O_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0),
                    &facts))
        return -1;
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (fd >= 0 && !is_regular(fstat(fd, &facts), &facts)) { /* exchanged in between */
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

int spotnik_regular_open(const char *path, int flags)
{
    return regular_open(AT_FDCWD, path, flags);
}

int spotnik_file_open_in(int folder, const char *name)
{
    int fd = regular_open(folder, name, 0);

    return fd < 0 ? -errno : fd; /* O_NONBLOCK means nothing to a regular file */
}

int spotnik_file_open(const char *path)
{
    return spotnik_file_open_in(AT_FDCWD, path);
}

const char *spotnik_file_why(int error)
{
    return error == -EINVAL ? "it is no regular file" : strerror(-error);
}

/* ---- putting ---- */

static int write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(fd, text, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -errno;
        text += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

/* Never write through a file that another process has put there. Remove what an earlier run left
 * that was killed. */
static int temporary_open(const char *path)
{
    static const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path, flags, 0644);
    if (fd < 0 && errno == EEXIST && unlink(path) == 0)
        fd = open(path, flags, 0644);
    return fd;
}

/* A full disk shows here, before the rename could put half a record in place. Nothing is synced:
 * callers outlive a file that power loss has torn. */
static int temporary_write(const char *path, const char *text, size_t size)
{
    int fd = temporary_open(path);
    if (fd < 0)
        return -errno;
    int rc = write_all(fd, text, size);
    if (close(fd) != 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* The name is ours although link() found it taken: a file server that repeats our request reports
 * our own link. */
static bool is_linked(const char *temporary)
{
    struct stat facts;
    return stat(temporary, &facts) == 0 && facts.st_nlink > 1;
}

/* link() makes the name and finds it taken in one step, on network file systems too. */
static int exclusive_put(const char *temporary, const char *path)
{
    if (link(temporary, path) == 0)
        return 0;
    int error = errno;
    return error == EEXIST && is_linked(temporary) ? 0 : -error;
}

int spotnik_file_put(const char *directory, const char *name, uint64_t writer, const void *bytes,
                     size_t size, bool exclusive)
{
    char temporary[PATH_MAX], path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    snprintf(temporary, sizeof temporary, "%s/.%s.%016llx%s", directory, name,
             (unsigned long long)writer, exclusive ? ".x" : "");
    int rc = temporary_write(temporary, bytes, size);
    if (rc == 0 && exclusive)
        rc = exclusive_put(temporary, path);
    else if (rc == 0 && rename(temporary, path) != 0)
        rc = -errno;
    if (rc != 0 || exclusive)
        unlink(temporary);
    return rc;
}
