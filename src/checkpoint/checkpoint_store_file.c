/* SPDX-License-Identifier: Apache-2.0 */
/* Files of checkpoints: each appears under its name only when all of it is on the disk. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "spotnik/spotnik.h"
#include "checkpoint/checkpoint_store.h"

/* With errno as it is: callers make room on a full disk. */
static int fail(const struct spotnik_checkpoint_store_file *file, const char *doing)
{
    int error = errno,
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot %s %s: %m", doing, file->directory);

    errno = error;
    return rc;
}

int spotnik_checkpoint_store_file_begin(struct spotnik_checkpoint_store_file *file, const char *dir,
                                        const char *entry, uint64_t writer)
{
    int length = snprintf(file->directory, sizeof file->directory, "%s/%s", dir, entry);

    if (length < 0 || (size_t)length + 32 > sizeof file->temporary)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the path of the checkpoint directory is too long");
    memcpy(file->temporary, file->directory, (size_t)length);
    snprintf(file->temporary + length, sizeof file->temporary - (size_t)length, "/.tmp-%016llx",
             (unsigned long long)writer);
    unlink(file->temporary); /* of an attempt of ours that failed */
    file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return file->fd < 0 ? fail(file, "create a file in") : 0;
}

int spotnik_checkpoint_store_file_add(struct spotnik_checkpoint_store_file *file, const void *bytes,
                                      size_t size)
{
    const uint8_t *at = bytes;

    while (size) {
        ssize_t written = write(file->fd, at, size);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            int rc = fail(file, "write to");

            spotnik_checkpoint_store_file_end(file, NULL);
            return rc;
        }
        at += written;
        size -= (size_t)written;
    }
    return 0;
}

static int settle(struct spotnik_checkpoint_store_file *file, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", file->directory, name);

    if (length < 0 || (size_t)length >= sizeof path)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the path of the checkpoint directory is too long");
    if (fsync(file->fd) || rename(file->temporary, path))
        return fail(file, "write to");
    int fd = open(file->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || (fsync(fd) && errno != EINVAL) ? fail(file, "write to") : 0;

    if (fd >= 0)
        close(fd);
    return rc;
}

int spotnik_checkpoint_store_file_end(struct spotnik_checkpoint_store_file *file, const char *name)
{
    int rc = name ? settle(file, name) : 0, error = errno;

    if (!name || rc)
        unlink(file->temporary);
    close(file->fd);
    file->fd = -1;
    errno = error;
    return rc;
}

int spotnik_checkpoint_store_put(const char *dir, const char *entry, const char *name,
                                 uint64_t writer, const void *bytes, size_t size)
{
    struct spotnik_checkpoint_store_file file;
    int rc = spotnik_checkpoint_store_file_begin(&file, dir, entry, writer);

    if (!rc)
        rc = spotnik_checkpoint_store_file_add(&file, bytes, size);
    return rc ? rc : spotnik_checkpoint_store_file_end(&file, name);
}

static int read_all(int fd, const char *path, size_t size, uint8_t **ret_bytes)
{
    uint8_t *bytes = malloc(size ? size : 1);
    size_t have = 0;

    if (!bytes)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to read %s", path);
    while (have < size) {
        ssize_t got = read(fd, bytes + have, size - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            int rc = got ? spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read %s: %m", path)
                         : spotnik_error_return(SPOTNIK_ERR_PEERS, "%s became shorter", path);
            free(bytes);
            return rc;
        }
        have += (size_t)got;
    }
    *ret_bytes = bytes;
    return 0;
}

int spotnik_checkpoint_store_get(const char *dir, const char *entry, const char *name,
                                 size_t size_max, uint8_t **ret_bytes, size_t *ret_size)
{
    char path[PATH_MAX];
    struct stat facts;

    snprintf(path, sizeof path, "%s/%s/%s", dir, entry, name);
    int fd = spotnik_file_open(path);
    if (fd < 0)
        return spotnik_error_return(fd == -ENOENT || fd == -EINVAL ? SPOTNIK_ERR_PEERS
                                                                   : SPOTNIK_ERR_SYSTEM,
                                    "cannot read %s: %s", path, spotnik_file_why(fd));
    if (fstat(fd, &facts)) {
        int rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read %s: %m", path);

        close(fd);
        return rc;
    }
    int rc =
        (uint64_t)facts.st_size > size_max
            ? spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is longer than such a file can be", path)
            : read_all(fd, path, (size_t)facts.st_size, ret_bytes);
    if (!rc)
        *ret_size = (size_t)facts.st_size;
    close(fd);
    return rc;
}

bool spotnik_checkpoint_store_has(const char *dir, const char *entry, const char *name)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s/%s", dir, entry, name);
    return access(path, F_OK) == 0;
}
