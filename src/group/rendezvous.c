/* SPDX-License-Identifier: Apache-2.0 */
/* A follower connects, sends a greeting, and receives one byte with the descriptor. */
#include "group/rendezvous.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "spotnik/group.h"

#define MAGIC UINT32_C(0x70756f67)
#define VERSION 1
#define ANSWER_NS SPOTNIK_S        /* a connection that says nothing for so long is dropped */
#define RETRY_NS (20 * SPOTNIK_MS) /* between two looks for the leader */
#define TAKEN_NS (2 * SPOTNIK_S)   /* a leader that has just ended may hold the name as long */

struct greeting {
    uint32_t magic, version, rank, size;
};

static socklen_t address_of(const char *name, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    /* the first byte is 0: a name of the kernel's, not a file; it ends with its socket */
    int length =
        snprintf(ret->sun_path + 1, sizeof ret->sun_path - 1, "spotnik-group-%u-%016llx",
                 (unsigned)getuid(), (unsigned long long)spotnik_hash_bytes(name, strlen(name)));
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static void pause_ns(uint64_t ns)
{
    struct timespec span = spotnik_clock_timespec(ns);
    nanosleep(&span, NULL);
}

static bool is_own_user(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == getuid();
}

/* True: `fd` is readable before `until_ns`. */
static bool wait_readable(int fd, uint64_t until_ns)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    for (;;) {
        uint64_t left_ns = spotnik_time_since(until_ns, spotnik_clock_ns());
        int rc = poll(&poll_fd, 1, (int)spotnik_time_min(left_ns / SPOTNIK_MS + 1, 1000));
        if (rc > 0 || left_ns == 0)
            return rc > 0;
    }
}

/* `memory` -1: a refusal. */
static bool answer_send(int fd, int memory)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room = { .bytes = { 0 } };
    char byte = memory >= 0;
    struct iovec part = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

    if (memory >= 0) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof room.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &memory, sizeof memory);
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == 1;
}

/* -1: none came; `ret_refused`: the leader said so. */
static int answer_receive(int fd, bool *ret_refused)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } room;
    char byte;
    struct iovec part = { .iov_base = &byte, .iov_len = 1 };
    struct msghdr message = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = room.bytes,
                              .msg_controllen = sizeof room.bytes };
    int memory = -1;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != 1)
        return -1;
    *ret_refused = byte == 0;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(&memory, CMSG_DATA(header), sizeof memory);
    return memory;
}

/* One connection: true if the process behind it has the memory now. */
static bool serve(int fd, uint32_t size, int memory, bool *come)
{
    struct greeting greeting;
    if (!is_own_user(fd) || !wait_readable(fd, spotnik_clock_ns() + ANSWER_NS)
        || recv(fd, &greeting, sizeof greeting, 0) != (ssize_t)sizeof greeting
        || greeting.magic != MAGIC)
        return false;
    bool fits = greeting.version == VERSION && greeting.size == size && greeting.rank > 0
                && greeting.rank < size && !come[greeting.rank];
    if (!answer_send(fd, fits ? memory : -1) || !fits)
        return false;
    come[greeting.rank] = true;
    return true;
}

static int missing_return(const bool *come, uint32_t size)
{
    char text[300] = "";
    size_t used = 0;
    for (uint32_t rank = 1; rank < size && used < sizeof text - 16; rank++)
        if (!come[rank])
            used += (size_t)snprintf(text + used, sizeof text - used, " %u", (unsigned)rank);
    return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                "these processes of the group have not come:%s. Start all %u of "
                                "them on one host, with the same name",
                                text, (unsigned)size);
}

static int name_take(const char *name, int *ret_fd)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    uint64_t until_ns = spotnik_clock_ns() + TAKEN_NS;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    while (fd >= 0 && bind(fd, (struct sockaddr *)&address, length) != 0) {
        if (errno != EADDRINUSE || spotnik_clock_ns() > until_ns) {
            int rc = spotnik_error_return(
                SPOTNIK_ERR_SYSTEM,
                "cannot take the name \"%s\" for a group: %m; give every start another name", name);
            close(fd);
            return rc;
        }
        pause_ns(RETRY_NS);
    }
    if (fd < 0 || listen(fd, SPOTNIK_GROUP_PROCESSES_MAX) != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot listen for a group: %m");
    *ret_fd = fd;
    return 0;
}

int spotnik_rendezvous_lead(const char *name, uint32_t size, int memory, uint64_t until_ns)
{
    bool come[SPOTNIK_GROUP_PROCESSES_MAX] = { false };
    uint32_t count = 1;
    int fd = -1;

    if (size == 1)
        return 0;
    int rc = name_take(name, &fd);
    if (rc != 0)
        return rc;
    while (rc == 0 && count < size && wait_readable(fd, until_ns)) {
        int one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (one < 0 && (errno == EMFILE || errno == ENFILE))
            rc =
                spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                     "cannot take in a process of the group: %m (raise ulimit -n)");
        if (one < 0)
            continue;
        count += serve(one, size, memory, come);
        close(one);
    }
    close(fd);
    if (rc != 0)
        return rc;
    return count == size ? 0 : missing_return(come, size);
}

/* -1: there is no leader yet. */
static int leader_find(const char *name, uint64_t until_ns)
{
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) != 0) {
        if (spotnik_clock_ns() > until_ns) {
            close(fd);
            return -1;
        }
        pause_ns(RETRY_NS);
    }
    return fd;
}

static int greet(int fd, uint32_t rank, uint32_t size, uint64_t until_ns, int *ret_memory)
{
    struct greeting greeting = { MAGIC, VERSION, rank, size };
    bool refused = false;

    if (!is_own_user(fd))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "another user of this host has the name of the group");
    *ret_memory = -1;
    if (send(fd, &greeting, sizeof greeting, MSG_NOSIGNAL) == (ssize_t)sizeof greeting
        && wait_readable(fd, until_ns))
        *ret_memory = answer_receive(fd, &refused);
    if (refused)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the leader of the group refuses rank %u of %u: the rank has "
                                    "come already, or the leader has another size or version",
                                    (unsigned)rank, (unsigned)size);
    return *ret_memory >= 0
               ? 0
               : spotnik_error_return(SPOTNIK_ERR_PEERS, "the leader of the group has ended");
}

int spotnik_rendezvous_follow(const char *name, uint32_t rank, uint32_t size, uint64_t until_ns,
                              int *ret_memory)
{
    int fd = leader_find(name, until_ns);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "the leader of the group (rank 0) has not come. Start all %u "
                                    "processes on one host, with the same name",
                                    (unsigned)size);
    int rc = greet(fd, rank, size, until_ns, ret_memory);
    close(fd);
    return rc;
}
