/* SPDX-License-Identifier: Apache-2.0 */
/* Sponsor: a joiner asks to be let in. */
#include "vote/vote.h"

void enter_start(struct spotnik_core *core)
{
    if (enter_is_due(core))
        ballot_start(core);
}

void on_enter(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER
        || !spotnik_id_equal(from->member.id, message->enter.member.id)
        || peer_rank(core, from) != SPOTNIK_NO_RANK || !enter_remember(core, &message->enter))
        return;
    if (core->vote->phase != PHASE_JOINER) {
        enter_start(core);
        return;
    }
    token_returned(core);
    if (core->vote->phase == PHASE_JOINER)
        send_message(core, from, SPOTNIK_MESSAGE_HEARTBEAT); /* see enter_hear() */
}
