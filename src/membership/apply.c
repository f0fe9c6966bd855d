/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of the machines of membership, carried out on the core. Each function follows the
 * order of the fields in its struct. No rule of the protocol is here. */
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

/* A step that the new view has committed at once may be the moment for a joiner. */
static enum ballot_next after_view(struct spotnik_core *core)
{
    if (core->news.committed) {
        core->news.committed = false;
        core->membership->settles = 0;
        apply_ballot(core, sponsor_start(core));
    }
    return evidence_schedule(core);
}

static enum ballot_next ballot_step(struct spotnik_core *core, enum ballot_next next)
{
    switch (next) {
    case BALLOT_START:
        return ballot_start(core);
    case BALLOT_FORWARD:
        return prepare_forward(core);
    case BALLOT_ASK:
        return tree_ask(core);
    case BALLOT_DECIDE:
        return prepare_returned(core);
    case BALLOT_ACCEPT:
        return proposal_accept(core);
    case BALLOT_CHOSEN:
        return view_install(core, &core->membership->agreement.accepted);
    case BALLOT_INSTALLED:
        return after_view(core);
    case BALLOT_WAITS:
        break;
    }
    return BALLOT_WAITS;
}

/* A ballot goes on until it must wait. */
void apply_ballot(struct spotnik_core *core, enum ballot_next next)
{
    while (next != BALLOT_WAITS)
        next = ballot_step(core, next);
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
    core->paused = core->membership->pause.on;
    if (effects->ask)
        ask_all(core);
    if (effects->commit)
        step_try_commit(core);
    if (effects->ballot)
        apply_ballot(core, BALLOT_START);
}

void apply_enter(struct spotnik_core *core, const struct enter_effects *effects,
                 struct peer *sponsor, const struct spotnik_member *unmet)
{
    if (effects->path_broken)
        path_note(core, &core->self, unmet);
    send_message(core, sponsor, effects->say);
}

/* Evidence of our own, before we have answered by a tree: it goes up with our answer. Against the
 * initiator it is worth a ballot instead, as it is after our answer. */
static bool goes_up(const struct agreement *agreement, struct spotnik_id failed)
{
    return agreement->tree.on && !agreement->tree.answered
           && !spotnik_id_equal(failed, agreement->promised.initiator);
}

/* The next hop proved unreachable before it got anything: PREPARE goes round it. ACCEPT must
 * reach every voter; the new evidence starts a new ballot instead. */
static void reroute(struct spotnik_core *core, struct spotnik_id failed)
{
    struct agreement *agreement = &core->membership->agreement;

    restart_reroute(core, failed);
    if (goes_up(agreement, failed)) {
        apply_sign(core);
        apply_ballot(core, BALLOT_ASK);
    }
    if (spotnik_id_equal(agreement->hop[PASS_PREPARE], failed)) {
        pass_cancel(core, PASS_PREPARE);
        apply_sign(core);
        apply_ballot(core, BALLOT_FORWARD);
    }
    if (spotnik_id_equal(agreement->hop[PASS_ACCEPT], failed))
        pass_cancel(core, PASS_ACCEPT);
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
        reroute(core, core->view.entry[rank].member.id);
    if (effects->schedule && core->role == SPOTNIK_ROLE_MEMBER)
        apply_ballot(core, evidence_schedule(core));
}

/* A member is not silent any more. */
void apply_forgiven(struct spotnik_core *core)
{
    const struct agreement *agreement = &core->membership->agreement;
    /* frozen for its sake, and no ballot has come yet */
    bool start = agreement->parked || (core->frozen && !agreement->promised.round);
    apply_ballot(core, start ? BALLOT_START : evidence_schedule(core));
    apply_ballot(core, BALLOT_ASK); /* it is not out any more, and is asked after all */
}
