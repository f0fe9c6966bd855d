/* SPDX-License-Identifier: Apache-2.0 */
/* TICK: heartbeats, silence, and the timers that keep the protocol moving when nobody speaks. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* We were late ourselves (stopped, or starved of a processor): what looks like silence of others
 * may be deafness of ours. */
static void forgive_lateness(struct spotnik_core *core)
{
    uint64_t late_ns = spotnik_time_since(core->now_ns, core->membership->heartbeat_ns);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (late_ns < core->limits.heartbeat_ns)
        return;
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (core->membership->peer[i].used)
            core->membership->peer[i].detector.heard_ns =
                spotnik_time_min(core->now_ns,
                                 spotnik_time_add(core->membership->peer[i].detector.heard_ns,
                                                  late_ns));
}

/* A peer on another host whose kernel answers is given as much time as one on ours. Either the
 * process is stopped, or packets were lost and all that it has said since waits behind them. A
 * machine that has gone, or that is cut off, does not answer. */
#define KERNEL_PATIENCE 3
#define SETTLES_MAX 12

/* Where heartbeats were late by one lately packets may get lost, and what is lost three times is
 * late by a second. */
static uint64_t kernel_floor(const struct spotnik_core *core, const struct peer *peer)
{
    const struct spotnik_limits *limits = &core->limits;

    SPOTNIK_ASSERT(peer->linked);
    if (peer->detector.longest_ns >= limits->silence_floor_ns / 3)
        return limits->silence_ceiling_ns;
    return spotnik_time_min(limits->silence_ceiling_ns, KERNEL_PATIENCE * limits->silence_floor_ns);
}

static bool silent(const struct spotnik_core *core, const struct peer *peer)
{
    uint64_t floor_ns = silence_floor(core, &peer->member),
             ceiling_ns = core->limits.silence_ceiling_ns;

    SPOTNIK_ASSERT(peer->used && peer->active);
    if (!peer->linked)
        /* before the link is up there is nothing to hear: allow for the dialling */
        floor_ns = ceiling_ns;
    else if (spotnik_time_since(core->now_ns, peer->kernel_ns) < core->limits.heartbeat_ns / 2)
        floor_ns = kernel_floor(core, peer);
    return core->now_ns >= spotnik_detector_limit(&peer->detector, floor_ns, ceiling_ns);
}

void on_kernel(struct spotnik_core *core, const struct spotnik_member *member)
{
    struct peer *peer = peer_find(core, member->id);

    if (peer)
        peer->kernel_ns = core->now_ns;
}

bool spotnik_core_is_quiet(struct spotnik_core *core, struct spotnik_id id, uint64_t now_ns)
{
    const struct peer *peer = core->role == SPOTNIK_ROLE_MEMBER ? peer_find(core, id) : NULL;

    return peer && peer->active && peer->linked
           && spotnik_time_since(now_ns, peer->detector.heard_ns)
                  >= core->limits.silence_floor_ns / 2;
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
    ballot_start(core);
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
    if (is_due(core, core->membership->enter_until_ns) && core->membership->phase == PHASE_JOINER)
        joiner_overdue(core);
    if (is_due(core, core->membership->evidence_table.initiate_ns)) {
        core->membership->evidence_table.initiate_ns = SPOTNIK_NEVER;
        ballot_start(core);
    }
    if (is_due(core, core->membership->retry_ns)) {
        core->membership->retries += core->membership->phase != PHASE_JOINER;
        ballot_start(core);
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
