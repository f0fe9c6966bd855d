/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes of several connections. The first is a lane's own (lane.c); more are dialled beside it when the measurements say so (width.h)
 * or SPOTNIK_LANES does, each with a handshake that names the first. Here is decided when one is opened, and measured what they carry
 * together; frames are put on them in lane.c. One that ends takes the lane with it; one that cannot be opened is done without. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "net/address.h"
#include "net/shape.h"
#include "net/state.h"

#define REPORT_NS (50 * SPOTNIK_MS) /* of pressed time, at a time */
/* A socket with so much that has not left yet takes no more: the next frame is for one that sends sooner. */
#define UNSENT_BYTES (256 << 10)

int spotnik_widen_parse(const char *text, uint32_t *ret_width)
{
    *ret_width = 0;
    if (text == NULL || *text == '\0' || strcmp(text, "auto") == 0)
        return 0;
    if (text[0] >= '1' && text[0] <= '0' + SPOTNIK_WIDTH_MAX && text[1] == '\0') {
        *ret_width = (uint32_t)(text[0] - '0');
        return 0;
    }
    return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "SPOTNIK_LANES is \"%.40s\"; it must be auto, or a number from 1 to %d", text,
                                SPOTNIK_WIDTH_MAX);
}

/* On one host nothing is in the way of a flow but the processor, and a link that we shape ourselves is as fast as it is. */
static bool may_try(const struct spotnik_engine *engine, const struct spotnik_lane *lane)
{
    const uint8_t *address = lane->peer.address;
    return !spotnik_address_is_loopback(address) && !spotnik_shape_is_on()
           && memcmp(address, engine->config.credentials.self.address, sizeof lane->peer.address) != 0;
}

/* By their number frames are dealt out: with several connections only to those that will send them soon. */
static void use(struct spotnik_lane *lane)
{
    uint32_t up = 1 + lane->more_up;
    lane->used = lane->width.wanted < up ? lane->width.wanted : up;
    int unsent = lane->used > 1 ? UNSENT_BYTES : 0; /* 0: the system's default */
    for (uint32_t i = 0; i < up; i++)
        setsockopt(spotnik_lane_track(lane, i)->socket.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
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

void spotnik_widen_begin(struct spotnik_engine *engine, struct spotnik_lane *lane)
{
    lane->width = spotnik_width_make(engine->width > 0 || may_try(engine, lane) ? engine->width : 1);
    lane->sent = 0;
    use(lane);
}

void spotnik_widen_end(struct spotnik_engine *engine, struct spotnik_lane *lane)
{
    for (uint32_t i = 0; i < lane->more_up; i++) {
        close(spotnik_socket_release(&lane->more[i].socket, engine->attend.data.fd));
        lane->more[i].up = false;
        lane->more[i].count = 0;
    }
    lane->more_up = 0;
    lane->used = 1;
    lane->widening = false;
    lane->pressed_ns = 0;
}

static bool is_due(const struct spotnik_lane *lane)
{
    return lane->first.up && lane->width.wanted > 1 + lane->more_up && !lane->widening;
}

/* Where it will be measured is where data goes in bulk; a given number is for the ring. */
static bool is_successor(const struct spotnik_engine *engine, const struct spotnik_lane *lane)
{
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    uint32_t rank = spotnik_view_rank(view, engine->config.credentials.self.id);
    return rank != SPOTNIK_NO_RANK
           && spotnik_id_equal(view->entry[(rank + 1) % view->size].member.id, lane->peer.id);
}

/* One at a time, and none before the view has committed a step: then the other side has certainly taken the first connection. */
void spotnik_widen_look(struct spotnik_engine *engine, struct spotnik_lane *lane)
{
    if (!is_due(lane) || !lane->expected || engine->committed <= spotnik_core_view(engine->core)->settled_step
        || (lane->width.fixed && lane->pressed_ns == 0 && !is_successor(engine, lane)))
        return;
    if (lane->more == NULL && (lane->more = calloc(SPOTNIK_WIDTH_MAX - 1, sizeof *lane->more)) == NULL) {
        spotnik_width_failed(&lane->width);
        return;
    }
    lane->widening = true;
    spotnik_opening_widen(engine, &lane->peer, lane->name);
}

static struct spotnik_lane *widened_find(struct spotnik_engine *engine, const struct spotnik_opening *opening)
{
    struct spotnik_lane *lane = spotnik_lane_find(engine, opening->peer.id);
    bool same = lane != NULL && lane->first.up && lane->widening && memcmp(lane->name, opening->name, sizeof lane->name) == 0;
    return same ? lane : NULL;
}

/* The connection stays the opening's if nobody wants it any more. */
void spotnik_widen_adopt(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    struct spotnik_lane *lane = widened_find(engine, opening);
    if (lane == NULL || lane->more_up == SPOTNIK_WIDTH_MAX - 1)
        return;
    struct spotnik_track *track = &lane->more[lane->more_up];
    int fd = spotnik_socket_release(&opening->socket, engine->epoll_fd);
    lane->widening = false;
    *track = (struct spotnik_track){ .up = true };
    if (spotnik_socket_watch(&track->socket, engine->attend.data.fd, fd, SPOTNIK_SOCKET_LANE) != 0) {
        close(fd);
        spotnik_width_failed(&lane->width);
        return;
    }
    track->socket.writable = true;
    lane->more_up++;
    use(lane);
    if (lane->used == lane->width.wanted)
        spotnik_width_opened(&lane->width, round_trip_ns(lane));
}

void spotnik_widen_failed(struct spotnik_engine *engine, const struct spotnik_opening *opening)
{
    struct spotnik_lane *lane = widened_find(engine, opening);
    if (lane == NULL)
        return;
    lane->widening = false;
    if (lane->width.fixed)
        lane->width.wanted = 1 + lane->more_up; /* as many as there are, until the next view */
    else
        spotnik_width_failed(&lane->width);
}

static struct spotnik_lane_status status_of(const struct spotnik_lane *lane)
{
    struct spotnik_lane_status status = { .peer = lane->peer.id,
                                          .connections = 1 + lane->more_up,
                                          .carrying = lane->used,
                                          .bytes_per_s = lane->width.rate,
                                          .round_trip_ns = round_trip_ns(lane) };
    socklen_t size = sizeof status.congestion - 1;
    if (getsockopt(lane->first.socket.fd, IPPROTO_TCP, TCP_CONGESTION, status.congestion, &size) != 0)
        status.congestion[0] = '\0';
    return status;
}

uint32_t spotnik_engine_lanes(struct spotnik_engine *engine, struct spotnik_lane_status *ret, uint32_t max)
{
    uint32_t count = 0;
    spotnik_engine_lock(engine);
    for (uint32_t i = 0; i < SPOTNIK_LANES && count < max; i++)
        if (engine->lane[i].first.up && engine->lane[i].expected)
            ret[count++] = status_of(&engine->lane[i]);
    spotnik_engine_unlock(engine);
    return count;
}

static bool is_pressed(const struct spotnik_engine *engine, struct spotnik_lane *lane)
{
    if (!lane->first.up || !lane->expected || engine->held_ns != SPOTNIK_NEVER)
        return false;
    for (uint32_t i = 0; i < lane->used; i++) {
        const struct spotnik_track *track = spotnik_lane_track(lane, i);
        if (track->count == 0 || track->socket.writable)
            return false;
    }
    return true;
}

static void report(struct spotnik_engine *engine, struct spotnik_lane *lane, uint64_t now_ns)
{
    uint64_t ns = now_ns - lane->pressed_ns, bytes = lane->sent - lane->pressed_sent;
    lane->pressed_ns = now_ns;
    lane->pressed_sent = lane->sent;
    if (lane->used != lane->width.wanted || !spotnik_width_pressed(&lane->width, bytes, ns))
        return;
    if (lane->width.wanted > 1 + lane->more_up) {
        spotnik_engine_kick(engine); /* spotnik_widen_look() */
        return;
    }
    bool more = lane->width.wanted > lane->used; /* one that was put aside before */
    use(lane);
    if (more)
        spotnik_width_opened(&lane->width, round_trip_ns(lane));
}

/* After every attempt to send. */
void spotnik_widen_measure(struct spotnik_engine *engine, struct spotnik_lane *lane)
{
    bool pressed = is_pressed(engine, lane);
    if (!pressed && lane->pressed_ns == 0)
        return;
    uint64_t now_ns = spotnik_clock_ns();
    if (lane->pressed_ns == 0) {
        lane->pressed_ns = now_ns;
        lane->pressed_sent = lane->sent;
        return;
    }
    if (!pressed || now_ns - lane->pressed_ns >= REPORT_NS)
        report(engine, lane, now_ns);
    if (!pressed)
        lane->pressed_ns = 0;
}
