/* SPDX-License-Identifier: Apache-2.0 */
/* Letting joiners in, both sides. A joiner asks one sponsor, again after every step it has
 * replayed; the sponsor starts a view change at its next quiet moment: at once while its caller
 * computes, else right after its next commit. So no data already moved is reduced twice for the
 * sake of a joiner (P7). */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

enum {
    ENTER_SPONSOR = 20,   /* heartbeats of patience with one sponsor */
    ENTER_NEAR = 2,       /* steps behind: the members wait for it */
    ENTER_FAR = 64,       /* steps behind: not even a try, unless they are quick ones */
    ENTER_FAR_PAUSE = 16, /* times enter_wait_ns between two tries for a far one */
    ENTER_STALLED = 8,    /* steps of ours in which it came no nearer */
    ENTER_PATIENCE = 2,   /* times as long as a step of ours that replaying one may take it */
    ENTER_REST = 8,       /* times as long as the wait for it was, when that was in vain; */
    ENTER_TRIES = 3,      /* doublings of our patience after that */
    ENTER_HEARD = 2,      /* heartbeats without a word: it asks somebody else */
};

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
static const struct spotnik_member *unmet(struct spotnik_core *core)
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

/* A view with us in it would wait for a member that we do not reach, and leave one of us out. So we
 * do not ask before we reach all, and tell the sponsor what we wait for. The same word tells us the
 * view, if the sponsor has a later one. */
static enum spotnik_message_kind what_to_say(struct spotnik_core *core)
{
    const struct spotnik_member *member = unmet(core);

    SPOTNIK_ASSERT(core->membership->enter_wanted);
    core->membership->unmet = (struct spotnik_id){ 0 };
    if (core->view.size == 0)
        return SPOTNIK_MESSAGE_VIEW_ASK;
    if (!member) {
        core->membership->unmet_ns = 0;
        return SPOTNIK_MESSAGE_ENTER;
    }
    if (!core->membership->unmet_ns)
        core->membership->unmet_ns = core->now_ns;
    if (core->now_ns - core->membership->unmet_ns < core->limits.silence_ceiling_ns)
        return SPOTNIK_MESSAGE_HEARTBEAT; /* the link may be on its way */
    core->membership->unmet = member->id;
    path_note(core, &core->self, member);
    return SPOTNIK_MESSAGE_ENTER;
}

void enter_send(struct spotnik_core *core)
{
    if (!core->membership->enter_wanted || core->role != SPOTNIK_ROLE_JOINER)
        return;
    core->membership->enter_ns = spotnik_time_add(core->now_ns, core->limits.heartbeat_ns);
    struct peer *sponsor = peer_find(core, core->membership->sponsor);
    if (core->now_ns >= core->membership->sponsor_until_ns && core->view.size > 0) {
        /* it may be dead without a sound; that we replay step after step must not hide it */
        enter_next_sponsor(core);
        return;
    }
    if (sponsor && sponsor->linked)
        send_message(core, sponsor, what_to_say(core));
    else if (sponsor)
        /* a joiner that has learnt no view yet knows nobody else to ask */
        peer_dial(core, sponsor);
}

static void be_patient(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    core->membership->sponsor_until_ns =
        spotnik_time_add(core->now_ns, ENTER_SPONSOR * core->limits.heartbeat_ns);
}

/* A sponsor that holds its ballot back for a joiner answers ENTER with a heartbeat. Were we to turn
 * to another member now, the one that waits for us would not learn how near we have come. It would
 * wait in vain, with all members frozen, and so would the next one. */
void enter_hear(struct spotnik_core *core, const struct peer *from)
{
    if (core->role == SPOTNIK_ROLE_JOINER
        && spotnik_id_equal(core->membership->sponsor, from->member.id))
        be_patient(core);
}

static void ask(struct spotnik_core *core, const struct spotnik_member *sponsor)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    struct peer *peer = peer_want(core, sponsor);
    core->membership->sponsor = sponsor->id;
    be_patient(core);
    core->membership->enter_ns = spotnik_time_add(core->now_ns, core->limits.heartbeat_ns);
    if (peer->linked)
        enter_send(core);
    else
        peer_dial(core, peer);
}

void on_enter_ready(struct spotnik_core *core, const struct spotnik_member *sponsor)
{
    if (core->role != SPOTNIK_ROLE_JOINER)
        return;
    core->membership->enter_wanted = true;
    core->membership->guide = *sponsor;
    core->membership->unmet_ns = 0;
    ask(core, sponsor);
}

/* The next member of the view as we last heard it, and after them those that the driver has named:
 * all of that view may be dead. */
void enter_next_sponsor(struct spotnik_core *core)
{
    if (!core->membership->enter_wanted || !core->view.size)
        return;
    uint32_t rank = spotnik_view_rank(&core->view, core->membership->sponsor),
             next = rank == SPOTNIK_NO_RANK ? 0 : rank + 1;
    bool strange = spotnik_view_rank(&core->view, core->membership->guide.id) == SPOTNIK_NO_RANK;
    ask(core, next == core->view.size && strange
                  ? &core->membership->guide
                  : &core->view.entry[next % core->view.size].member);
}

/* Sponsor: is this a quiet moment? So is any in which we are too few to begin a step, once all have
 * the last one: members that have begun the next wait for the others, and these for a joiner. */
static bool quiet(const struct spotnik_core *core)
{
    bool too_few = core->view.size < core->members_min && step_stable(core) == core->step.committed;
    bool waiting = core->step.started == 0 || too_few;

    return core->role == SPOTNIK_ROLE_MEMBER && !core->frozen && waiting
           && core->view.size < core->limits.members_max;
}

static uint64_t steps_behind(const struct spotnik_core *core, const struct joiner *joiner)
{
    uint64_t ours = core->step.committed, its = joiner->enter.committed;
    return its < ours ? ours - its : 0;
}

/* NULL: it need not rest and never had to. */
static struct joiner_backoff *joiner_backoff_find(struct spotnik_core *core, struct spotnik_id id)
{
    for (uint32_t i = 0; i < JOINER_BACKOFF_MAX; i++)
        if (spotnik_id_equal(core->membership->joiner_backoff[i].id, id))
            return &core->membership->joiner_backoff[i];
    return NULL;
}

/* One that replays no faster than we step will never come near while we go on. */
static bool stalled(const struct spotnik_core *core, const struct joiner *joiner)
{
    SPOTNIK_ASSERT(joiner->nearest_step <= core->step.committed);
    SPOTNIK_ASSERT(joiner->nearest_ns <= core->now_ns);
    return core->step.committed - joiner->nearest_step >= ENTER_STALLED
           && core->now_ns - joiner->nearest_ns >= 2 * core->limits.enter_wait_ns;
}

/* Waiting for it would hold us up for longer than a loss may. Quick steps count by their time: over
 * slow links a job of 2 ms steps is a hundred of them ahead before a joiner has copied its state
 * and met everybody. */
static bool too_far(const struct spotnik_core *core, uint64_t behind)
{
    return behind > ENTER_FAR
           && behind > core->limits.silence_ceiling_ns / (step_takes_ns(core) + 1);
}

/* A joiner two steps behind will be near enough when PREPARE has gone round, or when it has
 * replayed the rest: everybody waits for it. The same is done for one that comes no nearer, and for
 * one that we have waited for in vain: the next sponsor that it asks has not seen yet that it comes
 * no nearer, and would make the same short try for ever. Any other that looks further behind may
 * only be far away, in a job that steps faster than news travels: it is worth a try now and then,
 * with enter_wait_ns to make up for the rest. */
static bool worth_a_try(struct spotnik_core *core, const struct joiner *joiner)
{
    const struct joiner_backoff *joiner_backoff =
        joiner_backoff_find(core, joiner->enter.member.id);
    uint64_t behind = steps_behind(core, joiner);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(!core->frozen);
    core->membership->joiner_deadline_ns = 0;
    if ((joiner_backoff && core->now_ns < joiner_backoff->until_ns) || too_far(core, behind))
        return false;
    if (behind <= ENTER_NEAR || joiner_backoff || stalled(core, joiner)) {
        uint64_t patience_ns =
            core->limits.enter_wait_ns + behind * ENTER_PATIENCE * step_takes_ns(core);
        core->membership->joiner_deadline_ns =
            spotnik_time_add(core->now_ns,
                             patience_ns << (joiner_backoff ? joiner_backoff->tries : 0));
        return true;
    }
    if (core->now_ns < core->membership->enter_far_ns)
        return false;
    core->membership->enter_far_ns =
        spotnik_time_add(core->now_ns, ENTER_FAR_PAUSE * core->limits.enter_wait_ns);
    return true;
}

/* A joiner asks every heartbeat. One that has fallen silent would be let in dead, or keep us trying
 * for ever. */
void enter_expire(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = core->membership->joiner_count; i-- > 0;)
        if (spotnik_time_since(core->now_ns, core->membership->joiner[i].heard_ns)
            > core->limits.silence_ceiling_ns)
            enter_forget(core, core->membership->joiner[i].enter.member.id);
}

bool enter_is_due(struct spotnik_core *core)
{
    if (!quiet(core))
        return false;
    enter_expire(core);
    for (uint32_t i = 0; i < core->membership->joiner_count; i++)
        if (worth_a_try(core, &core->membership->joiner[i]))
            return true;
    return false;
}

static void rest(struct spotnik_core *core, struct spotnik_id id, uint64_t for_ns)
{
    struct joiner_backoff *joiner_backoff = joiner_backoff_find(core, id);

    SPOTNIK_ASSERT(for_ns > 0);
    if (!joiner_backoff) {
        joiner_backoff =
            &core->membership
                 ->joiner_backoff[core->membership->joiner_backoff_next++ % JOINER_BACKOFF_MAX];
        *joiner_backoff = (struct joiner_backoff){ .id = id };
    }
    joiner_backoff->until_ns = spotnik_time_add(core->now_ns, for_ns);
    joiner_backoff->tries += joiner_backoff->tries < ENTER_TRIES;
}

/* A view without a joiner that wanted to be in it, because it could not catch up in time. It rests
 * 8 times (ENTER_REST) as long as we stood frozen, at every member. So a joiner that never catches
 * up does not delay us again and again. A view that a loss or a broken path forced upon us waited
 * for nobody: were the joiner to rest for that, a job that loses members would shut out those that
 * replace them. */
void enter_back_off(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    const struct spotnik_prepare *prepare = &core->membership->prepare;
    uint64_t took_ns = core->now_ns - core->membership->frozen_ns;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->membership->frozen_ns <= core->now_ns);
    if (core->status.last_lost || core->membership->parked || took_ns < core->limits.enter_wait_ns
        || !core->membership->promised.round
        || spotnik_ballot_compare(prepare->ballot, core->membership->promised) != 0)
        return;
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (spotnik_proposal_find(proposal, prepare->joiner[i].member.id) == SPOTNIK_NO_RANK)
            rest(core, prepare->joiner[i].member.id, ENTER_REST * took_ns);
}

static struct joiner *find(struct spotnik_core *core, struct spotnik_id id)
{
    for (uint32_t i = 0; i < core->membership->joiner_count; i++)
        if (spotnik_id_equal(core->membership->joiner[i].enter.member.id, id))
            return &core->membership->joiner[i];
    return NULL;
}

/* Has it asked us, of all members, since we began this ballot, and not long ago? It asks every
 * heartbeat. */
bool enter_is_heard(const struct spotnik_core *core, struct spotnik_id id)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->membership->joiner_count <= SPOTNIK_JOINERS_MAX);
    for (uint32_t i = 0; i < core->membership->joiner_count; i++) {
        const struct joiner *joiner = &core->membership->joiner[i];
        if (spotnik_id_equal(joiner->enter.member.id, id))
            return joiner->heard_ns > core->membership->promised_ns
                   && core->now_ns - joiner->heard_ns <= ENTER_HEARD * core->limits.heartbeat_ns;
    }
    return false;
}

bool enter_remember(struct spotnik_core *core, const struct spotnik_enter *enter)
{
    struct joiner *joiner = find(core, enter->member.id);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (!joiner && core->membership->joiner_count < SPOTNIK_JOINERS_MAX) {
        joiner = &core->membership->joiner[core->membership->joiner_count++];
        joiner->nearest = UINT64_MAX;
    }
    if (!joiner)
        return false; /* it asks again, or somebody else */
    joiner->enter = *enter;
    joiner->heard_ns = core->now_ns;
    uint64_t behind = steps_behind(core, joiner);
    if (behind < joiner->nearest) {
        joiner->nearest = behind;
        joiner->nearest_step = core->step.committed;
        joiner->nearest_ns = core->now_ns;
    }
    return true;
}

static void drop_from_prepare(struct spotnik_prepare *prepare, struct spotnik_id id)
{
    SPOTNIK_ASSERT(prepare->joiner_count <= SPOTNIK_JOINERS_MAX);
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (spotnik_id_equal(prepare->joiner[i].member.id, id)) {
            prepare->joiner[i] = prepare->joiner[--prepare->joiner_count];
            return;
        }
}

/* It is in, or gone: also from PREPARE of a ballot that is waiting for it, or a dead joiner would
 * be let in; and nobody waits for it any more. */
void enter_forget(struct spotnik_core *core, struct spotnik_id id)
{
    struct joiner *joiner = find(core, id);

    if (joiner)
        *joiner = core->membership->joiner[--core->membership->joiner_count];
    if (core->membership->phase != PHASE_JOINER)
        return;
    drop_from_prepare(&core->membership->prepare, id);
    core->membership->enter_until_ns = core->now_ns;
}
