/* SPDX-License-Identifier: Apache-2.0 */
/* One job writes to a directory of checkpoints: every member of it holds a shared lock on its file
 * "writer", which the kernel gives back however the member ends. A founder of another job must have
 * it alone for a moment, so it cannot begin beside them. Where the file system has no locks, and
 * in a bucket, there is no such promise. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "checkpoint/checkpoint_store.h"
#include "spotnik/spotnik.h"

#define WRITER_NAME "writer"
#define LOOK_NS (50 * SPOTNIK_MS)

/* What the file says: the first founding that the job goes back to, and the job's name. */
static uint64_t writer_read(int fd, char job[257])
{
    char text[300] = "";
    unsigned long long root = 0;

    job[0] = '\0';
    if (pread(fd, text, sizeof text - 1, 0) < 0 || sscanf(text, "%16llx %256[^\n]", &root, job) < 1)
        return 0;
    return root;
}

static void writer_write(int fd, const char *job, uint64_t root)
{
    if (ftruncate(fd, 0) == 0)
        dprintf(fd, "%016llx %.256s\n", (unsigned long long)root, job);
}

/* 0: it is held; EWOULDBLOCK: others hold it; or an errno: there are no locks here. */
static int hold_try(int fd, const char *job, uint64_t root)
{
    char other[257];

    if (writer_read(fd, other) == root)
        return flock(fd, LOCK_SH | LOCK_NB) ? errno : 0;
    if (flock(fd, LOCK_EX | LOCK_NB))
        return errno;
    writer_write(fd, job, root);
    return flock(fd, LOCK_SH | LOCK_NB) ? errno : 0;
}

static int refuse(int fd, const char *dir, const char *job, uint64_t root)
{
    char other[257];
    uint64_t theirs = writer_read(fd, other);

    return spotnik_error_return(
        SPOTNIK_ERR_CHECKPOINT,
        "a living job writes to the checkpoint directory %.200s: %.60s, founded as %016llx; this "
        "one is "
        "%.60s, founded as %016llx: end the other, or give this one a directory of its own "
        "(SPOTNIK_CHECKPOINT)",
        dir, other, (unsigned long long)theirs, job, (unsigned long long)root);
}

int spotnik_checkpoint_store_hold(const char *dir, const char *job, uint64_t root,
                                  uint64_t patience_ns, int *ret_fd)
{
    static const struct timespec pause = { .tv_nsec = LOOK_NS };
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), patience_ns);
    char path[PATH_MAX];
    int rc;

    *ret_fd = -1;
    if (spotnik_objects_is_bucket(dir))
        return 0; /* it has no locks; the founding record keeps a second job away */
    snprintf(path, sizeof path, "%s/" WRITER_NAME, dir);
    *ret_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (*ret_fd < 0)
        return 0;
    while ((rc = hold_try(*ret_fd, job, root)) == EWOULDBLOCK && spotnik_clock_ns() < until_ns)
        nanosleep(&pause, NULL);
    if (rc != EWOULDBLOCK)
        return 0;
    rc = refuse(*ret_fd, dir, job, root);
    close(*ret_fd);
    *ret_fd = -1;
    return rc;
}
