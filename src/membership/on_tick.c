/* SPDX-License-Identifier: Apache-2.0 */
/* TICK: heartbeats, silence, and the timers that keep the protocol moving when no member speaks.
 * Rules: docs/protocol.md 14. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

#define SETTLES_MAX 12

static void forgive_lateness(struct spotnik_core *core)
{
    uint64_t late_ns = spotnik_time_since(core->now_ns, core->membership->heartbeat_ns);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (late_ns < core->limits.heartbeat_ns)
        return;
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (core->membership->peer[i].used)
            silence_forgive(&core->membership->peer[i].silence, core->now_ns, late_ns);
}

static bool silent(const struct spotnik_core *core, const struct peer *peer)
{
    struct silence_input in = { .now_ns = core->now_ns,
                                .linked = peer->linked,
                                .peer_floor_ns = silence_floor(core, &peer->member),
                                .floor_ns = core->limits.silence_floor_ns,
                                .ceiling_ns = core->limits.silence_ceiling_ns,
                                .heartbeat_ns = core->limits.heartbeat_ns };

    SPOTNIK_ASSERT(peer->used && peer->active);
    return silence_is_loss(&peer->silence, &in);
}

void on_kernel(struct spotnik_core *core, const struct spotnik_member *member)
{
    struct peer *peer = peer_find(core, member->id);

    if (peer)
        silence_kernel(&peer->silence, core->now_ns);
}

bool spotnik_core_is_quiet(struct spotnik_core *core, struct spotnik_id id, uint64_t now_ns)
{
    const struct peer *peer = core->role == SPOTNIK_ROLE_MEMBER ? peer_find(core, id) : NULL;

    return peer && peer->active && peer->linked
           && silence_is_near(&peer->silence, now_ns, core->limits.silence_floor_ns);
}

static void heartbeat(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        struct peer *peer = &core->membership->peer[i];
        if (peer->used && peer->active && peer->linked)
            send_message(core, peer, SPOTNIK_MESSAGE_HEARTBEAT);
    }
    core->membership->heartbeat_ns = spotnik_time_add(core->now_ns, core->limits.heartbeat_ns);
}

/* One accusation may install a view and change the table under us: look again from the start. */
static bool accuse_one(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        struct peer *peer = &core->membership->peer[i];
        if (!peer->used || !peer->active || !silent(core, peer))
            continue;
        uint32_t rank = peer_rank(core, peer);
        if (rank == SPOTNIK_NO_RANK
            || spotnik_evidence_out(core->membership->evidence_table.known[rank].evidence))
            continue;
        evidence_add(core, rank, SPOTNIK_EVIDENCE_SILENT);
        return core->role == SPOTNIK_ROLE_MEMBER;
    }
    return false;
}

/* Each try gives the next view twice as long to hand over its last step: a view change in the
 * middle begins that anew. */
static void settle_try(struct spotnik_core *core)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || core->now_ns < core->membership->settle_ns
        || !step_needs_settling(core))
        return;
    core->membership->settles += core->membership->settles < SETTLES_MAX;
    apply_ballot(core, BALLOT_START);
}

static void tick_heart(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    forgive_lateness(core);
    heartbeat(core);
    while (accuse_one(core))
        ;
    settle_try(core);
}

/* What came before it in this tick may have ended our membership. */
static bool is_due(const struct spotnik_core *core, uint64_t at_ns)
{
    return core->role == SPOTNIK_ROLE_MEMBER && core->now_ns >= at_ns;
}

static void tick_member(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (is_due(core, core->membership->heartbeat_ns))
        tick_heart(core);
    if (is_due(core, core->membership->agreement.enter_until_ns)
        && core->membership->agreement.phase == PHASE_JOINER)
        apply_ballot(core, joiner_overdue(core));
    if (is_due(core, core->membership->evidence_table.initiate_ns)) {
        core->membership->evidence_table.initiate_ns = SPOTNIK_NEVER;
        apply_ballot(core, BALLOT_START);
    }
    if (is_due(core, core->membership->agreement.retry_ns)) {
        core->membership->agreement.retries += core->membership->agreement.phase != PHASE_JOINER;
        apply_ballot(core, BALLOT_START);
    }
    if (is_due(core, core->membership->pause.until_ns))
        audit_tick(core);
    if (is_due(core, core->membership->leaving.at_ns))
        leave_tick(core);
}

void on_tick(struct spotnik_core *core)
{
    if (core->role == SPOTNIK_ROLE_MEMBER)
        tick_member(core);
    if (core->role == SPOTNIK_ROLE_JOINER && core->now_ns >= core->membership->entering.at_ns)
        enter_send(core);
}
