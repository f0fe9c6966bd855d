/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded, it makes a process believe what is not so.
 *
 * PRETEND_CLONE: its machine was resumed from a snapshot of memory that others were resumed from,
 * too: its namespaces have the numbers that theirs have.
 * PRETEND_CLOCK=FILE: the clock of its machine is off by as many seconds as FILE says now.
 * PRETEND_PORTS=FILE: its machine has no free port to dial from as long as there is FILE. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN int stat(const char *path, struct stat *ret);
SHOWN int clock_gettime(clockid_t clock, struct timespec *ret);
SHOWN time_t time(time_t *ret);
SHOWN int connect(int fd, const struct sockaddr *address, socklen_t size);

int stat(const char *path, struct stat *ret)
{
    int rc = fstatat(AT_FDCWD, path, ret, 0);
    if (rc == 0 && getenv("PRETEND_CLONE") != NULL && strncmp(path, "/proc/self/ns/", 14) == 0)
        ret->st_ino = 1;
    return rc;
}

static long off_s(void)
{
    char text[32] = "";
    const char *path = getenv("PRETEND_CLOCK");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = '\0';
    close(fd);
    return atol(text);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);
    if (rc == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        ret->tv_sec += off_s();
    return rc;
}

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL)
        *ret = now.tv_sec;
    return now.tv_sec;
}

int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    const char *none = getenv("PRETEND_PORTS");
    if (none != NULL && address->sa_family != AF_UNIX && access(none, F_OK) == 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    return (int)syscall(SYS_connect, fd, address, size);
}
