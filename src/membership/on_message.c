/* SPDX-License-Identifier: Apache-2.0 */
/* MESSAGE: what every control message means by itself (its sender lives, its sender is at this
 * epoch), then its own file. Rules: docs/protocol.md 3. */
#include "membership/membership.h"

/* We know where it stands now, and it knows whatever it must before anything of ours. */
static void on_first_word(struct spotnik_core *core, struct peer *from)
{
    if (core->role == SPOTNIK_ROLE_MEMBER)
        tree_flush(core, from);
    peer_unseek(from);
}

void on_message(struct spotnik_core *core, const struct spotnik_event_message *received)
{
    const struct spotnik_message *message = received->body;
    struct peer *from = peer_find(core, received->from.id);

    if (!from || !from->linked)
        return;
    bool first = !from->heard;
    if (first)
        from->end.first_epoch = message->epoch;
    evidence_hear(core, from);
    if (core->role == SPOTNIK_ROLE_MEMBER && message->epoch >= from->told_epoch
        && message->epoch >= core->view.epoch)
        from->told_epoch = message->epoch;
    if (message->epoch < core->view.epoch && message->epoch > 0)
        tell_view(core, from);
    if (first)
        on_first_word(core, from);
    switch (message->kind) {
    case SPOTNIK_MESSAGE_HEARTBEAT:
        on_claims(core, from, message);
        enter_hear(core, from);
        break;
    case SPOTNIK_MESSAGE_PREPARE:
        on_prepare(core, from, message);
        break;
    case SPOTNIK_MESSAGE_ACCEPT:
        on_accept(core, from, message);
        break;
    case SPOTNIK_MESSAGE_RESTART:
        on_restart(core, from, message);
        break;
    case SPOTNIK_MESSAGE_FENCED:
        on_fenced(core, from, message);
        break;
    case SPOTNIK_MESSAGE_VIEW_ASK:
        on_view_ask(core, from);
        break;
    case SPOTNIK_MESSAGE_ENTER:
        on_enter(core, from, message);
        break;
    case SPOTNIK_MESSAGE_MISMATCH:
        on_mismatch(core, from, message);
        break;
    case SPOTNIK_MESSAGE_PAUSE_CHECK:
        on_pause_check(core, from, message);
        break;
    case SPOTNIK_MESSAGE_PAUSE_ACK:
        on_pause_ack(core, from, message);
        break;
    case SPOTNIK_MESSAGE_ASK:
        on_ask(core, from, message);
        break;
    case SPOTNIK_MESSAGE_PROMISE:
        on_promise(core, from, message);
        break;
    case SPOTNIK_MESSAGE_ACCEPTED:
        on_accepted(core, from, message);
        break;
    case SPOTNIK_MESSAGE_KIND_COUNT:
        break;
    }
}

/* It voted for a view without us. If it dies now, it may have gone on with that view first. An
 * epoch ahead of ours is kept too: it counts when we get there. */
void on_fenced(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    (void)core;
    if (message->epoch > from->end.fenced_epoch)
        from->end.fenced_epoch = message->epoch;
}

/* A joiner that runs another program ends alone: it is in no view. */
void on_mismatch(struct spotnik_core *core, const struct peer *from,
                 const struct spotnik_message *message)
{
    if (spotnik_view_rank(&core->view, from->member.id) != SPOTNIK_NO_RANK)
        mismatch_end(core, &message->mismatch);
}

const struct spotnik_mismatch *spotnik_core_mismatch(const struct spotnik_core *core)
{
    return &core->membership->mismatch;
}

void on_view_ask(struct spotnik_core *core, struct peer *from)
{
    from->told_epoch = 0;
    from->wants_all = true;
    tell_view(core, from);
}
