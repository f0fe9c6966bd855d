/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: starts workers on this host, passes on what they print, reaps them; they end
 * with it (agent_guard.h). What to start and to kill, and when, is decided by cmd_run.c. */
#ifndef SPOTNIK_CLI_AGENT_H
#define SPOTNIK_CLI_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent_gpus.h"
#include "agent_group.h"
#include "agent_guard.h"
#include "link/slots.h"
#include "output.h"

#define AGENT_LINE 4096
#define AGENT_SOON_NS UINT64_C(600000000000) /* a worker that failed later made progress */

/* What a worker prints, cut into lines: a pipe, or the file that it writes with --log-dir. */
struct agent_pipe {
    int fd;       /* -1: closed */
    bool is_file; /* of both streams; it has an end only when the worker has ended */
    bool error;   /* standard error */
    uint32_t used;
    char line[AGENT_LINE];
};

enum agent_end { AGENT_RUNNING, AGENT_DONE, AGENT_INTERRUPTED, AGENT_FAILED, AGENT_LOST };

struct agent_worker {
    pid_t pid; /* its process group; 0: the place is free */
    struct agent_group group;
    uint32_t number; /* w<number>: counts starts, never used twice */
    uint32_t node;   /* of the trace, when one is replayed */
    uint64_t started_ns;
    /* of this place: failures in a row with the same end, each soon after its start */
    uint32_t failures;
    int last_failure;           /* its wait status */
    uint32_t next_line;         /* of its messages: the first that we have not read */
    bool leaving, killed;       /* asked to leave; killed by us */
    bool oom;                   /* killed for want of memory */
    struct agent_pipe out, err; /* err: not with a file */
    struct output_tail tail;    /* the last of its errors that were not shown */
};

struct agent {
    char **command;
    uint32_t places; /* how many workers at once */
    struct agent_worker *worker;
    struct spotnik_slots *slots;
    int slots_fd;
    struct agent_guard guard;
    pid_t pid;          /* ours */
    const char *bind;   /* with bind_port: SPOTNIK_BIND of place 0 */
    uint16_t bind_port; /* 0: that of the environment */
    bool torchrun;      /* workers get torchrun's variables */
    uint32_t group;     /* processes of a worker; 0: one, which is no group */
    const struct agent_gpus *gpus;
    struct output output;
    bool told; /* the senior worker has ended with 0, and said all: nobody follows it */
    uint32_t started, killed;
    uint64_t oom_kills; /* those that we know of */
    int first_error;    /* exit status of the first worker that failed; 0: none */
    uint32_t ended[AGENT_LOST + 1];
};

/* What `output` names belongs to the caller. */
bool agent_init(struct agent *agent, char **command, uint32_t places, uint64_t grace_ns,
                const struct output *output);
void agent_done(struct agent *agent);
uint32_t agent_running(const struct agent *agent);

/* Start a worker in a free place. NULL: no place or no process (errno). */
struct agent_worker *agent_start(struct agent *agent);
void agent_kill(struct agent *agent, struct agent_worker *worker);

/* To the worker and to what it has started: its process group. */
void agent_signal(const struct agent_worker *worker, int number);

/* Ask for a planned leave: through the slot if the worker has joined a job, else by SIGTERM. */
void agent_leave(struct agent *agent, struct agent_worker *worker);

/* The job was done before this worker came: whatever its status, it is no failure. */
bool agent_is_late(const struct agent *agent, const struct agent_worker *worker);

/* Read what has come and pass on whole lines, each tagged "[w3] " where it is shown. */
void agent_read(struct agent *agent, struct agent_worker *worker, struct agent_pipe *pipe);

/* All processes of a worker have ended: drain its pipes, count it, free the place. Returns how it
 * ended. */
enum agent_end agent_reaped(struct agent *agent, struct agent_worker *worker, char *text,
                            size_t size);

#endif
