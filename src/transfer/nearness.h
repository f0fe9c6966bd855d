/* SPDX-License-Identifier: Apache-2.0 */
/* When a joiner that replays results asks to be let in. Pure; the simulated joiner asks it, too. */
#ifndef SPOTNIK_TRANSFER_NEARNESS_H
#define SPOTNIK_TRANSFER_NEARNESS_H

#include <stdbool.h>
#include <stdint.h>

/* Zero at first. */
struct spotnik_nearness {
    uint64_t seen_step, seen_behind; /* when it was last looked whether it comes nearer */
};

/* It has replayed up to step `ours`, the members are at `its`: is it time to ask? At most `near`
 * behind, at once. Farther, but within what the members wait for, once it comes no nearer: a joiner
 * that replays as slowly as the members step would else never ask. */
bool spotnik_nearness_asks(struct spotnik_nearness *nearness, uint64_t near, uint64_t ours,
                           uint64_t its);

#endif
