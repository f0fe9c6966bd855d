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

#define SLICE_BYTES (1u << 20)

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
    struct pollfd entry[2] = { { .fd = pipe->duplex->fd, .events = events },
                               { .fd = pipe->wake_fd, .events = POLLIN } };
    uint64_t now_ns = spotnik_clock_ns();
    uint64_t wait_ns = spotnik_time_min(timeout_ns, spotnik_time_since(pipe->until_ns, now_ns));
    struct timespec wait = spotnik_clock_timespec(wait_ns);
    if (events == POLLIN && spotnik_tls_has_input(pipe->duplex->fd))
        return 1;
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

static size_t tag_bytes(const struct spotnik_seal *seal)
{
    return seal->bare ? 0 : SPOTNIK_SEAL_BYTES;
}

static bool is_full(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK;
}

/* What stands before the piece that a sendmsg takes, and the piece. */
#define PARTS 2

static void advance(struct iovec *part, int *first, size_t sent)
{
    while (*first < PARTS && sent >= part[*first].iov_len) {
        sent -= part[*first].iov_len;
        part[(*first)++].iov_len = 0;
    }
    if (*first < PARTS) {
        part[*first].iov_base = (uint8_t *)part[*first].iov_base + sent;
        part[*first].iov_len -= sent;
    }
}

static int send_all(const struct spotnik_pipe *pipe, struct iovec part[PARTS])
{
    int first = 0;

    advance(part, &first, 0);
    while (first < PARTS) {
        struct msghdr message = { .msg_iov = part + first, .msg_iovlen = (size_t)(PARTS - first) };
        ssize_t sent = spotnik_tls_sendmsg(pipe->duplex->fd, &message, MSG_DONTWAIT);
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

/* The first piece goes out with `front`, what stands before it; then the tag over all pieces. Each
 * is in the cache when the kernel copies it. */
static int payload_write(const struct spotnik_pipe *pipe, struct iovec front,
                         const uint8_t *payload, size_t size)
{
    struct spotnik_duplex *duplex = pipe->duplex;
    uint8_t tag[SPOTNIK_SEAL_BYTES];
    int rc = 0;

    spotnik_seal_begin(&duplex->send, duplex->sent++);
    for (size_t at = 0, some; !rc && at < size; at += some) {
        some = size - at < SLICE_BYTES ? size - at : SLICE_BYTES;
        struct iovec part[PARTS] = { front, { (void *)(uintptr_t)(payload + at), some } };
        spotnik_seal_add(&duplex->send, payload + at, some);
        rc = send_all(pipe, part);
        front.iov_len = 0;
    }
    spotnik_seal_end(&duplex->send, tag);
    struct iovec last[PARTS] = { front, { tag, tag_bytes(&duplex->send) } };
    return rc ? rc : send_all(pipe, last);
}

int spotnik_pipe_write(const struct spotnik_pipe *pipe, const struct spotnik_p2p_head *head,
                       const void *payload)
{
    struct spotnik_duplex *duplex = pipe->duplex;
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES + SPOTNIK_SEAL_BYTES];
    struct iovec front = { bytes, SPOTNIK_P2P_HEAD_BYTES + tag_bytes(&duplex->send) };

    spotnik_p2p_encode(head, bytes);
    spotnik_seal_make(&duplex->send, duplex->sent++, bytes, SPOTNIK_P2P_HEAD_BYTES,
                      bytes + SPOTNIK_P2P_HEAD_BYTES);
    if (spotnik_p2p_has_payload(head->kind))
        return payload_write(pipe, front, payload, (size_t)head->bytes);
    struct iovec part[PARTS] = { front };
    return send_all(pipe, part);
}

static int read_all(const struct spotnik_pipe *pipe, void *bytes, size_t size)
{
    size_t have = 0;

    while (have < size) {
        ssize_t got =
            spotnik_tls_recv(pipe->duplex->fd, (uint8_t *)bytes + have, size - have, MSG_DONTWAIT);
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

static int altered(void)
{
    return ended(
        "bytes were altered on their way; look for a proxy or a faulty network in between");
}

/* The tag behind what has been added to the seal. */
static int tag_check(const struct spotnik_pipe *pipe)
{
    uint8_t tag[SPOTNIK_SEAL_BYTES];
    int rc = read_all(pipe, tag, tag_bytes(&pipe->duplex->receive));

    if (!rc && !spotnik_seal_check(&pipe->duplex->receive, tag))
        rc = altered();
    return rc;
}

int spotnik_pipe_read(const struct spotnik_pipe *pipe, void *bytes, size_t size)
{
    struct spotnik_duplex *duplex = pipe->duplex;
    int rc = 0;

    spotnik_seal_begin(&duplex->receive, duplex->received++);
    for (size_t at = 0, some; !rc && at < size; at += some) {
        some = size - at < SLICE_BYTES ? size - at : SLICE_BYTES;
        rc = read_all(pipe, (uint8_t *)bytes + at, some);
        if (!rc)
            spotnik_seal_add(&duplex->receive, (uint8_t *)bytes + at, some);
    }
    return rc ? rc : tag_check(pipe);
}

int spotnik_pipe_skip(const struct spotnik_pipe *pipe, uint64_t size)
{
    uint8_t some[4096];
    int rc = 0;

    pipe->duplex->received++;
    size += tag_bytes(&pipe->duplex->receive);
    for (uint64_t part; !rc && size > 0; size -= part) {
        part = size < sizeof some ? size : sizeof some;
        rc = read_all(pipe, some, part);
    }
    return rc;
}

/* ---- files ---- */

/* Room for one, as the kernel counts: what is there may be two. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

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
    while ((sent = sendmsg(pipe->duplex->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT)) < 0) {
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
        got = recvmsg(pipe->duplex->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
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
    return read_all(pipe, bytes + got, SPOTNIK_P2P_HEAD_BYTES - (size_t)got);
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
    struct spotnik_duplex *duplex = pipe->duplex;
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES + SPOTNIK_SEAL_BYTES];
    int rc = read_all(pipe, bytes, SPOTNIK_P2P_HEAD_BYTES + tag_bytes(&duplex->receive));

    if (!rc
        && !spotnik_seal_verify(&duplex->receive, duplex->received++, bytes, SPOTNIK_P2P_HEAD_BYTES,
                                bytes + SPOTNIK_P2P_HEAD_BYTES))
        rc = altered();
    if (!rc && spotnik_p2p_decode(bytes, ret_head))
        rc = ended("bytes that are no message");
    return rc;
}
