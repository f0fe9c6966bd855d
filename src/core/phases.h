/* SPDX-License-Identifier: Apache-2.0 */
/* Phases: a table says from which phase one may move to which. A move that is not in it is a breach
 * of our own rules: going on would break a promise, so it stops the process. Each move is noted for
 * traces (spotnik_core_move()). Private to src/core, src/membership and src/allreduce. */
#ifndef SPOTNIK_CORE_PHASES_H
#define SPOTNIK_CORE_PHASES_H

#include "core/state.h"

#define PHASES_MAX 6

enum phases_table { PHASES_OF_ROLE, PHASES_OF_BALLOT, PHASES_OF_STEP };

struct phases {
    enum phases_table table;
    const char *of; /* what has these phases */
    const char *name[PHASES_MAX];
    uint8_t algorithms[PHASES_MAX]; /* from each: a set of bits, TO(phase) */
};

#define TO(phase) (1u << (phase))

extern const struct phases phases_of_role, phases_of_ballot, phases_of_step;

/* `phase` of this table becomes `to`. */
void phase_move(struct spotnik_core *core, const struct phases *phases, unsigned from, unsigned to);

#endif
