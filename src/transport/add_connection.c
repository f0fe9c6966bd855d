/* SPDX-License-Identifier: Apache-2.0 */
/* Channels of several connections: a cloud may cap each flow, and on a long line with losses each
 * flow is slow by itself. The first connection is a channel's own (channel.c). More are dialled
 * beside it, each with a handshake that names the first. Here is decided how many, and when they
 * are opened; frames are put on them in channel.c. One that ends takes the channel with it; one
 * that cannot be opened is done without. */
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
#include "link/tls.h"
#include "transport/inside.h"

#define BETWEEN_HOSTS 4
/* A socket with so much that has not left yet takes no more: the next frame is for one that sends
 * sooner. */
#define UNSENT_BYTES (256 << 10)
/* A kernel that has acknowledged so much has a process that reads: what waits unread in a socket is
 * far less. */
#define TAKEN_BYTES (UINT64_C(4) << 20)

int spotnik_add_connection_parse(const char *text, uint32_t *ret_width)
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
static uint32_t width_of(const struct spotnik_transport *transport,
                         const struct spotnik_channel *channel)
{
    if (transport->width > 0)
        return transport->width;
    return channel->peer.host == transport->credentials->self.host ? 1 : BETWEEN_HOSTS;
}

/* By their number frames are dealt out: with several connections only to those that will send them
 * soon. */
static void unsent_limit(struct spotnik_channel *channel)
{
    int unsent = channel->more_up > 0 ? UNSENT_BYTES : 0; /* 0: the system's default */
    for (uint32_t i = 0; i <= channel->more_up; i++)
        setsockopt(spotnik_channel_connection(channel, i)->socket.fd, IPPROTO_TCP,
                   TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

/* Has the other side acknowledged megabytes on the first connection? A socket takes some more than
 * that before anything leaves. */
static bool carries_bulk(const struct spotnik_channel *channel)
{
    int waiting = 0;
    if (channel->sent < TAKEN_BYTES || ioctl(channel->first.socket.fd, SIOCOUTQ, &waiting) != 0)
        return false;
    return channel->sent - (uint64_t)waiting >= TAKEN_BYTES;
}

void spotnik_add_connection_begin(struct spotnik_transport *transport,
                                  struct spotnik_channel *channel)
{
    channel->width = width_of(transport, channel);
    channel->sent = 0;
}

void spotnik_add_connection_end(struct spotnik_transport *transport,
                                struct spotnik_channel *channel)
{
    for (uint32_t i = 0; i < channel->more_up; i++) {
        spotnik_tls_close(spotnik_socket_release(&channel->more[i].socket,
                                                 transport->loop->data.fd));
        spotnik_seal_done(&channel->more[i].seal);
        channel->more[i].up = false;
        channel->more[i].count = 0;
    }
    channel->more_up = 0;
    channel->adding = 0;
}

static bool is_due(const struct spotnik_channel *channel)
{
    return channel->first.up && channel->width > 1 + channel->more_up + channel->adding;
}

static bool is_successor(const struct spotnik_transport *transport,
                         const struct spotnik_channel *channel)
{
    const struct spotnik_view *view = spotnik_core_view(transport->core);
    uint32_t rank = spotnik_view_rank(view, transport->credentials->self.id);
    return rank != SPOTNIK_NO_RANK
           && spotnik_id_equal(view->entry[(rank + 1) % view->size].member.id, channel->peer.id);
}

/* Several are for where data goes in bulk: to the successor, and where megabytes have gone. The
 * other side must have taken the first connection, for it refuses others beside one that it does
 * not know yet. It has where the view has committed a step; and in a long first step, where it has
 * read megabytes. */
static bool is_wanted(const struct spotnik_transport *transport,
                      const struct spotnik_channel *channel)
{
    if (channel->more_up > 0)
        return true;
    bool stepped = transport->stand->committed > spotnik_core_view(transport->core)->settled_step;
    return (stepped && is_successor(transport, channel)) || carries_bulk(channel);
}

void spotnik_add_connection_look(struct spotnik_transport *transport,
                                 struct spotnik_channel *channel)
{
    if (!is_due(channel) || !channel->expected || !is_wanted(transport, channel))
        return;
    if (channel->more == NULL
        && (channel->more = calloc(SPOTNIK_WIDTH_MAX - 1, sizeof *channel->more)) == NULL) {
        channel->width = 1;
        return;
    }
    while (is_due(channel)) {
        channel->adding++;
        spotnik_pending_add_connection(transport->links, &channel->peer, channel->name);
    }
}

static struct spotnik_channel *added_find(struct spotnik_transport *transport,
                                          struct spotnik_id peer,
                                          const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_channel *channel = spotnik_channel_find(transport, peer);
    bool same = channel != NULL && channel->first.up && channel->adding > 0
                && memcmp(channel->name, name, sizeof channel->name) == 0;
    return same ? channel : NULL;
}

/* One could not be had: the channel does without it as long as it stands. */
static void narrowed(struct spotnik_channel *channel)
{
    channel->width = 1 + channel->more_up + channel->adding;
}

/* The pending connection keeps its socket if no channel wants it any more. */
void spotnik_add_connection_adopt(struct spotnik_transport *transport,
                                  struct spotnik_pending *pending)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    spotnik_pending_adds_connection(pending, name);
    struct spotnik_channel *channel =
        added_find(transport, spotnik_pending_peer(pending)->id, name);
    if (channel == NULL || channel->more_up == SPOTNIK_WIDTH_MAX - 1)
        return;
    struct spotnik_connection *connection = &channel->more[channel->more_up];
    struct spotnik_opened opened;
    channel->adding--;
    if (!spotnik_opened_take(transport, pending, &opened)) {
        narrowed(channel);
        return;
    }
    *connection = (struct spotnik_connection){ .up = true, .seal = opened.seal };
    if (spotnik_socket_watch(&connection->socket, transport->loop->data.fd, opened.fd,
                             SPOTNIK_SOCKET_LANE)
        != 0) {
        spotnik_tls_close(opened.fd);
        spotnik_seal_done(&opened.seal);
        narrowed(channel);
        return;
    }
    connection->socket.writable = true;
    channel->more_up++;
    unsent_limit(channel);
}

void spotnik_add_connection_failed(struct spotnik_transport *transport,
                                   const struct spotnik_member *peer,
                                   const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_channel *channel = added_find(transport, peer->id, name);
    if (channel == NULL)
        return;
    channel->adding--;
    narrowed(channel);
}

static uint64_t round_trip_ns(const struct spotnik_channel *channel)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(channel->first.socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return (uint64_t)info.tcpi_rtt * SPOTNIK_US;
}

static struct spotnik_channel_status status_of(const struct spotnik_channel *channel)
{
    struct spotnik_channel_status status = { .peer = channel->peer.id,
                                             .connections = 1 + channel->more_up,
                                             .round_trip_ns = round_trip_ns(channel),
                                             .encrypted =
                                                 spotnik_tls_is_on(channel->first.socket.fd) };
    socklen_t size = sizeof status.congestion - 1;
    if (getsockopt(channel->first.socket.fd, IPPROTO_TCP, TCP_CONGESTION, status.congestion, &size)
        != 0)
        status.congestion[0] = '\0';
    return status;
}

uint32_t spotnik_transport_channels(const struct spotnik_transport *transport,
                                    struct spotnik_channel_status *ret, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SPOTNIK_LANES && count < max; i++)
        if (transport->channel[i].first.up && transport->channel[i].expected)
            ret[count++] = status_of(&transport->channel[i]);
    return count;
}
