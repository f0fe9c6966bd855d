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
#include "checkpoint/checkpoint_bucket.h"

#define WRITE_BYTES ((size_t)8 << 20)

/* A file being written under a name of its own; it gets its real name when it is whole. */
struct file {
    char directory[PATH_MAX], temporary[PATH_MAX];
    int fd;
};

/* With errno as it is: callers make room on a full disk. */
static int fail(const struct file *file, const char *doing)
{
    int error = errno,
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot %s %s: %m", doing, file->directory);

    errno = error;
    return rc;
}

static int file_begin(struct file *file, const char *dir, const char *entry, uint64_t writer)
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

static int file_add(const struct file *file, const struct iovec *piece,
                    const struct spotnik_objects_pieces *pieces)
{
    const uint8_t *at = piece->iov_base, *end = at + piece->iov_len;

    while (at < end) {
        size_t some = (size_t)(end - at) < WRITE_BYTES ? (size_t)(end - at) : WRITE_BYTES;

        if (pieces->is_stopped && pieces->is_stopped(pieces->context))
            return spotnik_error_return(SPOTNIK_ERR_STATE,
                                        "this member ended before it was written");
        ssize_t written = write(file->fd, at, some);

        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return fail(file, "write to");
        at += written;
    }
    return 0;
}

/* To the disk, then its name, then the name to the disk. */
static int settle(const struct file *file, const char *name)
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

int spotnik_checkpoint_store_write(const char *dir, const char *entry, const char *name,
                                   uint64_t writer, const struct spotnik_objects_pieces *pieces)
{
    struct file file;

    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_write(dir, entry, name, pieces);
    int rc = file_begin(&file, dir, entry, writer);

    if (rc)
        return rc;
    for (int i = 0; i < pieces->count && !rc; i++)
        rc = file_add(&file, &pieces->piece[i], pieces);
    if (!rc)
        rc = settle(&file, name);
    int error = errno;

    if (rc)
        unlink(file.temporary);
    close(file.fd);
    errno = error;
    return rc;
}

int spotnik_checkpoint_store_put(const char *dir, const char *entry, const char *name,
                                 uint64_t writer, const void *bytes, size_t size)
{
    struct iovec piece = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };

    return spotnik_checkpoint_store_write(dir, entry, name, writer,
                                          &(struct spotnik_objects_pieces){ .piece = &piece,
                                                                            .count = 1 });
}

int spotnik_checkpoint_store_replace(const char *dir, const char *entry, const char *name,
                                     uint64_t writer, const void *bytes, size_t size)
{
    return spotnik_objects_is_bucket(dir)
               ? spotnik_checkpoint_bucket_replace(dir, entry, name, bytes, size)
               : spotnik_checkpoint_store_put(dir, entry, name, writer, bytes, size);
}

void spotnik_checkpoint_store_remove(const char *dir, const char *entry, const char *name)
{
    char path[PATH_MAX];

    if (spotnik_objects_is_bucket(dir)) {
        spotnik_checkpoint_bucket_delete(dir, entry, name);
        return;
    }
    snprintf(path, sizeof path, "%s/%s/%s", dir, entry, name);
    unlink(path);
}

/* ---- reading ---- */

static int scan(int fd, const char *name, const struct spotnik_checkpoint_store_reader *reader)
{
    for (;;) {
        ssize_t got = read(fd, reader->buffer, reader->size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read %s: %m", name);
        if (got == 0)
            return 0;
        if (!reader->take(reader->context, reader->buffer, (size_t)got))
            return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                        "%s does not hold what its manifest says", name);
    }
}

int spotnik_checkpoint_store_read(const char *dir, const char *entry, const char *name,
                                  const struct spotnik_checkpoint_store_reader *reader)
{
    char path[PATH_MAX];

    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_read(dir, entry, name, reader);
    snprintf(path, sizeof path, "%s/%s/%s", dir, entry, name);
    int fd = spotnik_file_open(path);

    if (fd == -ENOENT)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is missing", name);
    if (fd < 0)
        return spotnik_error_return(fd == -EINVAL ? SPOTNIK_ERR_PEERS : SPOTNIK_ERR_SYSTEM,
                                    "cannot read %s: %s", path, spotnik_file_why(fd));
    int rc = scan(fd, name, reader);

    close(fd);
    return rc;
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

    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_get(dir, entry, name, size_max, ret_bytes, ret_size);
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

    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_has(dir, entry, name);
    snprintf(path, sizeof path, "%s/%s/%s", dir, entry, name);
    return access(path, F_OK) == 0 || spotnik_error_return(false, "cannot look at %s: %m", path);
}
