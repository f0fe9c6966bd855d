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

int spotnik_ear_open(struct spotnik_loop *loop, struct spotnik_ear *ear,
                     struct spotnik_opening *opening)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    spotnik_handshake_keys(&opening->shake.wire, send_key, receive_key);
    int rc = spotnik_auth_init(&ear->auth, receive_key);
    if (rc == 0 && (ear->in = malloc(IN_BYTES)) == NULL)
        rc = SPOTNIK_ERR_MEMORY;
    if (rc != 0)
        return rc;
    ear->in_size = IN_BYTES;
    int fd = spotnik_socket_release(&opening->socket, loop->epoll_fd);
    rc = spotnik_socket_watch(&ear->socket, loop->epoll_fd, fd, SPOTNIK_SOCKET_LINK);
    if (rc != 0)
        close(fd);
    else
        ear->socket.readable = true;
    return rc;
}

void spotnik_ear_place(struct spotnik_ear *ear, const uint8_t payload[SPOTNIK_PLACES_BYTES])
{
    struct spotnik_places its, ours;
    spotnik_places_decode(payload, &its);
    spotnik_places_of(ear->socket.fd, &ours);
    ear->direct = its.local_port == ours.remote_port && its.remote_port == ours.local_port
                  && memcmp(its.local, ours.remote, sizeof its.local) == 0
                  && memcmp(its.remote, ours.local, sizeof its.remote) == 0;
}

/* What is left of the last read goes to the front. */
static void compact(struct spotnik_ear *ear)
{
    memmove(ear->in, ear->in + ear->in_at, ear->in_have - ear->in_at);
    ear->in_have -= ear->in_at;
    ear->in_at = 0;
}

enum spotnik_hearing spotnik_ear_read(struct spotnik_ear *ear, size_t *pass)
{
    compact(ear);
    ssize_t got =
        recv(ear->socket.fd, ear->in + ear->in_have, ear->in_size - ear->in_have, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR)
        return SPOTNIK_HEARING_MORE;
    if (got < 0 && spotnik_descriptor_waits(errno)) {
        ear->socket.readable = false;
        return SPOTNIK_HEARING_NOTHING;
    }
    /* in the middle of a frame it was not the end of what there was to say */
    if (got <= 0)
        return got == 0 && ear->in_have == 0 ? SPOTNIK_HEARING_END : SPOTNIK_HEARING_BROKEN;
    spotnik_socket_acknowledge(ear->socket.fd);
    if ((size_t)got < ear->in_size - ear->in_have)
        spotnik_socket_drained(&ear->socket);
    ear->in_have += (size_t)got;
    *pass += (size_t)got;
    return SPOTNIK_HEARING_MORE;
}

static bool tag_is_good(struct spotnik_ear *ear, const struct spotnik_frame *frame,
                        const uint8_t *payload)
{
    uint8_t input[SPOTNIK_FRAME_TAG_INPUT_BYTES], mac[SPOTNIK_AUTH_BYTES];
    spotnik_frame_tag_input(frame, ear->sequence, input);
    const struct spotnik_auth_part part[] = { { input, sizeof input },
                                              { payload, frame->payload_bytes } };
    return spotnik_auth_mac(&ear->auth, part, 2, mac)
           && spotnik_auth_equal(mac, frame->tag, SPOTNIK_FRAME_TAG_BYTES);
}

static bool grow(struct spotnik_ear *ear, size_t bytes)
{
    if (bytes <= ear->in_size)
        return true;
    uint8_t *grown = realloc(ear->in, bytes);
    if (grown == NULL)
        return false;
    ear->in = grown;
    ear->in_size = bytes;
    return true;
}

enum spotnik_hearing spotnik_ear_next(struct spotnik_ear *ear, const struct spotnik_limits *limits,
                                      struct spotnik_frame *ret_frame, const uint8_t **ret_payload)
{
    size_t have = ear->in_have - ear->in_at;
    if (have < SPOTNIK_FRAME_BYTES)
        return SPOTNIK_HEARING_NOTHING;
    if (spotnik_frame_decode(ear->in + ear->in_at, limits, ret_frame) != 0)
        return SPOTNIK_HEARING_BROKEN;
    size_t whole = SPOTNIK_FRAME_BYTES + (size_t)ret_frame->payload_bytes;
    if (ret_frame->kind == SPOTNIK_FRAME_DATA || !grow(ear, whole))
        return SPOTNIK_HEARING_BROKEN;
    if (have < whole)
        return SPOTNIK_HEARING_NOTHING;
    *ret_payload = ear->in + ear->in_at + SPOTNIK_FRAME_BYTES;
    if (!tag_is_good(ear, ret_frame, *ret_payload))
        return SPOTNIK_HEARING_BROKEN;
    ear->sequence++;
    ear->in_at += whole;
    return SPOTNIK_HEARING_MORE;
}

void spotnik_ear_close(struct spotnik_loop *loop, struct spotnik_ear *ear)
{
    if (ear->socket.fd >= 0)
        close(spotnik_socket_release(&ear->socket, loop->epoll_fd));
}

void spotnik_ear_free(struct spotnik_ear *ear)
{
    spotnik_auth_done(&ear->auth);
    free(ear->in);
    ear->in = NULL;
}
