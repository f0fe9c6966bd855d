/* SPDX-License-Identifier: Apache-2.0 */
/* Data connections in reserve, to the successors after our own. When the successor is lost, the next one's
 * is taken over at once: dialling and shaking hands in the middle of a recovery would cost more than the
 * passes. Made in quiet times, one view at a time; one that fails is not tried again before the next view. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/state.h"

static void close_spare(struct spotnik_engine *engine, struct spotnik_spare *spare)
{
    if (spare->up)
        close(spotnik_socket_release(&spare->socket, engine->loop.epoll_fd));
    spare->up = spare->opening = false;
}

void spotnik_spares_close(struct spotnik_engine *engine)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        close_spare(engine, &engine->spare[i]);
    engine->spares_epoch = 0;
}

static struct spotnik_spare *spare_find(struct spotnik_engine *engine, struct spotnik_id peer)
{
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_spare *spare = &engine->spare[i];
        if ((spare->up || spare->opening) && spotnik_id_equal(spare->peer.id, peer))
            return spare;
    }
    return NULL;
}

int spotnik_spare_take(struct spotnik_engine *engine, struct spotnik_id peer, uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_spare *spare = spare_find(engine, peer);
    if (spare == NULL || !spare->up)
        return -1;
    spare->up = false;
    memcpy(ret_name, spare->name, sizeof spare->name);
    return spotnik_socket_release(&spare->socket, engine->loop.epoll_fd);
}

/* One that is on its way becomes the lane's: a second connection would make the peer close the first. */
bool spotnik_spare_cede(struct spotnik_engine *engine, struct spotnik_id peer)
{
    struct spotnik_spare *spare = spare_find(engine, peer);
    if (spare == NULL || !spare->opening)
        return false;
    spare->opening = false;
    return true;
}

bool spotnik_spare_adopt(struct spotnik_engine *engine, int fd, struct spotnik_id peer,
                         const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_spare *spare = spare_find(engine, peer);
    if (spare == NULL || spare->up
        || spotnik_socket_watch(&spare->socket, engine->loop.epoll_fd, fd, SPOTNIK_SOCKET_LANE) != 0)
        return false;
    spare->opening = false;
    spare->up = true;
    memcpy(spare->name, name, sizeof spare->name);
    return true;
}

void spotnik_spare_failed(struct spotnik_engine *engine, struct spotnik_id peer)
{
    struct spotnik_spare *spare = spare_find(engine, peer);
    if (spare != NULL)
        spare->opening = false;
}

/* Nothing ever comes back on it but its end. */
static void end_look(struct spotnik_engine *engine, struct spotnik_spare *spare)
{
    char byte;
    if (!spare->up || !spare->socket.readable)
        return;
    ssize_t got = recv(spare->socket.fd, &byte, 1, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        spare->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        close_spare(engine, spare);
}

/* How far lanes reach: to the successor, or in a small view to all others. */
static uint32_t lanes_reach(const struct spotnik_engine *engine, const struct spotnik_view *view)
{
    bool all = spotnik_choice_members(engine->config.limits.choice, 0) >= view->size;
    return all ? view->size - 1 : 1;
}

/* Is `peer` one of the successors two to SPOTNIK_SPARES + 1 steps ahead? */
static bool is_wanted(const struct spotnik_engine *engine, const struct spotnik_view *view, uint32_t rank,
                      struct spotnik_id peer)
{
    for (uint32_t ahead = lanes_reach(engine, view) + 1; ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        if (spotnik_id_equal(view->entry[(rank + ahead) % view->size].member.id, peer))
            return true;
    return false;
}

static void open_one(struct spotnik_engine *engine, const struct spotnik_member *peer)
{
    if (spare_find(engine, peer->id) != NULL || spotnik_lane_leads_to(engine, peer->id))
        return; /* a second connection would make the peer close the first */
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++) {
        struct spotnik_spare *spare = &engine->spare[i];
        if (spare->up || spare->opening)
            continue;
        spare->opening = true;
        spare->peer = *peer;
        spotnik_opening_dial(engine->links, peer, SPOTNIK_PURPOSE_DATA);
        return;
    }
}

static void renew(struct spotnik_engine *engine, const struct spotnik_view *view)
{
    uint32_t rank = spotnik_view_rank(view, engine->config.credentials.self.id);
    if (rank == SPOTNIK_NO_RANK)
        return;
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        if (engine->spare[i].up && !is_wanted(engine, view, rank, engine->spare[i].peer.id))
            close_spare(engine, &engine->spare[i]);
    for (uint32_t ahead = lanes_reach(engine, view) + 1; ahead < view->size && ahead < SPOTNIK_SPARES + 2; ahead++)
        open_one(engine, &view->entry[(rank + ahead) % view->size].member);
}

/* Quiet: the lane is up, and the view has committed a step. */
void spotnik_spares_look(struct spotnik_engine *engine)
{
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    for (uint32_t i = 0; i < SPOTNIK_SPARES; i++)
        end_look(engine, &engine->spare[i]);
    if (engine->spares_epoch == view->epoch || !spotnik_lanes_are_up(engine) || engine->committed <= view->settled_step)
        return;
    engine->spares_epoch = view->epoch;
    renew(engine, view);
}
