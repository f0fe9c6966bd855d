/* SPDX-License-Identifier: Apache-2.0 */
/* ENTER, ENTER_READY, and what else the admission must see: each becomes values for its machine
 * (admission.h). The first half is the joiner's side (enter.c), the second the sponsor's
 * (joiners.c). Rules: docs/protocol.md 11. */
#include "base/assert.h"
#include "membership/membership.h"

/* ---- joiner ---- */

static struct enter_input enter_input(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    return (struct enter_input){ .now_ns = core->now_ns,
                                 .view = &core->view,
                                 .heartbeat_ns = core->limits.heartbeat_ns,
                                 .silence_ceiling_ns = core->limits.silence_ceiling_ns };
}

/* We are about to stand at the end of the ring: will we keep a link to this rank of the view? */
static bool within_reach(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return rank < core->limits.warm_count || core->view.size - rank <= core->limits.warm_count;
}

/* Joiner, and it has heard of a view: link to its members before we are one of them. An end is only
 * worth something to one that had a link. And a survivor that came in a moment before the others
 * died must be able to go on. */
void enter_meet(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (within_reach(core, rank))
            peer_dial(core, peer_want(core, &core->view.entry[rank].member));
}

/* The first of them that we are not linked to; each such one is dialled again. NULL: none. */
static const struct spotnik_member *unmet_find(struct spotnik_core *core)
{
    const struct spotnik_member *first = NULL;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        const struct spotnik_member *member = &core->view.entry[rank].member;
        struct peer *peer = within_reach(core, rank) ? peer_want(core, member) : NULL;
        if (!peer || peer->linked)
            continue;
        peer_dial(core, peer);
        first = first ? first : member;
    }
    return first;
}

void enter_send(struct spotnik_core *core)
{
    struct entering *entering = &core->membership->entering;

    if (!entering->wanted || core->role != SPOTNIK_ROLE_JOINER)
        return;
    struct enter_input in = enter_input(core);
    if (!enter_again(entering, &in)) {
        enter_next_sponsor(core);
        return;
    }
    struct peer *sponsor = peer_find(core, entering->sponsor);
    if (sponsor && sponsor->linked) {
        const struct spotnik_member *unmet = unmet_find(core);
        struct enter_effects effects = enter_say(entering, &in, unmet);
        apply_enter(core, &effects, sponsor, unmet);
    } else if (sponsor) {
        /* a joiner that has learnt no view yet knows no other member */
        peer_dial(core, sponsor);
    }
}

static void ask(struct spotnik_core *core, const struct spotnik_member *sponsor)
{
    struct peer *peer = peer_want(core, sponsor);
    struct enter_input in = enter_input(core);

    enter_ask(&core->membership->entering, &in, sponsor->id);
    if (peer->linked)
        enter_send(core);
    else
        peer_dial(core, peer);
}

void on_enter_ready(struct spotnik_core *core, const struct spotnik_member *sponsor)
{
    if (core->role != SPOTNIK_ROLE_JOINER)
        return;
    enter_begin(&core->membership->entering, sponsor);
    ask(core, sponsor);
}

void enter_next_sponsor(struct spotnik_core *core)
{
    const struct spotnik_member *next = enter_next(&core->membership->entering, &core->view);

    if (next)
        ask(core, next);
}

/* That peer has ended, or is not linked any more. */
void enter_lose(struct spotnik_core *core, const struct peer *peer)
{
    if (spotnik_id_equal(core->membership->entering.sponsor, peer->member.id))
        enter_next_sponsor(core);
}

/* HEARTBEAT of that peer. */
void enter_hear(struct spotnik_core *core, const struct peer *from)
{
    if (core->role != SPOTNIK_ROLE_JOINER)
        return;
    struct enter_input in = enter_input(core);
    enter_answer(&core->membership->entering, &in, from->member.id);
}

/* ---- sponsor ---- */

/* It stood in a view after it said this: it was a joiner when it asked, and its word was held up on
 * the way. Since then it may have committed with others what our view made anew, and it takes no
 * part in a view that lets it in once more (install.c: fits), while all others wait for it there.
 * One that never heard of the view that held it is still a joiner. It hears of ours, and asks
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
    joiner_forget(core, from->member.id);
    return true;
}

static bool remember(struct spotnik_core *core, const struct spotnik_enter *enter)
{
    struct joiners_input in = joiners_input(core);
    return joiners_remember(&core->membership->joiners, &in, enter);
}

void on_enter(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER
        || !spotnik_id_equal(from->member.id, message->enter.member.id)
        || peer_rank(core, from) != SPOTNIK_NO_RANK || asked_long_ago(core, from, message)
        || is_unmet(core, from, message->unmet) || !remember(core, &message->enter))
        return;
    if (core->membership->agreement.phase != PHASE_JOINER) {
        apply_ballot(core, sponsor_start(core));
        return;
    }
    apply_ballot(core, BALLOT_DECIDE);
    if (core->membership->agreement.phase == PHASE_JOINER)
        send_message(core, from, SPOTNIK_MESSAGE_HEARTBEAT); /* see enter_answer() */
}
