/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of several connections: a cloud may cap each flow, and on a long line with losses each flow
 * is slow by itself. The first connection is a lane's own (lane.c). More are dialled beside it,
 * each with a handshake that names the first. Here is decided how many, and when they are opened;
 * frames are put on them in lane.c. One that ends takes the lane with it; one that cannot be opened
 * is done without. */
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "transport/inside.h"

#define BETWEEN_HOSTS 4
/* A socket with so much that has not left yet takes no more: the next frame is for one that sends
 * sooner. */
#define UNSENT_BYTES (256 << 10)
/* A kernel that has acknowledged so much has a process that reads: what waits unread in a socket is
 * far less. */
#define TAKEN_BYTES (UINT64_C(4) << 20)

int spotnik_widen_parse(const char *text, uint32_t *ret_width)
{
    *ret_width = 0;
    if (text == NULL || *text == '\0')
        return 0;
    if (text[0] >= '1' && text[0] <= '0' + SPOTNIK_WIDTH_MAX && text[1] == '\0') {
        *ret_width = (uint32_t)(text[0] - '0');
        return 0;
    }
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                "SPOTNIK_LANES is \"%.40s\"; it must be a number from 1 to %d",
                                text, SPOTNIK_WIDTH_MAX);
}

/* On one host nothing is in the way of a flow but the processor. */
static uint32_t width_of(const struct spotnik_transport *transport, const struct spotnik_lane *lane)
{
    if (transport->width > 0)
        return transport->width;
    return lane->peer.host == transport->credentials->self.host ? 1 : BETWEEN_HOSTS;
}

/* By their number frames are dealt out: with several connections only to those that will send them
 * soon. */
static void unsent_limit(struct spotnik_lane *lane)
{
    int unsent = lane->more_up > 0 ? UNSENT_BYTES : 0; /* 0: the system's default */
    for (uint32_t i = 0; i <= lane->more_up; i++)
        setsockopt(spotnik_lane_track(lane, i)->socket.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent,
                   sizeof unsent);
}

/* Has the other side acknowledged megabytes on the first connection? A socket takes some more than
 * that before anything leaves. */
static bool carries_bulk(const struct spotnik_lane *lane)
{
    int waiting = 0;
    if (lane->sent < TAKEN_BYTES || ioctl(lane->first.socket.fd, SIOCOUTQ, &waiting) != 0)
        return false;
    return lane->sent - (uint64_t)waiting >= TAKEN_BYTES;
}

void spotnik_widen_begin(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    lane->width = width_of(transport, lane);
    lane->sent = 0;
}

void spotnik_widen_end(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    for (uint32_t i = 0; i < lane->more_up; i++) {
        close(spotnik_socket_release(&lane->more[i].socket, transport->loop->data.fd));
        lane->more[i].up = false;
        lane->more[i].count = 0;
    }
    lane->more_up = 0;
    lane->widening = 0;
}

static bool is_due(const struct spotnik_lane *lane)
{
    return lane->first.up && lane->width > 1 + lane->more_up + lane->widening;
}

static bool is_successor(const struct spotnik_transport *transport, const struct spotnik_lane *lane)
{
    const struct spotnik_view *view = spotnik_core_view(transport->core);
    uint32_t rank = spotnik_view_rank(view, transport->credentials->self.id);
    return rank != SPOTNIK_NO_RANK
           && spotnik_id_equal(view->entry[(rank + 1) % view->size].member.id, lane->peer.id);
}

/* Several are for where data goes in bulk: to the successor, and where megabytes have gone. The
 * other side must have taken the first connection, for it refuses others beside one that it does
 * not know yet. It has where the view has committed a step; and in a long first step, where it has
 * read megabytes. */
static bool is_wanted(const struct spotnik_transport *transport, const struct spotnik_lane *lane)
{
    if (lane->more_up > 0)
        return true;
    bool stepped = transport->stand->committed > spotnik_core_view(transport->core)->settled_step;
    return (stepped && is_successor(transport, lane)) || carries_bulk(lane);
}

void spotnik_widen_look(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    if (!is_due(lane) || !lane->expected || !is_wanted(transport, lane))
        return;
    if (lane->more == NULL
        && (lane->more = calloc(SPOTNIK_WIDTH_MAX - 1, sizeof *lane->more)) == NULL) {
        lane->width = 1;
        return;
    }
    while (is_due(lane)) {
        lane->widening++;
        spotnik_opening_widen(transport->links, &lane->peer, lane->name);
    }
}

static struct spotnik_lane *widened_find(struct spotnik_transport *transport,
                                         struct spotnik_id peer,
                                         const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_lane *lane = spotnik_lane_find(transport, peer);
    bool same = lane != NULL && lane->first.up && lane->widening > 0
                && memcmp(lane->name, name, sizeof lane->name) == 0;
    return same ? lane : NULL;
}

/* One could not be had: the lane does without it as long as it stands. */
static void narrowed(struct spotnik_lane *lane)
{
    lane->width = 1 + lane->more_up + lane->widening;
}

/* The connection stays the opening's if nobody wants it any more. */
void spotnik_widen_adopt(struct spotnik_transport *transport, struct spotnik_opening *opening)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    spotnik_opening_widens(opening, name);
    struct spotnik_lane *lane = widened_find(transport, spotnik_opening_peer(opening)->id, name);
    if (lane == NULL || lane->more_up == SPOTNIK_WIDTH_MAX - 1)
        return;
    struct spotnik_track *track = &lane->more[lane->more_up];
    int fd = spotnik_opening_take(transport->links, opening);
    lane->widening--;
    *track = (struct spotnik_track){ .up = true };
    if (spotnik_socket_watch(&track->socket, transport->loop->data.fd, fd, SPOTNIK_SOCKET_LANE)
        != 0) {
        close(fd);
        narrowed(lane);
        return;
    }
    track->socket.writable = true;
    lane->more_up++;
    unsent_limit(lane);
}

void spotnik_widen_failed(struct spotnik_transport *transport, const struct spotnik_member *peer,
                          const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_lane *lane = widened_find(transport, peer->id, name);
    if (lane == NULL)
        return;
    lane->widening--;
    narrowed(lane);
}

static uint64_t round_trip_ns(const struct spotnik_lane *lane)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(lane->first.socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return (uint64_t)info.tcpi_rtt * SPOTNIK_US;
}

static struct spotnik_lane_status status_of(const struct spotnik_lane *lane)
{
    struct spotnik_lane_status status = { .peer = lane->peer.id,
                                          .connections = 1 + lane->more_up,
                                          .round_trip_ns = round_trip_ns(lane) };
    socklen_t size = sizeof status.congestion - 1;
    if (getsockopt(lane->first.socket.fd, IPPROTO_TCP, TCP_CONGESTION, status.congestion, &size)
        != 0)
        status.congestion[0] = '\0';
    return status;
}

uint32_t spotnik_transport_lanes(const struct spotnik_transport *transport,
                                 struct spotnik_lane_status *ret, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SPOTNIK_LANES && count < max; i++)
        if (transport->lane[i].first.up && transport->lane[i].expected)
            ret[count++] = status_of(&transport->lane[i]);
    return count;
}
