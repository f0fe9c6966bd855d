/* SPDX-License-Identifier: Apache-2.0 */
/* ASK, PROMISE and ACCEPTED arrive: the passes by a tree (gather.c, collect.c). */
#include "base/assert.h"
#include "membership/membership.h"

static bool is_of_view(const struct spotnik_core *core, const struct peer *from,
                       const struct spotnik_message *message)
{
    return core->role == SPOTNIK_ROLE_MEMBER && gather_is_used(core)
           && message->epoch == core->view.epoch && peer_rank(core, from) != SPOTNIK_NO_RANK;
}

/* To go round them; what another witnessed is never kept as our own evidence. */
static void learn_ended(struct spotnik_core *core, const struct spotnik_ended *ended)
{
    for (uint32_t i = 0; i < ended->count; i++)
        if (ended->rank[i] < core->view.size && ended->rank[i] != core->rank)
            core->membership->rumoured[ended->rank[i]] = true;
}

static void learn_reports(struct spotnik_core *core, const struct spotnik_token *token)
{
    SPOTNIK_ASSERT(token->report_count == core->view.size);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (token->report[rank].leaving)
            core->membership->book[rank].leaving = 1;
        if (rank != core->rank && token->report[rank].evidence >= SPOTNIK_EVIDENCE_TAINTED)
            core->membership->rumoured[rank] = true;
    }
}

/* Promise, and ask those below us. */
static void take_part(struct spotnik_core *core, const struct peer *from,
                      const struct spotnik_message *message, uint32_t origin)
{
    ballot_promise(core, message->ballot, false);
    learn_ended(core, &message->ended);
    core->membership->gather.ended = message->ended;
    token_clear(core);
    token_sign(core);
    core->membership->retries = 0;
    arm_retry(core, 4 * core->limits.retry_ns);
    gather_begin(core, origin);
    gather_asked_by(core, from->member.id);
    gather_go(core);
}

/* The member above us had asked already, or one above that asks in its stead. */
static void answer_again(struct spotnik_core *core, struct peer *from)
{
    gather_asked_by(core, from->member.id);
    if (core->membership->gather.answered)
        send_of_ballot(core, from, SPOTNIK_MESSAGE_PROMISE);
}

void on_ask(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    uint32_t origin = spotnik_view_rank(&core->view, message->ballot.initiator);

    if (!is_of_view(core, from, message) || origin == SPOTNIK_NO_RANK || origin == core->rank)
        return;
    peer_activate(core, from); /* it watches us now: let it hear us */
    int order = spotnik_ballot_compare(message->ballot, core->membership->promised);
    if (order > 0) {
        take_part(core, from, message, origin);
    } else if (order < 0) {
        learn_ended(core, &message->ended);
        ballot_outbid(core, false);
    } else if (core->membership->gather.on) {
        answer_again(core, from);
    }
}

void on_promise(struct spotnik_core *core, const struct peer *from,
                const struct spotnik_message *message)
{
    const struct spotnik_token *token = message->token;

    if (!is_of_view(core, from, message) || token->report_count != core->view.size
        || (token->accepted_ballot.round
            && (token->accepted.epoch != core->view.epoch + 1
                || !proposal_unpack(core, &message->token->accepted))))
        return;
    if (!core->membership->gather.on || core->membership->gather.answered
        || spotnik_ballot_compare(token->ballot, core->membership->promised) != 0)
        return; /* a promise of another ballot is none of this one */
    spotnik_token_join(&core->membership->token, token);
    learn_reports(core, token);
    gather_go(core);
}

void on_accepted(struct spotnik_core *core, const struct peer *from,
                 const struct spotnik_message *message)
{
    if (is_of_view(core, from, message) && collect_is_on(core)
        && spotnik_ballot_compare(message->ballot, core->membership->promised) == 0)
        collect_hear(core, peer_rank(core, from));
}
