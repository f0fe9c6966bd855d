/* SPDX-License-Identifier: Apache-2.0 */
/* The peers of a new view: which are watched, and which are linked. Rules: docs/protocol.md 4. */
#include "base/assert.h"
#include "membership/membership.h"

/* Two members may stand within each other's warm reach, in small rings. Then the one with the
 * smaller id dials. */
static bool we_dial(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size && rank != core->rank);
    uint32_t size = core->view.size;
    uint32_t ahead = (rank + size - core->rank) % size, back = size - ahead;
    if (ahead > core->limits.warm_count)
        return false;
    return back > core->limits.warm_count
           || spotnik_id_compare(core->self.id, core->view.entry[rank].member.id) < 0;
}

/* Watch a peer without a break if it was watched before and is a ring neighbour still, or now: a
 * silence that began before the view counts from its beginning. */
static void forget_strangers(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        struct peer *peer = &core->membership->peer[i];
        if (!peer->used)
            continue;
        uint32_t rank = peer_rank(core, peer);
        peer->rank = rank == SPOTNIK_NO_RANK ? peer->rank : rank;
        peer->sought = peer->cut = false;
        peer->active = peer->active && rank != SPOTNIK_NO_RANK && rank != core->rank
                       && (rank == successor_rank(core) || rank == predecessor_rank(core));
        /* a joiner that died before our view may still be let into the next one */
        bool may_come = peer->end.certified && peer->rank == SPOTNIK_NO_RANK;
        if (rank == SPOTNIK_NO_RANK && !peer->linked && !peer->dialling && !may_come)
            peer->used = false;
    }
}

/* A new view: watch both ring neighbours, keep links to the next few successors, forget peers that
 * are neither linked nor in it. */
void peers_after_view(struct spotnik_core *core)
{
    uint32_t size = core->view.size, stream_to = step_report(core).stream_to;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    forget_strangers(core);
    for (uint32_t ahead = 1; ahead < size; ahead++) {
        uint32_t rank = (core->rank + ahead) % size;
        bool stream = rank == stream_to;
        bool near = ahead <= core->limits.warm_count || ahead == size - 1;
        if (!near && !stream)
            continue;
        struct peer *peer = peer_want_near(core, &core->view.entry[rank].member, rank);
        if (ahead == 1 || ahead == size - 1)
            peer_activate(core, peer);
        if (we_dial(core, rank) || (stream && !near))
            peer_dial(core, peer);
    }
}
