/* SPDX-License-Identifier: Apache-2.0 */
/* Letting joiners in, both sides. A joiner asks one sponsor, again after every step it has replayed; the sponsor starts a view change
 * at its next quiet moment: at once while its caller computes, else right after its next commit, so that no data already moved is
 * reduced twice for the sake of a joiner (P7). */
#include "base/assert.h"
#include "base/time.h"
#include "core/state.h"

/* In steps; and how many times enter_wait_ns lie between two tries for a far one. */
enum { ENTER_NEAR = 2, ENTER_FAR = 64, ENTER_FAR_PAUSE = 16 };

void enter_send(struct spotnik_core *core)
{
    if (!core->enter_wanted || core->role != SPOTNIK_ROLE_JOINER)
        return;
    core->enter_ns = spotnik_time_add(core->now_ns, core->limits.heartbeat_ns);
    struct peer *sponsor = peer_find(core, core->sponsor);
    if (sponsor && sponsor->linked)
        send_message(core, sponsor, SPOTNIK_MESSAGE_ENTER);
    else if (sponsor)
        peer_dial(core, sponsor); /* a joiner that has learnt no view yet knows nobody else to ask */
}

static void ask(struct spotnik_core *core, const struct spotnik_member *sponsor)
{
    struct peer *peer = peer_want(core, sponsor);
    core->sponsor = sponsor->id;
    core->enter_tries = 0;
    core->enter_ns = spotnik_time_add(core->now_ns, core->limits.heartbeat_ns);
    if (peer->linked)
        enter_send(core);
    else
        peer_dial(core, peer);
}

void on_enter_ready(struct spotnik_core *core, const struct spotnik_event *event)
{
    if (core->role != SPOTNIK_ROLE_JOINER)
        return;
    core->enter_wanted = true;
    ask(core, &event->peer);
}

/* The next member of the view as we last heard it; the present sponsor again when there is no other. */
void enter_next_sponsor(struct spotnik_core *core)
{
    if (!core->enter_wanted || !core->view.size)
        return;
    uint32_t rank = spotnik_view_rank(&core->view, core->sponsor);
    rank = rank == SPOTNIK_NO_RANK ? 0 : (rank + 1) % core->view.size;
    ask(core, &core->view.entry[rank].member);
}

/* Sponsor: is there anybody to let in, and is this a quiet moment? */
static bool quiet(const struct spotnik_core *core)
{
    return core->role == SPOTNIK_ROLE_MEMBER && !core->frozen && core->step.started == 0 &&
           core->view.size < core->limits.members_max;
}

/* A joiner two steps behind will be near enough when the token has gone round, and gets enter_wait_ns to make up for the rest. One that
 * looks further behind may only be far away, in a job that steps faster than news travels: it is worth a try now and then. */
static bool near_enough(struct spotnik_core *core, const struct spotnik_enter *joiner)
{
    uint64_t behind = core->step.committed - joiner->committed;

    if (joiner->committed >= core->step.committed || behind <= ENTER_NEAR)
        return true;
    if (behind > ENTER_FAR || core->now_ns < core->enter_far_ns)
        return false;
    core->enter_far_ns = spotnik_time_add(core->now_ns, ENTER_FAR_PAUSE * core->limits.enter_wait_ns);
    return true;
}

/* A joiner asks every heartbeat. One that has fallen silent would be let in dead, or keep us trying for ever. */
void enter_expire(struct spotnik_core *core)
{
    for (uint32_t i = core->joiner_count; i-- > 0;)
        if (spotnik_time_since(core->now_ns, core->joiner_ns[i]) > core->limits.silence_ceiling_ns)
            enter_forget(core, core->joiner[i].member.id);
}

void enter_start(struct spotnik_core *core)
{
    if (!quiet(core))
        return;
    enter_expire(core);
    for (uint32_t i = 0; i < core->joiner_count; i++)
        if (near_enough(core, &core->joiner[i])) {
            ballot_start(core);
            return;
        }
}

static struct spotnik_enter *remember(struct spotnik_core *core, const struct spotnik_enter *enter)
{
    for (uint32_t i = 0; i < core->joiner_count; i++)
        if (spotnik_id_equal(core->joiner[i].member.id, enter->member.id))
            return &core->joiner[i];
    if (core->joiner_count == SPOTNIK_JOINERS_MAX)
        return NULL; /* it asks again, or somebody else */
    return &core->joiner[core->joiner_count++];
}

void on_enter(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || !spotnik_id_equal(from->member.id, message->enter.member.id) ||
        spotnik_view_rank(&core->view, from->member.id) != SPOTNIK_NO_RANK)
        return;
    struct spotnik_enter *joiner = remember(core, &message->enter);
    if (!joiner)
        return;
    *joiner = message->enter;
    core->joiner_ns[joiner - core->joiner] = core->now_ns;
    if (core->phase == PHASE_JOINER)
        token_returned(core);
    else
        enter_start(core);
}

static void drop(struct spotnik_enter *joiner, uint32_t *count, struct spotnik_id id)
{
    for (uint32_t i = 0; i < *count; i++)
        if (spotnik_id_equal(joiner[i].member.id, id)) {
            joiner[i] = joiner[--*count];
            return;
        }
}

/* It is in, or gone: also from the token of a ballot that is waiting for it, or a dead joiner would be let in. */
void enter_forget(struct spotnik_core *core, struct spotnik_id id)
{
    drop(core->joiner, &core->joiner_count, id);
    if (core->phase == PHASE_JOINER)
        drop(core->token.joiner, &core->token.joiner_count, id);
}
