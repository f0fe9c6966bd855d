/* SPDX-License-Identifier: Apache-2.0 */
/* PREPARE arrives: promise and pass on; or, if it is ours, it has come round; or it is outbid and
 * only its facts count. */
#include "base/assert.h"
#include "membership/membership.h"

/* Is PREPARE that we passed on held up where, as we now hear, nobody answers? */
static bool is_stuck(const struct spotnik_core *core)
{
    uint32_t rank = spotnik_view_rank(&core->view, core->membership->prepare_at);
    bool voted =
        spotnik_ballot_compare(core->membership->accepted.ballot, core->membership->promised) == 0;

    SPOTNIK_ASSERT(core->frozen);
    return rank != SPOTNIK_NO_RANK && !voted && evidence_is_quiet(core, rank);
}

/* Outbid. Its facts may be new to us and to the ballot that outbid it, whose PREPARE may have
 * passed already. And if that ballot has been under way for long, or is where this PREPARE's
 * witnesses heard nothing, it is lost: bid higher than both. So do the parked when one bids that is
 * not parked: their own ballots went round it. */
void ballot_outbid(struct spotnik_core *core, bool parked)
{
    bool stale = core->now_ns - core->membership->promised_ns > core->limits.retry_ns;

    SPOTNIK_ASSERT(core->membership->promised.round > 0);
    if (core->frozen
        && (core->membership->phase == PHASE_PARKED || (core->membership->parked && !parked)
            || stale || is_stuck(core)))
        apply_ballot(core, BALLOT_START);
    else
        apply_ballot(core, evidence_schedule(core));
}

/* The member that handed us PREPARE reached us: that settles what others think of us. */
static void pass_on(struct spotnik_core *core, const struct spotnik_prepare *prepare)
{
    SPOTNIK_ASSERT(prepare->report_count == core->view.size);
    ballot_promise(core, prepare->ballot, prepare->parked);
    spotnik_prepare_copy(&core->membership->prepare, prepare);
    core->membership->prepare.report[core->rank].evidence = SPOTNIK_EVIDENCE_NONE;
    evidence_learn(core, &core->membership->prepare);
    prepare_sign(core);
    if (prepare->parked) {
        redial_silent(core);
        witness_ask_again(core);
    }
    core->membership->retries = 0;
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
    int order = spotnik_ballot_compare(prepare->ballot, core->membership->promised);
    if (order < 0) {
        evidence_learn(core, prepare);
        ballot_outbid(core, prepare->parked);
    } else if (order > 0) {
        pass_on(core, prepare);
    } else if (is_self(core, prepare->ballot.initiator)
               && core->membership->phase == PHASE_PREPARE) {
        spotnik_prepare_copy(&core->membership->prepare, prepare);
        apply_ballot(core, BALLOT_DECIDE);
    }
}
