/* SPDX-License-Identifier: Apache-2.0 */
/* Data connections from the predecessor, and in a small view from all others. Read a header, ask
 * the core where the payload belongs, and read it straight to its place, or through a scratch chunk
 * where it is reduced. One read takes the rest of a payload and the next header together.
 *
 * A channel may be several connections (add_connection.c). Each frame says which turn it has among
 * those of its epoch. The core sees them in that order, as if they had come on one: one before its
 * turn is read into the scratch, and stays there. A frame of an epoch before our own is void, and
 * so is one older than another that has come. Its sender has gone over to a view that needs our
 * promise, or goes on without us. So the gaps that a cut leaves in the turns of an epoch hold up
 * nothing. */
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

static void close_one(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    if (inbound->socket.fd < 0)
        return;
    spotnik_tls_close(spotnik_socket_release(&inbound->socket, transport->loop->data.fd));
    inbound->head->width--;
}

/* With all that stand beside it, if it is the first of its channel. */
static void close_stream(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    close_one(transport, inbound);
    for (struct spotnik_inbound *other = transport->inbounds;
         inbound->head == inbound && other != NULL; other = other->next)
        if (other->head == inbound)
            close_one(transport, other);
}

/* A predecessor has one inbound channel to us: a new one means that the old one is dead. */
static void replace_older(struct spotnik_transport *transport, struct spotnik_id peer)
{
    for (struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
         inbound = inbound->next)
        if (spotnik_id_equal(inbound->peer.id, peer))
            close_stream(transport, inbound);
}

/* `head`: NULL: it is one itself. */
static void inbound_new(struct spotnik_transport *transport, struct spotnik_pending *pending,
                        struct spotnik_inbound *head)
{
    struct spotnik_opened opened;
    if (!spotnik_opened_take(transport, pending, &opened))
        return;
    struct spotnik_inbound *inbound = calloc(1, sizeof *inbound);
    if (inbound == NULL || (inbound->scratch = malloc(transport->limits->chunk_bytes)) == NULL
        || spotnik_socket_watch(&inbound->socket, transport->loop->data.fd, opened.fd,
                                SPOTNIK_SOCKET_STREAM)
               != 0) {
        if (inbound != NULL)
            free(inbound->scratch);
        free(inbound);
        spotnik_tls_close(opened.fd);
        spotnik_seal_done(&opened.seal);
        return;
    }
    inbound->seal = opened.seal;
    inbound->peer = *spotnik_pending_peer(pending);
    inbound->head = head != NULL ? head : inbound;
    inbound->head->width++;
    memcpy(inbound->name, opened.name, sizeof inbound->name);
    inbound->socket.readable = true;
    inbound->next = transport->inbounds;
    transport->inbounds = inbound;
}

void spotnik_inbound_adopt(struct spotnik_transport *transport, struct spotnik_pending *pending)
{
    replace_older(transport, spotnik_pending_peer(pending)->id);
    inbound_new(transport, pending, NULL);
}

/* One more beside the one that it names. Closed by the caller if there is none. */
void spotnik_inbound_add(struct spotnik_transport *transport, struct spotnik_pending *pending)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    struct spotnik_inbound *head = transport->inbounds;
    spotnik_pending_adds_connection(pending, name);
    while (head != NULL
           && !(head->head == head && head->socket.fd >= 0
                && spotnik_id_equal(head->peer.id, spotnik_pending_peer(pending)->id)
                && memcmp(head->name, name, sizeof name) == 0))
        head = head->next;
    if (head != NULL && head->width < SPOTNIK_WIDTH_MAX)
        inbound_new(transport, pending, head);
}

/* A view change: the rest of what is half received goes nowhere. */
void spotnik_inbound_cut(struct spotnik_transport *transport)
{
    for (struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
         inbound = inbound->next)
        if (inbound->state == SPOTNIK_STREAM_BODY)
            inbound->target = NULL;
}

bool spotnik_transport_is_waiting(const struct spotnik_transport *transport)
{
    for (const struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
         inbound = inbound->next)
        if (inbound->state == SPOTNIK_STREAM_WAIT && inbound->socket.fd >= 0)
            return true;
    return false;
}

/* ---- turns ---- */

enum turn { TURN_NOW, TURN_LATER, TURN_VOID, TURN_WRONG };

static enum turn turn_of(struct spotnik_transport *transport, const struct spotnik_inbound *inbound)
{
    struct spotnik_inbound *head = inbound->head;
    if (inbound->header.epoch < head->epoch
        || inbound->header.epoch < spotnik_core_view(transport->core)->epoch)
        return TURN_VOID;
    if (inbound->header.epoch > head->epoch) {
        head->epoch = inbound->header.epoch;
        head->turn = 0;
        transport->stand->placeable = true; /* what is void now goes nowhere */
    }
    if (inbound->frame_turn == head->turn)
        return TURN_NOW;
    return inbound->frame_turn > head->turn && head->width > 1 ? TURN_LATER : TURN_WRONG;
}

/* The frame is dealt with: the next may be waiting on another connection. */
static void turn_pass(struct spotnik_transport *transport, const struct spotnik_inbound *inbound)
{
    struct spotnik_inbound *head = inbound->head;
    if (inbound->header.epoch != head->epoch || inbound->frame_turn != head->turn)
        return;
    head->turn++;
    transport->stand->placeable |= head->width > 1;
}

/* ---- places ---- */

/* Where the payload goes by the core's word. False: header and place do not fit each other. */
static bool target_set(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    const struct spotnik_placement *placement = &inbound->placement;
    const struct spotnik_bucket_memory *bucket = &transport->bucket[inbound->header.bucket];
    size_t one = spotnik_dtype_size((enum spotnik_dtype)inbound->header.dtype);
    unsigned half = inbound->header.step & 1;
    if (inbound->bytes != placement->count * one)
        return false;
    if (placement->kind == SPOTNIK_RING_KEEP) {
        inbound->target =
            inbound->bytes > 0
                ? spotnik_bucket_place(&transport->bucket[inbound->header.bucket], &inbound->header)
                : inbound->scratch;
        return true;
    }
    spotnik_share_void(transport, inbound->header.bucket, inbound->header.step);
    SPOTNIK_ASSERT(inbound->bytes == 0
                   || (bucket->step[half] == inbound->header.step
                       && placement->offset + placement->count <= bucket->count[half]));
    if (placement->kind == SPOTNIK_RING_COPY && inbound->bytes > 0)
        inbound->target = spotnik_bucket_out(bucket, half) + placement->offset * one;
    else
        inbound->target = inbound->scratch;
    return true;
}

/* What came before its turn goes where it belongs. */
static void staged_move(struct spotnik_inbound *inbound)
{
    if (inbound->have > 0 && inbound->target != NULL && inbound->target != inbound->scratch)
        memcpy(inbound->target, inbound->scratch, inbound->have);
}

/* Ask the core. False: the peer breaks the protocol. */
static bool place_now(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    inbound->placement = spotnik_core_place(transport->core, inbound->peer.id, &inbound->header);
    enum spotnik_verdict verdict = inbound->placement.verdict;
    spotnik_recorder_placed(transport->recorder, inbound->peer.id, &inbound->header, verdict);
    inbound->state = verdict == SPOTNIK_VERDICT_WAIT ? SPOTNIK_STREAM_WAIT : SPOTNIK_STREAM_BODY;
    inbound->target = NULL;
    bool good = verdict != SPOTNIK_VERDICT_BAD
                && (verdict != SPOTNIK_VERDICT_TAKE || target_set(transport, inbound));
    if (good)
        staged_move(inbound);
    /* placing may begin a step, or find that programs differ */
    transport->hooks.act(transport->hooks.context);
    return good;
}

static bool place(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    switch (turn_of(transport, inbound)) {
    case TURN_NOW:
        return place_now(transport, inbound);
    case TURN_LATER:
        inbound->state = SPOTNIK_STREAM_AHEAD;
        return true;
    case TURN_VOID:
        inbound->state = SPOTNIK_STREAM_BODY;
        inbound->target = NULL;
        return true;
    case TURN_WRONG:
        break;
    }
    return false;
}

/* False: the bytes are not the peer's, or not all of them. */
static bool prefix_verify(struct spotnik_inbound *inbound)
{
    const uint8_t *prefix = inbound->prefix;
    memcpy(inbound->tag, prefix + SPOTNIK_DATA_ELEMENTS_TAG_AT, sizeof inbound->tag);
    return spotnik_seal_verify(&inbound->seal, spotnik_header_number(inbound->opened++), prefix,
                               SPOTNIK_DATA_TAG_AT, prefix + SPOTNIK_DATA_TAG_AT);
}

static bool prefix_take(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    struct spotnik_frame frame;
    uint32_t bytes;
    const uint8_t *prefix = inbound->prefix;
    inbound->prefix_have = 0;
    if (!prefix_verify(inbound) || spotnik_frame_decode(prefix, transport->limits, &frame) != 0
        || spotnik_data_decode(prefix + SPOTNIK_FRAME_BYTES, &frame, &inbound->header, &bytes) != 0)
        return false;
    inbound->bytes = bytes;
    inbound->have = 0;
    inbound->frame_turn = frame.turn;
    return place(transport, inbound);
}

/* Whatever stands where they went, a result or a scratch, is reduced again if they are wrong: their
 * connection ends, and our inputs are as they were. */
static bool elements_verify(struct spotnik_inbound *inbound)
{
    return spotnik_seal_verify(&inbound->seal, spotnik_elements_number(inbound->opened - 1),
                               inbound->target, inbound->bytes, inbound->tag);
}

/* A whole payload that has been verified, or goes nowhere. */
static void body_done(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    const struct spotnik_chunk_header *header = &inbound->header;
    inbound->state = SPOTNIK_STREAM_PREFIX;
    turn_pass(transport, inbound);
    if (inbound->target == NULL)
        return;
    bool combines = inbound->placement.kind == SPOTNIK_RING_REDUCE
                    || inbound->placement.kind == SPOTNIK_RING_REDUCE_LAST;
    if (inbound->placement.kind == SPOTNIK_RING_KEEP)
        transport->bucket[header->bucket].tray_weight[header->sequence] = header->weight;
    if (combines)
        spotnik_bucket_combine(&transport->bucket[header->bucket], header->step, inbound->target,
                               &inbound->placement, header->weight);
    if (inbound->placement.kind == SPOTNIK_RING_COPY
        || inbound->placement.kind == SPOTNIK_RING_REDUCE_LAST)
        spotnik_deliver_final(transport, header, &inbound->placement);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_CHUNK_DONE,
                                   .chunk = { inbound->peer, *header } };
    spotnik_loop_drive(transport->loop, &event);
}

/* One read: what is missing of the payload, and the next header behind it. Returns recvmsg's
 * result. */
static ssize_t read_some(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    struct iovec piece[2];
    size_t count = 0, left = 0;
    if (inbound->state != SPOTNIK_STREAM_PREFIX && inbound->have < inbound->bytes) {
        left = inbound->bytes - inbound->have;
        uint8_t *place =
            inbound->state == SPOTNIK_STREAM_AHEAD ? inbound->scratch : inbound->target;
        uint8_t *to = place != NULL ? place + inbound->have : transport->sink;
        piece[count++] = (struct iovec){ .iov_base = to, .iov_len = left };
    }
    piece[count++] = (struct iovec){ .iov_base = inbound->prefix + inbound->prefix_have,
                                     .iov_len = sizeof inbound->prefix - inbound->prefix_have };
    size_t asked = left + piece[count - 1].iov_len;
    struct msghdr message = { .msg_iov = piece, .msg_iovlen = count };
    ssize_t got = spotnik_tls_recvmsg(inbound->socket.fd, &message, MSG_DONTWAIT);
    if (got <= 0)
        return got;
    size_t payload = (size_t)got < left ? (size_t)got : left;
    inbound->have += payload;
    inbound->prefix_have += (size_t)got - payload;
    if ((size_t)got < asked)
        spotnik_socket_drained(&inbound->socket);
    transport->counts.bytes_received += (size_t)got;
    return got;
}

static bool is_whole(const struct spotnik_inbound *inbound)
{
    return inbound->state == SPOTNIK_STREAM_BODY && inbound->have == inbound->bytes;
}

/* Everything that can be done without reading. False: the peer breaks the protocol, or another
 * speaks in its place. */
static bool advance(struct spotnik_transport *transport, struct spotnik_inbound *inbound)
{
    for (;;) {
        if (is_whole(inbound) && inbound->target != NULL && !elements_verify(inbound))
            return false;
        if (is_whole(inbound))
            body_done(transport, inbound);
        if (inbound->state != SPOTNIK_STREAM_PREFIX
            || inbound->prefix_have < sizeof inbound->prefix)
            return true;
        if (!prefix_take(transport, inbound))
            return false;
    }
}

/* Nothing waits for something else to happen first. */
static bool is_open(const struct spotnik_inbound *inbound)
{
    return inbound->socket.fd >= 0 && inbound->state != SPOTNIK_STREAM_WAIT
           && !(inbound->state == SPOTNIK_STREAM_AHEAD && inbound->have == inbound->bytes);
}

/* True: there may be more to read now. */
static bool read_stream(struct spotnik_transport *transport, struct spotnik_inbound *inbound,
                        size_t bytes_max)
{
    size_t pass = 0;
    while (inbound->socket.readable && is_open(inbound)) {
        if (pass >= bytes_max)
            return true;
        ssize_t got = read_some(transport, inbound);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && spotnik_descriptor_waits(errno)) {
            inbound->socket.readable = false;
            return false;
        }
        if (got <= 0) {
            close_stream(transport, inbound);
            return false;
        }
        if (!advance(transport, inbound)) {
            close_stream(transport, inbound->head);
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
        for (struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
             inbound = inbound->next)
            if ((inbound->state == SPOTNIK_STREAM_WAIT || inbound->state == SPOTNIK_STREAM_AHEAD)
                && inbound->socket.fd >= 0
                && (!place(transport, inbound) || !advance(transport, inbound)))
                close_stream(transport, inbound->head);
    }
}

static void reap(struct spotnik_transport *transport)
{
    struct spotnik_inbound **at = &transport->inbounds;
    while (*at != NULL) {
        struct spotnik_inbound *inbound = *at;
        if (inbound->socket.fd >= 0) {
            at = &inbound->next;
            continue;
        }
        *at = inbound->next;
        free(inbound->scratch);
        inbound->scratch = NULL;
        spotnik_seal_done(&inbound->seal);
        spotnik_loop_free_later(transport->loop, &inbound->socket);
    }
}

/* Frames whose turn came while others were read. True: connections that waited for that can be read
 * on. */
static bool turns_take(struct spotnik_transport *transport)
{
    place_again(transport);
    for (const struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
         inbound = inbound->next)
        if (inbound->socket.readable && is_open(inbound))
            return true;
    return false;
}

/* Take what waited and what has come, about `bytes_max` of each inbound channel. True: some stream
 * has more to give. */
bool spotnik_transport_read(struct spotnik_transport *transport, size_t bytes_max)
{
    bool more = false, wide = false;
    place_again(transport);
    for (struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
         inbound = inbound->next) {
        if (inbound->socket.fd >= 0 && inbound->socket.readable)
            more |= read_stream(transport, inbound, bytes_max);
        wide |= inbound->socket.fd >= 0 && inbound->head->width > 1;
    }
    if (wide)
        more |= turns_take(transport);
    reap(transport);
    return more || (transport->stand->placeable && spotnik_transport_is_waiting(transport));
}

void spotnik_inbound_close(struct spotnik_transport *transport)
{
    for (struct spotnik_inbound *inbound = transport->inbounds; inbound != NULL;
         inbound = inbound->next)
        close_stream(transport, inbound);
    reap(transport);
}
