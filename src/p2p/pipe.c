/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting with poll, moving bytes without blocking. */
#include "base/clock.h"
#include "base/wake.h"
#include "p2p/pipe.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

static int broken(void)
{
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "exchange connection: %m");
}

static int ended(const char *why)
{
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "exchange connection: %s", why);
}

/* 1: ready for `events`; 0: woken or late, and the pipe goes on; SPOTNIK_ERR_PEERS. */
static int wait_once(const struct spotnik_pipe *pipe, short events, uint64_t timeout_ns)
{
    struct pollfd entry[2] = { { .fd = pipe->fd, .events = events },
                               { .fd = pipe->wake_fd, .events = POLLIN } };
    uint64_t now_ns = spotnik_clock_ns();
    uint64_t wait_ns = spotnik_time_min(timeout_ns, spotnik_time_since(pipe->until_ns, now_ns));
    struct timespec wait = spotnik_clock_timespec(wait_ns);
    int rc =
        ppoll(entry, 2,
              timeout_ns == SPOTNIK_NEVER && pipe->until_ns == SPOTNIK_NEVER ? NULL : &wait, NULL);

    if (rc < 0 && errno != EINTR)
        return broken();
    if (entry[1].revents)
        spotnik_wake_take(pipe->wake_fd);
    if ((rc == 0 || entry[1].revents) && pipe->goes_on && !pipe->goes_on(pipe->context))
        return ended("given up");
    return rc > 0 && entry[0].revents != 0;
}

/* Until ready, or nothing has moved for too long. */
static int ready(const struct spotnik_pipe *pipe, short events)
{
    uint64_t limit_ns = spotnik_time_add(spotnik_clock_ns(), pipe->silence_ns);

    for (;;) {
        uint64_t now_ns = spotnik_clock_ns();
        if (now_ns >= limit_ns)
            return ended("the other side is silent");
        int rc = wait_once(pipe, events, limit_ns - now_ns);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
}

int spotnik_pipe_await(const struct spotnik_pipe *pipe)
{
    int rc;

    while ((rc = wait_once(pipe, POLLIN, SPOTNIK_NEVER)) == 0)
        continue;
    return rc < 0 ? rc : 0;
}

int spotnik_pipe_look(const struct spotnik_pipe *pipe, uint64_t timeout_ns)
{
    return wait_once(pipe, POLLIN, timeout_ns);
}

static bool is_full(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

static void advance(struct iovec *part, int *first, size_t sent)
{
    while (*first < 2 && sent >= part[*first].iov_len) {
        sent -= part[*first].iov_len;
        part[(*first)++].iov_len = 0;
    }
    if (*first < 2) {
        part[*first].iov_base = (uint8_t *)part[*first].iov_base + sent;
        part[*first].iov_len -= sent;
    }
}

int spotnik_pipe_write(const struct spotnik_pipe *pipe, const struct spotnik_p2p_head *head,
                       const void *payload)
{
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES];
    struct iovec part[2] = { { bytes, sizeof bytes },
                             { (void *)(uintptr_t)payload, payload ? (size_t)head->bytes : 0 } };
    int first = 0;

    spotnik_p2p_encode(head, bytes);
    while (first < 2) {
        struct msghdr message = { .msg_iov = part + first, .msg_iovlen = (size_t)(2 - first) };
        ssize_t sent = sendmsg(pipe->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0) {
            advance(part, &first, (size_t)sent);
            continue;
        }
        if (errno == EINTR)
            continue;
        if (!is_full())
            return broken();
        int rc = ready(pipe, POLLOUT);
        if (rc)
            return rc;
    }
    return 0;
}

int spotnik_pipe_read(const struct spotnik_pipe *pipe, void *bytes, size_t size)
{
    size_t have = 0;

    while (have < size) {
        ssize_t got = recv(pipe->fd, (uint8_t *)bytes + have, size - have, MSG_DONTWAIT);
        if (got > 0) {
            have += (size_t)got;
            continue;
        }
        if (got == 0)
            return ended("the other side has closed it");
        if (errno == EINTR)
            continue;
        if (!is_full())
            return broken();
        int rc = ready(pipe, POLLIN);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- files ---- */

/* Room for one, as the kernel counts: what is there may be two. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool spotnik_pipe_is_local(int fd)
{
    int domain = 0;
    socklen_t size = sizeof domain;

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

int spotnik_pipe_write_file(const struct spotnik_pipe *pipe, const struct spotnik_p2p_head *head,
                            int fd)
{
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES];
    struct iovec part = { bytes, sizeof bytes };
    union control control = { .bytes = { 0 } };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof control.bytes };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    ssize_t sent;

    spotnik_p2p_encode(head, bytes);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    while ((sent = sendmsg(pipe->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0) {
        if (errno != EINTR && !is_full())
            return broken();
        if (is_full() && ready(pipe, POLLOUT))
            return SPOTNIK_ERR_PEERS;
    }
    return sent == (ssize_t)sizeof bytes ? 0 : ended("a head was cut in two");
}

/* One is kept, others are closed. */
static int file_take(struct msghdr *message)
{
    int kept = -1, fd;

    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t at = 0; CMSG_LEN(at + sizeof fd) <= header->cmsg_len; at += sizeof fd) {
            memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
            if (kept >= 0)
                close(kept);
            kept = fd;
        }
    }
    return kept;
}

static int head_take(const struct spotnik_pipe *pipe, uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES],
                     int *ret_fd)
{
    struct iovec part = { bytes, SPOTNIK_P2P_HEAD_BYTES };
    union control control;
    ssize_t got;

    for (;;) {
        struct msghdr message = { .msg_iov = &part,
                                  .msg_iovlen = 1,
                                  .msg_control = control.bytes,
                                  .msg_controllen = sizeof control.bytes };
        got = recvmsg(pipe->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got >= 0) {
            *ret_fd = file_take(&message);
            break;
        }
        if (errno != EINTR && !is_full())
            return broken();
        if (is_full() && ready(pipe, POLLIN))
            return SPOTNIK_ERR_PEERS;
    }
    if (got == 0)
        return ended("the other side has closed it");
    return spotnik_pipe_read(pipe, bytes + got, SPOTNIK_P2P_HEAD_BYTES - (size_t)got);
}

int spotnik_pipe_read_file(const struct spotnik_pipe *pipe, struct spotnik_p2p_head *ret_head,
                           int *ret_fd)
{
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES];

    *ret_fd = -1;
    int rc = head_take(pipe, bytes, ret_fd);
    if (!rc && spotnik_p2p_decode(bytes, ret_head))
        rc = ended("bytes that are no message");
    if (rc && *ret_fd >= 0) {
        close(*ret_fd);
        *ret_fd = -1;
    }
    return rc;
}

int spotnik_pipe_read_head(const struct spotnik_pipe *pipe, struct spotnik_p2p_head *ret_head)
{
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES];
    int rc = spotnik_pipe_read(pipe, bytes, sizeof bytes);

    if (!rc && spotnik_p2p_decode(bytes, ret_head))
        rc = ended("bytes that are no message");
    return rc;
}
