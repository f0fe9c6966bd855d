/* SPDX-License-Identifier: Apache-2.0 */
/* Pause check: have the others decided without us while we were stopped? (docs/design/0014-ties.md)
 *
 * Data from before the stop may complete a step that the others repeat without us, since they took
 * us for lost. So a member whose own clock is late asks all members it is linked to. It commits
 * nothing until a quorum of the view has answered that it has promised nothing in our epoch. A
 * member that has gone on answers with its view, by a rule that holds anyway, so we learn it at
 * once. If no quorum answers, a ballot finds out. Decides only when to hold commits back; no
 * promise of safety rests on it. */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* In large rings no member has links to a quorum; this number is enough. */
#define ASSURED_ENOUGH 32
#define AGAIN_MAX 4

/* How late we may be: half of what makes others suspect us. Those of our own host are more patient.
 * One in a pause check that is late again and again, on a host that is too busy, is believed sooner
 * or later. */
static uint64_t patience_ns(const struct spotnik_core *core)
{
    uint64_t floor_ns = silence_floor(core, &core->view.entry[predecessor_rank(core)].member);
    uint64_t other_ns = silence_floor(core, &core->view.entry[successor_rank(core)].member);

    SPOTNIK_ASSERT(core->view.size >= 2);
    SPOTNIK_ASSERT(core->membership->pause.again <= AGAIN_MAX);
    return spotnik_time_min(floor_ns, other_ns) / 2 << core->membership->pause.again;
}

static void arm(struct spotnik_core *core)
{
    uint64_t wait_ns =
        core->limits.retry_ns + core->view.size * SPOTNIK_MS + core->rank * core->limits.stagger_ns;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    core->membership->pause.until_ns = spotnik_time_add(core->now_ns, wait_ns);
}

static bool assured(struct spotnik_core *core)
{
    uint32_t count = 0;

    SPOTNIK_ASSERT(core->membership->pause.on);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        core->membership->pause.answer[rank].evidence =
            core->membership->evidence_table[rank].evidence;
        count += core->membership->pause.answer[rank].promised;
    }
    return count > ASSURED_ENOUGH
           || spotnik_lineage_allows(&core->view, core->membership->pause.answer, false);
}

static void settle(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->membership->pause.on);
    if (!assured(core))
        return;
    core->membership->pause.on = false;
    core->membership->pause.again = 0;
    core->membership->pause.until_ns = SPOTNIK_NEVER;
    step_try_commit(core);
}

/* What was answered before counts no more. */
static void forget_answers(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->rank < core->view.size);
    SPOTNIK_ASSERT(core->membership->pause.on);
    core->membership->pause.serial++;
    core->membership->pause.ask_due = true;
    memset(core->membership->pause.answer, 0,
           core->view.size * sizeof(*core->membership->pause.answer));
    core->membership->pause.answer[core->rank].promised = 1;
}

/* At the end of an event, which may have been the end of a link. */
void pause_check_ask_all(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->pause.ask_due);
    core->membership->pause.ask_due = false;
    if (core->role != SPOTNIK_ROLE_MEMBER || !core->membership->pause.on)
        return;
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        struct peer *peer = &core->membership->peer[i];
        if (peer->used)
            pause_check_ask(core, peer);
    }
    settle(core);
}

void pause_check_ask(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used);
    if (core->membership->pause.on && peer->linked && peer_rank(core, peer) != SPOTNIK_NO_RANK)
        send_serial(core, peer, SPOTNIK_MESSAGE_PAUSE_CHECK, core->membership->pause.serial);
}

void pause_check_begin(struct spotnik_core *core)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || core->view.size < 2
        || SPOTNIK_IS_PLANTED(core, NO_PAUSE_CHECK))
        return;
    if (!core->membership->pause.on)
        arm(core);
    else if (core->membership->pause.again < AGAIN_MAX)
        core->membership->pause.again++;
    core->membership->pause.on = true;
    core->membership->pause.since_ns = core->now_ns;
    core->status.pauses++;
    forget_answers(core);
}

/* Before every event, whatever it is: the first that we see after we were stopped shows it. We may
 * be stopped again before the tick that sends the heartbeat. Then what we asked may have been
 * answered before the second stop. */
void pause_check_if_late(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->heartbeat_ns < core->now_ns);
    uint64_t from_ns = core->membership->heartbeat_ns > core->membership->pause.noticed_ns
                           ? core->membership->heartbeat_ns
                           : core->membership->pause.noticed_ns;
    if (core->role != SPOTNIK_ROLE_MEMBER || core->view.size < 2
        || spotnik_time_since(core->now_ns, from_ns) < patience_ns(core))
        return;
    core->membership->pause.noticed_ns = core->now_ns;
    pause_check_begin(core);
}

/* A view that was chosen in a ballot which we promised since we are in a pause check was chosen
 * since. Any other may have been on its way to us. */
bool pause_check_ends_with(const struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(core->membership->pause.since_ns <= core->now_ns);
    return core->membership->promised_ns >= core->membership->pause.since_ns
           && spotnik_ballot_compare(core->membership->promised, proposal->ballot) == 0;
}

/* A view is installed. */
void pause_check_view(struct spotnik_core *core, bool ends)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (!core->membership->pause.on)
        return;
    if (!ends) {
        arm(core);
        forget_answers(core);
        return;
    }
    core->membership->pause.on = false;
    core->membership->pause.again = 0;
    core->membership->pause.until_ns = SPOTNIK_NEVER;
}

/* No quorum has answered: a ballot is one way to reach everybody. True: start one. */
bool pause_check_is_due(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->now_ns < core->membership->pause.until_ns)
        return false;
    arm(core);
    return !core->frozen;
}

/* A member that has promised cannot assure that nothing was decided without the other. A view or
 * FENCED will tell it. */
void on_pause_check(struct spotnik_core *core, struct peer *from,
                    const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || core->frozen || message->epoch != core->view.epoch
        || peer_rank(core, from) == SPOTNIK_NO_RANK)
        return;
    send_serial(core, from, SPOTNIK_MESSAGE_PAUSE_ACK, message->serial);
}

void on_pause_ack(struct spotnik_core *core, const struct peer *from,
                  const struct spotnik_message *message)
{
    uint32_t rank = peer_rank(core, from);

    if (!core->membership->pause.on || message->epoch != core->view.epoch
        || message->serial != core->membership->pause.serial || rank == SPOTNIK_NO_RANK)
        return;
    core->membership->pause.answer[rank].promised = 1;
    settle(core);
}

bool pause_check_is_on(const struct spotnik_core *core)
{
    return core->membership->pause.on;
}
