/* SPDX-License-Identifier: Apache-2.0 */
/* The data connections to the members that the view makes us send to: the ring successor, and
 * others that the core names. Each is a lane of one connection, or of more (widen.c). Headers and
 * payload go out straight from the caller's inputs and our results, pulled from the core when the
 * socket takes them. A new view may leave a frame half sent. The lane fills it up with zeros, so
 * that framing holds and the caller's memory is not touched after its step. From the promise until
 * that view the frame stays half sent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/descriptor.h"
#include "base/time.h"
#include "transport/inside.h"
#include "transport/share.h"
#include "reduce/reduce.h"

#define QUEUE_BYTES (1u << 20) /* enough for one call of sendmsg */
#define REDIAL_NS (50 * SPOTNIK_MS)
#define DOWN_NS (50 * SPOTNIK_MS) /* time for the control link to tell of a death first */
#define IOV_MAX_USED (4 * SPOTNIK_LANE_FRAMES)

static const uint8_t zeros[65536];

static size_t frame_bytes(const struct spotnik_outgoing *frame)
{
    return sizeof frame->prefix + frame->payload_bytes;
}

static void close_sockets(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    struct spotnik_track *first = &lane->first;
    spotnik_widen_end(transport, lane);
    if (first->up)
        close(spotnik_socket_release(&first->socket, transport->loop->data.fd));
    first->up = false;
    first->count = 0;
}

static void lane_close(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    close_sockets(transport, lane);
    lane->wanted = lane->expected = lane->opening = false;
    lane->redial_ns = lane->down_ns = SPOTNIK_NEVER;
}

void spotnik_lanes_init(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        transport->lane[i] = (struct spotnik_lane){ .first.socket.fd = -1,
                                                    .redial_ns = SPOTNIK_NEVER,
                                                    .down_ns = SPOTNIK_NEVER };
}

void spotnik_lanes_close(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        lane_close(transport, &transport->lane[i]);
}

void spotnik_lanes_free(struct spotnik_transport *transport)
{
    spotnik_lanes_close(transport);
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        free(transport->lane[i].more);
}

static void dial(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    lane->opening = true;
    lane->redial_ns = SPOTNIK_NEVER;
    spotnik_opening_dial(transport->links, &lane->peer, SPOTNIK_PURPOSE_DATA);
}

/* The connection becomes our lane. False: it is still the caller's. */
static bool adopt(struct spotnik_transport *transport, struct spotnik_lane *lane, int fd,
                  const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    if (spotnik_socket_watch(&lane->first.socket, transport->loop->data.fd, fd, SPOTNIK_SOCKET_LANE)
        != 0)
        return false;
    lane->opening = false;
    lane->first.up = true;
    lane->first.socket.writable = true;
    lane->turn_epoch = 0;
    memcpy(lane->name, name, sizeof lane->name);
    spotnik_widen_begin(transport, lane);
    return true;
}

/* ---- which ---- */

struct spotnik_lane *spotnik_lane_find(struct spotnik_transport *transport, struct spotnik_id peer)
{
    for (uint32_t i = 0; i < transport->lane_count; i++) {
        struct spotnik_lane *lane = &transport->lane[i];
        if ((lane->wanted || lane->down_ns != SPOTNIK_NEVER)
            && spotnik_id_equal(lane->peer.id, peer))
            return lane;
    }
    return NULL;
}

bool spotnik_lane_leads_to(struct spotnik_transport *transport, struct spotnik_id peer)
{
    return spotnik_lane_find(transport, peer) != NULL;
}

bool spotnik_lanes_are_up(const struct spotnik_transport *transport)
{
    bool any = false;
    for (uint32_t i = 0; i < transport->lane_count; i++) {
        any |= transport->lane[i].expected && transport->lane[i].first.up;
        if (transport->lane[i].expected && !transport->lane[i].first.up)
            return false;
    }
    return any;
}

/* A new view: those that it does not name are closed, and steps begin anew. */
void spotnik_lanes_doubt(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++) {
        transport->lane[i].expected = false;
        transport->lane[i].down_ns = SPOTNIK_NEVER;
    }
}

static void close_doubted(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        if (transport->lane[i].wanted && !transport->lane[i].expected)
            lane_close(transport, &transport->lane[i]);
}

/* One that leads nowhere, or one of the old view. */
static struct spotnik_lane *room_find(struct spotnik_transport *transport)
{
    struct spotnik_lane *room = NULL;
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        if (!transport->lane[i].expected && (room == NULL || room->wanted))
            room = &transport->lane[i];
    SPOTNIK_ASSERT(room != NULL);
    uint32_t number = (uint32_t)(room - transport->lane);
    if (number >= transport->lane_count)
        transport->lane_count = number + 1;
    return room;
}

void spotnik_transport_expect(struct spotnik_transport *transport,
                              const struct spotnik_member *peer)
{
    struct spotnik_lane *lane = spotnik_lane_find(transport, peer->id);
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    if (lane != NULL && lane->wanted && (lane->first.up || lane->opening)) {
        lane->expected = true;
        return;
    }
    if (lane == NULL)
        lane = room_find(transport);
    lane_close(transport, lane);
    lane->wanted = lane->expected = true;
    lane->opening_ns = lane->asked_ns = 0;
    lane->peer = *peer;
    int fd = spotnik_spare_take(transport, peer->id, name);
    if (fd >= 0 && adopt(transport, lane, fd, name))
        return;
    lane->opening = spotnik_spare_cede(transport, peer->id);
    if (!lane->opening)
        dial(transport, lane);
}

void spotnik_lane_adopt(struct spotnik_transport *transport, struct spotnik_opening *opening)
{
    struct spotnik_id peer = spotnik_opening_peer(opening)->id;
    struct spotnik_lane *lane = spotnik_lane_find(transport, peer);
    int fd = spotnik_opening_take(transport->links, opening);
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    spotnik_opening_name(opening, name);
    bool ours = lane != NULL && lane->wanted && !lane->first.up;
    if (ours ? !adopt(transport, lane, fd, name) : !spotnik_spare_adopt(transport, fd, peer, name))
        close(fd);
}

void spotnik_lane_failed(struct spotnik_transport *transport, const struct spotnik_member *peer)
{
    struct spotnik_lane *lane = spotnik_lane_find(transport, peer->id);
    spotnik_spare_failed(transport, peer->id);
    if (lane == NULL || !lane->opening)
        return;
    lane->opening = false;
    lane->redial_ns = spotnik_time_add(spotnik_clock_ns(), REDIAL_NS);
}

/* What was given out is lost, so a redial would leave a hole: the core has to begin the step
 * anew. */
static void broke(struct spotnik_transport *transport, struct spotnik_lane *lane)
{
    close_sockets(transport, lane);
    lane->wanted = lane->expected = false;
    lane->down_ns = spotnik_time_add(spotnik_clock_ns(), DOWN_NS);
}

/* ---- frames ---- */

static void cut(struct spotnik_track *track)
{
    if (track->count > 0 && track->frame[0].sent > 0) {
        track->frame[0].payload = NULL;
        track->count = 1;
    } else {
        track->count = 0;
    }
}

/* A view change: frames of the old epoch that have not begun to leave never will. */
void spotnik_lanes_cut(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        for (uint32_t k = 0; k <= transport->lane[i].more_up; k++)
            cut(spotnik_lane_track(&transport->lane[i], k));
}

/* Frames of one epoch have their turn one after the other, on whichever connection they come. What
 * a cut throws away leaves no gap that matters: nothing of that epoch is sent after it. */
static uint64_t turn_next(struct spotnik_lane *lane, uint64_t epoch)
{
    if (epoch != lane->turn_epoch)
        lane->turn = 0;
    lane->turn_epoch = epoch;
    return lane->turn++;
}

static void frame_make(struct spotnik_transport *transport, struct spotnik_lane *lane,
                       const struct spotnik_transfer *transfer, struct spotnik_outgoing *frame)
{
    const struct spotnik_chunk_header *header = &transfer->header;
    const struct spotnik_bucket_memory *bucket = &transport->bucket[header->bucket];
    size_t one = spotnik_dtype_size((enum spotnik_dtype)header->dtype);
    size_t bytes = transfer->count * one;
    const uint8_t *source = transfer->source == SPOTNIK_SOURCE_IN ? bucket->in
                            : transfer->source == SPOTNIK_SOURCE_OFFER
                                ? bucket->offer[header->step & 1]
                                : spotnik_bucket_out(bucket, header->step & 1);
    const uint8_t *shared =
        header->handover ? spotnik_share_result(transport, header->bucket, header->step) : NULL;
    if (shared != NULL)
        source = shared;
    SPOTNIK_ASSERT(bytes <= transport->limits->chunk_bytes);
    SPOTNIK_ASSERT(bytes == 0 || source != NULL);
    spotnik_data_encode(header, turn_next(lane, header->epoch), (uint32_t)bytes, frame->prefix);
    frame->payload = bytes > 0 ? source + transfer->offset * one : NULL;
    frame->payload_bytes = bytes;
    frame->sent = 0;
}

/* With several connections each takes one frame at a time: what waits for one must not hold up what
 * the others have sent. */
static void queue_fill(struct spotnik_transport *transport, struct spotnik_lane *lane,
                       struct spotnik_track *track)
{
    struct spotnik_transfer transfer;
    uint32_t most = lane->more_up > 0 ? 1 : SPOTNIK_LANE_FRAMES;
    size_t queued = 0;
    for (uint32_t i = 0; i < track->count; i++)
        queued += frame_bytes(&track->frame[i]) - track->frame[i].sent;
    while (track->count < most && queued < QUEUE_BYTES
           && spotnik_core_send_next(transport->core, lane->peer.id, &transfer)) {
        spotnik_recorder_sent(transport->recorder, lane->peer.id);
        frame_make(transport, lane, &transfer, &track->frame[track->count]);
        queued += frame_bytes(&track->frame[track->count++]);
    }
}

/* What is left of a part of a frame that begins at `begin`. Returns the number of pieces. */
static int part_piece(const struct spotnik_outgoing *frame, size_t begin, const uint8_t *part,
                      size_t bytes, struct iovec *piece)
{
    size_t gone = frame->sent > begin ? frame->sent - begin : 0;
    if (gone >= bytes)
        return 0;
    *piece = (struct iovec){ .iov_base = (void *)(part + gone), .iov_len = bytes - gone };
    return 1;
}

/* In pieces, as many as fit in this call. */
static int zero_pieces(const struct spotnik_outgoing *frame, struct iovec *piece, int room)
{
    int count = 0;
    size_t at = frame->sent > sizeof frame->prefix ? frame->sent : sizeof frame->prefix,
           end = frame_bytes(frame);
    while (at < end && count < room) {
        size_t some = end - at < sizeof zeros ? end - at : sizeof zeros;
        piece[count++] = (struct iovec){ .iov_base = (void *)zeros, .iov_len = some };
        at += some;
    }
    return count;
}

/* The rest of one frame; room for two pieces at least. */
static int frame_pieces(const struct spotnik_outgoing *frame, struct iovec *piece, int room)
{
    size_t prefix = sizeof frame->prefix, payload = frame->payload_bytes;
    int count = part_piece(frame, 0, frame->prefix, prefix, piece);
    if (frame->payload != NULL)
        count += part_piece(frame, prefix, frame->payload, payload, piece + count);
    else
        count += zero_pieces(frame, piece + count, room - count);
    return count;
}

static bool is_whole(const struct spotnik_outgoing *frame, const struct iovec *piece, int count)
{
    size_t bytes = frame->sent;
    for (int i = 0; i < count; i++)
        bytes += piece[i].iov_len;
    return bytes == frame_bytes(frame);
}

static int queue_pieces(const struct spotnik_track *track, struct iovec *piece)
{
    int count = 0;
    for (uint32_t i = 0; i < track->count && count < IOV_MAX_USED - 1; i++) {
        int used = frame_pieces(&track->frame[i], piece + count, IOV_MAX_USED - count);
        bool whole = is_whole(&track->frame[i], piece + count, used);
        count += used;
        if (!whole)
            break; /* what follows must not overtake its rest */
    }
    return count;
}

static void queue_advance(struct spotnik_track *track, size_t sent)
{
    uint32_t done = 0;
    while (sent > 0 && done < track->count) {
        struct spotnik_outgoing *frame = &track->frame[done];
        size_t left = frame_bytes(frame) - frame->sent, some = sent < left ? sent : left;
        frame->sent += some;
        sent -= some;
        if (frame->sent < frame_bytes(frame))
            break;
        done++;
    }
    track->count -= done;
    memmove(track->frame, track->frame + done, track->count * sizeof *track->frame);
}

/* One call of sendmsg. Returns the bytes gone, 0 when the socket takes no more. */
static size_t send_some(struct spotnik_transport *transport, struct spotnik_lane *lane,
                        struct spotnik_track *track)
{
    struct iovec piece[IOV_MAX_USED];
    struct msghdr message = { .msg_iov = piece, .msg_iovlen = (size_t)queue_pieces(track, piece) };
    ssize_t sent;
    do
        sent = sendmsg(track->socket.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    int error = sent < 0 ? errno : 0;
    if (spotnik_descriptor_waits(error))
        track->socket.writable = false;
    else if (error != 0)
        broke(transport, lane);
    if (sent <= 0)
        return 0;
    queue_advance(track, (size_t)sent);
    lane->sent += (size_t)sent;
    transport->counts.bytes_sent += (size_t)sent;
    return (size_t)sent;
}

/* Zeros must not come before the promise of their reader: without one, it might count them in. The
 * next view proves that it has promised, if it is in it. */
static bool is_held(const struct spotnik_transport *transport, const struct spotnik_lane *lane,
                    const struct spotnik_track *track)
{
    const struct spotnik_outgoing *first = &track->frame[0];
    bool zeros_next = track->count > 0 && first->payload == NULL && first->payload_bytes > 0;
    return zeros_next && (transport->stand->frozen || !lane->expected);
}

static bool is_open(const struct spotnik_transport *transport, const struct spotnik_lane *lane,
                    const struct spotnik_track *track)
{
    return track->up && track->socket.writable && !is_held(transport, lane, track);
}

/* Up to about `bytes_max`. True: there is more, and the socket may take it. */
static bool pump_one(struct spotnik_transport *transport, struct spotnik_lane *lane,
                     size_t bytes_max)
{
    struct spotnik_track *track = &lane->first;
    size_t total = 0;
    while (is_open(transport, lane, track)) {
        queue_fill(transport, lane, track);
        if (track->count == 0)
            return false;
        if (total >= bytes_max)
            return true;
        total += send_some(transport, lane, track);
    }
    return false;
}

/* The same on several: the one with room gets the next frame. */
static bool pump_all(struct spotnik_transport *transport, struct spotnik_lane *lane,
                     size_t bytes_max)
{
    size_t total = 0, before;
    do {
        before = total;
        for (uint32_t i = 0; i <= lane->more_up; i++) {
            struct spotnik_track *track = spotnik_lane_track(lane, i);
            if (!is_open(transport, lane, track))
                continue;
            queue_fill(transport, lane, track);
            if (track->count > 0)
                total += send_some(transport, lane, track);
        }
    } while (total > before && total < bytes_max);
    return total > before;
}

static bool pump(struct spotnik_transport *transport, struct spotnik_lane *lane, size_t bytes_max)
{
    return lane->more_up == 0 ? pump_one(transport, lane, bytes_max)
                              : pump_all(transport, lane, bytes_max);
}

/* Send what the core has to send, up to about `bytes_max` on each lane. True: there is more, and a
 * socket may take it. */
bool spotnik_transport_pump(struct spotnik_transport *transport, size_t bytes_max)
{
    bool more = false;
    for (uint32_t i = 0; i < transport->lane_count; i++)
        more |= pump(transport, &transport->lane[i], bytes_max);
    return more;
}

/* Nothing ever comes back on a lane but its end. */
static void end_look(struct spotnik_transport *transport, struct spotnik_lane *lane,
                     struct spotnik_track *track)
{
    uint8_t byte;
    ssize_t got = recv(track->socket.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && spotnik_descriptor_waits(errno))
        track->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        broke(transport, lane);
}

/* Without a link its peer may be dead, which others find out. It may also have lost all connections
 * at once (a firewall that has forgotten them). Then the link comes back, and nobody but us knows
 * that data are lost. */
static void down_tell(struct spotnik_transport *transport, struct spotnik_lane *lane,
                      uint64_t now_ns)
{
    bool linked = spotnik_link_is_up(transport->links, lane->peer.id);
    lane->down_ns = linked ? SPOTNIK_NEVER : spotnik_time_add(now_ns, DOWN_NS);
    if (linked)
        spotnik_loop_tell(transport->loop, SPOTNIK_EVENT_LANE_DOWN, &lane->peer);
}

static void look(struct spotnik_transport *transport, struct spotnik_lane *lane, uint64_t now_ns)
{
    for (uint32_t i = 0; lane->first.up && i <= lane->more_up; i++) {
        struct spotnik_track *track = spotnik_lane_track(lane, i);
        if (track->socket.readable)
            end_look(transport, lane, track);
    }
    spotnik_widen_look(transport, lane);
    if (spotnik_lane_watch(transport, lane, now_ns))
        broke(transport, lane);
    if (now_ns >= lane->redial_ns && lane->wanted && !lane->first.up && !lane->opening)
        dial(transport, lane);
    if (now_ns < lane->down_ns)
        return;
    down_tell(transport, lane, now_ns);
}

void spotnik_lanes_look(struct spotnik_transport *transport, uint64_t now_ns)
{
    close_doubted(transport);
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        look(transport, &transport->lane[i], now_ns);
    spotnik_spares_look(transport);
}

bool spotnik_transport_is_empty(const struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < transport->lane_count; i++)
        for (uint32_t k = 0; k <= transport->lane[i].more_up; k++)
            if (spotnik_lane_track((struct spotnik_lane *)&transport->lane[i], k)->count > 0)
                return false;
    return true;
}

static bool wants_a_look(const struct spotnik_lane *lane)
{
    bool readable = lane->first.socket.readable;
    for (uint32_t i = 0; i < lane->more_up; i++)
        readable |= lane->more[i].socket.readable;
    return readable || lane->down_ns != SPOTNIK_NEVER;
}

bool spotnik_lanes_want_a_look(const struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < transport->lane_count; i++)
        if (wants_a_look(&transport->lane[i]))
            return true;
    return false;
}

uint64_t spotnik_lanes_deadline(const struct spotnik_transport *transport)
{
    uint64_t due_ns = SPOTNIK_NEVER;
    for (uint32_t i = 0; i < transport->lane_count; i++)
        due_ns = spotnik_time_min(due_ns, spotnik_time_min(transport->lane[i].redial_ns,
                                                           transport->lane[i].down_ns));
    return due_ns;
}
