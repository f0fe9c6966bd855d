/* SPDX-License-Identifier: Apache-2.0 */
/* The end of workers whose agent was killed. Without it they would train on alone, and the next
 * start would found a second job beside them. */
#ifndef SPOTNIK_CLI_AGENT_GUARD_H
#define SPOTNIK_CLI_AGENT_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "link/slots.h"

struct agent_guard {
    pid_t *group;                /* of each place; 0: free. Shared with the guard's process */
    struct spotnik_slots *slots; /* of the same places */
    uint32_t places;
    int alive; /* held by the agent alone: its end is the agent's */
};

/* A process of its own that outlives the agent by `grace_ns` at most: SIGTERM asks all groups to
 * leave, SIGKILL ends those that stay. A member that has left its worker's group (setsid) is asked,
 * and ended, by its slot. False: errno. */
bool agent_guard_start(struct agent_guard *guard, struct spotnik_slots *slots, uint64_t grace_ns);
/* No worker is left. */
void agent_guard_end(struct agent_guard *guard);

void agent_guard_set(struct agent_guard *guard, uint32_t place, pid_t group);

/* In a worker before it becomes its program: ask it to leave when its agent ends, for the moment in
 * which the guard may be killed with the agent. False: the agent has ended. */
bool agent_guard_bind(pid_t agent);

#endif
