/* SPDX-License-Identifier: Apache-2.0 */
/* One thread for each direction of a connection, which reads a message, does what is to be done to
 * it, and hands it over. */
#include "between.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/address.h"
#include "link/credentials.h"
#include "link/socket.h"
#include "wire/handshake.h"
#include "wire/p2p_frame.h"

enum { TARGETS = 128, MESSAGE_MAX = 8 << 20, PREAMBLE = SPOTNIK_HANDSHAKE_PREAMBLE_BYTES };

static struct target {
    uint8_t address[16];
    uint16_t port, via; /* where it listens; where we do in its place */
    int listener;
} target[TARGETS];
static int targets;
static struct between_attack wanted;
static bool armed;
static uint8_t secret[BETWEEN_SECRETS][BETWEEN_SECRET_BYTES];
static uint64_t seen[BETWEEN_SECRETS];
static int secrets;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct way {
    int from, to;
    bool server; /* from the side that was dialled */
};

int __real_spotnik_socket_connect(const uint8_t address[16], uint16_t port, int segment_bytes,
                                  int *ret_fd);
int __wrap_spotnik_socket_connect(const uint8_t address[16], uint16_t port, int segment_bytes,
                                  int *ret_fd);

/* ---- what is done ---- */

void between_attack(const struct between_attack *attack)
{
    pthread_mutex_lock(&lock);
    wanted = *attack;
    armed = true;
    pthread_mutex_unlock(&lock);
}

bool between_is_done(void)
{
    pthread_mutex_lock(&lock);
    bool done = !armed;
    pthread_mutex_unlock(&lock);
    return done;
}

static bool fits(uint8_t purpose, uint8_t kind, size_t size)
{
    size_t needed = wanted.at < 0 ? (size_t)-wanted.at : (size_t)wanted.at + 1;
    return armed
           && (purpose == SPOTNIK_PURPOSE_BACK ? SPOTNIK_PURPOSE_CONTROL : purpose)
                  == wanted.purpose
           && (wanted.kind == 0 || wanted.kind == kind) && size >= needed;
}

void between_look_for(int which, const void *bytes)
{
    pthread_mutex_lock(&lock);
    memcpy(secret[which], bytes, BETWEEN_SECRET_BYTES);
    secrets = which + 1;
    pthread_mutex_unlock(&lock);
}

uint64_t between_seen(int which)
{
    pthread_mutex_lock(&lock);
    uint64_t times = seen[which];
    pthread_mutex_unlock(&lock);
    return times;
}

static void look(const uint8_t *bytes, size_t size)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < secrets; i++)
        seen[i] += memmem(bytes, size, secret[i], BETWEEN_SECRET_BYTES) != NULL;
    pthread_mutex_unlock(&lock);
}

static bool say(const struct way *way, const uint8_t *bytes, size_t size)
{
    look(bytes, size);
    while (size > 0) {
        ssize_t sent = send(way->to, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool hand_over(const struct way *way, uint8_t purpose, uint8_t kind, uint8_t *bytes,
                      size_t size)
{
    pthread_mutex_lock(&lock);
    struct between_attack attack = wanted;
    bool strikes = fits(purpose, kind, size);
    armed &= !strikes;
    pthread_mutex_unlock(&lock);
    if (!strikes)
        return say(way, bytes, size);
    if (attack.deed == BETWEEN_FLIP)
        bytes[attack.at < 0 ? size - (size_t)-attack.at : (size_t)attack.at] ^= 1;
    if (attack.deed == BETWEEN_REPEAT && !say(way, bytes, size))
        return false;
    if (attack.deed == BETWEEN_FORGE) { /* the same, with another end */
        bytes[size - 1] ^= 0xff;
        if (!say(way, bytes, size))
            return false;
        bytes[size - 1] ^= 0xff;
    }
    return attack.deed == BETWEEN_DROP || say(way, bytes, size);
}

/* ---- messages ---- */

static bool hear(const struct way *way, uint8_t *bytes, size_t size)
{
    return size == 0 || recv(way->from, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

static uint64_t number(const uint8_t *bytes, int size)
{
    uint64_t value = 0;
    while (size-- > 0)
        value = value << 8 | bytes[size];
    return value;
}

/* Bytes of the head of a message, and of what follows it. 0: it has no end that we know. */
static size_t head_bytes(uint8_t purpose)
{
    switch (purpose) {
    case SPOTNIK_PURPOSE_CONTROL:
    case SPOTNIK_PURPOSE_BACK:
    case SPOTNIK_PURPOSE_DATA:
    case SPOTNIK_PURPOSE_ADD_CONNECTION:
        return 24;
    case SPOTNIK_PURPOSE_STATE:
        return 21;
    case BETWEEN_TLS:
        return 5;
    case SPOTNIK_PURPOSE_EXCHANGE:
        return SPOTNIK_P2P_HEAD_BYTES + 16;
    default:
        return 0;
    }
}

static size_t body_bytes(uint8_t purpose, const uint8_t *head)
{
    if (purpose == SPOTNIK_PURPOSE_STATE)
        return number(head, 4);
    if (purpose == BETWEEN_TLS)
        return (size_t)head[3] << 8 | head[4];
    if (purpose == SPOTNIK_PURPOSE_EXCHANGE)
        return spotnik_p2p_has_payload(head[0]) ? number(head + 40, 8) + 16 : 0;
    return number(head + 4, 4);
}

static uint8_t kind_of(uint8_t purpose, const uint8_t *head)
{
    return head[purpose == SPOTNIK_PURPOSE_STATE                                ? 4
                : purpose == SPOTNIK_PURPOSE_EXCHANGE || purpose == BETWEEN_TLS ? 0
                                                                                : 2];
}

static bool message_pass(const struct way *way, uint8_t purpose, uint8_t *bytes)
{
    size_t head = head_bytes(purpose);
    if (!hear(way, bytes, head))
        return false;
    size_t body = body_bytes(purpose, bytes);
    if (head + body > MESSAGE_MAX || !hear(way, bytes + head, body))
        return false;
    return hand_over(way, purpose, kind_of(purpose, bytes), bytes, head + body);
}

static bool stream_pass(const struct way *way, uint8_t *bytes)
{
    ssize_t got = recv(way->from, bytes, MESSAGE_MAX, 0);
    return got > 0 && say(way, bytes, (size_t)got);
}

/* 0: it ends here. */
static uint8_t handshake_pass(const struct way *way, uint8_t *bytes)
{
    uint8_t purpose = 0;
    if (recv(way->from, bytes, 1, MSG_PEEK) == 1 && bytes[0] == 0x16)
        return BETWEEN_TLS;
    for (int left = way->server ? 1 : 2; left > 0; left--) {
        if (!hear(way, bytes, PREAMBLE))
            return 0;
        size_t size = number(bytes + 12, 4);
        if (size < PREAMBLE || size > MESSAGE_MAX || !hear(way, bytes + PREAMBLE, size - PREAMBLE)
            || !say(way, bytes, size))
            return 0;
        purpose = purpose == 0 ? bytes[11] : purpose;
    }
    return purpose;
}

static void *way_main(void *context)
{
    struct way way = *(struct way *)context;
    uint8_t *bytes = malloc(MESSAGE_MAX);
    uint8_t purpose = handshake_pass(&way, bytes);
    free(context);
    while (purpose != 0
           && (head_bytes(purpose) > 0 ? message_pass(&way, purpose, bytes)
                                       : stream_pass(&way, bytes)))
        continue;
    shutdown(way.from, SHUT_RD);
    shutdown(way.to, SHUT_WR);
    close(way.from);
    close(way.to);
    free(bytes);
    return NULL;
}

static void way_start(int from, int to, bool server)
{
    struct way *way = malloc(sizeof *way);
    pthread_t thread;
    *way = (struct way){ dup(from), dup(to), server };
    if (pthread_create(&thread, NULL, way_main, way) != 0)
        abort();
    pthread_detach(thread);
}

/* ---- connections ---- */

static void *target_main(void *context)
{
    const struct target *of = context;
    struct sockaddr_storage name;
    socklen_t size = spotnik_address_to_kernel(&name, of->address, of->port);
    int fd;
    while ((fd = accept4(of->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int there = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(there, (struct sockaddr *)&name, size) == 0) {
            way_start(fd, there, false);
            way_start(there, fd, true);
        }
        close(there);
        close(fd);
    }
    return NULL;
}

static uint16_t via_of(const uint8_t address[16], uint16_t port)
{
    pthread_t thread;
    for (int i = 0; i < targets; i++)
        if (target[i].port == port)
            return target[i].via;
    if (targets == TARGETS)
        abort();
    struct target *of = &target[targets];
    memcpy(of->address, address, sizeof of->address);
    of->port = port;
    if (spotnik_socket_listen(address, &of->via, &of->listener) != 0
        || fcntl(of->listener, F_SETFL, 0) != 0
        || pthread_create(&thread, NULL, target_main, of) != 0)
        abort();
    pthread_detach(thread);
    targets++;
    return of->via;
}

/* The linker puts this in its place. */
int __wrap_spotnik_socket_connect(const uint8_t address[16], uint16_t port, int segment_bytes,
                                  int *ret_fd)
{
    pthread_mutex_lock(&lock);
    uint16_t via = via_of(address, port);
    pthread_mutex_unlock(&lock);
    return __real_spotnik_socket_connect(address, via, segment_bytes, ret_fd);
}
