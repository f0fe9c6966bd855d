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

static void close_spare(struct spotnik_transport *transport, struct spotnik_spare *spare)
{
    if (spare->up)
        close(spotnik_socket_release(&spare->socket, transport->loop->epoll_fd));
    spare->up = spare->opening = false;
}

void spotnik_spares_close(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        close_spare(transport, &transport->spare[i]);
    transport->spares_epoch = 0;
}

static struct spotnik_spare *spare_find(struct spotnik_transport *transport, struct spotnik_id peer)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_spare *spare = &transport->spare[i];
        if ((spare->up || spare->opening) && spotnik_id_equal(spare->peer.id, peer))
            return spare;
    }
    return NULL;
}

int spotnik_spare_take(struct spotnik_transport *transport, struct spotnik_id peer,
                       uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_spare *spare = spare_find(transport, peer);
    if (spare == NULL || !spare->up)
        return -1;
    spare->up = false;
    memcpy(ret_name, spare->name, sizeof spare->name);
    return spotnik_socket_release(&spare->socket, transport->loop->epoll_fd);
}

/* One that is on its way becomes the lane's: a second connection would make the peer close the
 * first. */
bool spotnik_spare_cede(struct spotnik_transport *transport, struct spotnik_id peer)
{
    struct spotnik_spare *spare = spare_find(transport, peer);
    if (spare == NULL || !spare->opening)
        return false;
    spare->opening = false;
    return true;
}

bool spotnik_spare_adopt(struct spotnik_transport *transport, int fd, struct spotnik_id peer,
                         const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_spare *spare = spare_find(transport, peer);
    if (spare == NULL || spare->up
        || spotnik_socket_watch(&spare->socket, transport->loop->epoll_fd, fd, SPOTNIK_SOCKET_LANE)
               != 0)
        return false;
    spare->opening = false;
    spare->up = true;
    memcpy(spare->name, name, sizeof spare->name);
    return true;
}

void spotnik_spare_failed(struct spotnik_transport *transport, struct spotnik_id peer)
{
    struct spotnik_spare *spare = spare_find(transport, peer);
    if (spare != NULL)
        spare->opening = false;
}

/* Nothing ever comes back on it but its end. */
static void end_look(struct spotnik_transport *transport, struct spotnik_spare *spare)
{
    char byte;
    if (!spare->up || !spare->socket.readable)
        return;
    ssize_t got = recv(spare->socket.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && spotnik_descriptor_waits(errno))
        spare->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        close_spare(transport, spare);
}

/* How far lanes reach: to the successor, or in a small view to all others. */
static uint32_t lanes_reach(const struct spotnik_transport *transport,
                            const struct spotnik_view *view)
{
    bool all = spotnik_choice_members(transport->limits->choice, 0) >= view->size;
    return all ? view->size - 1 : 1;
}

/* Is `peer` one of the successors two to SPOTNIK_SPARES + 1 steps ahead? */
static bool is_wanted(const struct spotnik_transport *transport, const struct spotnik_view *view,
                      uint32_t rank, struct spotnik_id peer)
{
    for (uint32_t ahead = lanes_reach(transport, view) + 1;
         ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        if (spotnik_id_equal(view->entry[(rank + ahead) % view->size].member.id, peer))
            return true;
    return false;
}

static void open_one(struct spotnik_transport *transport, const struct spotnik_member *peer)
{
    if (spare_find(transport, peer->id) != NULL || spotnik_lane_leads_to(transport, peer->id))
        return; /* a second connection would make the peer close the first */
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_spare *spare = &transport->spare[i];
        if (spare->up || spare->opening)
            continue;
        spare->opening = true;
        spare->peer = *peer;
        spotnik_opening_dial(transport->links, peer, SPOTNIK_PURPOSE_DATA);
        return;
    }
}

static void renew(struct spotnik_transport *transport, const struct spotnik_view *view)
{
    uint32_t rank = spotnik_view_rank(view, transport->credentials->self.id);
    if (rank == SPOTNIK_NO_RANK)
        return;
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        if (transport->spare[i].up
            && !is_wanted(transport, view, rank, transport->spare[i].peer.id))
            close_spare(transport, &transport->spare[i]);
    for (uint32_t ahead = lanes_reach(transport, view) + 1;
         ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        open_one(transport, &view->entry[(rank + ahead) % view->size].member);
}

/* Quiet: the lane is up, and the view has committed a step. */
void spotnik_spares_look(struct spotnik_transport *transport)
{
    const struct spotnik_view *view = spotnik_core_view(transport->core);
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        end_look(transport, &transport->spare[i]);
    if (transport->spares_epoch == view->epoch || !spotnik_lanes_are_up(transport)
        || transport->stand->committed <= view->settled_step)
        return;
    transport->spares_epoch = view->epoch;
    renew(transport, view);
}
