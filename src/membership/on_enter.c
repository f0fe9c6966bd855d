/* SPDX-License-Identifier: Apache-2.0 */
/* Sponsor: a joiner asks to be let in. */
#include "membership/membership.h"

void enter_start(struct spotnik_core *core)
{
    if (enter_is_due(core))
        ballot_start(core);
}

/* It stood in a view after it said this: it was a joiner when it asked, and its word was held up on
 * the way. Since then it may have committed with others what our view made anew, and it takes no
 * part in a view that lets it in once more (install.c: fits), while all others wait for it there.
 * One that never heard of the view that held it is still a joiner. It is told of ours, and asks
 * again, at our epoch. */
static bool asked_long_ago(const struct spotnik_core *core, const struct peer *from,
                           const struct spotnik_message *message)
{
    return from->rank != SPOTNIK_NO_RANK && message->epoch < core->view.epoch;
}

/* A joiner that does not reach a member of ours is not let in before it does. */
static bool is_unmet(struct spotnik_core *core, const struct peer *from, struct spotnik_id id)
{
    uint32_t rank = spotnik_view_rank(&core->view, id);

    if (spotnik_id_is_none(id))
        return false;
    if (rank != SPOTNIK_NO_RANK)
        path_note(core, &from->member, &core->view.entry[rank].member);
    enter_forget(core, from->member.id);
    return true;
}

void on_enter(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER
        || !spotnik_id_equal(from->member.id, message->enter.member.id)
        || peer_rank(core, from) != SPOTNIK_NO_RANK || asked_long_ago(core, from, message)
        || is_unmet(core, from, message->unmet) || !enter_remember(core, &message->enter))
        return;
    if (core->membership->phase != PHASE_JOINER) {
        enter_start(core);
        return;
    }
    prepare_returned(core);
    if (core->membership->phase == PHASE_JOINER)
        send_message(core, from, SPOTNIK_MESSAGE_HEARTBEAT); /* see enter_hear() */
}
