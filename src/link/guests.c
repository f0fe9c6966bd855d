/* SPDX-License-Identifier: Apache-2.0 */
/* Openings that want something of the rooms above: a status is asked for and replied to, a donor or
 * an exchange gets the connection itself. The rooms above are called without the loop's lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "link/auth.h"
#include "link/inside.h"

#define STATUS_BYTES (256u * 1024)

void spotnik_opening_reply_make(struct spotnik_links *links, struct spotnik_opening *opening,
                                const void *bytes, size_t size)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    char *reply = bytes != NULL ? malloc(size + SPOTNIK_AUTH_BYTES) : NULL;
    spotnik_handshake_keys(&opening->shake.wire, send_key, receive_key);
    if (reply != NULL)
        memcpy(reply, bytes, size);
    if (reply != NULL && spotnik_auth_once(send_key, reply, size, (uint8_t *)reply + size)) {
        opening->reply = reply;
        opening->reply_size = size + SPOTNIK_AUTH_BYTES;
    } else {
        free(reply);
        spotnik_opening_close(links, opening);
    }
    explicit_bzero(send_key, sizeof send_key);
    explicit_bzero(receive_key, sizeof receive_key);
}

void spotnik_opening_reply(struct spotnik_links *links, struct spotnik_opening *opening)
{
    while (opening->reply_at < opening->reply_size) {
        ssize_t sent = send(opening->socket.fd, opening->reply + opening->reply_at,
                            opening->reply_size - opening->reply_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && spotnik_descriptor_waits(errno)) {
            opening->socket.writable = false;
            return;
        }
        if (sent < 0)
            break;
        opening->reply_at += (size_t)sent;
    }
    spotnik_opening_close(links, opening);
}

static void hand_over(struct spotnik_links *links, struct spotnik_opening *opening)
{
    struct spotnik_member peer = opening->shake.wire.peer;
    spotnik_loop_lock(links->loop);
    int fd = spotnik_socket_release(&opening->socket, links->loop->epoll_fd);
    opening->wants_hook = false;
    spotnik_loop_unlock(links->loop);
    if (opening->purpose == SPOTNIK_PURPOSE_EXCHANGE)
        spotnik_socket_yield(fd);
    if (fcntl(fd, F_SETFL, 0) != 0)
        close(fd);
    else
        links->hooks.guest(links->hooks.context, opening->purpose, fd, &peer);
}

static void status_serve(struct spotnik_links *links, struct spotnik_opening *opening)
{
    char *text = malloc(STATUS_BYTES);
    size_t size = text != NULL ? links->hooks.status(links->hooks.context, text, STATUS_BYTES) : 0;
    spotnik_loop_lock(links->loop);
    opening->wants_hook = false;
    spotnik_opening_reply_make(links, opening, text, size < STATUS_BYTES ? size : STATUS_BYTES);
    if (opening->reply != NULL)
        spotnik_opening_reply(links, opening);
    spotnik_loop_unlock(links->loop);
    free(text);
}

static struct spotnik_opening *next_guest(struct spotnik_links *links)
{
    struct spotnik_opening *opening;
    spotnik_loop_lock(links->loop);
    for (opening = links->openings; opening != NULL; opening = opening->next)
        if (opening->wants_hook && opening->socket.fd >= 0)
            break;
    links->guests = opening != NULL;
    spotnik_loop_unlock(links->loop);
    return opening;
}

bool spotnik_openings_have_guests(const struct spotnik_links *links)
{
    return links->guests;
}

/* Only the progress thread takes openings out of the list, so one it holds stays. */
void spotnik_openings_serve(struct spotnik_links *links)
{
    struct spotnik_opening *opening;
    while ((opening = next_guest(links)) != NULL) {
        if (opening->purpose != SPOTNIK_PURPOSE_STATUS)
            hand_over(links, opening);
        else
            status_serve(links, opening);
    }
}
