/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of the running step, and the transitions from one to another. Rules: docs/protocol.md
 * 9. */
#include "base/assert.h"
#include "core/phases.h"
#include "allreduce/allreduce.h"

const struct phases phases_of_step = {
    .table = PHASES_OF_STEP,
    .of = "step",
    .name = { "idle", "wanted", "begun", "sealed", "dealing" },
    .algorithms = { [STEP_IDLE] = TO(STEP_WANTED),
                    [STEP_WANTED] = TO(STEP_IDLE) | TO(STEP_WANTED) | TO(STEP_BEGUN),
                    [STEP_BEGUN] = TO(STEP_SEALED),
                    [STEP_SEALED] = TO(STEP_DEALING) | TO(STEP_IDLE),
                    [STEP_DEALING] = TO(STEP_SEALED) },
};

void step_move(struct spotnik_core *core, enum step_phase phase)
{
    phase_move(core, &phases_of_step, core->allreduce->phase, phase);
    core->allreduce->phase = phase;
    SPOTNIK_ASSERT(core->step.begun == (phase >= STEP_BEGUN));
    SPOTNIK_ASSERT(core->step.sealed == (phase >= STEP_SEALED));
}
