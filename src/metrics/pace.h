/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a member's steps goes, as totals since it joined: for rates, ask twice and
 * subtract. Written by the caller's thread, read by any. Decides nothing. */
#ifndef SPOTNIK_METRICS_PACE_H
#define SPOTNIK_METRICS_PACE_H

#include <stdint.h>

enum spotnik_pace_part {
    SPOTNIK_PACE_APPLY,   /* from a commit to the next step_begin: the optimiser, the input */
    SPOTNIK_PACE_BEGIN,   /* within step_begin: waiting for members, admitting joiners */
    SPOTNIK_PACE_COMPUTE, /* from a step's begin to its commit call: forward and backward */
    /* within step_commit: the part of the all-reduce that compute does not hide */
    SPOTNIK_PACE_COMMIT,
    SPOTNIK_PACE_PARTS,
};

struct spotnik_pace {
    uint64_t part_ns[SPOTNIK_PACE_PARTS];
    uint64_t steps;        /* committed while this member computed them */
    uint64_t reduce_bytes; /* given to allreduce in the last committed step */
    uint64_t computed_ns;  /* the last COMPUTE that has ended */
    uint64_t since_ns, bytes;
    enum spotnik_pace_part part; /* the running one, since since_ns (0: none has begun) */
};

/* The time until now belongs to the part that runs; `next` runs from now on. */
void spotnik_pace_turn(struct spotnik_pace *pace, enum spotnik_pace_part next, uint64_t now_ns);
void spotnik_pace_reduce(struct spotnik_pace *pace, uint64_t bytes);
void spotnik_pace_step(struct spotnik_pace *pace);

/* A copy for another thread; numbers of one step more or less may mix. */
void spotnik_pace_read(const struct spotnik_pace *pace, struct spotnik_pace *ret);

#endif
