/* SPDX-License-Identifier: Apache-2.0 */
/* Which descriptors are ours, by number and inode. A number that was closed, and names another file
 * by now, has another inode. No two sockets that are open at once have the same inode. So nothing
 * is done on close. */
#include "base/fork.h"

#include <pthread.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTED_MAX 4096 /* higher ones stay open in children */

/* of the socket that was noted under this number; 0: none. Atomic */
static uint64_t inode[NOTED_MAX];
static uint32_t generation;
static pthread_once_t registered = PTHREAD_ONCE_INIT;

/* Zero also for what is no socket. */
static uint64_t socket_inode(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? (uint64_t)status.st_ino : 0;
}

/* Only what is allowed after the fork of a process with threads. */
static void in_child(void)
{
    generation++;
    for (int fd = 0; fd < NOTED_MAX; fd++)
        if (inode[fd] != 0 && socket_inode(fd) == inode[fd])
            close(fd);
}

static void enlist(void)
{
    pthread_atfork(NULL, NULL, in_child);
}

uint32_t spotnik_fork_generation(void)
{
    pthread_once(&registered, enlist);
    return generation;
}

void spotnik_fork_note(int fd)
{
    pthread_once(&registered, enlist);
    if (fd >= 0 && fd < NOTED_MAX)
        __atomic_store_n(&inode[fd], socket_inode(fd), __ATOMIC_RELAXED);
}
