/* SPDX-License-Identifier: Apache-2.0 */
/* RESULT, WOKEN, PAUSE_CHECK, PAUSE_ACK, and what else the audit must see: each becomes values for
 * its machine (audit.h), and apply.c carries out what the machine returns. Rules: docs/protocol.md
 * 9. */
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

const struct spotnik_divergence *spotnik_core_divergence(const struct spotnik_core *core)
{
    return &core->membership->divergence;
}

/* ---- pause check ---- */

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

/* A link is up. What is due goes to all linked members at the end of the event. */
void audit_link(struct spotnik_core *core, struct peer *peer)
{
    if (core->membership->pause.on && !core->membership->pause.ask_due)
        pause_check_send(core, peer);
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
