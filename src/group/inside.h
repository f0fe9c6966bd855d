/* SPDX-License-Identifier: Apache-2.0 */
/* A group as one of its processes keeps it. Private to src/group. Everything belongs to the
 * caller's thread. */
#ifndef SPOTNIK_GROUP_INSIDE_H
#define SPOTNIK_GROUP_INSIDE_H

#include <stdbool.h>

#include "group/control.h"
#include "group/leader.h"
#include "group/process_watch.h"

struct spotnik_group {
    uint32_t rank, size;
    uint32_t generation;                   /* of the process that opened it: base/fork.h */
    int memory;                            /* descriptor of the group's memory; -1: none */
    struct spotnik_group_control *control; /* where that memory begins, in this process */
    size_t used;                           /* bytes of it that are taken */
    uint32_t areas;                        /* pieces taken */
    struct spotnik_process_watch *watch;
    struct spotnik_group_leader *leader; /* NULL: this process is not the leader */
    uint64_t rounds;                     /* collective calls begun */
    bool is_waiting;                     /* for the answer to the last of them */
    uint32_t refreshed;                  /* refreshes done */
    void (*refresh)(void *context);
    void *refresh_context;
    uint64_t patience_ns; /* 0: no limit */
    uint64_t loads;
    bool is_in_step;
    bool handed[SPOTNIK_GROUP_BUCKETS]; /* in the running step */
};

/* Was it opened by this process? 0, ARGUMENT or STATE. */
int spotnik_group_handle_check(const struct spotnik_group *group);

/* Make a collective call, and wait for its answer, which is in control->answer. AGAIN: the patience
 * is over; the same call goes on waiting. */
int spotnik_group_ask(struct spotnik_group *group, const struct spotnik_group_call *call);

/* Where `data` lies in the group's memory. ARGUMENT: not in pieces of it that were taken, or its
 * elements are of no known type. */
int spotnik_group_area_of(const struct spotnik_group *group, const void *data, size_t count,
                          enum spotnik_dtype dtype, struct spotnik_group_area *ret_area);

#endif
