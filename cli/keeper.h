/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper: a process that holds the reading ends of the workers' pipes beside the agent. While
 * the agent lives it does nothing. When the agent is killed, the keeper goes on passing on what the
 * workers print. So their next line does not end them with SIGPIPE (or an error, in Python). The
 * keeper ends when the last of them has. */
#ifndef SPOTNIK_CLI_KEEPER_H
#define SPOTNIK_CLI_KEEPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct keeper {
    pid_t pid;
    int fd; /* ours of the socket to it */
};

struct agent;

/* Before the agent has threads, workers or blocked signals; its `output` is set. False: no process
 * or no socket (errno). */
bool keeper_start(struct keeper *keeper, const struct agent *agent);

/* The reading ends of worker `number`. Without a keeper that lives, nothing is done. */
void keeper_give(const struct keeper *keeper, uint32_t number, int out, int err);

/* Worker `number` has ended, and all it printed has been read. */
void keeper_drop(const struct keeper *keeper, uint32_t number);

/* The agent ends in good order, and the keeper with it. */
void keeper_end(struct keeper *keeper);

#endif
