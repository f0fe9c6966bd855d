/* SPDX-License-Identifier: Apache-2.0 */
/* The sender watches every lane to another host for bytes that the other kernel does not
 * acknowledge for longer than a silence. A kernel acknowledges whatever its process does, and a
 * full window leaves nothing unacknowledged, so a slow caller is not accused. Two faults are
 * possible. Nothing gets through: the path is broken, and we tell the core. Or small packets get
 * through, as a question on the control link shows. Then large ones vanish, since the path is
 * narrower than its ends believe, and we dial the lane again with small segments. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/time.h"
#include "carry/inside.h"
#include "link/address.h"
#include "member/hosts.h"

#define HOSTS_MIN 4 /* of a view that can go round a path */
#define LOOK_NS (100 * SPOTNIK_MS)
#define OPEN_NS (1800 * SPOTNIK_MS) /* a lost SYN is repeated after 1 s */
/* times as long for the process, once its kernel has answered */
#define ANSWERS 4
#define QUESTIONS 2 /* silences for which the other host is asked */
#define NARROW_NS (1200 * SPOTNIK_MS)
#define SMALL_NS (600 * SPOTNIK_S) /* then larger segments are tried again, by the next lane */

static uint64_t limit_of(const struct spotnik_carriage *carriage, const struct tcp_info *info)
{
    uint64_t limit_ns = carriage->limits->silence_floor_ns,
             slow_ns = 2 * info->tcpi_rto * SPOTNIK_US;
    if (info->tcpi_backoff > 0) /* the timer has been doubled since: what it was at first counts */
        slow_ns >>= info->tcpi_backoff < 32 ? info->tcpi_backoff : 32;
    return slow_ns > limit_ns ? slow_ns : limit_ns;
}

/* For how long the other kernel has owed us an acknowledgement; 0: it has not, or not for long. */
static uint64_t stuck_ns(const struct spotnik_carriage *carriage, const struct spotnik_track *track)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (!track->up || getsockopt(track->socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    uint64_t age_ns = info.tcpi_last_ack_recv * SPOTNIK_MS;
    bool stuck =
        info.tcpi_unacked > 0 && info.tcpi_retransmits > 0 && age_ns >= limit_of(carriage, &info);
    return stuck ? age_ns : 0;
}

static uint64_t longest_stuck_ns(const struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    uint64_t longest_ns = 0;
    for (uint32_t i = 0; i <= lane->more_up; i++) {
        uint64_t ns = stuck_ns(carriage, spotnik_lane_track(lane, i));
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    return longest_ns;
}

/* For the status: the way, the lane on it, and what is done about it. */
static void tell(struct spotnik_carriage *carriage, const struct spotnik_member *peer,
                 const char *what)
{
    char text[SPOTNIK_ADDRESS_TEXT];
    snprintf(carriage->path, sizeof carriage->path, "lane to %s: %s",
             spotnik_address_format(text, peer->address, peer->port), what);
    carriage->path_ns = spotnik_clock_ns();
    carriage->counts.paths_stalled++;
}

/* The core finds a broken path by silence, too, mostly before its lane has waited for long
 * enough. */
void spotnik_carriage_path_cut(struct spotnik_carriage *carriage,
                               const struct spotnik_core_status *status)
{
    if (status->cuts == carriage->cuts_told)
        return;
    carriage->cuts_told = status->cuts;
    if (carriage->path_ns != 0
        && spotnik_time_since(spotnik_clock_ns(), carriage->path_ns) < OPEN_NS)
        return; /* the lane has said so */
    tell(carriage, &status->last_cut,
         "nothing gets through, though the member lives; the view goes round this path");
}

uint64_t spotnik_carriage_path(const struct spotnik_carriage *carriage, char *text, size_t size)
{
    snprintf(text, size, "%s", carriage->path);
    return carriage->path_ns;
}

static void path_down(struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    struct spotnik_member peer = lane->peer;
    lane->asked_ns = 0;
    tell(carriage, &peer,
         "nothing gets through; the next view goes round this path where there are four hosts");
    spotnik_loop_tell(carriage->loop, SPOTNIK_EVENT_PATH_DOWN, &peer);
}

/* The lane cannot be opened. The control link may stand all the same: a table of connections is
 * full, or no port is free to dial from. The core of three hosts and two goes by silence alone, and
 * hears heartbeats. */
static void way_shut(struct spotnik_carriage *carriage, struct spotnik_lane *lane, uint64_t now_ns)
{
    const struct spotnik_limits *limits = carriage->limits;
    path_down(carriage, lane);
    if (spotnik_hosts_count(spotnik_core_view(carriage->core)) < HOSTS_MIN)
        spotnik_link_deafen(carriage->links, lane->peer.id,
                            now_ns + limits->silence_ceiling_ns + limits->silence_floor_ns);
}

/* As it was dialled, or as the path has told its ends. It may be older than what is known of the
 * path by now. 0: not known. */
static int segment_of(const struct spotnik_lane *lane)
{
    int bytes = 0;
    socklen_t size = sizeof bytes;
    (void)getsockopt(lane->first.socket.fd, IPPROTO_TCP, TCP_MAXSEG, &bytes, &size);
    return bytes;
}

/* Large packets vanish: small ones from now on, to all members of that host. */
static void narrow(struct spotnik_carriage *carriage, struct spotnik_lane *lane, int segment_bytes)
{
    char text[80];
    lane->asked_ns = 0;
    spotnik_openings_narrow(carriage->links, lane->peer.host, segment_bytes,
                            spotnik_time_add(spotnik_clock_ns(), SMALL_NS));
    spotnik_spares_close(carriage); /* one of them would take its place, and be as wide */
    snprintf(text, sizeof text, "large packets vanish; dialled again with segments of %d bytes",
             segment_bytes);
    tell(carriage, &lane->peer, text);
}

/* Bytes are stuck. Every look asks on the control link whether the other host hears anything at
 * all; the answer is an acknowledgement. Questions get lost, too, but not this many for this long
 * where anything gets through. A look that comes late has asked late: what counts is for how long a
 * question waits, not how old the last answer is. */
static bool judge(struct spotnik_carriage *carriage, struct spotnik_lane *lane, uint64_t now_ns,
                  uint64_t age_ns)
{
    uint64_t limit_ns = carriage->limits->silence_floor_ns;
    if (lane->asked_ns == 0)
        lane->asked_ns = now_ns;
    bool linked = spotnik_link_question(carriage->links, lane->peer.id);
    if (linked && now_ns - lane->asked_ns < QUESTIONS * limit_ns)
        return false;
    bool heard = spotnik_link_is_heard(carriage->links, lane->peer.id, limit_ns);
    if (heard && age_ns < NARROW_NS)
        return false; /* two or three losses in a row: that happens */
    int segment_bytes = segment_of(lane);
    if (!heard || (segment_bytes != 0 && segment_bytes <= SPOTNIK_SEGMENT_LEAST)) {
        path_down(carriage, lane);
        return heard; /* others get through to that host: it may be this connection alone */
    }
    narrow(carriage, lane, spotnik_segment_smaller(segment_bytes));
    return true;
}

/* Time limit for a lane to open. No shorter than any silence: a higher silence limit for busy hosts
 * holds for their lanes, too. */
static uint64_t patience_ns(const struct spotnik_carriage *carriage,
                            const struct spotnik_lane *lane)
{
    bool answered = spotnik_opening_is_connected(carriage->links, lane->peer.id);
    uint64_t open_ns = answered ? ANSWERS * OPEN_NS : OPEN_NS,
             floor_ns = carriage->limits->silence_floor_ns;
    return open_ns > floor_ns ? open_ns : floor_ns;
}

bool spotnik_lane_watch(struct spotnik_carriage *carriage, struct spotnik_lane *lane,
                        uint64_t now_ns)
{
    if (!lane->expected || lane->peer.host == carriage->credentials->self.host
        || now_ns < lane->look_ns)
        return false;
    lane->look_ns = spotnik_time_add(now_ns, LOOK_NS);
    if (lane->first.up) {
        if (lane->opening_ns != 0)
            spotnik_link_deafen(carriage->links, lane->peer.id, 0);
        lane->opening_ns = 0;
        uint64_t age_ns = longest_stuck_ns(carriage, lane);
        if (age_ns > 0)
            return judge(carriage, lane, now_ns, age_ns);
        lane->asked_ns = 0;
        return false;
    }
    if (lane->opening_ns == 0)
        lane->opening_ns = now_ns;
    if (now_ns - lane->opening_ns >= patience_ns(carriage, lane)) {
        lane->opening_ns = now_ns;
        way_shut(carriage, lane, now_ns);
    }
    return false;
}
