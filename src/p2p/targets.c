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
#include "p2p/inside.h"
#include "link/socket.h"

#define KEPT_MAX 64
#define KEPT_OF_ONE 2 /* a member is spoken to by several threads, but seldom at once */

static struct spotnik_runtime *runtime_of(struct spotnik_p2p *p2p)
{
    pthread_mutex_lock(&p2p->lock);
    struct spotnik_runtime *runtime = p2p->runtime;
    pthread_mutex_unlock(&p2p->lock);
    return runtime;
}

uint32_t spotnik_discovery_view(struct spotnik_p2p *p2p, struct spotnik_member *ret,
                                uint64_t *ret_epoch)
{
    struct spotnik_runtime *runtime = runtime_of(p2p);

    *ret_epoch = 0;
    return runtime ? spotnik_runtime_members(runtime, ret, SPOTNIK_P2P_MEMBERS_MAX, ret_epoch) : 0;
}

struct spotnik_id spotnik_discovery_self(struct spotnik_p2p *p2p)
{
    return spotnik_runtime_id(runtime_of(p2p));
}

uint64_t spotnik_discovery_epoch(struct spotnik_p2p *p2p)
{
    uint64_t epoch;

    (void)spotnik_runtime_members(runtime_of(p2p), NULL, 0, &epoch);
    return epoch;
}

/* Without a runtime, no member is known to be out of view. */
bool spotnik_peer_is_in_view(struct spotnik_p2p *p2p, struct spotnik_id peer)
{
    struct spotnik_member member[SPOTNIK_P2P_MEMBERS_MAX];
    uint64_t epoch;
    uint32_t size = spotnik_discovery_view(p2p, member, &epoch);

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

/* False: no member is left. */
bool spotnik_peer_choose(struct spotnik_request *request)
{
    struct spotnik_member member[SPOTNIK_P2P_MEMBERS_MAX];
    uint64_t epoch;
    uint32_t size = spotnik_discovery_view(request->p2p, member, &epoch);

    for (uint32_t rank = 0; rank < size; rank++)
        if (spotnik_id_equal(member[rank].id, request->self))
            request->host = member[rank].host;
    for (uint32_t i = 0; i < size && request->arrival.tried < SPOTNIK_P2P_MEMBERS_MAX; i++) {
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

bool spotnik_peer_kept(struct spotnik_p2p *p2p, struct spotnik_id peer, struct spotnik_duplex *ret)
{
    struct spotnik_kept *found = NULL;

    pthread_mutex_lock(&p2p->lock);
    for (struct spotnik_kept **at = &p2p->kept; *at; at = &(*at)->next) {
        if (!spotnik_id_equal((*at)->peer, peer))
            continue;
        found = *at;
        *at = found->next;
        break;
    }
    pthread_mutex_unlock(&p2p->lock);
    *ret = found ? found->duplex : spotnik_duplex_bare(-1);
    free(found);
    if (ret->fd >= 0 && !is_alive(ret->fd))
        spotnik_duplex_close(ret);
    return ret->fd >= 0;
}

/* Members come and go: connections whose other end has gone are closed. Under the lock. */
void spotnik_kept_prune(struct spotnik_p2p *p2p)
{
    uint32_t count = 0;

    for (struct spotnik_kept **at = &p2p->kept; *at;) {
        struct spotnik_kept *one = *at;
        if (++count < KEPT_MAX && is_alive(one->duplex.fd)) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        spotnik_duplex_close(&one->duplex);
        free(one);
    }
}

int spotnik_peer_dial(struct spotnik_p2p *p2p, const struct spotnik_member *peer, int stop_fd,
                      struct spotnik_duplex *ret)
{
    pthread_mutex_lock(&p2p->lock);
    spotnik_kept_prune(p2p);
    pthread_mutex_unlock(&p2p->lock);
    return spotnik_runtime_dial(runtime_of(p2p), peer, p2p->silence_ns, stop_fd, ret);
}

void spotnik_peer_keep(struct spotnik_p2p *p2p, struct spotnik_id peer,
                       struct spotnik_duplex *duplex)
{
    struct spotnik_kept *kept = malloc(sizeof *kept);
    uint32_t count = 0;

    pthread_mutex_lock(&p2p->lock);
    for (const struct spotnik_kept *one = p2p->kept; one; one = one->next)
        count += spotnik_id_equal(one->peer, peer);
    if (kept && count < KEPT_OF_ONE) {
        *kept = (struct spotnik_kept){ .next = p2p->kept, .peer = peer, .duplex = *duplex };
        p2p->kept = kept;
    } else {
        free(kept);
        spotnik_duplex_close(duplex);
    }
    pthread_mutex_unlock(&p2p->lock);
}

/* Under the lock, or when no other thread is left. */
void spotnik_kept_close(struct spotnik_p2p *p2p)
{
    while (p2p->kept) {
        struct spotnik_kept *kept = p2p->kept;
        p2p->kept = kept->next;
        spotnik_duplex_close(&kept->duplex);
        free(kept);
    }
}
