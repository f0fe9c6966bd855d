/* SPDX-License-Identifier: Apache-2.0 */
/* RECONCILE arrives: promise and pass on; or, if it is ours, it has come round; or it is outbid and
 * only its facts count. */
#include "base/assert.h"
#include "membership/membership.h"

/* Is the token that we passed on held up where, as we now hear, nobody answers? */
static bool is_stuck(const struct spotnik_core *core)
{
    uint32_t rank = spotnik_view_rank(&core->view, core->membership->token_at);
    bool voted =
        spotnik_ballot_compare(core->membership->accepted.ballot, core->membership->promised) == 0;

    SPOTNIK_ASSERT(core->frozen);
    return rank != SPOTNIK_NO_RANK && !voted && evidence_is_quiet(core, rank);
}

/* Outbid. Its facts may be new to us and to the ballot that outbid it, whose token may have passed
 * already. And if that ballot has been under way for long, or is where this token's witnesses heard
 * nothing, it is lost: bid higher than both. So do the parked when one bids that is not parked:
 * their own ballots went round it. */
void ballot_outbid(struct spotnik_core *core, bool parked)
{
    bool stale = core->now_ns - core->membership->promised_ns > core->limits.retry_ns;

    SPOTNIK_ASSERT(core->membership->promised.round > 0);
    if (core->frozen
        && (core->membership->phase == PHASE_PARKED || (core->membership->parked && !parked)
            || stale || is_stuck(core)))
        ballot_start(core);
    else
        evidence_schedule(core);
}

/* The member that handed us the token reached us: that settles what others think of us. */
static void pass_on(struct spotnik_core *core, const struct spotnik_token *token)
{
    SPOTNIK_ASSERT(token->report_count == core->view.size);
    ballot_promise(core, token->ballot, token->parked);
    spotnik_token_copy(&core->membership->token, token);
    core->membership->token.report[core->rank].evidence = SPOTNIK_EVIDENCE_NONE;
    evidence_learn(core, &core->membership->token);
    token_sign(core);
    if (token->parked) {
        redial_silent(core);
        witness_ask_again(core);
    }
    core->membership->retries = 0;
    arm_retry(core, 4 * core->limits.retry_ns);
    /* its initiator cannot know: we learnt it when its ballot, or another, was under way. Who has
     * not signed this token yet may sign ours. */
    if (token->parked && witness_has_named_us(core)) {
        ballot_start(core);
        return;
    }
    token_forward(core);
}

void on_reconcile(struct spotnik_core *core, struct peer *from,
                  const struct spotnik_message *message)
{
    const struct spotnik_token *token = message->token;

    if (core->role != SPOTNIK_ROLE_MEMBER || message->epoch != core->view.epoch
        || token->report_count != core->view.size || !token->ballot.round
        || peer_rank(core, from) == SPOTNIK_NO_RANK) /* and it may have to make room for others */
        return;
    if (token->accepted_ballot.round && token->accepted.epoch != core->view.epoch + 1)
        return; /* a proposal of another epoch decides nothing in this one */
    if (token->accepted_ballot.round && !proposal_unpack(core, &message->token->accepted))
        return;
    /* it watches us now, whatever we do with its token: let it hear us */
    peer_activate(core, from);
    int order = spotnik_ballot_compare(token->ballot, core->membership->promised);
    if (order < 0) {
        evidence_learn(core, token);
        ballot_outbid(core, token->parked);
    } else if (order > 0) {
        pass_on(core, token);
    } else if (is_self(core, token->ballot.initiator)
               && core->membership->phase == PHASE_RECONCILE) {
        spotnik_token_copy(&core->membership->token, token);
        token_returned(core);
    }
}
