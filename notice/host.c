/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a host asks the clouds, however many agents the host has. The first of the
 * watchers with the same sources takes a name among the abstract sockets of its network namespace.
 * The others connect to it, hear what it tells, and let their own sources sleep. When it ends, one
 * of them takes the name. When it says nothing for SILENCE_NS (a suspended job), each asks for
 * itself until it speaks again. Only processes of one user believe each other. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "source.h"

#define CLIENTS_MAX 128
#define BEAT_NS NOTICE_S
#define SILENCE_NS (5 * NOTICE_S)
#define AGAIN_NS (NOTICE_S / 4) /* the name is taken, and nobody listens yet, or any more */
#define BACKLOG 64
#define PACKET_MAX 1024

enum role { SEARCHES, SPEAKS, HEARS, ALONE };

struct host {
    enum role role;
    int fd; /* SPEAKS: others connect to it. HEARS: to the one that speaks */
    int client[CLIENTS_MAX];
    uint32_t clients;
    uint64_t heard_ns;
};

/* ---- the name ---- */

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text; text++) /* FNV-1a: nobody gains by a collision, all are one user's */
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return (hash ^ 0xff) * UINT64_C(0x100000001b3);
}

/* Those that would ask the same questions equally often have the same. */
static socklen_t name(const struct notice_watch *watch, struct sockaddr_un *ret)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    char number[32];

    for (uint32_t i = 0; i < watch->count; i++) {
        const struct notice_source *source = &watch->source[i];
        if (!source->shared)
            continue;
        snprintf(number, sizeof(number), "%" PRIu64 " %d", source->interval_ns, source->wanted);
        hash = mix(mix(mix(hash, source->name), source->base), number);
    }
    *ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int length = snprintf(ret->sun_path + 1, sizeof(ret->sun_path) - 1,
                          "spotnik-notice-1-%lu-%016" PRIx64, (unsigned long)geteuid(), hash);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_of_our_user(int fd)
{
    struct ucred other;
    socklen_t size = sizeof(other);

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) && other.uid == geteuid();
}

/* ---- what is said ---- */

static bool send_notice(int fd, const struct notice *notice)
{
    char packet[PACKET_MAX];
    size_t length = notice_format(notice, packet, sizeof(packet));

    return length && send(fd, packet, length, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)length;
}

/* What the source has seen so far. False: nothing. */
static bool state(const struct notice_source *source, struct notice *ret)
{
    bool stands = source->standing && !source->rumour;

    *ret = (struct notice){ .kind = stands ? NOTICE_LEAVE : NOTICE_RISK,
                            .deadline_ms = stands ? source->deadline_ms : 0 };
    memcpy(ret->source, source->name, sizeof(ret->source));
    memcpy(ret->text, stands ? source->told : source->risk, sizeof(ret->text));
    return stands || source->risk[0];
}

static bool send_states(const struct notice_watch *watch, int fd)
{
    struct notice notice;
    bool fine = true;

    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->source[i].shared && state(&watch->source[i], &notice))
            fine &= send_notice(fd, &notice);
    return fine;
}

static void client_close(struct host *host, uint32_t place)
{
    close(host->client[place]); /* which takes it out of the epoll */
    host->client[place] = host->client[--host->clients];
}

/* One that does not read, because it is suspended, comes again when it does. */
static void send_all(struct host *host, const struct notice *notice)
{
    for (uint32_t i = host->clients; i-- > 0;)
        if (notice ? !send_notice(host->client[i], notice)
                   : send(host->client[i], ".", 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
            client_close(host, i);
}

void notice_host_tell(const struct notice_source *source, const struct notice *notice)
{
    struct notice_source *self = source->watch->host;
    struct host *host = self ? self->own : NULL;

    if (host && host->role == SPEAKS && source->shared)
        send_all(host, notice);
}

/* ---- roles ---- */

static void leave_role(struct notice_source *self)
{
    struct host *host = self->own;

    while (host->clients)
        client_close(host, 0);
    if (host->fd >= 0)
        close(host->fd);
    host->fd = -1;
    self->watch->asleep = false;
}

static void be_alone(struct notice_source *self)
{
    struct host *host = self->own;

    leave_role(self);
    host->role = ALONE;
    self->presence = NOTICE_ABSENT;
}

static void listen_there(struct notice_source *self)
{
    struct host *host = self->own;

    host->heard_ns = notice_clock_ns();
    self->watch->asleep = host->role == HEARS;
    self->due_ns = notice_clock_ns() + BEAT_NS;
    notice_source_listen(self, host->fd);
}

/* Which role the name gives us. SEARCHES: somebody has it, and does not answer now. ALONE: it is
 * another user's. */
static enum role take_name(const struct notice_watch *watch, int fd)
{
    struct sockaddr_un address;
    socklen_t length = name(watch, &address);

    if (!bind(fd, (struct sockaddr *)&address, length))
        return listen(fd, BACKLOG) ? ALONE : SPEAKS;
    if (errno != EADDRINUSE)
        return ALONE;
    if (connect(fd, (struct sockaddr *)&address, length))
        return errno == ECONNREFUSED || errno == EAGAIN ? SEARCHES : ALONE;
    return is_of_our_user(fd) && send_states(watch, fd) ? HEARS : ALONE;
}

static void search(struct notice_source *self)
{
    struct host *host = self->own;

    leave_role(self);
    host->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    host->role = host->fd < 0 ? ALONE : take_name(self->watch, host->fd);
    if (host->role == ALONE) {
        be_alone(self);
    } else if (host->role == SEARCHES) {
        leave_role(self); /* the one that has the name is about to listen, or not one of ours */
        self->watch->asleep = notice_clock_ns() - host->heard_ns <= SILENCE_NS;
        self->due_ns = notice_clock_ns() + AGAIN_NS;
    } else {
        listen_there(self);
    }
}

/* ---- what is heard ---- */

static struct notice_source *named(struct notice_watch *watch, const char *source)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->source[i].shared && !strcmp(watch->source[i].name, source))
            return &watch->source[i];
    return NULL;
}

static void gone(struct notice_source *source)
{
    if (source->presence != NOTICE_PRESENT)
        source->presence = NOTICE_ABSENT;
}

/* From the one that speaks: as if our own source had seen it. */
static void hear(struct notice_watch *watch, const char *packet)
{
    struct notice notice;
    bool any = notice_parse(packet, &notice);
    struct notice_source *source = named(watch, notice.source);

    if (!source)
        return;
    if (!any) {
        gone(source);
        return;
    }
    notice_source_found(source);
    if (notice.kind == NOTICE_OVER)
        notice.kind = NOTICE_NONE;
    notice_source_say(source, &notice);
}

/* From one that has just come: what stood when the one before us ended. Our next look decides. */
static void hear_rumour(struct notice_watch *watch, const char *packet)
{
    struct notice notice;
    struct notice_source *source =
        notice_parse(packet, &notice) ? named(watch, notice.source) : NULL;

    if (!source || notice.kind != NOTICE_LEAVE || source->standing)
        return;
    notice_source_found(source);
    source->standing = source->rumour = true;
    memcpy(source->told, notice.text, sizeof(source->told));
}

/* The next packet. False: none now; `*ret_over`: and none will come. */
static bool receive(int fd, char *packet, bool *ret_over)
{
    ssize_t got = recv(fd, packet, PACKET_MAX - 1, MSG_DONTWAIT);

    *ret_over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    packet[got > 0 ? got : 0] = 0;
    return got > 0;
}

static void hear_first(struct notice_source *self)
{
    struct host *host = self->own;
    char packet[PACKET_MAX];
    bool over;

    while (receive(host->fd, packet, &over)) {
        host->heard_ns = notice_clock_ns();
        self->watch->asleep = true;
        if (packet[0] != '.')
            hear(self->watch, packet);
    }
    if (over)
        search(self);
}

static void let_in(struct notice_source *self)
{
    struct host *host = self->own;
    int fd;

    while ((fd = accept4(host->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        if (host->clients == CLIENTS_MAX || !is_of_our_user(fd) || !send_states(self->watch, fd)) {
            close(fd);
            continue;
        }
        host->client[host->clients++] = fd;
        notice_source_listen(self, fd);
    }
}

static void hear_clients(struct notice_source *self)
{
    struct host *host = self->own;
    char packet[PACKET_MAX];
    bool over;

    for (uint32_t i = host->clients; i-- > 0;) {
        while (receive(host->client[i], packet, &over))
            hear_rumour(self->watch, packet);
        if (over)
            client_close(host, i);
    }
}

static void readable(struct notice_source *self)
{
    const struct host *host = self->own;

    if (host->role == HEARS) {
        hear_first(self);
    } else if (host->role == SPEAKS) {
        let_in(self);
        hear_clients(self);
    }
}

/* ---- the clock ---- */

static bool any_left(const struct notice_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->source[i].shared && watch->source[i].presence != NOTICE_ABSENT)
            return true;
    return false;
}

static void due(struct notice_source *self)
{
    struct host *host = self->own;

    if (!any_left(self->watch)) { /* in no cloud */
        be_alone(self);
        return;
    }
    self->due_ns = notice_clock_ns() + BEAT_NS;
    if (host->role == SEARCHES)
        search(self);
    else if (host->role == SPEAKS)
        send_all(host, NULL);
    else if (notice_clock_ns() - host->heard_ns > SILENCE_NS)
        self->watch->asleep = false;
}

static void host_free(struct notice_source *self)
{
    if (self->own)
        leave_role(self);
    free(self->own);
}

bool notice_host_open(struct notice_source *self)
{
    struct host *host = calloc(1, sizeof(*host));

    if (!host)
        return false;
    *host = (struct host){ .fd = -1, .heard_ns = notice_clock_ns() };
    self->own = host;
    self->due = due;
    self->readable = readable;
    self->free = host_free;
    self->presence = NOTICE_PRESENT;
    self->watch->host = self;
    search(self);
    return true;
}
