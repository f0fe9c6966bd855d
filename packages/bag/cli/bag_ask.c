/* SPDX-License-Identifier: Apache-2.0 */
/* --ask: a signal that makes a program write a restart file. A process that has not installed its
 * handler yet, or is only a shell around the program, would die of it. So the signal goes to those
 * of the program's group that wait for it, as the kernel says. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bag_run.h"
#include "base/file.h"

#define STATUS_MAX 4096

static bool mask_read(const char *status, const char *field, int number, bool *ret)
{
    uint64_t mask;
    const char *at = strstr(status, field);
    if (at == NULL || sscanf(at + strlen(field), " %" SCNx64, &mask) != 1)
        return false;
    *ret = (mask >> (number - 1) & 1) != 0;
    return true;
}

/* A handler, or a blocked signal that it takes up by sigwait() and its kin. All blocked: it has not
 * become the program yet. */
static bool waits_for(const char *status, int number)
{
    bool caught, blocked, term_blocked;
    return mask_read(status, "SigCgt:", number, &caught)
           && mask_read(status, "SigBlk:", number, &blocked)
           && mask_read(status, "SigBlk:", SIGTERM, &term_blocked)
           && (caught || (blocked && !term_blocked));
}

static bool status_read(pid_t pid, char text[STATUS_MAX])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    int fd = spotnik_file_open(path);
    ssize_t size = fd >= 0 ? read(fd, text, STATUS_MAX - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
    return size > 0;
}

uint32_t bag_ask(pid_t group, int number)
{
    char status[STATUS_MAX];
    uint32_t asked = 0;
    DIR *list = opendir("/proc");
    if (list == NULL)
        return kill(-group, number) == 0;
    for (const struct dirent *at; (at = readdir(list)) != NULL;) {
        pid_t pid = isdigit((unsigned char)at->d_name[0]) ? (pid_t)atoi(at->d_name) : 0;
        if (pid > 0 && getpgid(pid) == group && status_read(pid, status)
            && waits_for(status, number))
            asked += kill(pid, number) == 0;
    }
    closedir(list);
    return asked;
}
