/* SPDX-License-Identifier: Apache-2.0 */
/* ENTER, ENTER_READY, and what else the admission must see: each becomes values for its machine
 * (admission.h). The first half is the joiner's side (enter.c), the second the sponsor's
 * (joiners.c). */
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

static struct joiners_input joiners_input(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct joiners_input){ .now_ns = core->now_ns,
                                   .committed = core->step.committed,
                                   .step_ns = step_takes_ns(core),
                                   .heartbeat_ns = core->limits.heartbeat_ns,
                                   .silence_ceiling_ns = core->limits.silence_ceiling_ns,
                                   .enter_wait_ns = core->limits.enter_wait_ns };
}

/* Is this a quiet moment? So is any in which we are too few to begin a step, once all have the last
 * one: members that have begun the next wait for the others, and these for a joiner. */
static bool quiet(const struct spotnik_core *core)
{
    bool too_few = core->view.size < core->members_min && step_stable(core) == core->step.committed;
    bool waiting = core->step.started == 0 || too_few;

    return core->role == SPOTNIK_ROLE_MEMBER && !core->frozen && waiting
           && core->view.size < core->limits.members_max;
}

void joiners_expire(struct spotnik_core *core)
{
    struct joiners_input in = joiners_input(core);
    struct spotnik_id id;

    while (joiners_silent(&core->membership->joiners, &in, &id))
        joiner_forget(core, id);
}

void enter_start(struct spotnik_core *core)
{
    struct joiners *joiners = &core->membership->joiners;

    if (joiners->count == 0 || !quiet(core))
        return;
    joiners_expire(core);
    struct joiners_input in = joiners_input(core);
    if (joiners_due(joiners, &in))
        ballot_start(core);
}

/* A view without a joiner that wanted to be in it, because it could not catch up in time: it rests,
 * at every member. A view that a loss or a broken path forced upon us waited for no joiner. Were
 * the joiner to rest for that, a job that loses members would shut out those that replace them. */
void joiners_left_out(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    struct membership *membership = core->membership;
    const struct spotnik_prepare *prepare = &membership->prepare;
    uint64_t took_ns = core->now_ns - membership->frozen_ns;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(membership->frozen_ns <= core->now_ns);
    if (core->status.last_lost || membership->parked || took_ns < core->limits.enter_wait_ns
        || !membership->promised.round
        || spotnik_ballot_compare(prepare->ballot, membership->promised) != 0)
        return;
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (spotnik_proposal_find(proposal, prepare->joiner[i].member.id) == SPOTNIK_NO_RANK)
            joiners_back_off(&membership->joiners, prepare->joiner[i].member.id, core->now_ns,
                             took_ns);
}

/* Has it asked us since we began this ballot? */
bool joiner_is_heard(const struct spotnik_core *core, struct spotnik_id id)
{
    struct joiners_input in = joiners_input(core);
    return joiners_heard(&core->membership->joiners, &in, id, core->membership->promised_ns);
}

/* It is in, or gone. */
void joiner_forget(struct spotnik_core *core, struct spotnik_id id)
{
    joiners_remove(&core->membership->joiners, id);
    apply_joiner_gone(core, id);
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
    if (core->membership->phase != PHASE_JOINER) {
        enter_start(core);
        return;
    }
    prepare_returned(core);
    if (core->membership->phase == PHASE_JOINER)
        send_message(core, from, SPOTNIK_MESSAGE_HEARTBEAT); /* see enter_answer() */
}
