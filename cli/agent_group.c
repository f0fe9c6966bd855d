/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_group.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spotnik/group.h"

_Static_assert(AGENT_GROUP_MAX == SPOTNIK_GROUP_PROCESSES_MAX, "a group has one limit");

uint16_t agent_group_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool got = fd >= 0 && !bind(fd, (struct sockaddr *)&address, size)
               && !getsockname(fd, (struct sockaddr *)&address, &size);

    if (fd >= 0)
        close(fd);
    return got ? ntohs(address.sin_port) : 0;
}

static void number_set(const char *name, uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", (unsigned)value);
    setenv(name, text, 1);
}

void agent_group_environment(const struct agent_group *group, uint32_t worker, uint32_t rank,
                             uint32_t size)
{
    char text[96];

    /* the time: containers may share names of sockets, and have the same process numbers */
    snprintf(text, sizeof(text), "run-%d-%llu-w%u:%u:%u", (int)getppid(),
             (unsigned long long)group->started_ns, (unsigned)worker, (unsigned)rank,
             (unsigned)size);
    setenv("SPOTNIK_GROUP", text, 1);
    number_set("RANK", rank);
    number_set("LOCAL_RANK", rank);
    number_set("WORLD_SIZE", size);
    number_set("LOCAL_WORLD_SIZE", size);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    number_set("MASTER_PORT", group->port);
}

void agent_group_add(struct agent_group *group, pid_t pid)
{
    group->pid[group->size++] = pid;
    group->running++;
}

static bool is_in_order(int status)
{
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 75);
}

/* One process fails, and the others of its group are killed for it: the first says why. */
static int weight(int status)
{
    if (is_in_order(status))
        return WEXITSTATUS(status) != 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 2 : 3;
}

bool agent_group_ended(struct agent_group *group, pid_t worker, pid_t pid, int status)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (group->pid[rank] != pid)
            continue;
        group->pid[rank] = 0;
        if (group->running == group->size || weight(status) > weight(group->status))
            group->status = status;
        group->running--;
        /* by the group's own hand they die sooner, but one may not have opened it yet */
        if (!is_in_order(status) && group->running)
            kill(-worker, SIGKILL);
        return true;
    }
    return false;
}
