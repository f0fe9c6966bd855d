/* SPDX-License-Identifier: Apache-2.0 */
/* Control links: frames with tags in both directions, GOODBYE before every end that is not death, and one
 * link where two members dialled each other. What an end proves is told to the core, which judges. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/time.h"
#include "net/state.h"

/* How long after the last good frame a RST is still taken for the end of a process: the time a kernel may need to tear down a large
 * process, with our heartbeats unread, which makes it send RST instead of FIN. */
#define RESET_FRESH_NS (2 * SPOTNIK_S)

#define IN_BYTES 4096u
#define IN_PASS_MAX (1u << 20) /* read from one link before the others get their turn */
#define OUT_BYTES 4096u
#define SHUN_NS (200 * SPOTNIK_MS)
#define RETIRE_NS (60 * SPOTNIK_S)

/* Every link keeps room for the one frame that must always fit. */
#define GOODBYE_FRAME_BYTES (SPOTNIK_FRAME_BYTES + SPOTNIK_GOODBYE_BYTES)

static size_t out_max(const struct spotnik_engine *engine)
{
    return 4 * (size_t)spotnik_control_bytes_max(&engine->config.limits);
}

struct spotnik_link *spotnik_link_find(struct spotnik_engine *engine, struct spotnik_id peer)
{
    for (struct spotnik_link *link = engine->links; link != NULL; link = link->next)
        if (link->primary && link->socket.fd >= 0 && spotnik_id_equal(link->peer.id, peer))
            return link;
    return NULL;
}

/* Another one that is up, to take over. */
static struct spotnik_link *other_link(struct spotnik_engine *engine, const struct spotnik_link *than)
{
    for (struct spotnik_link *link = engine->links; link != NULL; link = link->next)
        if (link != than && link->state == SPOTNIK_LINK_UP && link->socket.fd >= 0
            && spotnik_id_equal(link->peer.id, than->peer.id))
            return link;
    return NULL;
}

static void close_link(struct spotnik_engine *engine, struct spotnik_link *link)
{
    link->primary = false;
    if (link->socket.fd >= 0)
        close(spotnik_socket_release(&link->socket, engine->epoll_fd));
}

/* ---- out ---- */

static void out_flush(struct spotnik_link *link)
{
    while (link->out_at < link->out_have && !link->broken && link->socket.fd >= 0) {
        ssize_t sent =
            send(link->socket.fd, link->out + link->out_at, link->out_have - link->out_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            link->socket.writable = false;
            return;
        }
        if (sent < 0 && (errno == ENOBUFS || errno == ENOMEM))
            return; /* the next pass tries again */
        if (sent < 0) {
            link->error = errno;
            link->broken = true; /* the reading side tells how it ended, after what is still readable */
            link->socket.readable = true;
            return;
        }
        link->out_at += (size_t)sent;
    }
    if (link->out_at == link->out_have)
        link->out_at = link->out_have = 0;
}

/* Room for `bytes` more at the end of the queue; NULL beyond the limit. */
static uint8_t *out_reserve(struct spotnik_link *link, size_t bytes, size_t max)
{
    if (link->out_at > 0) {
        memmove(link->out, link->out + link->out_at, link->out_have - link->out_at);
        link->out_have -= link->out_at;
        link->out_at = 0;
    }
    if (link->out_have + bytes > max)
        return NULL;
    if (link->out_have + bytes > link->out_size) {
        size_t size = 2 * (link->out_have + bytes);
        uint8_t *grown = realloc(link->out, size);
        if (grown == NULL)
            return NULL;
        link->out = grown;
        link->out_size = size;
    }
    return link->out + link->out_have;
}

/* Sign and queue the frame whose payload stands behind `at`. */
static bool out_commit(struct spotnik_link *link, uint8_t *at, enum spotnik_frame_kind kind,
                       uint32_t payload_bytes)
{
    struct spotnik_frame frame = { .kind = kind, .payload_bytes = payload_bytes };
    uint8_t input[SPOTNIK_FRAME_TAG_INPUT_BYTES], mac[SPOTNIK_AUTH_BYTES];
    spotnik_frame_tag_input(&frame, link->send_sequence, input);
    const struct spotnik_auth_part part[] = { { input, sizeof input },
                                              { at + SPOTNIK_FRAME_BYTES, payload_bytes } };
    if (!spotnik_auth_mac(&link->send_auth, part, 2, mac))
        return false;
    memcpy(frame.tag, mac, sizeof frame.tag);
    spotnik_frame_encode(&frame, at);
    link->send_sequence++;
    link->out_have += SPOTNIK_FRAME_BYTES + payload_bytes;
    return true;
}

/* Say why and go; what is queued goes out first. `deliver`: what still comes in counts. */
static void retire(struct spotnik_link *link, enum spotnik_goodbye reason, bool deliver)
{
    if (link->state == SPOTNIK_LINK_RETIRING)
        return;
    link->state = SPOTNIK_LINK_RETIRING;
    link->primary = false;
    link->deliver = deliver;
    link->deadline_ns = spotnik_time_add(spotnik_clock_ns(), RETIRE_NS);
    uint8_t *at = out_reserve(link, GOODBYE_FRAME_BYTES, SIZE_MAX);
    if (at == NULL)
        return; /* no memory: the link stays open and unused until its deadline */
    spotnik_goodbye_encode(reason, at + SPOTNIK_FRAME_BYTES);
    if (out_commit(link, at, SPOTNIK_FRAME_GOODBYE, SPOTNIK_GOODBYE_BYTES))
        out_flush(link);
}

/* Somebody does not understand the other: trying again at once would only go round in circles. */
static void shun(struct spotnik_engine *engine, struct spotnik_id peer)
{
    engine->shunned[engine->shunned_next++ % SPOTNIK_SHUNNED] =
        (struct spotnik_shunned){ .peer = peer, .until_ns = spotnik_time_add(spotnik_clock_ns(), SHUN_NS) };
}

/* The core loses this link, for a reason that is no death. */
static void drop(struct spotnik_engine *engine, struct spotnik_link *link, enum spotnik_goodbye reason)
{
    bool was_primary = link->primary;
    struct spotnik_member peer = link->peer;
    retire(link, reason, false);
    if (reason == SPOTNIK_GOODBYE_PROTOCOL)
        shun(engine, peer.id);
    if (was_primary)
        spotnik_engine_tell(engine, SPOTNIK_EVENT_LINK_DOWN, &peer, SPOTNIK_PROOF_NONE);
}

/* A cut shows in bytes of ours that nobody acknowledges, and in frames that come after a pause. */
static uint64_t cut_limit_ns(const struct spotnik_engine *engine)
{
    return engine->config.limits.silence_floor_ns / 2;
}

static void watch_for_cut(const struct spotnik_engine *engine, struct spotnik_link *link)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (link->peer.host != engine->config.credentials.self.host
        && getsockopt(link->socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_unacked > 0
        && info.tcpi_last_ack_recv * SPOTNIK_MS >= cut_limit_ns(engine))
        link->cut_ns = spotnik_clock_ns();
}

void spotnik_link_send(struct spotnik_engine *engine, const struct spotnik_member *peer,
                       const struct spotnik_message *message)
{
    struct spotnik_link *link = spotnik_link_find(engine, peer->id);
    if (link == NULL || link->broken || link->clogged)
        return; /* its end is on its way to the core */
    watch_for_cut(engine, link);
    size_t bytes = spotnik_control_size(message);
    uint8_t *at = out_reserve(link, SPOTNIK_FRAME_BYTES + bytes, out_max(engine));
    if (at != NULL && spotnik_control_encode(message, at + SPOTNIK_FRAME_BYTES, bytes) == bytes
        && out_commit(link, at, SPOTNIK_FRAME_CONTROL, (uint32_t)bytes)) {
        out_flush(link);
        return;
    }
    /* The peer has not read for a long time (or memory is gone). The loop reports it: not while actions
     * run. */
    link->clogged = true;
    link->socket.readable = true;
    spotnik_engine_kick(engine);
}

void spotnik_link_hang_up(struct spotnik_engine *engine, const struct spotnik_member *peer,
                          enum spotnik_goodbye reason)
{
    for (struct spotnik_link *link = engine->links; link != NULL; link = link->next)
        if (link->socket.fd >= 0 && spotnik_id_equal(link->peer.id, peer->id))
            retire(link, reason, false);
}

void spotnik_links_retire(struct spotnik_engine *engine, enum spotnik_goodbye reason)
{
    for (struct spotnik_link *link = engine->links; link != NULL; link = link->next)
        if (link->socket.fd >= 0)
            retire(link, reason, false);
}

/* ---- up ---- */

static int keys_set(struct spotnik_link *link, const struct spotnik_shake *shake)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    spotnik_handshake_keys(&shake->wire, send_key, receive_key);
    int rc = spotnik_auth_init(&link->send_auth, send_key);
    return rc != 0 ? rc : spotnik_auth_init(&link->receive_auth, receive_key);
}

static void free_link(struct spotnik_link *link)
{
    spotnik_auth_done(&link->send_auth);
    spotnik_auth_done(&link->receive_auth);
    free(link->in);
    free(link->out);
    link->in = link->out = NULL;
}

/* Two links to one peer. Where both dialled at once, the link dialled by the smaller id stays, and the
 * larger id retires the other one; until it has, the smaller one keeps both. Where the peer dialled anew,
 * its old link is dead. */
static void duplicates_settle(struct spotnik_engine *engine, struct spotnik_link *fresh)
{
    bool smaller = spotnik_id_compare(engine->config.credentials.self.id, fresh->peer.id) < 0;
    fresh->primary = true;
    for (struct spotnik_link *old = engine->links; old != NULL; old = old->next) {
        if (old == fresh || old->state != SPOTNIK_LINK_UP || old->socket.fd < 0
            || !spotnik_id_equal(old->peer.id, fresh->peer.id))
            continue;
        if (old->dialled == fresh->dialled) {
            retire(old, SPOTNIK_GOODBYE_DUPLICATE, true);
        } else if (smaller) {
            if (old->dialled)
                fresh->primary = false;
            else
                old->primary = false;
        } else {
            retire(old->dialled ? old : fresh, SPOTNIK_GOODBYE_DUPLICATE, true);
            old->primary = old->state == SPOTNIK_LINK_UP;
        }
    }
    if (fresh->state != SPOTNIK_LINK_UP)
        fresh->primary = false;
}

/* The shaken connection becomes a link; the core hears of it unless it has one to this peer already. */
void spotnik_link_adopt(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    struct spotnik_link *link = calloc(1, sizeof *link);
    int fd = spotnik_socket_release(&opening->socket, engine->epoll_fd);
    if (link == NULL || keys_set(link, &opening->shake) != 0 || (link->in = malloc(IN_BYTES)) == NULL
        || spotnik_socket_watch(&link->socket, engine->epoll_fd, fd, SPOTNIK_SOCKET_LINK) != 0) {
        if (link != NULL)
            free_link(link);
        free(link);
        close(fd);
        return;
    }
    link->in_size = IN_BYTES;
    link->heard_ns = spotnik_clock_ns();
    link->dialled = opening->dialled;
    link->peer = opening->shake.wire.peer;
    link->socket.readable = link->socket.writable = true;
    struct spotnik_link *before = spotnik_link_find(engine, link->peer.id);
    bool redialled = before != NULL && before->dialled == link->dialled;
    link->next = engine->links;
    engine->links = link;
    duplicates_settle(engine, link);
    if (redialled) /* what was under way on the old one may be lost */
        spotnik_engine_tell(engine, SPOTNIK_EVENT_LINK_DOWN, &link->peer, SPOTNIK_PROOF_NONE);
    if (before == NULL || redialled)
        spotnik_engine_tell(engine, SPOTNIK_EVENT_LINK_UP, &link->peer, SPOTNIK_PROOF_NONE);
}

/* ---- in ---- */

static bool tag_is_good(struct spotnik_link *link, const struct spotnik_frame *frame, const uint8_t *payload)
{
    uint8_t input[SPOTNIK_FRAME_TAG_INPUT_BYTES], mac[SPOTNIK_AUTH_BYTES];
    spotnik_frame_tag_input(frame, link->receive_sequence, input);
    const struct spotnik_auth_part part[] = { { input, sizeof input }, { payload, frame->payload_bytes } };
    return spotnik_auth_mac(&link->receive_auth, part, 2, mac)
           && spotnik_auth_equal(mac, frame->tag, SPOTNIK_FRAME_TAG_BYTES);
}

/* The link has ended; if another one to the peer is up, nothing has happened. */
static void ended(struct spotnik_engine *engine, struct spotnik_link *link, enum spotnik_proof proof)
{
    bool counts = link->state == SPOTNIK_LINK_UP;
    struct spotnik_member peer = link->peer;
    struct spotnik_link *other = other_link(engine, link);
    close_link(engine, link);
    if (other != NULL)
        other->primary = true;
    else if (counts)
        spotnik_engine_tell(engine, SPOTNIK_EVENT_LINK_DOWN, &peer, proof);
}

/* The peer speaks on this one: so does it read it. */
static void prefer(struct spotnik_engine *engine, struct spotnik_link *link)
{
    if (link->primary || link->state != SPOTNIK_LINK_UP)
        return;
    struct spotnik_link *before = spotnik_link_find(engine, link->peer.id);
    if (before != NULL)
        before->primary = false;
    link->primary = true;
}

static bool frame_take(struct spotnik_engine *engine, struct spotnik_link *link,
                       const struct spotnik_frame *frame, const uint8_t *payload)
{
    enum spotnik_goodbye reason;
    if (!tag_is_good(link, frame, payload))
        return false;
    link->receive_sequence++;
    link->heard = true;
    uint64_t now_ns = spotnik_clock_ns();
    if (spotnik_time_since(now_ns, link->heard_ns) >= cut_limit_ns(engine))
        link->cut_ns = now_ns;
    link->heard_ns = now_ns;
    if (frame->kind == SPOTNIK_FRAME_GOODBYE) {
        if (frame->payload_bytes != SPOTNIK_GOODBYE_BYTES || spotnik_goodbye_decode(payload, &reason) != 0)
            return false;
        out_flush(link);
        if (reason == SPOTNIK_GOODBYE_PROTOCOL || reason == SPOTNIK_GOODBYE_VERSION)
            shun(engine, link->peer.id);
        ended(engine, link, SPOTNIK_PROOF_NONE);
        return true;
    }
    prefer(engine, link);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_MESSAGE, .peer = link->peer };
    struct spotnik_message message;
    if (frame->kind != SPOTNIK_FRAME_CONTROL
        || spotnik_control_decode(payload, frame->payload_bytes, engine->storage, &message) != 0)
        return false;
    event.message = &message;
    bool linked = spotnik_link_find(engine, link->peer.id) != NULL;
    if (linked && (link->state == SPOTNIK_LINK_UP || link->deliver))
        spotnik_engine_drive(engine, &event);
    return true;
}

static bool in_grow(struct spotnik_link *link, size_t bytes)
{
    if (bytes <= link->in_size)
        return true;
    uint8_t *grown = realloc(link->in, bytes);
    if (grown == NULL)
        return false;
    link->in = grown;
    link->in_size = bytes;
    return true;
}

/* All whole frames in the buffer. False: the peer breaks the protocol. */
static bool in_parse(struct spotnik_engine *engine, struct spotnik_link *link)
{
    size_t at = 0;
    bool good = true;
    while (good && link->socket.fd >= 0 && link->in_have - at >= SPOTNIK_FRAME_BYTES) {
        struct spotnik_frame frame;
        if (spotnik_frame_decode(link->in + at, &engine->config.limits, &frame) != 0)
            return false;
        size_t whole = SPOTNIK_FRAME_BYTES + (size_t)frame.payload_bytes;
        if (frame.kind == SPOTNIK_FRAME_DATA || !in_grow(link, whole))
            return false;
        if (link->in_have - at < whole)
            break;
        good = frame_take(engine, link, &frame, link->in + at + SPOTNIK_FRAME_BYTES);
        at += whole;
    }
    memmove(link->in, link->in + at, link->in_have - at);
    link->in_have -= at;
    return good;
}

/* A kernel also answers with RST in the name of a process that ended while the network was cut, and then drops what that process
 * had still to say (FENCED). So RST counts only where no cut long enough to be excluded in can have come before: within one host,
 * or when the other kernel acknowledged our heartbeats a moment ago. After a cut it acknowledges again before all that the dead had
 * to say is through, and a RST then drops the rest: until a cut is long past, that is no sign either. */
static bool reset_is_credible(const struct spotnik_engine *engine, const struct spotnik_link *link)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (link->peer.host == engine->config.credentials.self.host)
        return true;
    if (link->cut_ns != 0 && spotnik_time_since(spotnik_clock_ns(), link->cut_ns) < RESET_FRESH_NS)
        return false;
    return getsockopt(link->socket.fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0
           && info.tcpi_last_ack_recv * SPOTNIK_MS < cut_limit_ns(engine);
}

/* A bare end proves a death, except before the peer can have known of the link, and when the network gave up. FIN comes in sequence:
 * after it nothing the dead had said is missing. An error is reported once: if writing met it, reading finds what looks like EOF.
 * EPIPE is a RST after FIN. */
static enum spotnik_proof end_proof(const struct spotnik_engine *engine, const struct spotnik_link *link,
                                    int error)
{
    bool known = link->heard || !link->dialled;
    bool fresh = spotnik_time_since(spotnik_clock_ns(), link->heard_ns) < RESET_FRESH_NS;
    if (error == 0 && link->broken)
        error = link->error;
    bool end =
        error == 0 || error == EPIPE || (error == ECONNRESET && fresh && reset_is_credible(engine, link));
    return known && end ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE;
}

/* One read. True: there may be more. */
static bool read_some(struct spotnik_engine *engine, struct spotnik_link *link, size_t *pass)
{
    ssize_t got = recv(link->socket.fd, link->in + link->in_have, link->in_size - link->in_have, 0);
    int error = errno;
    if (got < 0 && error == EINTR)
        return true;
    if (got < 0 && (error == EAGAIN || error == EWOULDBLOCK)) {
        link->socket.readable = false;
        if ((link->broken || link->clogged) && link->state == SPOTNIK_LINK_UP)
            drop(engine, link, SPOTNIK_GOODBYE_SHUTDOWN); /* alive, but it takes nothing */
        return false;
    }
    if (got <= 0) {
        ended(engine, link, end_proof(engine, link, got < 0 ? error : 0));
        return false;
    }
    if ((size_t)got < link->in_size - link->in_have && !link->broken && !link->clogged)
        spotnik_socket_drained(&link->socket);
    link->in_have += (size_t)got;
    *pass += (size_t)got;
    if (!in_parse(engine, link)) {
        if (link->state == SPOTNIK_LINK_UP)
            drop(engine, link, SPOTNIK_GOODBYE_PROTOCOL);
        link->in_have = 0;
        link->deliver = false;
        return false;
    }
    return link->socket.fd >= 0 && *pass < IN_PASS_MAX;
}

/* After a breach of protocol the rest is read and forgotten until the peer closes. */
static void read_and_forget(struct spotnik_engine *engine, struct spotnik_link *link)
{
    ssize_t got = recv(link->socket.fd, link->in, link->in_size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        link->socket.readable = false;
    else if (got == 0 || (got < 0 && errno != EINTR))
        close_link(engine, link);
}

/* Read all readable links. True: some has still more to give. */
bool spotnik_links_read(struct spotnik_engine *engine)
{
    bool more = false;
    /* New links are put at the front: never missed, for they come in by the openings only. */
    for (struct spotnik_link *link = engine->links; link != NULL; link = link->next) {
        size_t pass = 0;
        if (link->socket.fd < 0 || !link->socket.readable)
            continue;
        if (link->state == SPOTNIK_LINK_RETIRING && !link->deliver)
            read_and_forget(engine, link);
        else
            while (link->socket.readable && read_some(engine, link, &pass))
                ;
        more |= link->socket.fd >= 0 && link->socket.readable;
    }
    return more;
}

static void flush_one(struct spotnik_engine *engine, struct spotnik_link *link, uint64_t now_ns)
{
    if (link->socket.writable && link->out_have > link->out_at)
        out_flush(link);
    if (link->state != SPOTNIK_LINK_RETIRING || link->socket.fd < 0)
        return;
    if (link->out_at == link->out_have && !link->shut && !link->broken) {
        shutdown(link->socket.fd, SHUT_WR);
        link->shut = true;
    }
    if (now_ns >= link->deadline_ns && (link->shut || link->broken))
        close_link(engine, link);
}

/* Write what is queued, and take away what has ended. */
void spotnik_links_flush(struct spotnik_engine *engine, uint64_t now_ns)
{
    struct spotnik_link **at = &engine->links;
    while (*at != NULL) {
        struct spotnik_link *link = *at;
        flush_one(engine, link, now_ns);
        if (link->socket.fd >= 0) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free_link(link);
        spotnik_engine_bury(engine, &link->socket);
    }
}

bool spotnik_links_are_flushed(const struct spotnik_engine *engine)
{
    for (const struct spotnik_link *link = engine->links; link != NULL; link = link->next)
        if (link->socket.fd >= 0 && !link->broken && link->out_at < link->out_have)
            return false;
    return true;
}

void spotnik_links_close(struct spotnik_engine *engine)
{
    for (struct spotnik_link *link = engine->links; link != NULL; link = link->next)
        close_link(engine, link);
    spotnik_links_flush(engine, 0);
}
