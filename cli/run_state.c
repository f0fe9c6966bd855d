/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a run, and the moves from one to another. */
#include "run_state.h"

#include "base/assert.h"

#define TO(state) (1u << (state))

/* From each state: a set of states. */
static const unsigned moves[RUN_STATES] = {
    [RUN_TRAINS] = TO(RUN_CRASHING) | TO(RUN_STUCK) | TO(RUN_REFUSING) | TO(RUN_DONE),
    [RUN_CRASHING] = TO(RUN_STUCK) | TO(RUN_REFUSING) | TO(RUN_DONE),
    [RUN_STUCK] = TO(RUN_REFUSING) | TO(RUN_DONE),
    [RUN_REFUSING] = TO(RUN_DONE),
    [RUN_DONE] = 0,
};

void run_state_reach(struct run *run, enum run_state state)
{
    SPOTNIK_ASSERT(state < RUN_STATES);
    if (run->state >= state)
        return;
    SPOTNIK_ASSERT(moves[run->state] & TO(state));
    run->state = state;
}
