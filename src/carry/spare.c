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
#include "carry/inside.h"

static void close_spare(struct spotnik_carriage *carriage, struct spotnik_spare *spare)
{
    if (spare->up)
        close(spotnik_socket_release(&spare->socket, carriage->loop->epoll_fd));
    spare->up = spare->opening = false;
}

void spotnik_spares_close(struct spotnik_carriage *carriage)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        close_spare(carriage, &carriage->spare[i]);
    carriage->spares_epoch = 0;
}

static struct spotnik_spare *spare_find(struct spotnik_carriage *carriage, struct spotnik_id peer)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_spare *spare = &carriage->spare[i];
        if ((spare->up || spare->opening) && spotnik_id_equal(spare->peer.id, peer))
            return spare;
    }
    return NULL;
}

int spotnik_spare_take(struct spotnik_carriage *carriage, struct spotnik_id peer,
                       uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_spare *spare = spare_find(carriage, peer);
    if (spare == NULL || !spare->up)
        return -1;
    spare->up = false;
    memcpy(ret_name, spare->name, sizeof spare->name);
    return spotnik_socket_release(&spare->socket, carriage->loop->epoll_fd);
}

/* One that is on its way becomes the lane's: a second connection would make the peer close the
 * first. */
bool spotnik_spare_cede(struct spotnik_carriage *carriage, struct spotnik_id peer)
{
    struct spotnik_spare *spare = spare_find(carriage, peer);
    if (spare == NULL || !spare->opening)
        return false;
    spare->opening = false;
    return true;
}

bool spotnik_spare_adopt(struct spotnik_carriage *carriage, int fd, struct spotnik_id peer,
                         const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_spare *spare = spare_find(carriage, peer);
    if (spare == NULL || spare->up
        || spotnik_socket_watch(&spare->socket, carriage->loop->epoll_fd, fd, SPOTNIK_SOCKET_LANE)
               != 0)
        return false;
    spare->opening = false;
    spare->up = true;
    memcpy(spare->name, name, sizeof spare->name);
    return true;
}

void spotnik_spare_failed(struct spotnik_carriage *carriage, struct spotnik_id peer)
{
    struct spotnik_spare *spare = spare_find(carriage, peer);
    if (spare != NULL)
        spare->opening = false;
}

/* Nothing ever comes back on it but its end. */
static void end_look(struct spotnik_carriage *carriage, struct spotnik_spare *spare)
{
    char byte;
    if (!spare->up || !spare->socket.readable)
        return;
    ssize_t got = recv(spare->socket.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && spotnik_descriptor_waits(errno))
        spare->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        close_spare(carriage, spare);
}

/* How far lanes reach: to the successor, or in a small view to all others. */
static uint32_t lanes_reach(const struct spotnik_carriage *carriage,
                            const struct spotnik_view *view)
{
    bool all = spotnik_choice_members(carriage->limits->choice, 0) >= view->size;
    return all ? view->size - 1 : 1;
}

/* Is `peer` one of the successors two to SPOTNIK_SPARES + 1 steps ahead? */
static bool is_wanted(const struct spotnik_carriage *carriage, const struct spotnik_view *view,
                      uint32_t rank, struct spotnik_id peer)
{
    for (uint32_t ahead = lanes_reach(carriage, view) + 1;
         ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        if (spotnik_id_equal(view->entry[(rank + ahead) % view->size].member.id, peer))
            return true;
    return false;
}

static void open_one(struct spotnik_carriage *carriage, const struct spotnik_member *peer)
{
    if (spare_find(carriage, peer->id) != NULL || spotnik_lane_leads_to(carriage, peer->id))
        return; /* a second connection would make the peer close the first */
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_spare *spare = &carriage->spare[i];
        if (spare->up || spare->opening)
            continue;
        spare->opening = true;
        spare->peer = *peer;
        spotnik_opening_dial(carriage->links, peer, SPOTNIK_PURPOSE_DATA);
        return;
    }
}

static void renew(struct spotnik_carriage *carriage, const struct spotnik_view *view)
{
    uint32_t rank = spotnik_view_rank(view, carriage->credentials->self.id);
    if (rank == SPOTNIK_NO_RANK)
        return;
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        if (carriage->spare[i].up && !is_wanted(carriage, view, rank, carriage->spare[i].peer.id))
            close_spare(carriage, &carriage->spare[i]);
    for (uint32_t ahead = lanes_reach(carriage, view) + 1;
         ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        open_one(carriage, &view->entry[(rank + ahead) % view->size].member);
}

/* Quiet: the lane is up, and the view has committed a step. */
void spotnik_spares_look(struct spotnik_carriage *carriage)
{
    const struct spotnik_view *view = spotnik_core_view(carriage->core);
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        end_look(carriage, &carriage->spare[i]);
    if (carriage->spares_epoch == view->epoch || !spotnik_lanes_are_up(carriage)
        || carriage->stand->committed <= view->settled_step)
        return;
    carriage->spares_epoch = view->epoch;
    renew(carriage, view);
}
