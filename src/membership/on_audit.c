/* SPDX-License-Identifier: Apache-2.0 */
/* RESULT, WOKEN, PAUSE_CHECK, PAUSE_ACK, and what else the audit must see: each becomes values for
 * its machine (audit.h), and apply.c carries out what the machine returns. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* ---- digests ---- */

static uint32_t neighbours_find(struct spotnik_core *core, struct peer *neighbour[2])
{
    uint32_t ranks[2] = { successor_rank(core), predecessor_rank(core) }, count = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < 2 && core->view.size > i + 1; i++) {
        struct peer *peer = peer_find(core, core->view.entry[ranks[i]].member.id);
        if (!peer)
            return 0;
        neighbour[count++] = peer;
    }
    return count;
}

static void compare(struct spotnik_core *core)
{
    struct peer *neighbour[2] = { NULL, NULL };
    uint32_t count = neighbours_find(core, neighbour);

    if (count == 0)
        return;
    struct compared *compared[2] = { neighbour[0]->compared, neighbour[count - 1]->compared };
    struct digest_effects effects = digest_compare(&core->membership->digests, compared, count);
    apply_digest(core, &effects, neighbour);
}

void on_result(struct spotnik_core *core, const struct spotnik_event_result *result)
{
    if (core->role == SPOTNIK_ROLE_MEMBER
        && digest_add(&core->membership->digests, result->committed, result->digest))
        compare(core);
}

/* HEARTBEAT brings them. */
void on_claims(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || message->epoch != core->view.epoch)
        return;
    digest_hear(&core->membership->digests, from->compared, message->digest);
    compare(core);
}

void audit_view_digests(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->view.epoch == core->chosen.epoch);
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        digest_view_peer(core->membership->peer[i].compared);
    digest_view(&core->membership->digests, core->view.epoch, core->chosen.settled_step);
}

const struct spotnik_divergence *spotnik_core_divergence(const struct spotnik_core *core)
{
    return &core->membership->divergence;
}

/* ---- pause check ---- */

static struct pause_input pause_input(const struct spotnik_core *core)
{
    uint64_t before_ns = silence_floor(core, &core->view.entry[predecessor_rank(core)].member);
    uint64_t after_ns = silence_floor(core, &core->view.entry[successor_rank(core)].member);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct pause_input){ .now_ns = core->now_ns,
                                 .view = &core->view,
                                 .rank = core->rank,
                                 .evidence = core->membership->evidence_table.known,
                                 .silence_ns = spotnik_time_min(before_ns, after_ns),
                                 .retry_ns = core->limits.retry_ns,
                                 .stagger_ns = core->limits.stagger_ns,
                                 .frozen = core->frozen };
}

static bool has_others(const struct spotnik_core *core)
{
    return core->role == SPOTNIK_ROLE_MEMBER && core->view.size >= 2;
}

/* The driver says that we were stopped. */
void on_woken(struct spotnik_core *core)
{
    if (!has_others(core) || SPOTNIK_IS_PLANTED(core, NO_PAUSE_CHECK))
        return;
    struct pause_input in = pause_input(core);
    struct pause_effects effects = pause_check_begin(&core->membership->pause, &in);
    apply_pause(core, &effects);
}

void audit_late(struct spotnik_core *core)
{
    if (!has_others(core))
        return;
    struct pause_input in = pause_input(core);
    if (pause_check_late(&core->membership->pause, &in, core->membership->heartbeat_ns))
        on_woken(core);
}

void audit_ask(struct spotnik_core *core)
{
    bool member = core->role == SPOTNIK_ROLE_MEMBER;
    struct pause_input in = member ? pause_input(core) : (struct pause_input){ 0 };
    struct pause_effects effects = pause_check_ask(&core->membership->pause, member ? &in : NULL);

    apply_pause(core, &effects);
}

void audit_tick(struct spotnik_core *core)
{
    struct pause_input in = pause_input(core);
    struct pause_effects effects = pause_check_expire(&core->membership->pause, &in);

    apply_pause(core, &effects);
}

/* To a member that we are linked to. */
void pause_check_send(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used);
    if (peer->linked && peer_rank(core, peer) != SPOTNIK_NO_RANK)
        send_serial(core, peer, SPOTNIK_MESSAGE_PAUSE_CHECK, core->membership->pause.serial);
}

/* A link is up. What is due goes to all linked members at the end of the event. */
void audit_link(struct spotnik_core *core, struct peer *peer)
{
    if (core->membership->pause.on && !core->membership->pause.ask_due)
        pause_check_send(core, peer);
}

bool audit_view_ends_pause(const struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    const struct membership *membership = core->membership;
    return pause_check_ends_with(&membership->pause, membership->promised_ns, membership->promised,
                                 proposal->ballot);
}

void audit_view_pause(struct spotnik_core *core, bool ends)
{
    struct pause_input in = pause_input(core);
    pause_check_view(&core->membership->pause, &in, ends);
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
        || rank == SPOTNIK_NO_RANK)
        return;
    struct pause_input in = pause_input(core);
    struct pause_effects effects =
        pause_check_hear(&core->membership->pause, &in, rank, message->serial);
    apply_pause(core, &effects);
}

bool pause_check_is_on(const struct spotnik_core *core)
{
    return core->membership->pause.on;
}
