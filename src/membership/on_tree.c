/* SPDX-License-Identifier: Apache-2.0 */
/* ASK, PROMISE and ACCEPTED arrive: the passes by a tree (apply_tree.c). Rules: docs/protocol.md
 * 5. */
#include "base/assert.h"
#include "membership/membership.h"

static bool is_of_view(const struct spotnik_core *core, const struct peer *from,
                       const struct spotnik_message *message)
{
    return core->role == SPOTNIK_ROLE_MEMBER && core->view.size > core->limits.tree_members
           && message->epoch == core->view.epoch && peer_rank(core, from) != SPOTNIK_NO_RANK;
}

/* To go round them; what another witnessed is never kept as our own evidence. */
static void learn_ended(struct spotnik_core *core, const struct spotnik_ended *ended)
{
    for (uint32_t i = 0; i < ended->count; i++)
        if (ended->rank[i] < core->view.size && ended->rank[i] != core->rank)
            evidence_table_suspect(&core->membership->evidence_table, ended->rank[i]);
}

/* Promise, and ask those below us. */
static void take_part(struct spotnik_core *core, const struct peer *from,
                      const struct spotnik_message *message, uint32_t origin)
{
    apply_promise(core, message->ballot, false);
    learn_ended(core, &message->ended);
    core->membership->agreement.tree.ended = message->ended;
    prepare_empty(core);
    apply_sign(core);
    core->membership->agreement.retries = 0;
    arm_retry(core, 4 * core->limits.retry_ns);
    tree_prepare_begin(&core->membership->agreement.tree, origin);
    tree_prepare_asked_by(&core->membership->agreement.tree, from->member.id);
    apply_ballot(core, BALLOT_ASK);
}

/* The member above us had asked already, or one above that asks in its stead. */
static void answer_again(struct spotnik_core *core, struct peer *from)
{
    tree_prepare_asked_by(&core->membership->agreement.tree, from->member.id);
    if (core->membership->agreement.tree.answered)
        send_of_ballot(core, from, SPOTNIK_MESSAGE_PROMISE);
}

void on_ask(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    uint32_t origin = spotnik_view_rank(&core->view, message->ballot.initiator);

    if (!is_of_view(core, from, message) || origin == SPOTNIK_NO_RANK || origin == core->rank)
        return;
    peer_activate(core, from); /* it watches us now: let it hear us */
    int order = spotnik_ballot_compare(message->ballot, core->membership->agreement.promised);
    if (order > 0) {
        take_part(core, from, message, origin);
    } else if (order < 0) {
        learn_ended(core, &message->ended);
        ballot_outbid(core, false);
    } else if (core->membership->agreement.tree.on) {
        answer_again(core, from);
    }
}

void on_promise(struct spotnik_core *core, const struct peer *from,
                const struct spotnik_message *message)
{
    const struct spotnik_prepare *prepare = message->prepare;

    if (!is_of_view(core, from, message) || prepare->report_count != core->view.size
        || (prepare->accepted_ballot.round
            && (prepare->accepted.epoch != core->view.epoch + 1
                || !proposal_unpack(core, &message->prepare->accepted))))
        return;
    if (!core->membership->agreement.tree.on || core->membership->agreement.tree.answered
        || spotnik_ballot_compare(prepare->ballot, core->membership->agreement.promised) != 0)
        return; /* a promise of another ballot is none of this one */
    spotnik_prepare_join(&core->membership->agreement.prepare, prepare);
    evidence_learn_facts(core, prepare);
    apply_ballot(core, BALLOT_ASK);
}

void on_accepted(struct spotnik_core *core, const struct peer *from,
                 const struct spotnik_message *message)
{
    struct agreement *agreement = &core->membership->agreement;

    if (!is_of_view(core, from, message) || !tree_accept_is_on(agreement)
        || spotnik_ballot_compare(message->ballot, agreement->promised) != 0)
        return;
    tree_accept_hear(agreement, peer_rank(core, from));
    apply_ballot(core, tree_conclude(core));
}
