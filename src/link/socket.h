/* SPDX-License-Identifier: Apache-2.0 */
/* What all sockets of the runtime have in common: edge-triggered readiness in one epoll set. Their
 * end waits until no event of the running batch can name them any more. */
#ifndef SPOTNIK_LINK_SOCKET_H
#define SPOTNIK_LINK_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How long the kernel lets bytes stand unacknowledged before it gives a connection up. */
#define SPOTNIK_USER_TIMEOUT_NS (60 * UINT64_C(1000000000))
/* After so long without a byte a kernel asks the other. Tables of connections forget sooner than in
 * a minute only where they are full. */
#define SPOTNIK_IDLE_PROBE_S 15

enum spotnik_socket_kind {
    SPOTNIK_SOCKET_LISTENER,
    SPOTNIK_SOCKET_WAKE, /* an eventfd */
    SPOTNIK_SOCKET_OPENING,
    SPOTNIK_SOCKET_LINK,
    SPOTNIK_SOCKET_LANE,
    SPOTNIK_SOCKET_STREAM,
    SPOTNIK_SOCKET_SHARER,
    SPOTNIK_SOCKET_DATA,    /* the set of data connections (data_poller.c) */
    SPOTNIK_SOCKET_TIMER,   /* of data_poller.c, */
    SPOTNIK_SOCKET_CHANGED, /* and an eventfd of it */
};

/* First member of what it belongs to. `readable` and `writable` are set by epoll and cleared by the
 * code that meets EAGAIN. */
struct spotnik_socket {
    enum spotnik_socket_kind kind;
    int fd; /* -1: closed */
    bool readable, writable;
    /* the other side has closed, or an error waits: read on to the end */
    bool ending;
    struct spotnik_socket *grave; /* next one waiting to be freed */
};

/* Watch `fd` for `socket`; a socket that has been watched for another owner is handed over.
 * SPOTNIK_ERR_SYSTEM on failure. */
int spotnik_socket_watch(struct spotnik_socket *socket, int epoll_fd, int fd,
                         enum spotnik_socket_kind kind);

/* Take the fd out of the set and return it: the caller owns it. */
int spotnik_socket_release(struct spotnik_socket *socket, int epoll_fd);

/* A listening socket on exactly this address; *port 0: any, filled in. SPOTNIK_ERR_SYSTEM, with the
 * address. */
int spotnik_socket_listen(const uint8_t address[16], uint16_t *port, int *ret_fd);

/* Begin to connect, non-blocking, in segments of that size; 0: of the kernel's. 0, or -errno
 * (-ECONNREFUSED may come at once on loopback). Nested tunnels and old links may carry only the 576
 * bytes of IPv4, or slightly less. */
#define SPOTNIK_SEGMENT_LEAST 460
int spotnik_socket_connect(const uint8_t address[16], uint16_t port, int segment_bytes,
                           int *ret_fd);

/* A read gave less than asked for: unless the end is near, the next edge tells of more. */
static inline void spotnik_socket_drained(struct spotnik_socket *socket)
{
    if (!socket->ending)
        socket->readable = false;
}

/* A Unix socket: what passes never leaves this host. */
bool spotnik_socket_is_local(int fd);

/* Both ends of this connection of TCP have one address, or loopback's: the kernel carries it, and
 * takes such an address from no network. Both ends see the same. */
bool spotnik_socket_is_inside(int fd);

/* The pending error of a socket, as errno. */
int spotnik_socket_error(int fd);

/* No delay; megabytes for data; reno instead of a default that paces where peers share a host. */
void spotnik_socket_tune(int fd, const uint8_t address[16]);

/* What is sent on it can wait: data of steps go first where queues know of priorities. */
void spotnik_socket_acknowledge(int fd);
void spotnik_socket_yield(int fd);

#endif
