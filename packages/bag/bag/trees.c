/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, and the removal of trees. */
#include "bag/bag.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"

static int write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(fd, bytes, size);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -errno;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

/* The first `bytes`, or all there are. `to` below zero: nowhere. */
static int stream(int from, int to, uint64_t bytes, struct spotnik_hash *hash)
{
    static char block[1 << 18];
    for (;;) {
        ssize_t got = read(from, block, bytes < sizeof block ? (size_t)bytes : sizeof block);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        bytes -= (uint64_t)got;
        spotnik_hash_add(hash, block, (size_t)got);
        int rc = to >= 0 ? write_all(to, block, (size_t)got) : 0;
        if (rc != 0)
            return rc;
    }
}

int bag_hash(const char *path, uint64_t *ret_hash)
{
    struct spotnik_hash hash;
    int fd = spotnik_file_open(path);
    if (fd < 0)
        return fd;
    spotnik_hash_begin(&hash);
    int rc = stream(fd, -1, UINT64_MAX, &hash);
    close(fd);
    if (rc == 0)
        *ret_hash = spotnik_hash_end(&hash);
    return rc;
}

static int copy(const char *from, const char *to, uint64_t bytes, uint64_t *ret_hash)
{
    struct spotnik_hash hash;
    struct stat facts;
    int in = spotnik_file_open(from);
    if (in < 0)
        return in;
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int rc = out < 0 ? -errno : 0;
    spotnik_hash_begin(&hash);
    if (rc == 0)
        rc = stream(in, out, bytes, &hash);
    if (rc == 0
        && (fstat(in, &facts) != 0 || fchmod(out, facts.st_mode & 0777) != 0 || fsync(out) != 0))
        rc = -errno;
    close(in);
    if (out >= 0 && close(out) != 0 && rc == 0)
        rc = -errno;
    if (out >= 0 && rc != 0)
        unlink(to);
    if (rc == 0 && ret_hash != NULL)
        *ret_hash = spotnik_hash_end(&hash);
    return rc;
}

int bag_copy(const char *from, const char *to, uint64_t *ret_hash)
{
    return copy(from, to, UINT64_MAX, ret_hash);
}

int bag_copy_start(const char *from, const char *to, uint64_t bytes, uint64_t *ret_hash)
{
    struct stat facts;
    int rc = copy(from, to, bytes, ret_hash);
    if (rc != 0 || (stat(to, &facts) == 0 && (uint64_t)facts.st_size == bytes))
        return rc;
    unlink(to);
    return -ENODATA;
}

static int remove_one(const char *path, const struct stat *facts, int kind, struct FTW *place)
{
    (void)facts;
    (void)kind;
    (void)place;
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

int bag_remove(const char *path)
{
    return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT ? 0 : -errno;
}
