/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of our own kernel. See process.h. */
#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* What /proc/<pid>/stat says. */
struct facts {
    char state;
    uint64_t threads, start;
};

static ssize_t file_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (got >= 0)
        text[got] = '\0';
    return got;
}

/* SPOTNIK_HOST makes several machines of one for tests, so it separates boots, too. */
static uint64_t boot_number(void)
{
    char text[64];
    const char *part = getenv("SPOTNIK_HOST");
    ssize_t size = file_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    if (size <= 0)
        return 0;
    uint64_t number = spotnik_hash_bytes(text, (size_t)size);
    if (part != NULL && *part != '\0')
        number ^= spotnik_hash_bytes(part, strlen(part));
    return number | 1;
}

/* Numbers of processes belong to a PID namespace, times of their start to a time namespace. 0: not
 * known. */
static uint64_t space_number(void)
{
    struct stat pids, times;
    if (stat("/proc/self/ns/pid", &pids) != 0)
        return 0;
    uint64_t number[2] = { pids.st_ino,
                           stat("/proc/self/ns/time", &times) == 0 ? times.st_ino : 1 };
    return spotnik_hash_bytes((const char *)number, sizeof number) | 1;
}

/* The name of the program stands in parentheses and may hold any character. */
static bool facts_read(uint64_t pid, struct facts *ret)
{
    char path[64], text[1024];
    unsigned long long threads, start;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    if (file_read(path, text, sizeof text) <= 0)
        return false;
    const char *after = strrchr(text, ')');
    if (after == NULL
        || sscanf(
               after,
               ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %llu %*d %llu",
               &ret->state, &threads, &start)
               != 3)
        return false;
    ret->threads = threads;
    ret->start = start;
    return true;
}

/* /proc may show the numbers of another namespace. A process that enters a PID namespace and mounts
 * no /proc of its own (nsenter, unshare without --mount-proc) reads of other processes there. Then
 * we have one number for each namespace between that one and ours. */
static bool proc_is_ours(void)
{
    char text[4096];
    unsigned long long pid;
    int end = 0;
    if (file_read("/proc/self/status", text, sizeof text) <= 0)
        return false;
    const char *line = strstr(text, "\nNSpid:");
    return line != NULL && sscanf(line, "\nNSpid: %llu%n", &pid, &end) == 1
           && pid == (unsigned long long)getpid() && line[end] == '\n';
}

void spotnik_process_self(struct spotnik_process *ret)
{
    struct facts facts;
    memset(ret, 0, sizeof *ret);
    if (!proc_is_ours() || !facts_read((uint64_t)getpid(), &facts))
        return;
    ret->boot = boot_number();
    ret->space = space_number();
    ret->pid = (uint64_t)getpid();
    ret->start = facts.start;
}

enum spotnik_liveness spotnik_process_life(const struct spotnik_process *process)
{
    struct facts facts;
    if (process->boot == 0 || process->space == 0 || process->pid == 0
        || process->boot != boot_number() || process->space != space_number())
        return SPOTNIK_LIFE_UNKNOWN;
    if (kill((pid_t)process->pid, 0) != 0 && errno == ESRCH)
        return SPOTNIK_LIFE_ENDED;
    if (!proc_is_ours() || !facts_read(process->pid, &facts)) /* it may be hidden from us */
        return SPOTNIK_LIFE_UNKNOWN;
    if (facts.start != process->start)
        return SPOTNIK_LIFE_ENDED;
    /* A process whose first thread has ended may go on with others. */
    bool zombie = (facts.state == 'Z' || facts.state == 'X') && facts.threads <= 1;
    return zombie ? SPOTNIK_LIFE_ENDED : SPOTNIK_LIFE_ALIVE;
}
