/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik run: what was asked for (cmd_run.c) and the loop that does it (run_loop.c). */
#ifndef SPOTNIK_CLI_RUN_H
#define SPOTNIK_CLI_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "churn.h"
#include "common/notice_watcher.h"
#include "run_folder.h"

struct run_options {
    uint32_t min, max;     /* steps wait for `min`; never more than `max` workers at once */
    uint32_t start;        /* members that the first step waits for; 0: `min` */
    uint32_t failures_max; /* in a row, of the workers of one place: no more are started */
    bool respawn, quiet;
    bool local;                      /* all members of the job are workers of this run ... */
    const struct run_folder *folder; /* ... which meet here; else NULL */
    bool torchrun;                   /* give workers RANK, WORLD_SIZE and the like */
    uint32_t group;                  /* processes of a worker; 0: one, which is no group */
    struct agent_gpus gpus;          /* of this host, and how they are dealt */
    bool watch_sync;                 /* say when members change their strategy */
    uint64_t kill_every_ns;          /* 0: never */
    /* between the request to leave and SIGTERM, and between SIGTERM and SIGKILL */
    uint64_t grace_ns;
    uint64_t stall_ns;  /* a group with a process that makes no call ends after it; 0: never */
    struct churn churn; /* event_count 0: none */
    double speedup;
    uint64_t seed; /* which workers --kill-every chooses */
    struct notice_watcher_options notice;
    struct output output; /* where the lines of workers go */
    /* of the peers or of the checkpoints: the end of the job is on record here; NULL: nowhere */
    const char *done_folder;
    /* with bind_port: where the worker in place 0 listens; the next ones behind it */
    const char *bind;
    uint16_t bind_port; /* 0: SPOTNIK_BIND as it is */
    char **command;
};

/* Find the GPUs of this host, decide how many a worker gets where the user said nothing, and say it
 * in a line. */
void run_gpus_deal(struct run_options *run);

/* Start, watch and end the workers. Returns the exit status of `spotnik run`. */
int run_loop(const struct run_options *options);

#endif
