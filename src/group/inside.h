/* SPDX-License-Identifier: Apache-2.0 */
/* A group as one of its processes keeps it. Private to src/group. Everything belongs to the
 * caller's thread. */
#ifndef SPOTNIK_GROUP_INSIDE_H
#define SPOTNIK_GROUP_INSIDE_H

#include <stdbool.h>

#include "group/control.h"
#include "group/leader.h"
#include "group/process_watch.h"

/* Data of this process alone, and where it lies for the group. */
struct spotnik_group_private {
    void *data; /* NULL: none */
    void *shared;
    size_t bytes;
};

struct spotnik_group {
    uint32_t rank, size;
    uint32_t generation;                   /* of the process that opened it: base/fork.h */
    int memory;                            /* descriptor of the group's memory; -1: none */
    struct spotnik_group_control *control; /* where that memory begins, in this process */
    uint32_t pieces;                       /* taken by spotnik_group_memory() */
    struct spotnik_process_watch *watch;
    struct spotnik_group_leader *leader; /* NULL: this process is not the leader */
    uint64_t rounds;                     /* collective calls begun */
    bool is_waiting;                     /* for the answer to the last of them */
    uint32_t refreshed;                  /* refreshes done */
    void (*refresh)(void *context);
    void *refresh_context;
    uint64_t patience_ns; /* 0: no limit */
    uint64_t loads;
    bool is_alike; /* own copies of the state were those of the leader, once */
    bool is_in_step;
    bool handed[SPOTNIK_GROUP_BUCKETS];                         /* in the running step */
    struct spotnik_group_private bucket[SPOTNIK_GROUP_BUCKETS]; /* where the result is copied to */
    struct spotnik_group_private *state;
    uint32_t state_count;
};

/* Was it opened by this process? 0, ARGUMENT or STATE. */
int spotnik_group_handle_check(const struct spotnik_group *group);

/* Make a collective call, and wait for its answer, which is in control->answer. AGAIN: the patience
 * is over; the same call goes on waiting. */
int spotnik_group_ask(struct spotnik_group *group, const struct spotnik_group_call *call);

/* May this bucket be handed over now? 0, ARGUMENT or STATE. */
int spotnik_group_bucket_check(const struct spotnik_group *group, uint32_t bucket,
                               enum spotnik_op op);

/* What this process gives to the bucket lies there. */
void spotnik_group_hand_over(struct spotnik_group *group, uint32_t bucket,
                             const struct spotnik_group_area *area);

/* Find or make a piece of the memory, in whole pages. `grows`: one that is too small is replaced,
 * at a time when no process uses it; else MISMATCH where another process made it of another size.
 * Errors: MEMORY, LIMIT, MISMATCH. */
int spotnik_group_piece_take(struct spotnik_group *group, struct spotnik_group_piece *piece,
                             size_t bytes, bool grows, uint64_t *ret_offset);

/* private_data.c: results go to each process's own data; registered copies go in, and come out. */
void spotnik_group_results_copy(struct spotnik_group *group);
void spotnik_group_state_in(struct spotnik_group *group);
void spotnik_group_state_out(struct spotnik_group *group);

/* Where `data` lies in the group's memory. ARGUMENT: not in pieces of it that were taken, or its
 * elements are of no known type. */
int spotnik_group_area_of(const struct spotnik_group *group, const void *data, size_t count,
                          enum spotnik_dtype dtype, struct spotnik_group_area *ret_area);

#endif
