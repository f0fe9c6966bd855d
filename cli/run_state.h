/* SPDX-License-Identifier: Apache-2.0 */
/* What a run is about: shared by the loop (run_loop.c) and by what it reads from the members
 * (run_watch.c). */
#ifndef SPOTNIK_CLI_RUN_STATE_H
#define SPOTNIK_CLI_RUN_STATE_H

#include "base/prng.h"
#include "metrics/messages.h"
#include "run.h"

/* status: another founding has our job's name, or its place (sysexits calls 76 a protocol error) */
#define RUN_REFUSED 76
/* status: the job was asked for checkpoints and completed none (an input/output error there) */
#define RUN_UNSAVED 74

/* Where a run stands. It moves forward only: run_state.c has the moves. */
enum run_state {
    RUN_TRAINS,   /* workers that are lost are replaced, if the user wants that */
    RUN_CRASHING, /* workers fail one after the other: none is replaced any more */
    RUN_STUCK,    /* we end the workers: no member can come that would let them go on */
    RUN_REFUSING, /* another founding has the name of a worker's job, or its place */
    RUN_DONE,     /* the job is done: no worker is replaced any more */
    RUN_STATES,
};

/* Workers that have ended with status 0. */
struct run_ended {
    bool any, told;
    uint64_t step; /* the latest of them has ended after this one */
    uint32_t number;
};

/* Members that wait until others have come. */
struct run_waits {
    uint32_t members, needed; /* 0 needed: they do not wait */
    uint64_t since_ns;
    bool told;
};

/* What we have told last. */
struct run_told {
    uint64_t waiting_ns;      /* when: that a member waits */
    uint64_t step;            /* of a change of strategy */
    uint64_t minority_digest; /* of the state of a minority */
    struct run_message {
        uint64_t epoch, ns;
        char text[404];
    } message[SPOTNIK_SAID_KINDS]; /* of members */
};

struct run {
    enum run_state state;
    const struct run_options *options;
    struct agent agent;
    struct spotnik_prng prng;
    int signals;
    /* kill_ns: the next kill; SPOTNIK_NEVER before the first commit */
    uint64_t begun_ns, kill_ns, patience_ns;
    uint32_t failures;       /* in a row, of workers that never committed a step */
    uint64_t looked_done_ns; /* when we looked last for the end of the job on record, ... */
    uint64_t mended_ns;      /* ... and whether the run's folder is whole */
    /* how often the user, or patience, has asked to end: 0 none, 1 leave, 2 SIGTERM, 3 SIGKILL */
    uint32_t stage;
    size_t churn_at;
    struct notice_watcher watcher;
    bool coming_back;   /* start workers again as soon as those that left are gone */
    uint64_t most_step; /* the last step that any worker has told of */
    /* the record of an end of the job that was there before us; 0: none */
    uint64_t done_print;
    struct run_ended ended;
    struct run_waits waits;
    struct run_told told;
    bool unsaved;     /* the last worker ended, and its last checkpoint had failed */
    char failed[128]; /* the first workers that failed, as the last line names them */
};

/* run_state.c: go there, unless the run stands there or further. */
void run_state_reach(struct run *run, enum run_state state);

/* A line of our own on standard error, unless the user wants none. The second kind has an id, as
 * docs/reference/messages.md explains it. */
void run_say(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void run_tell(const struct run *run, enum spotnik_said kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* run_told.c: tell what the members have said since we looked last. */
void run_told_look(struct run *run, uint64_t now_ns);

/* run_stall.c. Say which process keeps its group waiting, and end the group after a limit. */
void run_stall_look(struct run *run, uint64_t now_ns);

/* The last step the worker in this place has committed; 0: none, so it is no member yet that
 * anybody would miss. */
uint64_t run_committed(const struct run *run, const struct agent_worker *worker);

/* How many workers have committed a step. */
uint32_t run_members(const struct run *run);

/* run_victim.c: the worker to kill now, chosen by the seed among those that hold the newest state.
 * NULL: no more of them are there than the minimum. */
struct agent_worker *run_victim(struct run *run);

/* Read what the members have told: steps, waits, strategies; say what the user should know. */
void run_look(struct run *run, uint64_t now_ns);

/* A worker has ended: say where it has left its state, if it was cut off and stopped. */
void run_look_at_minority(struct run *run, const struct agent_worker *worker);

/* A worker has ended with status 0, not having left: is the job done, is this one a joiner that had
 * nothing to do? */
void run_ended(struct run *run, const struct agent_worker *worker);

/* run_done.c. At the start; and while workers wait that have committed no step: does another host
 * say by now that the job is done? */
void run_done_begin(struct run *run);
bool run_done_appears(struct run *run, uint64_t now_ns);
/* A worker has ended with status 0: put the end of the job on record where it was the job's. */
void run_done_write(const struct run *run, const struct agent_worker *worker);

/* A worker has ended, and was not lost: had it a checkpoint at all, if it was asked for one? */
void run_look_at_checkpoints(struct run *run, const struct agent_worker *worker);

/* run_verdict.c: the exit status; the last line; a worker that failed, for the last line. */
int run_verdict(const struct run *run);
void run_verdict_say(const struct run *run, uint64_t now_ns);
void run_verdict_note_failed(struct run *run, uint32_t number, int status);

/* Is the job done, as far as those that have ended can tell? */
bool run_is_done(const struct run *run);

/* Do the members wait for a member that cannot come? */
bool run_is_stuck(const struct run *run);
/* So, and the job is done: they came too late for its last step. */
bool run_is_left_over(const struct run *run);

#endif
