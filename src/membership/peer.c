/* SPDX-License-Identifier: Apache-2.0 */
/* The table of peers: links, watched peers, peers that must still learn of the view. Rules:
 * docs/protocol.md 8. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

struct peer *peer_find(struct spotnik_core *core, struct spotnik_id id)
{
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (core->membership->peer[i].used
            && spotnik_id_equal(core->membership->peer[i].member.id, id))
            return &core->membership->peer[i];
    return NULL;
}

/* It stands where it stood, or a few places from there. */
uint32_t peer_rank(const struct spotnik_core *core, const struct peer *peer)
{
    SPOTNIK_ASSERT(peer && peer->used);
    return spotnik_view_rank_near(&core->view, peer->member.id, peer->rank);
}

/* By its id: most that speak to us, or are spoken to, are peers. */
uint32_t peers_rank(const struct spotnik_core *core, struct spotnik_id id)
{
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (core->membership->peer[i].used
            && spotnik_id_equal(core->membership->peer[i].member.id, id))
            return peer_rank(core, &core->membership->peer[i]);
    return spotnik_view_rank(&core->view, id);
}

static struct peer *free_place(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->peer_top <= core->membership->peer_max);
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (!core->membership->peer[i].used)
            return &core->membership->peer[i];
    return core->membership->peer_top < core->membership->peer_max
               ? &core->membership->peer[core->membership->peer_top++]
               : NULL;
}

/* A table full of strangers (excluded members, joiners that never enter) must not keep a member
 * out: one of them, unlinked if possible, makes room. There are more places than members, so there
 * is always one. */
static struct peer *make_room(struct spotnik_core *core)
{
    struct peer *place = free_place(core), *victim = NULL;
    if (place)
        return place;
    for (uint32_t i = 0; i < core->membership->peer_max; i++) {
        struct peer *peer = &core->membership->peer[i];
        if (peer_rank(core, peer) == SPOTNIK_NO_RANK && (!victim || !peer->linked))
            victim = peer;
    }
    SPOTNIK_ASSERT(victim != NULL);
    if (victim->linked)
        queue_peer(core, SPOTNIK_ACTION_HANG_UP, &victim->member);
    return victim;
}

struct peer *peer_want(struct spotnik_core *core, const struct spotnik_member *member)
{
    return peer_want_near(core, member, 0);
}

/* The same, of one that stands about there in the view: a search from its head is long. */
struct peer *peer_want_near(struct spotnik_core *core, const struct spotnik_member *member,
                            uint32_t near)
{
    struct peer *peer = peer_find(core, member->id);
    if (peer)
        return peer;
    peer = make_room(core);
    *peer = (struct peer){ .member = *member,
                           .used = true,
                           .rank = spotnik_view_rank_near(&core->view, member->id, near) };
    silence_start(&peer->silence, core->now_ns);
    return peer;
}

/* From now on silence counts, from now on at the earliest. */
void peer_activate(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used);
    peer->sought = false;
    if (peer->active)
        return;
    peer->active = true;
    silence_start(&peer->silence, core->now_ns);
}

/* It is to get something as soon as the link is up, or has brought its first word. Until then it
 * does not know that we listen for it; but a link that does not come up must be noticed. */
void peer_seek(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(!peer->linked || !peer->heard);
    bool sought = peer->sought || !peer->active;
    peer_activate(core, peer);
    peer->sought = sought;
    peer_dial(core, peer);
}

/* It was found, or is not looked for any more, and got nothing that makes it listen for us. Were it
 * watched on, it would be taken for silent for ever, and the path to it for broken. */
void peer_unseek(struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used);
    if (peer->sought)
        peer->active = peer->sought = false;
}

void peer_dial(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used);
    if (peer->linked || peer->dialling)
        return;
    peer->dialling = true;
    queue_peer(core, SPOTNIK_ACTION_DIAL, &peer->member);
}

/* A peer on our own host shares our processors: its silence mostly means that the host is busy,
 * while its death comes by certificate or EOF. Only a stopped process is noticed by silence there,
 * and that may take a little longer. */
#define HOST_PATIENCE 3
uint64_t silence_floor(const struct spotnik_core *core, const struct spotnik_member *member)
{
    bool near = member->host == core->self.host && core->self.host != 0;
    return core->limits.silence_floor_ns * (near ? HOST_PATIENCE : 1);
}
