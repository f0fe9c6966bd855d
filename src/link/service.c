/* SPDX-License-Identifier: Apache-2.0 */
/* Pending connections that want something of the rooms above: a status is asked for and replied to,
 * a donor or an exchange gets the connection itself. The rooms above are called without the loop's
 * lock. */
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

void spotnik_pending_reply_make(struct spotnik_links *links, struct spotnik_pending *pending,
                                const void *bytes, size_t size)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    char *reply = bytes != NULL ? malloc(size + SPOTNIK_AUTH_BYTES) : NULL;
    spotnik_handshake_keys(&pending->shake.wire, send_key, receive_key);
    if (reply != NULL)
        memcpy(reply, bytes, size);
    if (reply != NULL && spotnik_auth_once(send_key, reply, size, (uint8_t *)reply + size)) {
        pending->reply = reply;
        pending->reply_size = size + SPOTNIK_AUTH_BYTES;
    } else {
        free(reply);
        spotnik_pending_close(links, pending);
    }
    explicit_bzero(send_key, sizeof send_key);
    explicit_bzero(receive_key, sizeof receive_key);
}

void spotnik_pending_reply(struct spotnik_links *links, struct spotnik_pending *pending)
{
    while (pending->reply_at < pending->reply_size) {
        ssize_t sent = spotnik_tls_send(pending->socket.fd, pending->reply + pending->reply_at,
                                        pending->reply_size - pending->reply_at, MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && spotnik_descriptor_waits(errno)) {
            pending->socket.writable = false;
            return;
        }
        if (sent < 0)
            break;
        pending->reply_at += (size_t)sent;
    }
    spotnik_pending_close(links, pending);
}

static void hand_over(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_member peer = pending->shake.wire.peer;
    struct spotnik_duplex duplex;
    spotnik_loop_lock(links->loop);
    int fd = spotnik_socket_release(&pending->socket, links->loop->epoll_fd);
    pending->wants_hook = false;
    spotnik_loop_unlock(links->loop);
    if (pending->purpose == SPOTNIK_PURPOSE_EXCHANGE)
        spotnik_socket_yield(fd);
    if (fcntl(fd, F_SETFL, 0) != 0 || spotnik_duplex_init(&duplex, fd, &pending->shake.wire) != 0)
        spotnik_tls_close(fd);
    else
        links->hooks.service(links->hooks.context, pending->purpose, &duplex, &peer);
}

static void status_serve(struct spotnik_links *links, struct spotnik_pending *pending)
{
    char *text = malloc(STATUS_BYTES);
    size_t size = text != NULL ? links->hooks.status(links->hooks.context, text, STATUS_BYTES) : 0;
    spotnik_loop_lock(links->loop);
    pending->wants_hook = false;
    spotnik_pending_reply_make(links, pending, text, size < STATUS_BYTES ? size : STATUS_BYTES);
    if (pending->reply != NULL)
        spotnik_pending_reply(links, pending);
    spotnik_loop_unlock(links->loop);
    free(text);
}

static struct spotnik_pending *next_service(struct spotnik_links *links)
{
    struct spotnik_pending *pending;
    spotnik_loop_lock(links->loop);
    for (pending = links->pending_list; pending != NULL; pending = pending->next)
        if (pending->wants_hook && pending->socket.fd >= 0)
            break;
    links->services = pending != NULL;
    spotnik_loop_unlock(links->loop);
    return pending;
}

bool spotnik_pending_list_has_services(const struct spotnik_links *links)
{
    return links->services;
}

/* Only the progress thread takes pending connections out of the list, so one it holds stays. */
void spotnik_pending_list_serve(struct spotnik_links *links)
{
    struct spotnik_pending *pending;
    while ((pending = next_service(links)) != NULL) {
        if (pending->purpose != SPOTNIK_PURPOSE_STATUS)
            hand_over(links, pending);
        else
            status_serve(links, pending);
    }
}
