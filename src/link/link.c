/* SPDX-License-Identifier: Apache-2.0 */
/* Control links. A link is two connections, each for one direction: a tx connection that we dialled
 * and an rx connection that the peer dialled. The side that wants a link dials first; the other one
 * dials back, naming the connection it answers; then the first one speaks. Decides when a link is
 * up, which one stays where two members dialled each other at once, and what its end proves
 * (docs/design/0004-proof-of-death.md). One rule carries that proof. The core has this link for as
 * long as our tx connection is open, and the last word on a tx connection that we close alive is
 * GOODBYE. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "link/inside.h"

#define PASS_MAX (1u << 20) /* read from one link before the others get their turn */
#define RETIRE_NS (60 * SPOTNIK_S)
#define SHUN_NS (200 * SPOTNIK_MS)
/* How much later the rx connection may end than the tx connection. After a cut the kernel of a dead
 * peer answers what we send with RST, long before it has repeated the last words of the dead. */
#define LAST_WORDS_NS (3 * SPOTNIK_S)

static size_t queue_max(const struct spotnik_links *links)
{
    return 4 * (size_t)spotnik_control_bytes_max(links->limits);
}

struct spotnik_link *spotnik_link_find(const struct spotnik_links *links, struct spotnik_id peer)
{
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (link->state == SPOTNIK_LINK_UP && spotnik_id_equal(link->peer.id, peer))
            return link;
    return NULL;
}

bool spotnik_link_is_up(const struct spotnik_links *links, struct spotnik_id peer)
{
    return spotnik_link_find(links, peer) != NULL;
}

bool spotnik_link_is_called(const struct spotnik_links *links, struct spotnik_id peer)
{
    for (const struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if ((link->state == SPOTNIK_LINK_UP || link->state == SPOTNIK_LINK_CALLING)
            && spotnik_id_equal(link->peer.id, peer))
            return true;
    return false;
}

bool spotnik_link_is_calling(const struct spotnik_links *links, struct spotnik_id peer)
{
    for (const struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (link->state == SPOTNIK_LINK_CALLING && spotnik_id_equal(link->peer.id, peer))
            return true;
    return false;
}

static struct spotnik_link *half_find(struct spotnik_links *links, enum spotnik_link_state state,
                                      const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (link->state == state && memcmp(link->name, name, SPOTNIK_SHAKE_NAME_BYTES) == 0)
            return link;
    return NULL;
}

/* ---- down ---- */

/* What is queued goes out first; what the peer still says is not heard any more. */
static void wind_up(struct spotnik_links *links, struct spotnik_link *link)
{
    link->state = SPOTNIK_LINK_RETIRING;
    link->deadline_ns = spotnik_time_add(spotnik_clock_ns(), RETIRE_NS);
    spotnik_control_rx_close(links->loop, &link->rx);
    spotnik_loop_kick(links->loop);
}

/* Say why and go. */
static void retire(struct spotnik_links *links, struct spotnik_link *link,
                   enum spotnik_goodbye reason)
{
    if (link->state == SPOTNIK_LINK_RETIRING)
        return;
    wind_up(links, link);
    spotnik_control_tx_goodbye(&link->tx, reason);
}

/* One side does not understand the other, or cannot reach it: back off, since an immediate retry
 * would only go round in circles. A refusal reaches the core at once. Each could make a view of the
 * same members, hundreds a second. */
void spotnik_link_back_off(struct spotnik_links *links, struct spotnik_id peer)
{
    spotnik_backoff_note(&links->backed_off, peer, spotnik_time_add(spotnik_clock_ns(), SHUN_NS));
}

/* The link has ended: the dial that follows is a second look at its peer, and begins after it. */
static void beside_forget(struct spotnik_links *links, struct spotnik_id peer)
{
    spotnik_pending_cancel(links, peer);
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (link->beside && spotnik_id_equal(link->peer.id, peer))
            retire(links, link, SPOTNIK_GOODBYE_DUPLICATE);
}

static void ended(struct spotnik_links *links, struct spotnik_link *link,
                  enum spotnik_goodbye reason, enum spotnik_proof proof)
{
    enum spotnik_link_state state = link->state;
    struct spotnik_member peer = link->peer;
    bool awaited = state == SPOTNIK_LINK_CALLING || (state == SPOTNIK_LINK_CALLED && link->awaited);
    retire(links, link, reason);
    if (state == SPOTNIK_LINK_UP) {
        beside_forget(links, peer.id);
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_LINK_DOWN, &peer, proof);
    } else if (awaited && spotnik_link_find(links, peer.id) == NULL) {
        spotnik_link_back_off(links, peer.id);
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_DIAL_FAILED, &peer, SPOTNIK_PROOF_NONE);
    }
}

static void breach(struct spotnik_links *links, struct spotnik_link *link)
{
    spotnik_link_back_off(links, link->peer.id);
    ended(links, link, SPOTNIK_GOODBYE_PROTOCOL, SPOTNIK_PROOF_NONE);
}

void spotnik_link_hang_up(struct spotnik_links *links, const struct spotnik_member *peer,
                          enum spotnik_goodbye reason)
{
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (spotnik_id_equal(link->peer.id, peer->id))
            retire(links, link, reason);
}

void spotnik_links_retire(struct spotnik_links *links, enum spotnik_goodbye reason)
{
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        retire(links, link, reason);
}

/* ---- up ---- */

static struct spotnik_link *link_new(struct spotnik_links *links,
                                     const struct spotnik_pending *pending,
                                     enum spotnik_link_state state)
{
    struct spotnik_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        return NULL;
    link->tx.socket.fd = link->rx.socket.fd = -1;
    link->state = state;
    link->peer = pending->shake.wire.peer;
    link->deadline_ns = spotnik_time_add(spotnik_clock_ns(), SPOTNIK_OPENING_NS);
    spotnik_shake_name(&pending->shake, link->name);
    link->next = links->first;
    links->first = link;
    return link;
}

/* A peer that we are still calling ourselves need not answer: nothing has been said there yet. */
static void calls_cancel(struct spotnik_links *links, const struct spotnik_link *but)
{
    spotnik_pending_cancel(links, but->peer.id);
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (link != but && link->state == SPOTNIK_LINK_CALLING
            && spotnik_id_equal(link->peer.id, but->peer.id))
            retire(links, link, SPOTNIK_GOODBYE_DUPLICATE);
}

/* Both halves stand, and both sides know it. An older link is dead, or else given up by the peer
 * just now, or nothing comes through it. */
static void up(struct spotnik_links *links, struct spotnik_link *link)
{
    link->beside = false;
    struct spotnik_link *old = spotnik_link_find(links, link->peer.id);
    if (old != NULL)
        ended(links, old, SPOTNIK_GOODBYE_DUPLICATE, SPOTNIK_PROOF_NONE);
    calls_cancel(links, link);
    link->state = SPOTNIK_LINK_UP;
    link->deadline_ns = SPOTNIK_NEVER;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_LINK_UP, .peer = link->peer };
    spotnik_loop_drive(links->loop, &event);
}

/* The peer we dialled knows the key: it dials back now. */
void spotnik_link_call(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_link *link = link_new(links, pending, SPOTNIK_LINK_CALLING);
    if (link == NULL || spotnik_control_tx_open(links->loop, &link->tx, pending) != 0) {
        if (link != NULL)
            link->state = SPOTNIK_LINK_RETIRING;
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_DIAL_FAILED, &pending->shake.wire.peer,
                                 SPOTNIK_PROOF_NONE);
        return;
    }
    link->dialled = true;
    link->beside = spotnik_link_find(links, link->peer.id) != NULL;
    spotnik_control_tx_place(&link->tx);
}

/* A peer calls: dial back. It has given up what it called before. */
void spotnik_link_called(struct spotnik_links *links, struct spotnik_pending *pending)
{
    bool awaited = false;
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (link->state == SPOTNIK_LINK_CALLED
            && spotnik_id_equal(link->peer.id, pending->shake.wire.peer.id)) {
            awaited |= link->awaited;
            retire(links, link, SPOTNIK_GOODBYE_DUPLICATE);
        }
    struct spotnik_link *link = link_new(links, pending, SPOTNIK_LINK_CALLED);
    if (link == NULL)
        return;
    link->awaited = awaited;
    const struct spotnik_link *old = spotnik_link_find(links, link->peer.id);
    link->again = old != NULL && old->heard;
    if (spotnik_control_rx_open(links->loop, &link->rx, pending) != 0)
        link->state = SPOTNIK_LINK_RETIRING;
    else
        spotnik_pending_answer(links, &link->peer, link->name);
}

/* We have dialled back. */
void spotnik_link_answer(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_link *link = half_find(links, SPOTNIK_LINK_CALLED, pending->name);
    if (link == NULL || link->tx.socket.fd >= 0)
        return;
    if (spotnik_control_tx_open(links->loop, &link->tx, pending) != 0)
        ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, SPOTNIK_PROOF_NONE);
    else
        spotnik_control_tx_place(&link->tx);
}

/* We could not. */
void spotnik_link_unanswered(struct spotnik_links *links,
                             const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_link *link = half_find(links, SPOTNIK_LINK_CALLED, name);
    if (link == NULL)
        return;
    spotnik_link_back_off(links, link->peer.id);
    ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, SPOTNIK_PROOF_NONE);
}

/* The peer we called has dialled back. */
void spotnik_link_answered(struct spotnik_links *links, struct spotnik_pending *pending)
{
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES];
    spotnik_shake_answers(&pending->shake, name);
    struct spotnik_link *link = half_find(links, SPOTNIK_LINK_CALLING, name);
    if (link == NULL || !spotnik_id_equal(link->peer.id, pending->shake.wire.peer.id))
        return; /* we have given up that call */
    if (spotnik_control_rx_open(links->loop, &link->rx, pending) != 0)
        ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, SPOTNIK_PROOF_NONE);
    else
        up(links, link);
}

/* ---- out ---- */

void spotnik_link_send(struct spotnik_links *links, const struct spotnik_member *peer,
                       const struct spotnik_message *message)
{
    struct spotnik_link *link = spotnik_link_find(links, peer->id);
    if (link == NULL)
        return;
    spotnik_control_tx_say(&link->tx, message, queue_max(links));
    if (link->tx.clogged || link->tx.broken)
        spotnik_loop_kick(links->loop); /* the loop reports it: not while actions run */
}

bool spotnik_link_question(struct spotnik_links *links, struct spotnik_id peer)
{
    struct spotnik_link *link = spotnik_link_find(links, peer);
    if (link != NULL)
        spotnik_control_tx_place(&link->tx);
    return link != NULL;
}

bool spotnik_link_is_heard(const struct spotnik_links *links, struct spotnik_id peer,
                           uint64_t limit_ns)
{
    const struct spotnik_link *link = spotnik_link_find(links, peer);
    return link != NULL && !link->tx.broken
           && spotnik_control_tx_is_heard(&link->tx, spotnik_clock_ns(), limit_ns);
}

/* ---- in ---- */

/* The first word of the caller: it has our answer. If both called at once and both were answered,
 * the call of the smaller id stays. The larger id hears that one, too, and leaves its own. That it
 * has done so already, and speaks on ours, is no reason to leave ours for the call that it has
 * left. */
static bool is_first_choice(struct spotnik_links *links, const struct spotnik_link *link)
{
    const struct spotnik_link *old = spotnik_link_find(links, link->peer.id);
    return old == NULL || !old->dialled || link->again
           || spotnik_id_compare(links->credentials->self.id, link->peer.id) > 0;
}

/* Left for the call of the peer, which is on its way to us: a failure only if that comes to
 * nothing. */
static bool is_left_for_another(struct spotnik_links *links, const struct spotnik_link *call)
{
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next)
        if (call->state == SPOTNIK_LINK_CALLING && link->state == SPOTNIK_LINK_CALLED
            && spotnik_id_equal(link->peer.id, call->peer.id)) {
            link->awaited = true;
            return true;
        }
    return false;
}

static void goodbye_take(struct spotnik_links *links, struct spotnik_link *link,
                         enum spotnik_goodbye reason)
{
    if (reason == SPOTNIK_GOODBYE_DUPLICATE && is_left_for_another(links, link)) {
        retire(links, link, SPOTNIK_GOODBYE_DUPLICATE);
        return;
    }
    if (reason == SPOTNIK_GOODBYE_PROTOCOL || reason == SPOTNIK_GOODBYE_VERSION)
        spotnik_link_back_off(links, link->peer.id);
    bool over = reason == SPOTNIK_GOODBYE_LEAVING || reason == SPOTNIK_GOODBYE_OVER;
    ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN,
          over && link->heard ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE);
}

/* False: the peer breaks the protocol. */
static bool control_take(struct spotnik_links *links, struct spotnik_link *link,
                         const uint8_t *payload, uint32_t bytes)
{
    struct spotnik_message message;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_MESSAGE,
                                   .message = { link->peer, &message } };
    if (link->state == SPOTNIK_LINK_CALLED && link->tx.socket.fd < 0)
        return false; /* it cannot have our answer */
    if (link->state == SPOTNIK_LINK_CALLED && !is_first_choice(links, link)) {
        retire(links, link, SPOTNIK_GOODBYE_DUPLICATE);
        return true;
    }
    if (link->state == SPOTNIK_LINK_CALLED)
        up(links, link);
    if (link->state != SPOTNIK_LINK_UP)
        return true;
    link->heard = true;
    if (spotnik_control_decode(payload, bytes, links->storage, &message) != 0)
        return false;
    spotnik_loop_drive(links->loop, &event);
    return true;
}

static bool frame_take(struct spotnik_links *links, struct spotnik_link *link,
                       const struct spotnik_frame *frame, const uint8_t *payload)
{
    enum spotnik_goodbye reason;
    if (frame->kind == SPOTNIK_FRAME_CONTROL)
        return control_take(links, link, payload, frame->payload_bytes);
    if (frame->kind == SPOTNIK_FRAME_PLACES) {
        spotnik_control_rx_place(&link->rx, payload);
        return true;
    }
    if (frame->kind != SPOTNIK_FRAME_GOODBYE || frame->payload_bytes != SPOTNIK_GOODBYE_BYTES
        || spotnik_goodbye_decode(payload, &reason) != 0)
        return false;
    goodbye_take(links, link, reason);
    return true;
}

/* All whole frames that have been read. */
static void frames_take(struct spotnik_links *links, struct spotnik_link *link)
{
    struct spotnik_frame frame;
    const uint8_t *payload = NULL;
    while (link->rx.socket.fd >= 0) {
        enum spotnik_hearing hearing =
            spotnik_control_rx_next(&link->rx, links->limits, &frame, &payload);
        if (hearing == SPOTNIK_HEARING_NOTHING)
            return;
        if (hearing == SPOTNIK_HEARING_BROKEN || !frame_take(links, link, &frame, payload)) {
            breach(links, link);
            return;
        }
    }
}

/* Where packets get lost a late acknowledgement does not make a peer deaf. Allow 2.5 times the
 * latest one so far, on any link: they mostly share one network. */
static uint64_t deaf_limit(const struct spotnik_links *links)
{
    uint64_t limit_ns = links->limits->silence_floor_ns / 3;
    uint64_t wanted_ns =
        spotnik_time_min(links->answers_late_ns / 2 * 5, links->limits->silence_ceiling_ns);
    return wanted_ns < limit_ns ? limit_ns : wanted_ns;
}

/* We act as if we did not hear a peer that does not hear us. A cable that works one way only is as
 * good as cut, and must not keep a member in the view. Its words wait in the socket. */
static bool is_deaf(const struct spotnik_links *links, const struct spotnik_link *link)
{
    uint64_t limit_ns = deaf_limit(links), now_ns = spotnik_clock_ns();
    return link->state == SPOTNIK_LINK_UP && !link->rx.socket.ending
           && link->peer.host != links->credentials->self.host /* no cable between us */
           && !spotnik_control_tx_is_heard(&link->tx, now_ns, limit_ns);
}

/* FIN: the peer closed the connection. On our own host, connected directly, its kernel is ours, and
 * its process has ended. From another host a restarting proxy may have sent it. */
static enum spotnik_proof end_proof(const struct spotnik_links *links,
                                    const struct spotnik_link *link)
{
    uint64_t host = links->credentials->self.host;
    if (!link->heard)
        return SPOTNIK_PROOF_NONE;
    if (!link->rx.direct)
        return SPOTNIK_PROOF_END;
    return link->peer.host == host && host != 0 ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_LIKELY;
}

/* True: there may be more to read. */
static bool hear_link(struct spotnik_links *links, struct spotnik_link *link)
{
    size_t pass = 0;
    if (link->rx.socket.fd >= 0 && link->rx.socket.readable && is_deaf(links, link))
        return false; /* looked at again one heartbeat later at the latest */
    while (link->rx.socket.fd >= 0 && link->rx.socket.readable && pass < PASS_MAX) {
        enum spotnik_hearing hearing = spotnik_control_rx_read(&link->rx, &pass);
        if (hearing == SPOTNIK_HEARING_MORE)
            frames_take(links, link);
        else if (hearing == SPOTNIK_HEARING_END)
            ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, end_proof(links, link));
        else if (hearing == SPOTNIK_HEARING_BROKEN)
            ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, SPOTNIK_PROOF_NONE);
    }
    return link->rx.socket.fd >= 0 && link->rx.socket.readable;
}

/* The peer does not read or take what we say. If it has ended, the rx connection tells, a little
 * later at most. */
static void tx_watch(struct spotnik_links *links, struct spotnik_link *link)
{
    spotnik_control_tx_look(&link->tx);
    if (link->state == SPOTNIK_LINK_RETIRING || (!link->tx.broken && !link->tx.clogged))
        return;
    if (link->state == SPOTNIK_LINK_UP && link->tx.broken && link->deadline_ns == SPOTNIK_NEVER)
        link->deadline_ns = spotnik_time_add(spotnik_clock_ns(), LAST_WORDS_NS);
    else if (link->state != SPOTNIK_LINK_UP || link->tx.clogged)
        ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, SPOTNIK_PROOF_NONE);
}

/* Read all readable links. True: some has still more to give. New links are put at the front and
 * never missed, for they come in by the pending connections only. */
bool spotnik_links_read(struct spotnik_links *links)
{
    bool more = false;
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next) {
        more |= hear_link(links, link);
        tx_watch(links, link);
    }
    return more;
}

/* A peer whose kernel ACKs but that sends nothing is stopped, or waits for lost packets. */
void spotnik_links_ask(struct spotnik_links *links, struct spotnik_core *core)
{
    uint64_t now_ns = spotnik_clock_ns(), limit_ns = links->limits->silence_floor_ns / 10 * 9;
    links->answers_late_ns = 0;
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next) {
        if (link->tx.longest_ns > links->answers_late_ns)
            links->answers_late_ns = link->tx.longest_ns;
        if (link->state == SPOTNIK_LINK_UP && link->peer.host != links->credentials->self.host
            && spotnik_core_is_quiet(core, link->peer.id, now_ns)
            && spotnik_control_tx_is_answered(&link->tx, limit_ns))
            spotnik_loop_tell(links->loop, SPOTNIK_EVENT_KERNEL, &link->peer);
    }
}

/* ---- the loop's part ---- */

static void patience_look(struct spotnik_links *links, struct spotnik_link *link, uint64_t now_ns)
{
    if (link->state != SPOTNIK_LINK_RETIRING) {
        if (now_ns >= link->deadline_ns)
            ended(links, link, SPOTNIK_GOODBYE_SHUTDOWN, SPOTNIK_PROOF_NONE);
        return;
    }
    if (spotnik_control_tx_is_done(&link->tx) || now_ns >= link->deadline_ns)
        spotnik_control_tx_close(links->loop, &link->tx);
}

/* A firewall that forgets its connections swallows what they carry, and lets new ones pass. So
 * where nothing is acknowledged for as long as silence may last, the peer is called once more. The
 * link stands until that is answered. Both sides may be deaf: the larger id leaves the first call
 * to the other. */
static void call_beside(struct spotnik_links *links, struct spotnik_link *link, uint64_t now_ns)
{
    uint64_t limit_ns = links->limits->silence_ceiling_ns;
    if (link->state != SPOTNIK_LINK_UP || now_ns < link->beside_ns)
        return;
    if (spotnik_id_compare(links->credentials->self.id, link->peer.id) > 0)
        limit_ns *= 2;
    bool deaf = !spotnik_control_tx_is_heard(&link->tx, now_ns, limit_ns);
    link->beside_ns = spotnik_time_add(now_ns, deaf ? limit_ns : limit_ns / 8);
    if (deaf)
        spotnik_pending_beside(links, &link->peer);
}

/* Write what is queued, and take away what has ended. */
void spotnik_links_flush(struct spotnik_links *links, uint64_t now_ns)
{
    struct spotnik_link **at = &links->first;
    while (*at != NULL) {
        struct spotnik_link *link = *at;
        if (link->tx.socket.writable && !spotnik_control_tx_is_done(&link->tx))
            spotnik_control_tx_flush(&link->tx);
        patience_look(links, link, now_ns);
        call_beside(links, link, now_ns);
        if (link->tx.socket.fd >= 0 || link->rx.socket.fd >= 0) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        spotnik_control_tx_free(&link->tx);
        spotnik_control_rx_free(&link->rx);
        spotnik_loop_free_later(links->loop, &link->tx.socket);
    }
}

/* Its words are left in the socket, because it does not hear us. */
static bool is_waiting(const struct spotnik_link *link)
{
    return link->state == SPOTNIK_LINK_UP && link->rx.socket.readable;
}

uint64_t spotnik_links_deadline(const struct spotnik_links *links)
{
    uint64_t due_ns = SPOTNIK_NEVER;
    uint64_t again_ns = spotnik_time_add(spotnik_clock_ns(), links->limits->heartbeat_ns);
    for (const struct spotnik_link *link = links->first; link != NULL; link = link->next) {
        due_ns = spotnik_time_min(due_ns, link->deadline_ns);
        if (is_waiting(link))
            due_ns = spotnik_time_min(due_ns, again_ns);
    }
    return due_ns;
}

bool spotnik_links_are_gone(const struct spotnik_links *links)
{
    return links->first == NULL;
}

void spotnik_links_close(struct spotnik_links *links)
{
    for (struct spotnik_link *link = links->first; link != NULL; link = link->next) {
        link->state = SPOTNIK_LINK_RETIRING;
        spotnik_control_rx_close(links->loop, &link->rx);
        spotnik_control_tx_close(links->loop, &link->tx);
    }
    spotnik_links_flush(links, 0);
}
