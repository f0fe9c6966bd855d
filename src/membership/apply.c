/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of the machines of membership, carried out on the core. Each function follows the
 * order of the fields in its struct. */
#include "membership/membership.h"

void apply_digest(struct spotnik_core *core, const struct digest_effects *effects,
                  struct peer *const neighbour[])
{
    if (effects->diverged) {
        fail(core, SPOTNIK_ERR_DIVERGED);
        core->membership->divergence =
            (struct spotnik_divergence){ .peer = neighbour[effects->neighbour]->member,
                                         .after_step = effects->after_step,
                                         .step = effects->step };
    }
    core->status.compared_step = effects->compared_step;
}

static void ask_all(struct spotnik_core *core)
{
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (core->membership->peer[i].used)
            pause_check_send(core, &core->membership->peer[i]);
}

void apply_pause(struct spotnik_core *core, const struct pause_effects *effects)
{
    core->status.pauses += effects->started;
    if (effects->ask)
        ask_all(core);
    if (effects->commit)
        step_try_commit(core);
    if (effects->ballot)
        ballot_start(core);
}
