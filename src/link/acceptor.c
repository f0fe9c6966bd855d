/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on unauthenticated peers: connections of which we know only the origin. Any process can
 * make thousands a second. So we take them in small turns, accept without the lock, and let no
 * crowd take the place of others:
 *
 *   - one origin (an address, a network of IPv6, a user of this host) has SPOTNIK_DOOR_OF_ORIGIN
 *     places
 *   - all origins together have SPOTNIK_DOOR_PLACES; those of members of the view, and our own
 *     user, are not counted among them
 *   - where there is no place, one that has not said a word goes: an honest caller says HELLO, or
 *     begins TLS, as soon as it is connected
 *   - one that has said that stands for SPOKEN_NS undisturbed, whatever comes: enough for round
 *     trips of a second */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/time.h"
#include "link/address.h"
#include "link/inside.h"

#define ACCEPT_AGAIN_NS (100 * SPOTNIK_MS)
#define SPOKEN_NS (2 * SPOTNIK_S)

/* ---- where from ---- */

/* A provider gives a customer a /64 or more. */
static void network_of(const uint8_t address[16], struct spotnik_origin *ret)
{
    memcpy(ret->bytes, address, 16);
    if (!spotnik_address_is_ipv4(address))
        memset(ret->bytes + 8, 0, 8);
}

static struct spotnik_origin origin_of_user(uid_t user)
{
    struct spotnik_origin origin = { .bytes = "a user" };
    memcpy(origin.bytes + 8, &user, sizeof user);
    return origin;
}

static struct spotnik_origin origin_of(int fd, const struct sockaddr_storage *name)
{
    struct spotnik_origin origin = { .bytes = { 0 } };
    if (name->ss_family == AF_INET || name->ss_family == AF_INET6) {
        uint8_t address[16];
        uint16_t port;
        spotnik_address_from_kernel(name, address, &port);
        network_of(address, &origin);
        return origin;
    }
    struct ucred user = { .uid = (uid_t)-1 };
    socklen_t size = sizeof user;
    (void)!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &user, &size);
    return origin_of_user(user.uid);
}

static bool is_same(const struct spotnik_origin *one, const struct spotnik_origin *other)
{
    return memcmp(one->bytes, other->bytes, sizeof one->bytes) == 0;
}

/* Places are kept for it, whatever crowd is at the acceptor. */
static bool is_kept(const struct spotnik_view *view, const struct spotnik_origin *origin)
{
    struct spotnik_origin known = origin_of_user(geteuid());
    bool kept = is_same(origin, &known);
    for (uint32_t rank = 0; rank < view->size && !kept; rank++) {
        network_of(view->entry[rank].member.address, &known);
        kept = is_same(origin, &known);
    }
    return kept;
}

/* ---- a place ---- */

struct crowd {
    uint32_t count;
    struct spotnik_pending *oldest, *silent; /* silent: the oldest that has not said a word */
};

/* Neither HELLO nor what TLS says before it. */
static bool is_silent(const struct spotnik_shake *shake)
{
    return shake->state == SPOTNIK_SHAKE_READ_HELLO && shake->tls != SPOTNIK_SHAKE_TLS_BEGUN
           && shake->tls != SPOTNIK_SHAKE_TLS_DONE;
}

static void crowd_count(struct crowd *crowd, struct spotnik_pending *pending)
{
    crowd->count++;
    crowd->oldest = pending; /* the list is youngest first */
    if (is_silent(&pending->shake))
        crowd->silent = pending;
}

/* Does it stand at the acceptor, unknown? */
static bool is_outside(const struct spotnik_pending *pending)
{
    return !pending->dialled && pending->socket.fd >= 0 && !pending->wants_hook
           && pending->reply == NULL;
}

static bool make_room(struct spotnik_links *links, const struct crowd *crowd, uint32_t places)
{
    if (crowd->count < places)
        return true;
    uint64_t age_ns =
        spotnik_time_since(spotnik_clock_ns() + SPOTNIK_OPENING_NS, crowd->oldest->deadline_ns);
    struct spotnik_pending *victim = crowd->silent != NULL ? crowd->silent
                                     : age_ns >= SPOKEN_NS ? crowd->oldest
                                                           : NULL;
    if (victim != NULL)
        spotnik_pending_close(links, victim);
    return victim != NULL;
}

static bool has_place(struct spotnik_links *links, const struct spotnik_origin *origin, bool kept)
{
    struct crowd same = { 0 }, strangers = { 0 };
    for (struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next) {
        if (!is_outside(pending))
            continue;
        if (is_same(&pending->origin, origin))
            crowd_count(&same, pending);
        if (!pending->kept)
            crowd_count(&strangers, pending);
    }
    if (same.count >= SPOTNIK_DOOR_OF_ORIGIN)
        return make_room(links, &same, SPOTNIK_DOOR_OF_ORIGIN);
    return kept || make_room(links, &strangers, SPOTNIK_DOOR_PLACES);
}

static void admit(struct spotnik_links *links, const struct spotnik_view *view,
                  const struct spotnik_accepted *accepted)
{
    bool kept = is_kept(view, &accepted->origin);
    struct spotnik_pending *pending = NULL;
    if (has_place(links, &accepted->origin, kept))
        pending = spotnik_pending_admit(links, accepted->fd);
    if (pending == NULL) {
        close(accepted->fd);
        return;
    }
    pending->origin = accepted->origin;
    pending->kept = kept;
}

/* ---- turns ---- */

/* True: another one may be waiting. */
static bool accept_one(int listener, struct spotnik_accepted *ret)
{
    struct sockaddr_storage name;
    socklen_t size;
    do {
        name.ss_family = AF_UNIX;
        size = sizeof name;
        ret->fd = accept4(listener, (struct sockaddr *)&name, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    } while (ret->fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (ret->fd >= 0)
        ret->origin = origin_of(ret->fd, &name);
    return ret->fd >= 0;
}

int spotnik_acceptor_listen(struct spotnik_links *links, const uint8_t address[16], uint16_t *port)
{
    int fd, rc = spotnik_socket_listen(address, port, &fd);
    if (rc != 0)
        return rc;
    links->listener.fd = fd;
    return spotnik_socket_watch(&links->listener, links->loop->epoll_fd, fd,
                                SPOTNIK_SOCKET_LISTENER);
}

struct spotnik_socket *spotnik_acceptor_socket(struct spotnik_links *links)
{
    return &links->listener;
}

bool spotnik_acceptor_is_due(const struct spotnik_links *links)
{
    return links->listener.readable || links->accept_ns <= spotnik_clock_ns();
}

void spotnik_acceptor_collect(struct spotnik_links *links)
{
    links->accept_ns = SPOTNIK_NEVER;
    while (links->accepted_list < SPOTNIK_DOOR_TURN) {
        if (!accept_one(links->listener.fd, &links->accepted[links->accepted_list])) {
            links->listener.readable = false;
            if (!spotnik_descriptor_waits(errno)) /* no descriptor, no memory: in the backlog */
                links->accept_ns = spotnik_time_add(spotnik_clock_ns(), ACCEPT_AGAIN_NS);
            return;
        }
        links->accepted_list++;
    }
}

void spotnik_acceptor_open(struct spotnik_links *links, const struct spotnik_view *view)
{
    for (uint32_t i = 0; i < links->accepted_list; i++)
        admit(links, view, &links->accepted[i]);
    links->accepted_list = 0;
}

void spotnik_acceptor_turn(struct spotnik_links *links, const struct spotnik_view *view,
                           struct spotnik_socket *listener)
{
    struct spotnik_accepted accepted;
    for (int i = 0; i < SPOTNIK_DOOR_TURN; i++) {
        if (!accept_one(listener->fd, &accepted)) {
            spotnik_descriptor_check(errno);
            listener->readable = false;
            return;
        }
        admit(links, view, &accepted);
    }
    links->accept_ns = 0; /* once more, after all else */
}
