/* SPDX-License-Identifier: Apache-2.0 */
/* The table by which members of one host, and their agent, learn of a death: one robust futex per
 * member. They learn it before the kernel has torn down the memory of the dead. Layout and agent
 * side; the member side is death.h.
 *
 *     agent:  spotnik_slots_new() -> memfd; per start of a member: spotnik_slots_assign(), then in
 *     the child
 *             SPOTNIK_SLOTS_FD=<fd> SPOTNIK_SLOT=<index> with close-on-exec cleared on the fd;
 *             SPOTNIK_SLOTS_PID=<agent>, for a process that has inherited only the environment
 *     member: its progress thread owns `word` (TID | FUTEX_WAITERS); the kernel makes it
 *     FUTEX_OWNER_DIED
 *
 * The table is shared memory of one user on one host; what is in it is believed, as `kill` would
 * be. */
#ifndef SPOTNIK_LINK_SLOTS_H
#define SPOTNIK_LINK_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define SPOTNIK_SLOTS_MAGIC UINT32_C(0x746f6c73)
#define SPOTNIK_SLOTS_VERSION 3
#define SPOTNIK_SLOT_LATE 2
#define SPOTNIK_SLOT_LAST 2
#define SPOTNIK_SLOT_FAILED 2

/* Messages of one member that the agent has not read yet; a later one takes the place of the
 * oldest. */
#define SPOTNIK_SLOT_LINES 16

/* A message of a member for the log of its agent. */
struct spotnik_slot_line {
    uint64_t epoch; /* the view it is about */
    uint32_t kind;  /* enum spotnik_said */
    char text[404];
};

/* One member. Fields are accessed with __atomic builtins only: other processes read and write
 * them. */
struct spotnik_slot {
    uint32_t word;            /* 0: no owner, or one that ended in good order */
    uint32_t leave_request;   /* 1: the agent asks the member to leave; also a futex */
    uint64_t id_high, id_low; /* member_id; both 0: not claimed yet */
    uint64_t epoch;           /* the latest view this member has voted for or installed */
    /* of the last change of strategy the member has made, written last; 0: none */
    uint64_t told_step;
    /* low byte: enum spotnik_sync_mode; the next: enum spotnik_sync_reason */
    uint64_t told_what;
    uint64_t told_value, told_limit; /* bits of doubles: what was compared */
    /* the last step this member has committed or repeated; 0: none since it joined */
    uint64_t committed;
    /* its next step waits with `size` members for `needed`; needed 0: it does not wait */
    uint32_t size, needed;
    /* 1: the job has told this member that it is over; _LATE: it was, before this member came */
    uint32_t done;
    /* 1: another founding has its job's name, or its place: start no worker instead */
    uint32_t refused;
    /* its rank in the step it has begun last, plus 1; 0: it has begun none */
    uint32_t place;
    /* 1: the view without this member is committed, at its own wish; _LAST: that view is empty, and
     * no notice emptied it */
    uint32_t left;
    /* its state after this step is in the checkpoint folder as that of a minority, and what its
     * name ends with; 0: it is not */
    uint64_t minority_step, minority_digest;
    uint32_t lines; /* messages that this member has written: spotnik_slots_line() */
    /* 1: it writes checkpoints; _FAILED: the last one due is not complete for a fault it knows */
    uint32_t checkpoint;
    /* of a group: bit r: its process of rank r has not made the group's next call yet */
    uint64_t absent;
};

struct spotnik_slots {
    uint32_t magic, version, count;
    uint32_t start; /* members needed before the job's first step; 0: members_min */
    /* 1: that many have been there, or the job had begun: no member waits for `start` any more */
    uint32_t gathered;
    uint32_t listens; /* 1: the agent reads the members' messages */
    /* How long the member that told last has waited in its search for the job, and of how long, in
     * ms: spotnik_slots_wait(). One word, since several tell at once. 0: it waits for nothing. */
    uint64_t waiting;
    /* The job goes on from a checkpoint: of the state after this step. 0: from none, as far as
     * members of this table know. */
    uint64_t origin;
    uint64_t completed; /* the last step whose checkpoint a member has seen complete; 0: none */
    uint8_t spare[16];
    struct spotnik_slot slot[];
};

/* A memfd with `count` free slots, mapped. Close-on-exec is set. Returns SPOTNIK_ERR_SYSTEM or
 * _MEMORY. */
int spotnik_slots_new(uint32_t count, int *ret_fd, struct spotnik_slots **ret_slots);

/* Map a table that came by inheritance. *ret_slots is NULL, with 0 returned, where `fd` is none: a
 * process that a member started inherits the environment, and not always the descriptor. Errors:
 * SYSTEM; ARGUMENT: the agent is of another version. */
int spotnik_slots_map(int fd, struct spotnik_slots **ret_slots);

/* Unmap. Accepts NULL. */
void spotnik_slots_unmap(struct spotnik_slots *slots);

/* Agent, before it starts a member: make slot `index` free. The process that had it must have been
 * reaped. */
void spotnik_slots_assign(struct spotnik_slots *slots, uint32_t index);

/* Agent: ask the member in slot `index` to leave. */
void spotnik_slots_leave_request(struct spotnik_slots *slots, uint32_t index);

/* The member in slot `index`; false while it is free. */
bool spotnik_slots_member(const struct spotnik_slots *slots, uint32_t index,
                          struct spotnik_id *ret_id);

/* For the log of the agent: a member has waited for *ret_ms of *ret_of_ms. False: no member
 * waits. */
bool spotnik_slots_wait(const struct spotnik_slots *slots, uint64_t *ret_ms, uint64_t *ret_of_ms);
void spotnik_slots_wait_set(struct spotnik_slots *slots, uint64_t ms, uint64_t of_ms);

/* The member in slot `index` writes a message; one thread at a time. */
void spotnik_slots_line_add(struct spotnik_slots *slots, uint32_t index,
                            const struct spotnik_slot_line *line);

/* For the log of the agent: message *next of slot `index`, or the oldest behind it that is still
 * there; *next moves behind it. False: there is none. */
bool spotnik_slots_line(const struct spotnik_slots *slots, uint32_t index, uint32_t *next,
                        struct spotnik_slot_line *ret);

/* The slot of member `id`, or UINT32_MAX. */
uint32_t spotnik_slots_find(const struct spotnik_slots *slots, struct spotnik_id id);

#endif
