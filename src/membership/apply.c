/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of the machines of membership, carried out on the core. Each function follows the
 * order of the fields in its struct. */
#include "base/assert.h"
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

void apply_enter(struct spotnik_core *core, const struct enter_effects *effects,
                 struct peer *sponsor, const struct spotnik_member *unmet)
{
    if (effects->path_broken)
        path_note(core, &core->self, unmet);
    send_message(core, sponsor, effects->say);
}

static void drop_from_prepare(struct spotnik_prepare *prepare, struct spotnik_id id)
{
    SPOTNIK_ASSERT(prepare->joiner_count <= SPOTNIK_JOINERS_MAX);
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (spotnik_id_equal(prepare->joiner[i].member.id, id)) {
            prepare->joiner[i] = prepare->joiner[--prepare->joiner_count];
            return;
        }
}

/* It goes also from PREPARE of a ballot that is waiting for it, or it would let a dead joiner in.
 * The wait for it ends. */
void apply_joiner_gone(struct spotnik_core *core, struct spotnik_id id)
{
    if (core->membership->phase != PHASE_JOINER)
        return;
    drop_from_prepare(&core->membership->prepare, id);
    core->membership->enter_until_ns = core->now_ns;
}

void apply_evidence(struct spotnik_core *core, const struct evidence_effects *effects,
                    uint32_t rank)
{
    if (effects->hurry)
        joiners_hurry(&core->membership->joiners, core->now_ns);
    if (effects->freeze)
        /* PREPARE of the ballot would wait at every hop for a member busy with data */
        freeze(core);
    if (effects->reroute)
        /* a PREPARE that comes round by this may decide, and the next view may be one without us */
        prepare_reroute(core, core->view.entry[rank].member.id);
    if (effects->schedule && core->role == SPOTNIK_ROLE_MEMBER)
        evidence_schedule(core);
}

/* A member is not silent any more. */
void apply_forgiven(struct spotnik_core *core)
{
    /* frozen for its sake, and no ballot has come yet */
    if (core->membership->parked || (core->frozen && !core->membership->promised.round))
        ballot_start(core);
    else
        evidence_schedule(core);
    tree_prepare_go(core); /* it is not out any more, and is asked after all */
}
