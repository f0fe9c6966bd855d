/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a worker: with --group several, which are one member of the job
 * (docs/design/0039-groups.md). Rank 0 of them is the worker's process group. */
#ifndef SPOTNIK_CLI_AGENT_GROUP_H
#define SPOTNIK_CLI_AGENT_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AGENT_GROUP_MAX 64 /* SPOTNIK_GROUP_PROCESSES_MAX */

struct agent_group {
    uint32_t size; /* as many were started */
    uint32_t running;
    pid_t pid[AGENT_GROUP_MAX]; /* 0: has ended */
    int status;                 /* the wait status that says most about those that have ended */
    uint16_t port;              /* where rank 0 may meet the others: MASTER_PORT */
    uint64_t started_ns;
    /* run_stall.c: its last step, and since when a process of it owes a call; is that told? */
    uint64_t step, owes_ns;
    bool told;
};

/* A port of 127.0.0.1 that was free a moment ago; 0: none. */
uint16_t agent_group_port(void);

/* In the child of this rank: SPOTNIK_GROUP, and the variables of torchrun for a world that is the
 * group. `worker` counts starts. */
void agent_group_environment(const struct agent_group *group, uint32_t worker, uint32_t rank,
                             uint32_t size);

void agent_group_add(struct agent_group *group, pid_t pid);

/* A child has ended: was it one of the group? The worker has ended when none is running. The others
 * are killed, unless it ended in good order (0, 75): then they do, too. */
bool agent_group_ended(struct agent_group *group, pid_t worker, pid_t pid, int status);

#endif
