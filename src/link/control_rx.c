/* SPDX-License-Identifier: Apache-2.0 */
/* The half of a control link that the peer dialled: frames come in, and nothing ever goes out. This
 * file tells apart how it ends: in order, after the last byte that was said (FIN), or in any other
 * way, which proves nothing (docs/design/0004-proof-of-death.md). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "link/inside.h"

#define IN_BYTES 4096u

int spotnik_control_rx_open(struct spotnik_loop *loop, struct spotnik_control_rx *rx,
                            struct spotnik_pending *pending)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    spotnik_handshake_keys(&pending->shake.wire, send_key, receive_key);
    int rc = spotnik_auth_init(&rx->auth, receive_key);
    if (rc == 0 && (rx->in = malloc(IN_BYTES)) == NULL)
        rc = SPOTNIK_ERR_MEMORY;
    if (rc != 0)
        return rc;
    rx->in_size = IN_BYTES;
    int fd = spotnik_socket_release(&pending->socket, loop->epoll_fd);
    rc = spotnik_socket_watch(&rx->socket, loop->epoll_fd, fd, SPOTNIK_SOCKET_LINK);
    if (rc != 0)
        spotnik_tls_close(fd);
    else
        rx->socket.readable = true;
    return rc;
}

void spotnik_control_rx_place(struct spotnik_control_rx *rx,
                              const uint8_t payload[SPOTNIK_PLACES_BYTES])
{
    struct spotnik_places its, ours;
    spotnik_places_decode(payload, &its);
    spotnik_places_of(rx->socket.fd, &ours);
    rx->direct = its.local_port == ours.remote_port && its.remote_port == ours.local_port
                 && memcmp(its.local, ours.remote, sizeof its.local) == 0
                 && memcmp(its.remote, ours.local, sizeof its.remote) == 0;
}

/* What is left of the last read goes to the front. */
static void compact(struct spotnik_control_rx *rx)
{
    memmove(rx->in, rx->in + rx->in_at, rx->in_have - rx->in_at);
    rx->in_have -= rx->in_at;
    rx->in_at = 0;
}

enum spotnik_hearing spotnik_control_rx_read(struct spotnik_control_rx *rx, size_t *pass)
{
    compact(rx);
    ssize_t got = spotnik_tls_recv(rx->socket.fd, rx->in + rx->in_have, rx->in_size - rx->in_have,
                                   MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
        return SPOTNIK_HEARING_MORE;
    if (got < 0 && spotnik_descriptor_waits(errno)) {
        rx->socket.readable = false;
        return SPOTNIK_HEARING_NOTHING;
    }
    /* in the middle of a frame it was not the end of what there was to say */
    if (got <= 0)
        return got == 0 && rx->in_have == 0 ? SPOTNIK_HEARING_END : SPOTNIK_HEARING_BROKEN;
    spotnik_socket_acknowledge(rx->socket.fd);
    if ((size_t)got < rx->in_size - rx->in_have)
        spotnik_socket_drained(&rx->socket);
    rx->in_have += (size_t)got;
    *pass += (size_t)got;
    return SPOTNIK_HEARING_MORE;
}

static bool tag_is_good(struct spotnik_control_rx *rx, const struct spotnik_frame *frame,
                        const uint8_t *payload)
{
    uint8_t input[SPOTNIK_FRAME_TAG_INPUT_BYTES], mac[SPOTNIK_AUTH_BYTES];
    spotnik_frame_tag_input(frame, rx->sequence, input);
    const struct spotnik_auth_part part[] = { { input, sizeof input },
                                              { payload, frame->payload_bytes } };
    return spotnik_auth_mac(&rx->auth, part, 2, mac)
           && spotnik_auth_equal(mac, frame->tag, SPOTNIK_FRAME_TAG_BYTES);
}

static bool grow(struct spotnik_control_rx *rx, size_t bytes)
{
    if (bytes <= rx->in_size)
        return true;
    uint8_t *grown = realloc(rx->in, bytes);
    if (grown == NULL)
        return false;
    rx->in = grown;
    rx->in_size = bytes;
    return true;
}

/* No member sends such a frame. */
static enum spotnik_hearing altered(void)
{
    spotnik_seal_failure_note();
    return SPOTNIK_HEARING_BROKEN;
}

enum spotnik_hearing spotnik_control_rx_next(struct spotnik_control_rx *rx,
                                             const struct spotnik_limits *limits,
                                             struct spotnik_frame *ret_frame,
                                             const uint8_t **ret_payload)
{
    size_t have = rx->in_have - rx->in_at;
    if (have < SPOTNIK_FRAME_BYTES)
        return SPOTNIK_HEARING_NOTHING;
    if (spotnik_frame_decode(rx->in + rx->in_at, limits, ret_frame) != 0
        || ret_frame->kind == SPOTNIK_FRAME_DATA)
        return altered();
    size_t whole = SPOTNIK_FRAME_BYTES + (size_t)ret_frame->payload_bytes;
    if (!grow(rx, whole))
        return SPOTNIK_HEARING_BROKEN;
    if (have < whole)
        return SPOTNIK_HEARING_NOTHING;
    *ret_payload = rx->in + rx->in_at + SPOTNIK_FRAME_BYTES;
    if (!tag_is_good(rx, ret_frame, *ret_payload))
        return altered();
    rx->sequence++;
    rx->in_at += whole;
    return SPOTNIK_HEARING_MORE;
}

void spotnik_control_rx_close(struct spotnik_loop *loop, struct spotnik_control_rx *rx)
{
    if (rx->socket.fd >= 0)
        spotnik_tls_close(spotnik_socket_release(&rx->socket, loop->epoll_fd));
}

void spotnik_control_rx_free(struct spotnik_control_rx *rx)
{
    spotnik_auth_done(&rx->auth);
    free(rx->in);
    rx->in = NULL;
}
