/* SPDX-License-Identifier: Apache-2.0 */
/* The sender watches every channel to another host for bytes that the other kernel does not
 * acknowledge for longer than a silence. A kernel acknowledges whatever its process does, and a
 * full map leaves nothing unacknowledged, so a slow caller is not accused. Then the control
 * link is asked. Where that is not acknowledged either, or no channel can be opened, the path is
 * broken, and we tell the core. Else it may be this connection alone, and we dial it again; if
 * that one is stuck soon, too, as where only large packets vanish, the path is broken. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/time.h"
#include "transport/inside.h"

#define LOOK_NS (100 * SPOTNIK_MS)
#define OPEN_NS (1800 * SPOTNIK_MS) /* a lost SYN is repeated after 1 s */
/* times as long for the process, once its kernel has answered */
#define ANSWERS 4
#define QUESTIONS 2                   /* silences for which the other host is asked */
#define BROKEN_NS (1200 * SPOTNIK_MS) /* two or three losses in a row take less */
#define AGAIN_NS (10 * SPOTNIK_S)

static uint64_t limit_of(const struct spotnik_transport *transport, const struct tcp_info *info)
{
    uint64_t limit_ns = transport->limits->silence_floor_ns,
             slow_ns = 2 * info->tcpi_rto * SPOTNIK_US;
    if (info->tcpi_backoff > 0) /* the timer has been doubled since: what it was at first counts */
        slow_ns >>= info->tcpi_backoff < 32 ? info->tcpi_backoff : 32;
    return slow_ns > limit_ns ? slow_ns : limit_ns;
}

/* For how long the other kernel has owed us an acknowledgement; 0: it has not, or not for long. */
static uint64_t stuck_ns(const struct spotnik_transport *transport,
                         const struct spotnik_connection *connection)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (!connection->up
        || getsockopt(connection->socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    uint64_t age_ns = info.tcpi_last_ack_recv * SPOTNIK_MS;
    bool stuck =
        info.tcpi_unacked > 0 && info.tcpi_retransmits > 0 && age_ns >= limit_of(transport, &info);
    return stuck ? age_ns : 0;
}

static uint64_t longest_stuck_ns(const struct spotnik_transport *transport,
                                 struct spotnik_channel *channel)
{
    uint64_t longest_ns = 0;
    for (uint32_t i = 0; i <= channel->more_up; i++) {
        uint64_t ns = stuck_ns(transport, spotnik_channel_connection(channel, i));
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return longest_ns;
}

static void path_down(struct spotnik_transport *transport, struct spotnik_channel *channel)
{
    struct spotnik_member peer = channel->peer;
    channel->asked_ns = 0;
    spotnik_loop_tell(transport->loop, SPOTNIK_EVENT_PATH_DOWN, &peer);
}

/* Bytes are stuck. Every look asks on the control link whether the other host hears anything at
 * all; the answer is an acknowledgement. Questions get lost, too, but not this many for this long
 * where anything gets through. A look that comes late has asked late: what counts is for how long a
 * question waits, not how old the last answer is. */
static bool judge(struct spotnik_transport *transport, struct spotnik_channel *channel,
                  uint64_t now_ns, uint64_t age_ns)
{
    uint64_t limit_ns = transport->limits->silence_floor_ns;
    if (channel->asked_ns == 0)
        channel->asked_ns = now_ns;
    bool linked = spotnik_link_question(transport->links, channel->peer.id);
    if (linked && now_ns - channel->asked_ns < QUESTIONS * limit_ns)
        return false;
    bool heard = spotnik_link_is_heard(transport->links, channel->peer.id, limit_ns);
    if (heard && age_ns < BROKEN_NS)
        return false;
    if (!heard || (channel->broken_ns != 0 && now_ns - channel->broken_ns < AGAIN_NS)) {
        path_down(transport, channel);
        return false;
    }
    channel->asked_ns = 0;
    channel->broken_ns = now_ns;
    return true;
}

/* Time limit for a channel to open. No shorter than any silence: a higher silence limit for busy
 * hosts holds for their channels, too. */
static uint64_t patience_ns(const struct spotnik_transport *transport,
                            const struct spotnik_channel *channel)
{
    bool answered = spotnik_pending_is_connected(transport->links, channel->peer.id);
    uint64_t open_ns = answered ? ANSWERS * OPEN_NS : OPEN_NS,
             floor_ns = transport->limits->silence_floor_ns;
    return open_ns > floor_ns ? open_ns : floor_ns;
}

bool spotnik_channel_watch(struct spotnik_transport *transport, struct spotnik_channel *channel,
                           uint64_t now_ns)
{
    if (!channel->expected || channel->peer.host == transport->credentials->self.host
        || now_ns < channel->look_ns)
        return false;
    channel->look_ns = spotnik_time_add(now_ns, LOOK_NS);
    if (channel->first.up) {
        channel->opening_ns = 0;
        uint64_t age_ns = longest_stuck_ns(transport, channel);
        if (age_ns > 0)
            return judge(transport, channel, now_ns, age_ns);
        channel->asked_ns = 0;
        return false;
    }
    if (channel->opening_ns == 0)
        channel->opening_ns = now_ns;
    if (now_ns - channel->opening_ns >= patience_ns(transport, channel)) {
        channel->opening_ns = now_ns;
        path_down(transport, channel);
    }
    return false;
}
