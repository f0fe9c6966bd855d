/* SPDX-License-Identifier: Apache-2.0 */
/* When a joiner that replays results asks to be let in. Pure; the simulated joiner asks it, too.
 * Decides when it asks, and what it can no longer hope for; whether the members wait for it is the
 * sponsor's (src/membership/joiners.c). */
#ifndef SPOTNIK_TRANSFER_NEARNESS_H
#define SPOTNIK_TRANSFER_NEARNESS_H

#include <stdbool.h>
#include <stdint.h>

/* Zero at first. */
struct spotnik_nearness {
    uint64_t window_ns; /* since when it is looked whether it comes nearer; 0: not yet */
    uint64_t window_step, window_behind; /* where the members were then, and its distance */
};

/* It has replayed up to step `ours`, the members are at `its`: is it time to ask? At most `near`
 * behind, at once. Farther, but within what the core waits for, once it came no nearer for a while
 * and for some of the members' steps: one that replays as slowly as they step would else never
 * ask. */
bool spotnik_nearness_asks(struct spotnik_nearness *nearness, uint64_t near, uint64_t ours,
                           uint64_t its, uint64_t now_ns);

/* No member sends it results any more. It holds those up to `ours`, and has heard that `stable` is
 * stable: can a view still let it in? Every later view settles at a stable step or beyond, and
 * admits no joiner two steps behind (protocol.md, section 11). */
bool spotnik_nearness_may_enter(uint64_t ours, uint64_t stable);

#endif
