/* SPDX-License-Identifier: Apache-2.0 */
/* Data connections in reserve, to the successors after our own. When the successor is lost, the
 * connection to the next one is taken over at once. Dialling and shaking hands in the middle of a
 * recovery would cost more than the passes. Made in quiet times, one view at a time; one that fails
 * is not tried again before the next view. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "transport/inside.h"

static void close_spare(struct spotnik_transport *transport, struct spotnik_standby *standby)
{
    if (standby->up)
        spotnik_tls_close(spotnik_socket_release(&standby->socket, transport->loop->epoll_fd));
    if (standby->up)
        spotnik_seal_done(&standby->seal);
    standby->up = standby->pending = false;
}

void spotnik_standby_close(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        close_spare(transport, &transport->standby[i]);
    transport->standby_epoch = 0;
}

static struct spotnik_standby *standby_find(struct spotnik_transport *transport,
                                            struct spotnik_id peer)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_standby *standby = &transport->standby[i];
        if ((standby->up || standby->pending) && spotnik_id_equal(standby->peer.id, peer))
            return standby;
    }
    return NULL;
}

bool spotnik_standby_take(struct spotnik_transport *transport, struct spotnik_id peer,
                          struct spotnik_opened *ret)
{
    struct spotnik_standby *standby = standby_find(transport, peer);
    if (standby == NULL || !standby->up)
        return false;
    standby->up = false;
    memcpy(ret->name, standby->name, sizeof standby->name);
    ret->seal = standby->seal;
    ret->fd = spotnik_socket_release(&standby->socket, transport->loop->epoll_fd);
    return true;
}

/* One that is on its way becomes the channel's: a second connection would make the peer close the
 * first. */
bool spotnik_standby_cede(struct spotnik_transport *transport, struct spotnik_id peer)
{
    struct spotnik_standby *standby = standby_find(transport, peer);
    if (standby == NULL || !standby->pending)
        return false;
    standby->pending = false;
    return true;
}

bool spotnik_standby_adopt(struct spotnik_transport *transport, struct spotnik_id peer,
                           const struct spotnik_opened *opened)
{
    struct spotnik_standby *standby = standby_find(transport, peer);
    if (standby == NULL || standby->up
        || spotnik_socket_watch(&standby->socket, transport->loop->epoll_fd, opened->fd,
                                SPOTNIK_SOCKET_LANE)
               != 0)
        return false;
    standby->pending = false;
    standby->up = true;
    standby->seal = opened->seal;
    memcpy(standby->name, opened->name, sizeof standby->name);
    return true;
}

void spotnik_standby_failed(struct spotnik_transport *transport, struct spotnik_id peer)
{
    struct spotnik_standby *standby = standby_find(transport, peer);
    if (standby != NULL)
        standby->pending = false;
}

/* Nothing ever comes back on it but its end. */
static void end_look(struct spotnik_transport *transport, struct spotnik_standby *standby)
{
    char byte;
    if (!standby->up || !standby->socket.readable)
        return;
    ssize_t got = recv(standby->socket.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && spotnik_descriptor_waits(errno))
        standby->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        close_spare(transport, standby);
}

/* How far channels reach: to the successor, or in a small view to all others. */
static uint32_t channels_reach(const struct spotnik_transport *transport,
                               const struct spotnik_view *view)
{
    bool all = spotnik_choice_members(transport->limits->choice, 0) >= view->size;
    return all ? view->size - 1 : 1;
}

/* Is `peer` one of the successors two to SPOTNIK_SPARES + 1 steps ahead? */
static bool is_wanted(const struct spotnik_transport *transport, const struct spotnik_view *view,
                      uint32_t rank, struct spotnik_id peer)
{
    for (uint32_t ahead = channels_reach(transport, view) + 1;
         ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        if (spotnik_id_equal(view->entry[(rank + ahead) % view->size].member.id, peer))
            return true;
    return false;
}

static void open_one(struct spotnik_transport *transport, const struct spotnik_member *peer)
{
    if (standby_find(transport, peer->id) != NULL || spotnik_channel_leads_to(transport, peer->id))
        return; /* a second connection would make the peer close the first */
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_standby *standby = &transport->standby[i];
        if (standby->up || standby->pending)
            continue;
        standby->pending = true;
        standby->peer = *peer;
        spotnik_pending_dial(transport->links, peer, SPOTNIK_PURPOSE_DATA);
        return;
    }
}

static void renew(struct spotnik_transport *transport, const struct spotnik_view *view)
{
    uint32_t rank = spotnik_view_rank(view, transport->credentials->self.id);
    if (rank == SPOTNIK_NO_RANK)
        return;
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        if (transport->standby[i].up
            && !is_wanted(transport, view, rank, transport->standby[i].peer.id))
            close_spare(transport, &transport->standby[i]);
    for (uint32_t ahead = channels_reach(transport, view) + 1;
         ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        open_one(transport, &view->entry[(rank + ahead) % view->size].member);
}

/* Quiet: the channel is up, and the view has committed a step. */
void spotnik_standby_look(struct spotnik_transport *transport)
{
    const struct spotnik_view *view = spotnik_core_view(transport->core);
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        end_look(transport, &transport->standby[i]);
    if (transport->standby_epoch == view->epoch || !spotnik_channels_are_up(transport)
        || transport->stand->committed <= view->settled_step)
        return;
    transport->standby_epoch = view->epoch;
    renew(transport, view);
}
