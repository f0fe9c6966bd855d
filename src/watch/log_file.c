/* SPDX-License-Identifier: Apache-2.0 */
/* The event log on disk: one file a member, which that member alone appends to. So nothing is
 * locked, nothing is lost on file systems whose O_APPEND is not atomic between hosts, and what a
 * member wrote outlives it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/store.h"
#include "watch/inside.h"

int spotnik_watch_log_open(const char *dir, const char *member, int *ret_fd)
{
    char path[4096];

    if (strstr(dir, "://"))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "SPOTNIK_EVENTS (--events) is %.200s, which is no folder and "
                                    "no bucket: write a folder, " SPOTNIK_OBJECTS_URLS ", or off",
                                    dir);
    dir += strncmp(dir, "file:", 5) ? 0 : 5;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot make the folder of the event log, %.2000s: %m", dir);
    int length = snprintf(path, sizeof path, "%s/%s.jsonl", dir, member);
    if (length < 0 || (size_t)length >= sizeof path)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the path of the event log is too long: %.200s...", dir);
    *ret_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (*ret_fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write the event log %.2000s: %m",
                                    path);
    return 0;
}

bool spotnik_watch_log_write(int fd, const char *line, bool lasting)
{
    char text[EVENT_MAX + 1];
    size_t size = strlen(line);

    if (size >= sizeof text)
        return false;
    memcpy(text, line, size);
    text[size++] = '\n';
    if (write(fd, text, size) != (ssize_t)size)
        return false;
    return !lasting || fdatasync(fd) == 0 || errno == EINVAL; /* EINVAL: a pipe or the like */
}
