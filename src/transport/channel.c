/* SPDX-License-Identifier: Apache-2.0 */
/* The data connections to the members that the view makes us send to: the ring successor, and
 * others that the core names. Each is a channel of one connection, or of more (add_connection.c).
 * Headers and payload go out straight from the caller's inputs and our results, pulled from the
 * core when the socket takes them. A new view may leave a frame half sent. The channel fills it up
 * with zeros, so that framing holds and the caller's memory is not touched after its step. From the
 * promise until that view the frame stays half sent. */
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

static void close_sockets(struct spotnik_transport *transport, struct spotnik_channel *channel)
{
    struct spotnik_connection *first = &channel->first;
    spotnik_add_connection_end(transport, channel);
    if (first->up)
        spotnik_tls_close(spotnik_socket_release(&first->socket, transport->loop->data.fd));
    spotnik_seal_done(&first->seal);
    first->up = false;
    first->count = 0;
}

static void channel_close(struct spotnik_transport *transport, struct spotnik_channel *channel)
{
    close_sockets(transport, channel);
    channel->wanted = channel->expected = channel->pending = false;
    channel->redial_ns = channel->down_ns = SPOTNIK_NEVER;
}

void spotnik_channels_init(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        transport->channel[i] = (struct spotnik_channel){ .first.socket.fd = -1,
                                                          .redial_ns = SPOTNIK_NEVER,
                                                          .down_ns = SPOTNIK_NEVER };
}

void spotnik_channels_close(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        channel_close(transport, &transport->channel[i]);
}

void spotnik_channels_free(struct spotnik_transport *transport)
{
    spotnik_channels_close(transport);
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        free(transport->channel[i].more);
}

static void dial(struct spotnik_transport *transport, struct spotnik_channel *channel)
{
    channel->pending = true;
    channel->redial_ns = SPOTNIK_NEVER;
    spotnik_pending_dial(transport->links, &channel->peer, SPOTNIK_PURPOSE_DATA);
}

bool spotnik_opened_take(struct spotnik_transport *transport, struct spotnik_pending *pending,
                         struct spotnik_opened *ret)
{
    if (spotnik_pending_seal(pending, &ret->seal) != 0)
        return false;
    spotnik_pending_name(pending, ret->name);
    ret->fd = spotnik_pending_take(transport->links, pending);
    return true;
}

static void opened_close(struct spotnik_opened *opened)
{
    spotnik_tls_close(opened->fd);
    spotnik_seal_done(&opened->seal);
}

/* The connection becomes our channel. False: it is still the caller's. */
static bool adopt(struct spotnik_transport *transport, struct spotnik_channel *channel,
                  const struct spotnik_opened *opened)
{
    if (spotnik_socket_watch(&channel->first.socket, transport->loop->data.fd, opened->fd,
                             SPOTNIK_SOCKET_LANE)
        != 0)
        return false;
    channel->pending = false;
    channel->first.up = true;
    channel->first.seal = opened->seal;
    channel->first.sealed = 0;
    channel->first.socket.writable = true;
    channel->turn_epoch = 0;
    memcpy(channel->name, opened->name, sizeof channel->name);
    spotnik_add_connection_begin(transport, channel);
    return true;
}

/* ---- which ---- */

struct spotnik_channel *spotnik_channel_find(struct spotnik_transport *transport,
                                             struct spotnik_id peer)
{
    for (uint32_t i = 0; i < transport->channel_count; i++) {
        struct spotnik_channel *channel = &transport->channel[i];
        if ((channel->wanted || channel->down_ns != SPOTNIK_NEVER)
            && spotnik_id_equal(channel->peer.id, peer))
            return channel;
    }
    return NULL;
}

bool spotnik_channel_leads_to(struct spotnik_transport *transport, struct spotnik_id peer)
{
    return spotnik_channel_find(transport, peer) != NULL;
}

bool spotnik_channels_are_up(const struct spotnik_transport *transport)
{
    bool any = false;
    for (uint32_t i = 0; i < transport->channel_count; i++) {
        any |= transport->channel[i].expected && transport->channel[i].first.up;
        if (transport->channel[i].expected && !transport->channel[i].first.up)
            return false;
    }
    return any;
}

/* A new view: those that it does not name are closed, and steps begin anew. */
void spotnik_channels_doubt(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++) {
        transport->channel[i].expected = false;
        transport->channel[i].down_ns = SPOTNIK_NEVER;
    }
}

static void close_doubted(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        if (transport->channel[i].wanted && !transport->channel[i].expected)
            channel_close(transport, &transport->channel[i]);
}

/* One that leads nowhere, or one of the old view. */
static struct spotnik_channel *room_find(struct spotnik_transport *transport)
{
    struct spotnik_channel *room = NULL;
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        if (!transport->channel[i].expected && (room == NULL || room->wanted))
            room = &transport->channel[i];
    SPOTNIK_ASSERT(room != NULL);
    uint32_t number = (uint32_t)(room - transport->channel);
    if (number >= transport->channel_count)
        transport->channel_count = number + 1;
    return room;
}

void spotnik_transport_expect(struct spotnik_transport *transport,
                              const struct spotnik_member *peer)
{
    struct spotnik_channel *channel = spotnik_channel_find(transport, peer->id);
    struct spotnik_opened opened;
    if (channel != NULL && channel->wanted && (channel->first.up || channel->pending)) {
        channel->expected = true;
        return;
    }
    if (channel == NULL)
        channel = room_find(transport);
    channel_close(transport, channel);
    channel->wanted = channel->expected = true;
    channel->opening_ns = channel->asked_ns = 0;
    channel->peer = *peer;
    if (spotnik_standby_take(transport, peer->id, &opened)) {
        if (adopt(transport, channel, &opened))
            return;
        opened_close(&opened);
    }
    channel->pending = spotnik_standby_cede(transport, peer->id);
    if (!channel->pending)
        dial(transport, channel);
}

void spotnik_channel_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending)
{
    const struct spotnik_member *peer = spotnik_pending_peer(pending);
    struct spotnik_channel *channel = spotnik_channel_find(transport, peer->id);
    struct spotnik_opened opened;
    bool ours = channel != NULL && channel->wanted && !channel->first.up;
    if (!spotnik_opened_take(transport, pending, &opened))
        spotnik_channel_failed(transport, peer);
    else if (ours ? !adopt(transport, channel, &opened)
                  : !spotnik_standby_adopt(transport, peer->id, &opened))
        opened_close(&opened);
}

void spotnik_channel_failed(struct spotnik_transport *transport, const struct spotnik_member *peer)
{
    struct spotnik_channel *channel = spotnik_channel_find(transport, peer->id);
    spotnik_standby_failed(transport, peer->id);
    if (channel == NULL || !channel->pending)
        return;
    channel->pending = false;
    channel->redial_ns = spotnik_time_add(spotnik_clock_ns(), REDIAL_NS);
}

/* What was given out is lost, so a redial would leave a hole: the core has to begin the step
 * anew. */
static void broke(struct spotnik_transport *transport, struct spotnik_channel *channel)
{
    close_sockets(transport, channel);
    channel->wanted = channel->expected = false;
    channel->down_ns = spotnik_time_add(spotnik_clock_ns(), DOWN_NS);
}

/* ---- frames ---- */

/* Frames that have begun to leave, or whose first bytes TLS has encrypted already. */
static uint32_t frames_begun(const struct spotnik_connection *connection)
{
    size_t promised = spotnik_tls_promised(connection->socket.fd), bytes = 0;
    uint32_t begun = connection->count > 0 && connection->frame[0].sent > 0 ? 1 : 0;
    for (uint32_t i = 0; i < connection->count && bytes < promised; i++) {
        bytes += frame_bytes(&connection->frame[i]) - connection->frame[i].sent;
        begun = i + 1;
    }
    return begun;
}

/* Tags of frames that have not begun to leave are known to no other process: their numbers are for
 * the next frames, so that the receiver misses none. */
static void cut(struct spotnik_connection *connection)
{
    uint32_t kept = frames_begun(connection);
    for (uint32_t i = 0; i < kept; i++)
        connection->frame[i].payload = NULL;
    connection->sealed -= connection->count - kept;
    connection->count = kept;
}

/* A view change: frames of the old epoch that have not begun to leave never will. */
void spotnik_channels_cut(struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        for (uint32_t k = 0; k <= transport->channel[i].more_up; k++)
            cut(spotnik_channel_connection(&transport->channel[i], k));
}

/* Frames of one epoch have their turn one after the other, on whichever connection they come. What
 * a cut throws away leaves no gap that matters: nothing of that epoch is sent after it. */
static uint64_t turn_next(struct spotnik_channel *channel, uint64_t epoch)
{
    if (epoch != channel->turn_epoch)
        channel->turn = 0;
    channel->turn_epoch = epoch;
    return channel->turn++;
}

/* Nobody writes to the elements before they are sent. The header's tag covers theirs. */
static void frame_seal(struct spotnik_connection *connection, struct spotnik_outgoing *frame)
{
    uint64_t frames = connection->sealed++;
    spotnik_seal_make(&connection->seal, spotnik_elements_number(frames), frame->payload,
                      frame->payload_bytes, frame->prefix + SPOTNIK_DATA_ELEMENTS_TAG_AT);
    spotnik_seal_make(&connection->seal, spotnik_header_number(frames), frame->prefix,
                      SPOTNIK_DATA_TAG_AT, frame->prefix + SPOTNIK_DATA_TAG_AT);
}

static void frame_make(struct spotnik_transport *transport, struct spotnik_channel *channel,
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
    spotnik_data_encode(header, turn_next(channel, header->epoch), (uint32_t)bytes, frame->prefix);
    frame->payload = bytes > 0 ? source + transfer->offset * one : NULL;
    frame->payload_bytes = bytes;
    frame->sent = 0;
}

/* With several connections each takes one frame at a time: what waits for one must not hold up what
 * the others have sent. */
static void queue_fill(struct spotnik_transport *transport, struct spotnik_channel *channel,
                       struct spotnik_connection *connection)
{
    struct spotnik_transfer transfer;
    uint32_t most = channel->more_up > 0 ? 1 : SPOTNIK_LANE_FRAMES;
    size_t queued = 0;
    for (uint32_t i = 0; i < connection->count; i++)
        queued += frame_bytes(&connection->frame[i]) - connection->frame[i].sent;
    while (connection->count < most && queued < QUEUE_BYTES
           && spotnik_core_send_next(transport->core, channel->peer.id, &transfer)) {
        spotnik_recorder_sent(transport->recorder, channel->peer.id);
        frame_make(transport, channel, &transfer, &connection->frame[connection->count]);
        frame_seal(connection, &connection->frame[connection->count]);
        queued += frame_bytes(&connection->frame[connection->count++]);
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

static int queue_pieces(const struct spotnik_connection *connection, struct iovec *piece)
{
    int count = 0;
    for (uint32_t i = 0; i < connection->count && count < IOV_MAX_USED - 1; i++) {
        int used = frame_pieces(&connection->frame[i], piece + count, IOV_MAX_USED - count);
        bool whole = is_whole(&connection->frame[i], piece + count, used);
        count += used;
        if (!whole)
            break; /* what follows must not overtake its rest */
    }
    return count;
}

static void queue_advance(struct spotnik_connection *connection, size_t sent)
{
    uint32_t done = 0;
    while (sent > 0 && done < connection->count) {
        struct spotnik_outgoing *frame = &connection->frame[done];
        size_t left = frame_bytes(frame) - frame->sent, some = sent < left ? sent : left;
        frame->sent += some;
        sent -= some;
        if (frame->sent < frame_bytes(frame))
            break;
        done++;
    }
    connection->count -= done;
    memmove(connection->frame, connection->frame + done,
            connection->count * sizeof *connection->frame);
}

/* One call of sendmsg. Returns the bytes gone, 0 when the socket takes no more. */
static size_t send_some(struct spotnik_transport *transport, struct spotnik_channel *channel,
                        struct spotnik_connection *connection)
{
    struct iovec piece[IOV_MAX_USED];
    struct msghdr message = { .msg_iov = piece,
                              .msg_iovlen = (size_t)queue_pieces(connection, piece) };
    ssize_t sent;
    do
        sent = spotnik_tls_sendmsg(connection->socket.fd, &message, MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    int error = sent < 0 ? errno : 0;
    if (spotnik_descriptor_waits(error))
        connection->socket.writable = false;
    else if (error != 0)
        broke(transport, channel);
    if (sent <= 0)
        return 0;
    queue_advance(connection, (size_t)sent);
    channel->sent += (size_t)sent;
    transport->counts.bytes_sent += (size_t)sent;
    return (size_t)sent;
}

/* Zeros must not come before the promise of their reader: without one, it might count them in. The
 * next view proves that it has promised, if it is in it. */
static bool is_held(const struct spotnik_transport *transport,
                    const struct spotnik_channel *channel,
                    const struct spotnik_connection *connection)
{
    const struct spotnik_outgoing *first = &connection->frame[0];
    bool zeros_next = connection->count > 0 && first->payload == NULL && first->payload_bytes > 0;
    return zeros_next && (transport->stand->frozen || !channel->expected);
}

static bool is_open(const struct spotnik_transport *transport,
                    const struct spotnik_channel *channel,
                    const struct spotnik_connection *connection)
{
    return connection->up && connection->socket.writable
           && !is_held(transport, channel, connection);
}

/* Up to about `bytes_max`. True: there is more, and the socket may take it. */
static bool pump_one(struct spotnik_transport *transport, struct spotnik_channel *channel,
                     size_t bytes_max)
{
    struct spotnik_connection *connection = &channel->first;
    size_t total = 0;
    while (is_open(transport, channel, connection)) {
        queue_fill(transport, channel, connection);
        if (connection->count == 0)
            return false;
        if (total >= bytes_max)
            return true;
        total += send_some(transport, channel, connection);
    }
    return false;
}

/* The same on several: the one with room gets the next frame. */
static bool pump_all(struct spotnik_transport *transport, struct spotnik_channel *channel,
                     size_t bytes_max)
{
    size_t total = 0, before;
    do {
        before = total;
        for (uint32_t i = 0; i <= channel->more_up; i++) {
            struct spotnik_connection *connection = spotnik_channel_connection(channel, i);
            if (!is_open(transport, channel, connection))
                continue;
            queue_fill(transport, channel, connection);
            if (connection->count > 0)
                total += send_some(transport, channel, connection);
        }
    } while (total > before && total < bytes_max);
    return total > before;
}

static bool pump(struct spotnik_transport *transport, struct spotnik_channel *channel,
                 size_t bytes_max)
{
    return channel->more_up == 0 ? pump_one(transport, channel, bytes_max)
                                 : pump_all(transport, channel, bytes_max);
}

/* Send what the core has to send, up to about `bytes_max` on each channel. True: there is more, and
 * a socket may take it. */
bool spotnik_transport_pump(struct spotnik_transport *transport, size_t bytes_max)
{
    bool more = false;
    for (uint32_t i = 0; i < transport->channel_count; i++)
        more |= pump(transport, &transport->channel[i], bytes_max);
    return more;
}

/* Nothing ever comes back on a channel but its end. */
static void end_look(struct spotnik_transport *transport, struct spotnik_channel *channel,
                     struct spotnik_connection *connection)
{
    uint8_t byte;
    ssize_t got = recv(connection->socket.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && spotnik_descriptor_waits(errno))
        connection->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        broke(transport, channel);
}

/* Without a link its peer may be dead, which others find out. It may also have lost all connections
 * at once (a firewall that has forgotten them). Then the link comes back, and we alone know that
 * data are lost. */
static void down_tell(struct spotnik_transport *transport, struct spotnik_channel *channel,
                      uint64_t now_ns)
{
    bool linked = spotnik_link_is_up(transport->links, channel->peer.id);
    channel->down_ns = linked ? SPOTNIK_NEVER : spotnik_time_add(now_ns, DOWN_NS);
    if (linked)
        spotnik_loop_tell(transport->loop, SPOTNIK_EVENT_CHANNEL_DOWN, &channel->peer);
}

static void look(struct spotnik_transport *transport, struct spotnik_channel *channel,
                 uint64_t now_ns)
{
    for (uint32_t i = 0; channel->first.up && i <= channel->more_up; i++) {
        struct spotnik_connection *connection = spotnik_channel_connection(channel, i);
        if (connection->socket.readable)
            end_look(transport, channel, connection);
    }
    spotnik_add_connection_look(transport, channel);
    if (spotnik_channel_watch(transport, channel, now_ns))
        broke(transport, channel);
    if (now_ns >= channel->redial_ns && channel->wanted && !channel->first.up && !channel->pending)
        dial(transport, channel);
    if (now_ns < channel->down_ns)
        return;
    down_tell(transport, channel, now_ns);
}

void spotnik_channels_look(struct spotnik_transport *transport, uint64_t now_ns)
{
    close_doubted(transport);
    for (uint32_t i = 0; i < SPOTNIK_LANES; i++)
        look(transport, &transport->channel[i], now_ns);
    spotnik_standby_look(transport);
}

bool spotnik_transport_is_empty(const struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < transport->channel_count; i++)
        for (uint32_t k = 0; k <= transport->channel[i].more_up; k++)
            if (spotnik_channel_connection((struct spotnik_channel *)&transport->channel[i], k)
                    ->count
                > 0)
                return false;
    return true;
}

static bool wants_a_look(const struct spotnik_channel *channel)
{
    bool readable = channel->first.socket.readable;
    for (uint32_t i = 0; i < channel->more_up; i++)
        readable |= channel->more[i].socket.readable;
    return readable || channel->down_ns != SPOTNIK_NEVER;
}

bool spotnik_channels_want_a_look(const struct spotnik_transport *transport)
{
    for (uint32_t i = 0; i < transport->channel_count; i++)
        if (wants_a_look(&transport->channel[i]))
            return true;
    return false;
}

uint64_t spotnik_channels_deadline(const struct spotnik_transport *transport)
{
    uint64_t due_ns = SPOTNIK_NEVER;
    for (uint32_t i = 0; i < transport->channel_count; i++)
        due_ns = spotnik_time_min(due_ns, spotnik_time_min(transport->channel[i].redial_ns,
                                                           transport->channel[i].down_ns));
    return due_ns;
}
