/* SPDX-License-Identifier: Apache-2.0 */
/* Data connections from the predecessor, and in a small view from all others. Read a header, ask
 * the core where the payload belongs, and read it straight to its place, or through a scratch chunk
 * where it is reduced. One read takes the rest of a payload and the next header together.
 *
 * A lane may be several connections (widen.c). Each frame says which turn it has among those of its
 * epoch. The core sees them in that order, as if they had come on one: one before its turn is read
 * into the scratch, and stays there. A frame of an epoch before our own is void, and so is one
 * older than another that has come. Its sender has gone over to a view that needs our promise, or
 * goes on without us. So the gaps that a cut leaves in the turns of an epoch hold up nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/descriptor.h"
#include "transport/inside.h"
#include "transport/share.h"
#include "reduce/reduce.h"

static void close_one(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    if (stream->socket.fd < 0)
        return;
    close(spotnik_socket_release(&stream->socket, transport->loop->data.fd));
    stream->head->width--;
}

/* With all that stand beside it, if it is the first of its lane. */
static void close_stream(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    close_one(transport, stream);
    for (struct spotnik_stream *other = transport->streams; stream->head == stream && other != NULL;
         other = other->next)
        if (other->head == stream)
            close_one(transport, other);
}

/* A predecessor has one stream to us: a new one means that the old one is dead. */
static void replace_older(struct spotnik_transport *transport, struct spotnik_id peer)
{
    for (struct spotnik_stream *stream = transport->streams; stream != NULL; stream = stream->next)
        if (spotnik_id_equal(stream->peer.id, peer))
            close_stream(transport, stream);
}

/* `head`: NULL: it is one itself. */
static void stream_new(struct spotnik_transport *transport, struct spotnik_opening *opening,
                       struct spotnik_stream *head)
{
    int fd = spotnik_opening_take(transport->links, opening);
    struct spotnik_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || (stream->scratch = malloc(transport->limits->chunk_bytes)) == NULL
        || spotnik_socket_watch(&stream->socket, transport->loop->data.fd, fd,
                                SPOTNIK_SOCKET_STREAM)
               != 0) {
        if (stream != NULL)
            free(stream->scratch);
        free(stream);
        close(fd);
        return;
    }
    stream->peer = *spotnik_opening_peer(opening);
    stream->head = head != NULL ? head : stream;
    stream->head->width++;
    spotnik_opening_name(opening, stream->name);
    stream->socket.readable = true;
    stream->next = transport->streams;
    transport->streams = stream;
}

void spotnik_stream_adopt(struct spotnik_transport *transport, struct spotnik_opening *opening)
{
    replace_older(transport, spotnik_opening_peer(opening)->id);
    stream_new(transport, opening, NULL);
}

/* One more beside the one that it names. Closed by the caller if there is none. */
void spotnik_stream_widen(struct spotnik_transport *transport, struct spotnik_opening *opening)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    struct spotnik_stream *head = transport->streams;
    spotnik_opening_widens(opening, name);
    while (head != NULL
           && !(head->head == head && head->socket.fd >= 0
                && spotnik_id_equal(head->peer.id, spotnik_opening_peer(opening)->id)
                && memcmp(head->name, name, sizeof name) == 0))
        head = head->next;
    if (head != NULL && head->width < SPOTNIK_WIDTH_MAX)
        stream_new(transport, opening, head);
}

/* A view change: the rest of what is half received goes nowhere. */
void spotnik_streams_cut(struct spotnik_transport *transport)
{
    for (struct spotnik_stream *stream = transport->streams; stream != NULL; stream = stream->next)
        if (stream->state == SPOTNIK_STREAM_BODY)
            stream->target = NULL;
}

bool spotnik_transport_is_waiting(const struct spotnik_transport *transport)
{
    for (const struct spotnik_stream *stream = transport->streams; stream != NULL;
         stream = stream->next)
        if (stream->state == SPOTNIK_STREAM_WAIT && stream->socket.fd >= 0)
            return true;
    return false;
}

/* ---- turns ---- */

enum turn { TURN_NOW, TURN_LATER, TURN_VOID, TURN_WRONG };

static enum turn turn_of(struct spotnik_transport *transport, const struct spotnik_stream *stream)
{
    struct spotnik_stream *head = stream->head;
    if (stream->header.epoch < head->epoch
        || stream->header.epoch < spotnik_core_view(transport->core)->epoch)
        return TURN_VOID;
    if (stream->header.epoch > head->epoch) {
        head->epoch = stream->header.epoch;
        head->turn = 0;
        transport->stand->placeable = true; /* what is void now goes nowhere */
    }
    if (stream->frame_turn == head->turn)
        return TURN_NOW;
    return stream->frame_turn > head->turn && head->width > 1 ? TURN_LATER : TURN_WRONG;
}

/* The frame is dealt with: the next may be waiting on another connection. */
static void turn_pass(struct spotnik_transport *transport, const struct spotnik_stream *stream)
{
    struct spotnik_stream *head = stream->head;
    if (stream->header.epoch != head->epoch || stream->frame_turn != head->turn)
        return;
    head->turn++;
    transport->stand->placeable |= head->width > 1;
}

/* ---- places ---- */

/* Where the payload goes by the core's word. False: header and place do not fit each other. */
static bool target_set(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    const struct spotnik_placement *placement = &stream->placement;
    const struct spotnik_bucket_memory *bucket = &transport->bucket[stream->header.bucket];
    size_t one = spotnik_dtype_size((enum spotnik_dtype)stream->header.dtype);
    unsigned half = stream->header.step & 1;
    if (stream->bytes != placement->count * one)
        return false;
    if (placement->kind == SPOTNIK_RING_KEEP) {
        stream->target =
            stream->bytes > 0
                ? spotnik_bucket_place(&transport->bucket[stream->header.bucket], &stream->header)
                : stream->scratch;
        return true;
    }
    spotnik_share_void(transport, stream->header.bucket, stream->header.step);
    SPOTNIK_ASSERT(stream->bytes == 0
                   || (bucket->step[half] == stream->header.step
                       && placement->offset + placement->count <= bucket->count[half]));
    if (placement->kind == SPOTNIK_RING_COPY && stream->bytes > 0)
        stream->target = spotnik_bucket_out(bucket, half) + placement->offset * one;
    else
        stream->target = stream->scratch;
    return true;
}

/* What came before its turn goes where it belongs. */
static void staged_move(struct spotnik_stream *stream)
{
    if (stream->have > 0 && stream->target != NULL && stream->target != stream->scratch)
        memcpy(stream->target, stream->scratch, stream->have);
}

/* Ask the core. False: the peer breaks the protocol. */
static bool place_now(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    stream->placement = spotnik_core_place(transport->core, stream->peer.id, &stream->header);
    enum spotnik_verdict verdict = stream->placement.verdict;
    spotnik_recorder_placed(transport->recorder, stream->peer.id, &stream->header, verdict);
    stream->state = verdict == SPOTNIK_VERDICT_WAIT ? SPOTNIK_STREAM_WAIT : SPOTNIK_STREAM_BODY;
    stream->target = NULL;
    bool good = verdict != SPOTNIK_VERDICT_BAD
                && (verdict != SPOTNIK_VERDICT_TAKE || target_set(transport, stream));
    if (good)
        staged_move(stream);
    /* placing may begin a step, or find that programs differ */
    transport->hooks.act(transport->hooks.context);
    return good;
}

static bool place(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    switch (turn_of(transport, stream)) {
    case TURN_NOW:
        return place_now(transport, stream);
    case TURN_LATER:
        stream->state = SPOTNIK_STREAM_AHEAD;
        return true;
    case TURN_VOID:
        stream->state = SPOTNIK_STREAM_BODY;
        stream->target = NULL;
        return true;
    case TURN_WRONG:
        break;
    }
    return false;
}

static bool prefix_take(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    struct spotnik_frame frame;
    uint32_t bytes;
    const uint8_t *prefix = stream->prefix;
    stream->prefix_have = 0;
    if (spotnik_frame_decode(prefix, transport->limits, &frame) != 0
        || spotnik_data_decode(prefix + SPOTNIK_FRAME_BYTES, &frame, &stream->header, &bytes) != 0)
        return false;
    stream->bytes = bytes;
    stream->have = 0;
    stream->frame_turn = frame.turn;
    return place(transport, stream);
}

static void body_done(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    const struct spotnik_chunk_header *header = &stream->header;
    stream->state = SPOTNIK_STREAM_PREFIX;
    turn_pass(transport, stream);
    if (stream->target == NULL)
        return;
    bool combines = stream->placement.kind == SPOTNIK_RING_REDUCE
                    || stream->placement.kind == SPOTNIK_RING_REDUCE_LAST;
    if (stream->placement.kind == SPOTNIK_RING_KEEP)
        transport->bucket[header->bucket].tray_weight[header->sequence] = header->weight;
    if (combines)
        spotnik_bucket_combine(&transport->bucket[header->bucket], header->step, stream->target,
                               &stream->placement, header->weight);
    if (stream->placement.kind == SPOTNIK_RING_COPY
        || stream->placement.kind == SPOTNIK_RING_REDUCE_LAST)
        spotnik_deliver_final(transport, header, &stream->placement);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_CHUNK_DONE,
                                   .chunk = { stream->peer, *header } };
    spotnik_loop_drive(transport->loop, &event);
}

/* One read: what is missing of the payload, and the next header behind it. Returns recvmsg's
 * result. */
static ssize_t read_some(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    struct iovec piece[2];
    size_t count = 0, left = 0;
    if (stream->state != SPOTNIK_STREAM_PREFIX && stream->have < stream->bytes) {
        left = stream->bytes - stream->have;
        uint8_t *place = stream->state == SPOTNIK_STREAM_AHEAD ? stream->scratch : stream->target;
        uint8_t *to = place != NULL ? place + stream->have : transport->sink;
        piece[count++] = (struct iovec){ .iov_base = to, .iov_len = left };
    }
    piece[count++] = (struct iovec){ .iov_base = stream->prefix + stream->prefix_have,
                                     .iov_len = sizeof stream->prefix - stream->prefix_have };
    size_t asked = left + piece[count - 1].iov_len;
    struct msghdr message = { .msg_iov = piece, .msg_iovlen = count };
    ssize_t got = recvmsg(stream->socket.fd, &message, MSG_DONTWAIT);
    if (got <= 0)
        return got;
    size_t payload = (size_t)got < left ? (size_t)got : left;
    stream->have += payload;
    stream->prefix_have += (size_t)got - payload;
    if ((size_t)got < asked)
        spotnik_socket_drained(&stream->socket);
    transport->counts.bytes_received += (size_t)got;
    return got;
}

static bool is_whole(const struct spotnik_stream *stream)
{
    return stream->state == SPOTNIK_STREAM_BODY && stream->have == stream->bytes;
}

/* Everything that can be done without reading. False: the peer breaks the protocol. */
static bool advance(struct spotnik_transport *transport, struct spotnik_stream *stream)
{
    for (;;) {
        if (is_whole(stream))
            body_done(transport, stream);
        if (stream->state != SPOTNIK_STREAM_PREFIX || stream->prefix_have < sizeof stream->prefix)
            return true;
        if (!prefix_take(transport, stream))
            return false;
    }
}

/* Nothing waits for something else to happen first. */
static bool is_open(const struct spotnik_stream *stream)
{
    return stream->socket.fd >= 0 && stream->state != SPOTNIK_STREAM_WAIT
           && !(stream->state == SPOTNIK_STREAM_AHEAD && stream->have == stream->bytes);
}

/* True: there may be more to read now. */
static bool read_stream(struct spotnik_transport *transport, struct spotnik_stream *stream,
                        size_t bytes_max)
{
    size_t pass = 0;
    while (stream->socket.readable && is_open(stream)) {
        if (pass >= bytes_max)
            return true;
        ssize_t got = read_some(transport, stream);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && spotnik_descriptor_waits(errno)) {
            stream->socket.readable = false;
            return false;
        }
        if (got <= 0) {
            close_stream(transport, stream);
            return false;
        }
        if (!advance(transport, stream)) {
            close_stream(transport, stream->head);
            return false;
        }
        pass += (size_t)got;
    }
    return false;
}

/* Frames that were left waiting: does the core want them now? */
static void place_again(struct spotnik_transport *transport)
{
    while (transport->stand->placeable) {
        transport->stand->placeable = false;
        for (struct spotnik_stream *stream = transport->streams; stream != NULL;
             stream = stream->next)
            if ((stream->state == SPOTNIK_STREAM_WAIT || stream->state == SPOTNIK_STREAM_AHEAD)
                && stream->socket.fd >= 0
                && (!place(transport, stream) || !advance(transport, stream)))
                close_stream(transport, stream->head);
    }
}

static void reap(struct spotnik_transport *transport)
{
    struct spotnik_stream **at = &transport->streams;
    while (*at != NULL) {
        struct spotnik_stream *stream = *at;
        if (stream->socket.fd >= 0) {
            at = &stream->next;
            continue;
        }
        *at = stream->next;
        free(stream->scratch);
        stream->scratch = NULL;
        spotnik_loop_bury(transport->loop, &stream->socket);
    }
}

/* Frames whose turn came while others were read. True: connections that waited for that can be read
 * on. */
static bool turns_take(struct spotnik_transport *transport)
{
    place_again(transport);
    for (const struct spotnik_stream *stream = transport->streams; stream != NULL;
         stream = stream->next)
        if (stream->socket.readable && is_open(stream))
            return true;
    return false;
}

/* Take what waited and what has come, about `bytes_max` of each stream. True: some stream has more
 * to give. */
bool spotnik_transport_read(struct spotnik_transport *transport, size_t bytes_max)
{
    bool more = false, wide = false;
    place_again(transport);
    for (struct spotnik_stream *stream = transport->streams; stream != NULL;
         stream = stream->next) {
        if (stream->socket.fd >= 0 && stream->socket.readable)
            more |= read_stream(transport, stream, bytes_max);
        wide |= stream->socket.fd >= 0 && stream->head->width > 1;
    }
    if (wide)
        more |= turns_take(transport);
    reap(transport);
    return more || (transport->stand->placeable && spotnik_transport_is_waiting(transport));
}

void spotnik_streams_close(struct spotnik_transport *transport)
{
    for (struct spotnik_stream *stream = transport->streams; stream != NULL; stream = stream->next)
        close_stream(transport, stream);
    reap(transport);
}
