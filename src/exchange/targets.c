/* SPDX-License-Identifier: Apache-2.0 */
/* The members that a request turns to, in order of rank from the named one, each once. Connections
 * between two requests, which are kept because opening one costs several ways there and back. */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/time.h"
#include "exchange/inside.h"
#include "link/socket.h"

#define KEPT_MAX 64
#define KEPT_OF_ONE 2 /* a member is spoken to by several threads, but seldom at once */

static struct spotnik_engine *engine_of(struct spotnik_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    struct spotnik_engine *engine = exchange->engine;
    pthread_mutex_unlock(&exchange->lock);
    return engine;
}

uint32_t spotnik_peers_view(struct spotnik_exchange *exchange, struct spotnik_member *ret,
                            uint64_t *ret_epoch)
{
    struct spotnik_engine *engine = engine_of(exchange);

    *ret_epoch = 0;
    return engine ? spotnik_engine_members(engine, ret, SPOTNIK_EXCHANGE_MEMBERS_MAX, ret_epoch)
                  : 0;
}

struct spotnik_id spotnik_peers_self(struct spotnik_exchange *exchange)
{
    return spotnik_engine_id(engine_of(exchange));
}

uint64_t spotnik_peers_epoch(struct spotnik_exchange *exchange)
{
    uint64_t epoch;

    (void)spotnik_engine_members(engine_of(exchange), NULL, 0, &epoch);
    return epoch;
}

/* Before there is an engine nobody is known to be out of view. */
bool spotnik_peer_is_in_view(struct spotnik_exchange *exchange, struct spotnik_id peer)
{
    struct spotnik_member member[SPOTNIK_EXCHANGE_MEMBERS_MAX];
    uint64_t epoch;
    uint32_t size = spotnik_peers_view(exchange, member, &epoch);

    for (uint32_t i = 0; i < size; i++)
        if (spotnik_id_equal(member[i].id, peer))
            return true;
    return size == 0;
}

static bool was_asked(const struct spotnik_request *request, struct spotnik_id peer)
{
    for (uint64_t i = 0; i < request->arrival.tried; i++)
        if (spotnik_id_equal(request->asked[i], peer))
            return true;
    return false;
}

/* False: there is nobody left. */
bool spotnik_peer_choose(struct spotnik_request *request)
{
    struct spotnik_member member[SPOTNIK_EXCHANGE_MEMBERS_MAX];
    uint64_t epoch;
    uint32_t size = spotnik_peers_view(request->exchange, member, &epoch);

    for (uint32_t rank = 0; rank < size; rank++)
        if (spotnik_id_equal(member[rank].id, request->self))
            request->host = member[rank].host;
    for (uint32_t i = 0; i < size && request->arrival.tried < SPOTNIK_EXCHANGE_MEMBERS_MAX; i++) {
        uint32_t rank = (uint32_t)(((uint64_t)request->rank + i) % size);
        if (spotnik_id_equal(member[rank].id, request->self) || was_asked(request, member[rank].id))
            continue;
        request->peer = member[rank];
        request->arrival.rank = rank;
        request->asked[request->arrival.tried++] = member[rank].id;
        return true;
    }
    return false;
}

/* ---- connections ---- */

/* Nothing is due on it: what can be read is its end. */
static bool is_alive(int fd)
{
    uint8_t byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0
           && (errno == EAGAIN || errno == EWOULDBLOCK);
}

/* -1: there is none. */
int spotnik_peer_kept(struct spotnik_exchange *exchange, struct spotnik_id peer)
{
    struct spotnik_kept *found = NULL;

    pthread_mutex_lock(&exchange->lock);
    for (struct spotnik_kept **at = &exchange->kept; *at; at = &(*at)->next) {
        if (!spotnik_id_equal((*at)->peer, peer))
            continue;
        found = *at;
        *at = found->next;
        break;
    }
    pthread_mutex_unlock(&exchange->lock);
    int fd = found ? found->fd : -1;
    free(found);
    if (fd >= 0 && !is_alive(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Members come and go: connections whose other end has gone are closed. Under the lock. */
void spotnik_kept_prune(struct spotnik_exchange *exchange)
{
    uint32_t count = 0;

    for (struct spotnik_kept **at = &exchange->kept; *at;) {
        struct spotnik_kept *one = *at;
        if (++count < KEPT_MAX && is_alive(one->fd)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        close(one->fd);
        free(one);
    }
}

int spotnik_peer_dial(struct spotnik_exchange *exchange, const struct spotnik_member *peer,
                      int stop_fd, int *ret_fd)
{
    pthread_mutex_lock(&exchange->lock);
    spotnik_kept_prune(exchange);
    pthread_mutex_unlock(&exchange->lock);
    return spotnik_engine_dial(engine_of(exchange), peer, exchange->silence_ns, stop_fd, ret_fd);
}

void spotnik_peer_keep(struct spotnik_exchange *exchange, struct spotnik_id peer, int fd)
{
    struct spotnik_kept *kept = malloc(sizeof *kept);
    uint32_t count = 0;

    pthread_mutex_lock(&exchange->lock);
    for (const struct spotnik_kept *one = exchange->kept; one; one = one->next)
        count += spotnik_id_equal(one->peer, peer);
    if (kept && count < KEPT_OF_ONE) {
        *kept = (struct spotnik_kept){ .next = exchange->kept, .peer = peer, .fd = fd };
        exchange->kept = kept;
    } else {
        free(kept);
        close(fd);
    }
    pthread_mutex_unlock(&exchange->lock);
}

/* Under the lock, or when nobody else is left. */
void spotnik_kept_close(struct spotnik_exchange *exchange)
{
    while (exchange->kept) {
        struct spotnik_kept *kept = exchange->kept;
        exchange->kept = kept->next;
        close(kept->fd);
        free(kept);
    }
}
