/* SPDX-License-Identifier: Apache-2.0 */
/* The shared folder. Its files are real ones in a folder of this machine; the way to it is not:
 * each operation takes its time, and fails or hangs while the host is cut off from it. The
 * operations of several processes come in any order. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "task.h"
#include "world.h"

DIR *__real_opendir(const char *path);
int __real_fstatat(int fd, const char *path, struct stat *ret, int flags);
int __real_rename(const char *from, const char *to);
int __real_link(const char *from, const char *to);
int __real_unlink(const char *path);
int __real_open(const char *path, int flags, ...);
DIR *__wrap_opendir(const char *path);
int __wrap_fstatat(int fd, const char *path, struct stat *ret, int flags);
int __wrap_rename(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_unlink(const char *path);
int __wrap_open(const char *path, int flags, ...);
int __wrap_fsync(int fd);

/* On the way of the running process to the folder. 0, or -1 with errno. */
static int algorithm(void)
{
    const struct spotnik_runtime *process = task_process();

    if (process == NULL)
        return 0;
    task_sleep(world.slow_ns != 0    ? task_below(world.slow_ns)
               : task_below(20) == 0 ? task_below(300 * SPOTNIK_MS)
                                     : task_below(2 * SPOTNIK_MS));
    while (world.host[process->host].folder == FOLDER_HANGS)
        task_sleep(100 * SPOTNIK_MS);
    if (world.host[process->host].folder == FOLDER_GOOD)
        return 0;
    task_sleep(task_below(SPOTNIK_S));
    errno = EIO;
    return -1;
}

/* The file server has a clock of its own, and stamps what is put into place. */
static void stamp(const char *path)
{
    uint64_t ns = UINT64_C(1800000000) * SPOTNIK_S + task_now_ns();
    struct timespec time[2] = { { .tv_sec = (time_t)(ns / SPOTNIK_S),
                                  .tv_nsec = (long)(ns % SPOTNIK_S) } };

    time[1] = time[0];
    (void)!utimensat(AT_FDCWD, path, time, AT_SYMLINK_NOFOLLOW);
}

DIR *__wrap_opendir(const char *path)
{
    return algorithm() == 0 ? __real_opendir(path) : NULL;
}

int __wrap_fstatat(int fd, const char *path, struct stat *ret, int flags)
{
    return algorithm() == 0 ? __real_fstatat(fd, path, ret, flags) : -1;
}

/* Now and then the server does it, and its answer is lost. */
int __wrap_rename(const char *from, const char *to)
{
    struct spotnik_runtime *process = task_process();
    uint64_t begun_ns = task_now_ns();

    if (algorithm() != 0 || __real_rename(from, to) != 0)
        return -1;
    stamp(to);
    if (process != NULL && strstr(to, "/member-") != NULL)
        process->refreshed_ns = begun_ns;
    return 0;
}

int __wrap_link(const char *from, const char *to)
{
    if (algorithm() != 0 || __real_link(from, to) != 0)
        return -1;
    stamp(to);
    if (task_below(10) == 0) {
        errno = EEXIST; /* the first answer was lost, and the server has done it twice */
        return -1;
    }
    return 0;
}

int __wrap_unlink(const char *path)
{
    return algorithm() == 0 ? __real_unlink(path) : -1;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list more;

    va_start(more, flags);
    int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    va_end(more);
    if ((flags & (O_CREAT | O_NOFOLLOW)) && strncmp(path, world.folder, strlen(world.folder)) == 0
        && algorithm() != 0)
        return -1;
    return __real_open(path, flags, mode);
}

int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}
