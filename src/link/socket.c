/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets and their options. Decides nothing about what they carry. */
#include "base/time.h"
#include "link/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/fork.h"
#include "link/address.h"
#include "spotnik/spotnik.h"

#define LISTEN_BACKLOG 1024
/* A host that has vanished must not hold a socket for the 15 minutes TCP allows. Silence is noticed
 * long before by heartbeats. */

int spotnik_socket_watch(struct spotnik_socket *socket, int epoll_fd, int fd,
                         enum spotnik_socket_kind kind)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.ptr = socket };
    if (kind == SPOTNIK_SOCKET_DATA)
        event.events = EPOLLIN;
    else if (kind != SPOTNIK_SOCKET_LISTENER && kind != SPOTNIK_SOCKET_WAKE
             && kind < SPOTNIK_SOCKET_DATA)
        event.events |= EPOLLOUT | EPOLLRDHUP;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) != 0
        && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot watch a socket: %m");
    socket->kind = kind;
    socket->fd = fd;
    return 0;
}

int spotnik_socket_release(struct spotnik_socket *socket, int epoll_fd)
{
    int fd = socket->fd;
    if (fd >= 0 && epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL) != 0)
        spotnik_descriptor_check(errno);
    socket->fd = -1;
    socket->readable = socket->writable = false;
    return fd;
}

static int bound(int fd, const uint8_t address[16], uint16_t *port)
{
    struct sockaddr_storage name;
    socklen_t size = spotnik_address_to_kernel(&name, address, *port);
    int one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&name, size) != 0 || listen(fd, LISTEN_BACKLOG) != 0)
        return -1;
    size = sizeof name;
    if (getsockname(fd, (struct sockaddr *)&name, &size) != 0)
        return -1;
    uint8_t ignored[16];
    spotnik_address_from_kernel(&name, ignored, port);
    return 0;
}

static int tcp_socket(const uint8_t address[16])
{
    int family = spotnik_address_is_ipv4(address) ? AF_INET : AF_INET6;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    spotnik_fork_note(fd);
    return fd;
}

int spotnik_socket_listen(const uint8_t address[16], uint16_t *port, int *ret_fd)
{
    char text[SPOTNIK_ADDRESS_TEXT];
    int fd = tcp_socket(address);
    if (fd >= 0 && bound(fd, address, port) == 0) {
        *ret_fd = fd;
        return 0;
    }
    int rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot listen on %s: %m",
                                  spotnik_address_format(text, address, *port));
    if (fd >= 0)
        close(fd);
    return rc;
}

int spotnik_socket_connect(const uint8_t address[16], uint16_t port, int segment_bytes, int *ret_fd)
{
    struct sockaddr_storage name;
    socklen_t size = spotnik_address_to_kernel(&name, address, port);
    int fd = tcp_socket(address);
    if (fd < 0)
        return -errno;
    spotnik_socket_tune(fd, address);
    if (segment_bytes > 0)
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof segment_bytes);
    if (connect(fd, (struct sockaddr *)&name, size) != 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        return -error;
    }
    *ret_fd = fd;
    return 0;
}

bool spotnik_socket_is_local(int fd)
{
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

bool spotnik_socket_is_inside(int fd)
{
    struct sockaddr_storage own, peer;
    socklen_t own_size = sizeof own, peer_size = sizeof peer;
    uint8_t from[16], to[16];
    uint16_t port;
    if (getsockname(fd, (struct sockaddr *)&own, &own_size) != 0
        || getpeername(fd, (struct sockaddr *)&peer, &peer_size) != 0)
        return false;
    spotnik_address_from_kernel(&own, from, &port);
    spotnik_address_from_kernel(&peer, to, &port);
    return memcmp(from, to, sizeof from) == 0
           || (spotnik_address_is_loopback(from) && spotnik_address_is_loopback(to));
}

int spotnik_socket_error(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* Links to members that are no neighbours say nothing for days. Firewalls and translators forget
 * such connections within minutes, and then swallow the FIN that proves a death. A probe that is
 * not answered ends the connection as unacknowledged bytes do, which proves nothing. */
static void probe_when_idle(int fd)
{
    int one = 1, seconds = SPOTNIK_IDLE_PROBE_S;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
}

/* Buffer sizes are left to the kernel, which grows them to megabytes by itself. Setting them would
 * pin them to the much smaller net.core limits. */
void spotnik_socket_tune(int fd, const uint8_t address[16])
{
    int one = 1, timeout_ms = (int)(SPOTNIK_USER_TIMEOUT_NS / SPOTNIK_MS);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms);
    /* a few packets that are lost twice are not waited for twice as long */
    setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &one, sizeof one);
    if (spotnik_address_is_loopback(address))
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4); /* bbr halves loopback */
    else
        probe_when_idle(fd);
}

/* Now, instead of 40 ms later: nothing goes out on a connection that one side speaks on alone,
 * which an acknowledgement could travel with. */
void spotnik_socket_acknowledge(int fd)
{
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
}

void spotnik_socket_yield(int fd)
{
    int priority = 2; /* TC_PRIO_BULK */
    setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof priority);
}
