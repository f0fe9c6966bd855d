/* SPDX-License-Identifier: Apache-2.0 */
/* PREPARE arrives: promise and pass on; or, if it is ours, it has come round; or it is outbid and
 * only its facts count. Rules: docs/protocol.md 5. */
#include "base/assert.h"
#include "membership/membership.h"

/* Outbid. Its facts may be new to us and to the ballot that outbid it, whose PREPARE may have
 * passed already. */
void ballot_outbid(struct spotnik_core *core, bool parked)
{
    struct agreement_input in = agreement_input(core);
    bool lost = ballot_is_lost(&core->membership->agreement, &in, parked);

    SPOTNIK_ASSERT(core->frozen);
    apply_ballot(core, lost ? BALLOT_START : evidence_schedule(core));
}

/* The member that handed us PREPARE reached us: that settles what others think of us. */
static void pass_on(struct spotnik_core *core, const struct spotnik_prepare *prepare)
{
    SPOTNIK_ASSERT(prepare->report_count == core->view.size);
    apply_promise(core, prepare->ballot, prepare->parked);
    spotnik_prepare_copy(&core->membership->agreement.prepare, prepare);
    core->membership->agreement.prepare.report[core->rank].evidence = SPOTNIK_EVIDENCE_NONE;
    evidence_learn(core, &core->membership->agreement.prepare);
    apply_sign(core);
    if (prepare->parked) {
        redial_silent(core);
        witness_ask_again(core);
    }
    core->membership->agreement.retries = 0;
    arm_retry(core, 4 * core->limits.retry_ns);
    /* its initiator cannot know: we learnt it when its ballot, or another, was under way. Who has
     * not signed this PREPARE yet may sign ours. */
    if (prepare->parked && witness_has_named_us(core)) {
        apply_ballot(core, BALLOT_START);
        return;
    }
    apply_ballot(core, BALLOT_FORWARD);
}

void on_prepare(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    const struct spotnik_prepare *prepare = message->prepare;

    if (core->role != SPOTNIK_ROLE_MEMBER || message->epoch != core->view.epoch
        || prepare->report_count != core->view.size || !prepare->ballot.round
        || peer_rank(core, from) == SPOTNIK_NO_RANK) /* and it may have to make room for others */
        return;
    if (prepare->accepted_ballot.round && prepare->accepted.epoch != core->view.epoch + 1)
        return; /* a proposal of another epoch decides nothing in this one */
    if (prepare->accepted_ballot.round && !proposal_unpack(core, &message->prepare->accepted))
        return;
    /* it watches us now, whatever we do with its PREPARE: let it hear us */
    peer_activate(core, from);
    int order = spotnik_ballot_compare(prepare->ballot, core->membership->agreement.promised);
    if (order < 0) {
        evidence_learn(core, prepare);
        ballot_outbid(core, prepare->parked);
    } else if (order > 0) {
        pass_on(core, prepare);
    } else if (is_self(core, prepare->ballot.initiator)
               && core->membership->agreement.phase == PHASE_PREPARE) {
        spotnik_prepare_copy(&core->membership->agreement.prepare, prepare);
        apply_ballot(core, BALLOT_DECIDE);
    }
}
