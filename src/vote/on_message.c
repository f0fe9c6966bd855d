/* SPDX-License-Identifier: Apache-2.0 */
/* MESSAGE: what every control message means by itself (its sender lives, its sender is at this
 * epoch), then its own file. */
#include "vote/vote.h"

/* We know where it stands now, and it knows whatever it must before anything of ours. */
static void on_first_word(struct spotnik_core *core, struct peer *from)
{
    if (core->role == SPOTNIK_ROLE_MEMBER)
        gather_flush(core, from);
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
        from->first_epoch = message->epoch;
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
        digest_hear(core, from, message);
        enter_hear(core, from);
        break;
    case SPOTNIK_MESSAGE_RECONCILE:
        on_reconcile(core, from, message);
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
        on_mismatch(core, from);
        break;
    case SPOTNIK_MESSAGE_DOUBT:
        on_doubt(core, from, message);
        break;
    case SPOTNIK_MESSAGE_ASSURE:
        on_assure(core, from, message);
        break;
    case SPOTNIK_MESSAGE_CLAIM:
        on_claim(core, from, message);
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
    if (message->epoch > from->fenced_epoch)
        from->fenced_epoch = message->epoch;
}

/* It has met our buckets on the ring and found them to be others than its own. Which of us is right
 * nobody can say. */
void on_mismatch(struct spotnik_core *core, const struct peer *from)
{
    if (core->role == SPOTNIK_ROLE_MEMBER
        && spotnik_view_rank(&core->view, from->member.id) != SPOTNIK_NO_RANK)
        fail(core, SPOTNIK_ERR_MISMATCH);
}

void on_view_ask(struct spotnik_core *core, struct peer *from)
{
    from->told_epoch = 0;
    from->wants_all = true;
    tell_view(core, from);
}
