/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of several connections. The first is a lane's own (lane.c). More are dialled beside it when
 * the measurements say so (width.h) or SPOTNIK_LANES does, each with a handshake that names the
 * first. Here is decided when they are opened, and measured what they carry together; frames are
 * put on them in lane.c. One that ends takes the lane with it; one that cannot be opened is done
 * without. All of a lane have one congestion control, by congestion.h or SPOTNIK_CONGESTION. */
#include <errno.h>
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
#include "carry/inside.h"
#include "carry/shape.h"
#include "link/address.h"

#define REPORT_NS (50 * SPOTNIK_MS) /* of pressed time, at a time */
/* A socket with so much that has not left yet takes no more: the next frame is for one that sends
 * sooner. */
#define UNSENT_BYTES (256 << 10)
/* A kernel that has acknowledged so much has a process that reads: what waits unread in a socket is
 * far less. */
#define TAKEN_BYTES (UINT64_C(4) << 20)

int spotnik_widen_parse(const char *text, uint32_t *ret_width)
{
    *ret_width = 0;
    if (text == NULL || *text == '\0' || strcmp(text, "auto") == 0)
        return 0;
    if (text[0] >= '1' && text[0] <= '0' + SPOTNIK_WIDTH_MAX && text[1] == '\0') {
        *ret_width = (uint32_t)(text[0] - '0');
        return 0;
    }
    return spotnik_error_return(
        SPOTNIK_ERR_ARGUMENT,
        "SPOTNIK_LANES is \"%.40s\"; it must be auto, or a number from 1 to %d", text,
        SPOTNIK_WIDTH_MAX);
}

/* On one host nothing is in the way of a flow but the processor. And a link that we shape ourselves
 * is as fast as it is. */
static bool may_try(const struct spotnik_carriage *carriage, const struct spotnik_lane *lane)
{
    const uint8_t *address = lane->peer.address;
    return !spotnik_address_is_loopback(address) && !spotnik_shape_is_on()
           && memcmp(address, carriage->credentials->self.address, sizeof lane->peer.address) != 0;
}

/* By their number frames are dealt out: with several connections only to those that will send them
 * soon. */
static void use(struct spotnik_lane *lane)
{
    uint32_t up = 1 + lane->more_up;
    lane->used = lane->width.wanted < up ? lane->width.wanted : up;
    int unsent = lane->used > 1 ? UNSENT_BYTES : 0; /* 0: the system's default */
    for (uint32_t i = 0; i < up; i++)
        setsockopt(spotnik_lane_track(lane, i)->socket.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent,
                   sizeof unsent);
    lane->pressed_ns = 0;
}

static uint64_t round_trip_ns(const struct spotnik_lane *lane)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(lane->first.socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return (uint64_t)info.tcpi_rtt * SPOTNIK_US;
}

/* Bytes that the other side has acknowledged, of all that was ever put into the connections. A
 * socket takes megabytes more than the line has carried. In a measurement made of many short ones
 * that would be several per cent. */
static uint64_t delivered(const struct spotnik_lane *lane)
{
    uint64_t bytes = lane->sent;
    for (uint32_t i = 0; i <= lane->more_up; i++) {
        int waiting = 0;
        if (ioctl(spotnik_lane_track((struct spotnik_lane *)lane, i)->socket.fd, SIOCOUTQ, &waiting)
                == 0
            && waiting > 0)
            bytes -= (uint64_t)waiting < bytes ? (uint64_t)waiting : bytes;
    }
    return bytes;
}

/* Where nothing is to be tried the usual one is in use already, or what socket.c has set. */
static void steer(const struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    const struct spotnik_congestion_choice *control = &carriage->control;
    if (lane->congestion.fixed && !control->fixed)
        return;
    for (uint32_t i = 0; i <= lane->more_up; i++)
        spotnik_congestion_set(spotnik_lane_track(lane, i)->socket.fd,
                               lane->congestion.other ? control->other : control->usual);
}

void spotnik_widen_begin(struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    bool may = may_try(carriage, lane), other = may && carriage->control.other[0] != '\0';
    lane->width = spotnik_width_make(carriage->width > 0 || may ? carriage->width : 1,
                                     may ? carriage->width_found : 0);
    lane->congestion =
        spotnik_congestion_make(!other, carriage->control.pauses, other && carriage->other_found);
    lane->sent = 0;
    steer(carriage, lane);
    use(lane);
    spotnik_width_opened(&lane->width, round_trip_ns(lane));
}

void spotnik_widen_end(struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    for (uint32_t i = 0; i < lane->more_up; i++) {
        close(spotnik_socket_release(&lane->more[i].socket, carriage->loop->data.fd));
        lane->more[i].up = false;
        lane->more[i].count = 0;
    }
    lane->more_up = 0;
    lane->used = 1;
    lane->widening = 0;
    lane->pressed_ns = 0;
}

static bool is_due(const struct spotnik_lane *lane)
{
    return lane->first.up && lane->width.wanted > 1 + lane->more_up + lane->widening;
}

/* A number that is given, or was found elsewhere, is for where data goes in bulk. */
static bool is_successor(const struct spotnik_carriage *carriage, const struct spotnik_lane *lane)
{
    const struct spotnik_view *view = spotnik_core_view(carriage->core);
    uint32_t rank = spotnik_view_rank(view, carriage->credentials->self.id);
    return rank != SPOTNIK_NO_RANK
           && spotnik_id_equal(view->entry[(rank + 1) % view->size].member.id, lane->peer.id);
}

/* Has the other side taken the first connection? Beside one that it does not know yet it would
 * refuse others. It has where the view has committed a step; and in a long first step, where it has
 * read megabytes. */
static bool is_taken(const struct spotnik_carriage *carriage, const struct spotnik_lane *lane)
{
    return carriage->stand->committed > spotnik_core_view(carriage->core)->settled_step
           || lane->more_up > 0 || delivered(lane) >= TAKEN_BYTES;
}

void spotnik_widen_look(struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    bool where_needed =
        lane->width.trying > 0 || lane->pressed_ns != 0 || is_successor(carriage, lane);
    if (!is_due(lane) || !lane->expected || !where_needed || !is_taken(carriage, lane))
        return;
    if (lane->more == NULL
        && (lane->more = calloc(SPOTNIK_WIDTH_MAX - 1, sizeof *lane->more)) == NULL) {
        spotnik_width_failed(&lane->width);
        return;
    }
    while (is_due(lane)) {
        lane->widening++;
        spotnik_opening_widen(carriage->links, &lane->peer, lane->name);
    }
}

static struct spotnik_lane *widened_find(struct spotnik_carriage *carriage, struct spotnik_id peer,
                                         const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_lane *lane = spotnik_lane_find(carriage, peer);
    bool same = lane != NULL && lane->first.up && lane->widening > 0
                && memcmp(lane->name, name, sizeof lane->name) == 0;
    return same ? lane : NULL;
}

static void widened(struct spotnik_lane *lane)
{
    use(lane);
    if (lane->used == lane->width.wanted)
        spotnik_width_opened(&lane->width, round_trip_ns(lane));
}

/* The connection stays the opening's if nobody wants it any more. */
void spotnik_widen_adopt(struct spotnik_carriage *carriage, struct spotnik_opening *opening)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    spotnik_opening_widens(opening, name);
    struct spotnik_lane *lane = widened_find(carriage, spotnik_opening_peer(opening)->id, name);
    if (lane == NULL || lane->more_up == SPOTNIK_WIDTH_MAX - 1)
        return;
    struct spotnik_track *track = &lane->more[lane->more_up];
    int fd = spotnik_opening_take(carriage->links, opening);
    lane->widening--;
    *track = (struct spotnik_track){ .up = true };
    if (spotnik_socket_watch(&track->socket, carriage->loop->data.fd, fd, SPOTNIK_SOCKET_LANE)
        != 0) {
        close(fd);
        spotnik_width_failed(&lane->width);
        return;
    }
    track->socket.writable = true;
    lane->more_up++;
    steer(carriage, lane);
    widened(lane);
}

void spotnik_widen_failed(struct spotnik_carriage *carriage, const struct spotnik_member *peer,
                          const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_lane *lane = widened_find(carriage, peer->id, name);
    if (lane == NULL)
        return;
    lane->widening--;
    spotnik_width_failed(&lane->width); /* a given number, too, until the next view */
    widened(lane);
}

static struct spotnik_lane_status status_of(const struct spotnik_lane *lane)
{
    struct spotnik_lane_status status = { .peer = lane->peer.id,
                                          .connections = 1 + lane->more_up,
                                          .carrying = lane->used,
                                          .bytes_per_s = lane->width.rate,
                                          .round_trip_ns = round_trip_ns(lane) };
    socklen_t size = sizeof status.congestion - 1;
    if (getsockopt(lane->first.socket.fd, IPPROTO_TCP, TCP_CONGESTION, status.congestion, &size)
        != 0)
        status.congestion[0] = '\0';
    return status;
}

uint32_t spotnik_carriage_lanes(const struct spotnik_carriage *carriage,
                                struct spotnik_lane_status *ret, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < SPOTNIK_LANES && count < max; i++)
        if (carriage->lane[i].first.up && carriage->lane[i].expected)
            ret[count++] = status_of(&carriage->lane[i]);
    return count;
}

static bool is_pressed(const struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    if (!lane->first.up || !lane->expected || carriage->held_ns != SPOTNIK_NEVER)
        return false;
    for (uint32_t i = 0; i < lane->used; i++) {
        const struct spotnik_track *track = spotnik_lane_track(lane, i);
        if (track->count == 0 || track->socket.writable)
            return false;
    }
    return true;
}

static void width_changed(struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    bool more = lane->width.wanted > lane->used;

    spotnik_congestion_anew(&lane->congestion);
    if (lane->width.wanted > 1 + lane->more_up) {
        spotnik_loop_kick(carriage->loop); /* spotnik_widen_look() */
        return;
    }
    use(lane);
    if (more) /* some that were put aside before */
        spotnik_width_opened(&lane->width, round_trip_ns(lane));
}

static void report(struct spotnik_carriage *carriage, struct spotnik_lane *lane, uint64_t now_ns)
{
    uint64_t ns = now_ns - lane->pressed_ns, sent = delivered(lane);
    uint64_t bytes = sent > lane->pressed_sent ? sent - lane->pressed_sent : 0;
    lane->pressed_ns = now_ns;
    lane->pressed_sent = sent;
    if (is_due(lane))
        spotnik_loop_kick(carriage->loop); /* spotnik_widen_look() */
    if (lane->used != lane->width.wanted)
        return;
    if (!lane->congestion.trying && spotnik_width_pressed(&lane->width, bytes, ns))
        width_changed(carriage, lane);
    else if (lane->width.trying == 0 && spotnik_congestion_pressed(&lane->congestion, bytes, ns))
        steer(carriage, lane);
    if (lane->width.trying == 0 && !lane->width.fixed)
        carriage->width_found = lane->width.wanted;
    if (!lane->congestion.trying && !lane->congestion.fixed)
        carriage->other_found = lane->congestion.other;
}

/* After every attempt to send. */
void spotnik_widen_measure(struct spotnik_carriage *carriage, struct spotnik_lane *lane)
{
    bool pressed = is_pressed(carriage, lane);
    if (!pressed && lane->pressed_ns == 0)
        return;
    uint64_t now_ns = spotnik_clock_ns();
    if (lane->pressed_ns == 0) {
        lane->pressed_ns = now_ns;
        lane->pressed_sent = delivered(lane);
        return;
    }
    if (!pressed || now_ns - lane->pressed_ns >= REPORT_NS)
        report(carriage, lane, now_ns);
    if (!pressed)
        lane->pressed_ns = 0;
}
