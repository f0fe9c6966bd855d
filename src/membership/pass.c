/* SPDX-License-Identifier: Apache-2.0 */
/* Sending PREPARE and ACCEPT on, hop by hop: over a warm link at once, over a new one as soon as
 * it is up. RESTART goes its own way: install_broadcast.c. Rules: docs/protocol.md 5. */
#include "base/assert.h"
#include "membership/membership.h"

static const enum spotnik_message_kind message_of[PASS_COUNT] = {
    [PASS_PREPARE] = SPOTNIK_MESSAGE_PREPARE,
    [PASS_ACCEPT] = SPOTNIK_MESSAGE_ACCEPT,
};

static void pass_deliver(struct spotnik_core *core, enum pass pass, struct peer *peer)
{
    SPOTNIK_ASSERT(pass < PASS_COUNT);
    SPOTNIK_ASSERT(peer->linked);
    SPOTNIK_ASSERT(core->frozen);
    core->membership->agreement.hop[pass] = (struct spotnik_id){ 0 };
    if (pass == PASS_PREPARE)
        core->membership->agreement.prepare_at = peer->member.id;
    /* a peer an epoch behind must install ours before it can promise in it */
    tell_view(core, peer);
    peer_activate(core, peer); /* if it falls silent now, the pass is stuck there */
    send_message(core, peer, message_of[pass]);
}

/* Another ballot has overtaken the hop. Whom it was to reach has not learnt of us. */
void pass_cancel(struct spotnik_core *core, enum pass pass)
{
    struct peer *peer = peer_find(core, core->membership->agreement.hop[pass]);

    SPOTNIK_ASSERT(pass < PASS_COUNT);
    if (peer)
        peer_unseek(peer);
    core->membership->agreement.hop[pass] = (struct spotnik_id){ 0 };
}

void pass_send(struct spotnik_core *core, enum pass pass, const struct spotnik_member *to)
{
    SPOTNIK_ASSERT(pass < PASS_COUNT);
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER && core->frozen);
    struct peer *peer = peer_want(core, to);
    if (peer->linked) {
        pass_deliver(core, pass, peer);
        return;
    }
    core->membership->agreement.hop[pass] = to->id;
    peer_seek(core, peer);
}

/* A link came up: whatever waited for it goes out. */
void pass_flush(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->linked);
    for (int pass = 0; pass < PASS_COUNT; pass++)
        if (spotnik_id_equal(core->membership->agreement.hop[pass], peer->member.id))
            pass_deliver(core, (enum pass)pass, peer);
}
