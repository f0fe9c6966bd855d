/* SPDX-License-Identifier: Apache-2.0 */
/* Connections before they are links, or another folder's: on their way out until somebody answers,
 * and at our door until they have proved the job key. Strangers cost one slot of a bounded table,
 * for a bounded time, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/time.h"
#include "link/address.h"
#include "link/answer.h"
#include "link/inside.h"

#define AGAIN_NS (100 * SPOTNIK_MS)

void spotnik_opening_close(struct spotnik_links *links, struct spotnik_opening *opening)
{
    if (opening->socket.fd >= 0)
        close(spotnik_socket_release(&opening->socket, links->loop->epoll_fd));
}

/* Not yet to be taken out of the list. */
static bool is_used(const struct spotnik_opening *opening)
{
    return opening->socket.fd >= 0 || opening->error != 0 || opening->wants_hook
           || opening->start_ns != 0;
}

static struct spotnik_opening *opening_new(struct spotnik_links *links)
{
    struct spotnik_opening *opening = calloc(1, sizeof *opening);
    if (opening == NULL)
        return NULL;
    opening->socket.kind = SPOTNIK_SOCKET_OPENING;
    opening->socket.fd = -1;
    opening->deadline_ns = spotnik_time_add(spotnik_clock_ns(), SPOTNIK_OPENING_NS);
    opening->next = links->openings;
    links->openings = opening;
    return opening;
}

/* ---- in ---- */

struct spotnik_opening *spotnik_opening_admit(struct spotnik_links *links, int fd)
{
    struct spotnik_opening *opening = opening_new(links);
    if (opening == NULL)
        return NULL;
    spotnik_fork_note(fd);
    spotnik_socket_tune(fd, links->credentials->self.address);
    struct spotnik_credentials credentials = *links->credentials;
    links->hooks.presence(links->hooks.context, &credentials.presence);
    spotnik_shake_init_server(&opening->shake, &credentials);
    explicit_bzero(&credentials, sizeof credentials);
    if (spotnik_socket_watch(&opening->socket, links->loop->epoll_fd, fd, SPOTNIK_SOCKET_OPENING)
        != 0)
        return NULL; /* with no socket, it is taken out of the list */
    opening->socket.readable = true;
    return opening;
}

/* ---- out ---- */

static bool is_dialling(const struct spotnik_links *links, const struct spotnik_member *peer,
                        enum spotnik_purpose purpose)
{
    for (const struct spotnik_opening *opening = links->openings; opening != NULL;
         opening = opening->next)
        if (opening->dialled && opening->purpose == purpose && is_used(opening)
            && spotnik_id_equal(opening->peer.id, peer->id))
            return true;
    return false;
}

/* What is not dialled any more: nobody is told. */
static void dial_forget(struct spotnik_links *links, struct spotnik_opening *opening)
{
    opening->error = 0;
    opening->start_ns = 0;
    opening->wants_hook = false;
    spotnik_opening_close(links, opening);
}

/* The result comes later: as an event of the socket, or in opening->error. */
static void connect_begin(struct spotnik_links *links, struct spotnik_opening *opening)
{
    int fd = -1;
    bool speaks =
        opening->purpose == SPOTNIK_PURPOSE_CONTROL || opening->purpose == SPOTNIK_PURPOSE_BACK;
    /* what controls is short, and gets through wherever anything does */
    bool small = speaks && opening->peer.host != links->credentials->self.host;
    opening->start_ns = 0;
    opening->connecting = true;
    int rc = opening->purpose == SPOTNIK_PURPOSE_SHARE
                 ? links->hooks.connect(links->hooks.context, &opening->peer, &fd)
                 : spotnik_socket_connect(opening->peer.address, opening->peer.port,
                                          small ? SPOTNIK_SEGMENT_LEAST : 0, &fd);
    if (rc == 0
        && spotnik_socket_watch(&opening->socket, links->loop->epoll_fd, fd, SPOTNIK_SOCKET_OPENING)
               != 0) {
        close(fd);
        rc = -ENOMEM;
    }
    opening->error = -rc;
}

/* NULL: no memory. Failures are kept for the progress thread, because the core may be the
 * caller. */
static struct spotnik_opening *dial_new(struct spotnik_links *links,
                                        const struct spotnik_member *peer,
                                        enum spotnik_purpose purpose)
{
    struct spotnik_opening *opening = opening_new(links);
    spotnik_loop_kick(links->loop);
    if (opening == NULL)
        return NULL;
    opening->dialled = true;
    opening->purpose = purpose;
    opening->peer = *peer;
    opening->start_ns = spotnik_backoff_until(&links->shunned, peer->id);
    return opening;
}

/* What we say first. */
static void shake_init(struct spotnik_links *links, struct spotnik_opening *opening)
{
    struct spotnik_credentials credentials = *links->credentials;
    links->hooks.presence(links->hooks.context, &credentials.presence);
    if (opening->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_shake_init_back(&opening->shake, &credentials, opening->name);
    else if (opening->purpose == SPOTNIK_PURPOSE_WIDEN)
        spotnik_shake_init_widen(&opening->shake, &credentials, opening->name);
    else
        spotnik_shake_init_client(&opening->shake, &credentials, opening->purpose);
    explicit_bzero(&credentials, sizeof credentials);
}

static void dial_start(struct spotnik_links *links, struct spotnik_opening *opening)
{
    shake_init(links, opening);
    if (opening->start_ns <= spotnik_clock_ns())
        connect_begin(links, opening);
}

void spotnik_opening_dial(struct spotnik_links *links, const struct spotnik_member *peer,
                          enum spotnik_purpose purpose)
{
    if (is_dialling(links, peer, purpose)
        || (purpose == SPOTNIK_PURPOSE_CONTROL && spotnik_link_is_called(links, peer->id)))
        return;
    struct spotnik_opening *opening = dial_new(links, peer, purpose);
    if (opening != NULL) /* without memory there is no telling either; the core asks again */
        dial_start(links, opening);
}

/* Although a link to it is up. */
void spotnik_opening_beside(struct spotnik_links *links, const struct spotnik_member *peer)
{
    if (is_dialling(links, peer, SPOTNIK_PURPOSE_CONTROL)
        || spotnik_link_is_calling(links, peer->id))
        return;
    struct spotnik_opening *opening = dial_new(links, peer, SPOTNIK_PURPOSE_CONTROL);
    if (opening != NULL)
        dial_start(links, opening);
}

/* The other half of the link that `peer` has begun with the connection `name`. */
void spotnik_opening_answer(struct spotnik_links *links, const struct spotnik_member *peer,
                            const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_opening *opening = dial_new(links, peer, SPOTNIK_PURPOSE_BACK);
    if (opening == NULL)
        return; /* the link waits for it, and is given up */
    memcpy(opening->name, name, sizeof opening->name);
    dial_start(links, opening);
}

void spotnik_opening_widen(struct spotnik_links *links, const struct spotnik_member *peer,
                           const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_opening *opening = dial_new(links, peer, SPOTNIK_PURPOSE_WIDEN);
    if (opening == NULL)
        return; /* the lane stays as wide as it is */
    memcpy(opening->name, name, sizeof opening->name);
    dial_start(links, opening);
}

void spotnik_opening_cancel(struct spotnik_links *links, struct spotnik_id peer)
{
    for (struct spotnik_opening *opening = links->openings; opening != NULL;
         opening = opening->next)
        if (opening->dialled && opening->purpose == SPOTNIK_PURPOSE_CONTROL
            && spotnik_id_equal(opening->peer.id, peer))
            dial_forget(links, opening);
}

void spotnik_openings_cancel(struct spotnik_links *links)
{
    for (struct spotnik_opening *opening = links->openings; opening != NULL;
         opening = opening->next)
        dial_forget(links, opening);
}

bool spotnik_opening_is_connected(const struct spotnik_links *links, struct spotnik_id peer)
{
    for (const struct spotnik_opening *opening = links->openings; opening != NULL;
         opening = opening->next)
        if (opening->dialled && opening->purpose == SPOTNIK_PURPOSE_DATA && opening->socket.fd >= 0
            && opening->start_ns == 0 && !opening->connecting
            && spotnik_id_equal(opening->peer.id, peer))
            return true;
    return false;
}

static bool is_of_carrier(enum spotnik_purpose purpose)
{
    return purpose == SPOTNIK_PURPOSE_DATA || purpose == SPOTNIK_PURPOSE_WIDEN
           || purpose == SPOTNIK_PURPOSE_SHARE;
}

static void dial_failed(struct spotnik_links *links, struct spotnik_opening *opening,
                        enum spotnik_proof proof)
{
    struct spotnik_member peer = opening->peer;
    opening->error = 0;
    spotnik_opening_close(links, opening);
    if (is_of_carrier(opening->purpose))
        links->hooks.failed(links->hooks.context, opening->purpose, &peer, opening->name);
    else if (opening->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_link_unanswered(links, opening->name);
    else if (spotnik_link_find(links, peer.id) == NULL) {
        spotnik_link_shun(links, peer.id);
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_DIAL_FAILED, &peer, proof);
    }
}

static enum spotnik_proof connect_proof(int error)
{
    return error == ECONNREFUSED ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE;
}

/* ---- for the new owner ---- */

int spotnik_opening_take(struct spotnik_links *links, struct spotnik_opening *opening)
{
    return spotnik_socket_release(&opening->socket, links->loop->epoll_fd);
}

const struct spotnik_member *spotnik_opening_peer(const struct spotnik_opening *opening)
{
    return &opening->shake.wire.peer;
}

void spotnik_opening_name(const struct spotnik_opening *opening,
                          uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    spotnik_shake_name(&opening->shake, ret_name);
}

void spotnik_opening_widens(const struct spotnik_opening *opening,
                            uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    if (opening->dialled)
        memcpy(ret_name, opening->name, sizeof opening->name);
    else
        spotnik_shake_answers(&opening->shake, ret_name);
}

/* ---- the handshake ---- */

static void refusal_note(struct spotnik_links *links, const struct spotnik_opening *opening,
                         int error)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    uint8_t address[16] = { 0 };
    uint16_t port = 0;
    char where[SPOTNIK_ADDRESS_TEXT], text[SPOTNIK_SHAKE_TEXT];
    if (getpeername(opening->socket.fd, (struct sockaddr *)&name, &size) == 0)
        spotnik_address_from_kernel(&name, address, &port);
    links->refusals++;
    snprintf(links->refusal, sizeof links->refusal, "%s %s",
             spotnik_address_format(where, address, port),
             spotnik_shake_text(&opening->shake, error, text));
}

static void shake_failed(struct spotnik_links *links, struct spotnik_opening *opening, int error)
{
    if (error != SPOTNIK_ERR_PEERS)
        refusal_note(links, opening, error);
    if (opening->dialled) /* hung up: its process may be about to end */
        dial_failed(links, opening,
                    error == SPOTNIK_ERR_PEERS ? SPOTNIK_PROOF_LIKELY : SPOTNIK_PROOF_NONE);
    else
        spotnik_opening_close(links, opening);
}

static void peers_reply(struct spotnik_links *links, struct spotnik_opening *opening)
{
    struct spotnik_answer answer;
    links->hooks.answer(links->hooks.context, &opening->shake.wire.peer, &answer);
    uint8_t bytes[SPOTNIK_ANSWER_BYTES];
    spotnik_answer_encode(&answer, bytes);
    spotnik_opening_reply_make(links, opening, bytes, sizeof bytes);
}

static void dump_reply(struct spotnik_links *links, struct spotnik_opening *opening)
{
    char line[4096];
    links->hooks.dump(links->hooks.context, line, sizeof line);
    spotnik_opening_reply_make(links, opening, line, strlen(line));
}

static void adopt(struct spotnik_links *links, struct spotnik_opening *opening)
{
    links->hooks.adopt(links->hooks.context, opening, opening->purpose, opening->dialled);
}

static void guest_enter(struct spotnik_links *links, struct spotnik_opening *opening)
{
    struct spotnik_id peer = opening->shake.wire.peer.id;
    /* We may have dialled the address of a dead member, which is ours now. */
    bool ourselves = spotnik_id_equal(peer, links->credentials->self.id);
    opening->purpose = (enum spotnik_purpose)opening->shake.wire.purpose;
    switch (opening->purpose) {
    case SPOTNIK_PURPOSE_CONTROL:
        if (!ourselves)
            spotnik_link_called(links, opening);
        break;
    case SPOTNIK_PURPOSE_BACK:
        spotnik_link_answered(links, opening);
        break;
    case SPOTNIK_PURPOSE_DATA:
        if (!ourselves)
            adopt(links, opening);
        break;
    case SPOTNIK_PURPOSE_WIDEN:
    case SPOTNIK_PURPOSE_SHARE:
        adopt(links, opening);
        break;
    case SPOTNIK_PURPOSE_STATE:
    case SPOTNIK_PURPOSE_EXCHANGE:
    case SPOTNIK_PURPOSE_STATUS:
        opening->wants_hook = links->guests = true;
        return;
    case SPOTNIK_PURPOSE_PEERS:
        peers_reply(links, opening);
        return;
    case SPOTNIK_PURPOSE_DUMP:
        dump_reply(links, opening);
        return;
    }
    spotnik_opening_close(links, opening); /* unless it has become something else */
}

/* A holder of the key answered where we dialled. Another id than expected, of the same host: the
 * expected process is not there any more, for two cannot listen on one port. Of another host: the
 * address is not what it was, or never was. */
static void host_answered(struct spotnik_links *links, struct spotnik_opening *opening)
{
    struct spotnik_id found = opening->shake.wire.peer.id;
    struct spotnik_member expected = opening->peer;
    bool ourselves = spotnik_id_equal(found, links->credentials->self.id);
    bool as_expected = spotnik_id_equal(found, expected.id);
    bool same_host = opening->shake.wire.peer.host == expected.host && expected.host != 0;
    if (!as_expected && opening->purpose != SPOTNIK_PURPOSE_CONTROL) {
        dial_failed(links, opening, SPOTNIK_PROOF_NONE);
        return;
    }
    if (is_of_carrier(opening->purpose))
        adopt(links, opening);
    else if (opening->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_link_answer(links, opening);
    else if (!ourselves)
        spotnik_link_call(links, opening);
    spotnik_opening_close(links, opening); /* unless it has become something else */
    if (!as_expected)
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_DIAL_FAILED, &expected,
                                 same_host ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE);
}

/* What makes no one a part of the job: questions. */
static bool is_question(uint8_t purpose)
{
    return purpose == SPOTNIK_PURPOSE_PEERS || purpose == SPOTNIK_PURPOSE_STATUS
           || purpose == SPOTNIK_PURPOSE_DUMP;
}

/* Of another founding: the core must not hear a word of it. */
static bool is_barred(struct spotnik_links *links, const struct spotnik_opening *opening)
{
    return links->hooks.differs(links->hooks.context, &opening->shake)
           && !is_question(opening->shake.wire.purpose);
}

static void shake_on(struct spotnik_links *links, struct spotnik_opening *opening)
{
    opening->socket.readable = opening->socket.writable = false;
    int rc = spotnik_shake_run(&opening->shake, opening->socket.fd);
    if (rc == SPOTNIK_SHAKE_AGAIN)
        return;
    bool barred = rc == 0 && is_barred(links, opening);
    if (rc != 0)
        shake_failed(links, opening, rc);
    else if (barred && opening->dialled)
        dial_failed(links, opening, SPOTNIK_PROOF_NONE);
    else if (barred)
        spotnik_opening_close(links, opening);
    else if (opening->dialled)
        host_answered(links, opening);
    else
        guest_enter(links, opening);
}

/* ---- the loop's part ---- */

/* What became of a connection that was under way. True: it failed, and the opening is over. */
static bool connect_failed(struct spotnik_links *links, struct spotnik_opening *opening)
{
    if (!opening->connecting || !(opening->socket.writable || opening->socket.readable))
        return false;
    int error = spotnik_socket_error(opening->socket.fd);
    opening->connecting = error != 0;
    if (error != 0)
        dial_failed(links, opening, connect_proof(error));
    return error != 0;
}

/* The handshake, and the reply in the same turn: an idle process may not be woken for another. */
static void go_on(struct spotnik_links *links, struct spotnik_opening *opening)
{
    if (opening->reply == NULL && !opening->connecting
        && (opening->socket.readable || opening->socket.writable))
        shake_on(links, opening);
    if (opening->reply != NULL && opening->socket.fd >= 0)
        spotnik_opening_reply(links, opening);
}

static void give_up(struct spotnik_links *links, struct spotnik_opening *opening)
{
    if (opening->dialled)
        dial_failed(links, opening, SPOTNIK_PROOF_NONE);
    else
        spotnik_opening_close(links, opening);
}

/* What our own host is short of says nothing of the peer, and may be there in a moment. To the core
 * it is a call that nobody answers. Told at once, it would make a view of the same members for each
 * try, hundreds a second. */
static bool is_ours(int error)
{
    return error == EADDRNOTAVAIL || error == EAGAIN || error == EMFILE || error == ENFILE
           || error == ENOBUFS || error == ENOMEM;
}

static bool tries_again(struct spotnik_opening *opening, uint64_t now_ns)
{
    if (!is_ours(opening->error) || now_ns >= opening->deadline_ns)
        return false;
    opening->error = 0;
    opening->connecting = false;
    opening->start_ns = spotnik_time_add(now_ns, AGAIN_NS);
    return true;
}

static void run_one(struct spotnik_links *links, struct spotnik_opening *opening, uint64_t now_ns)
{
    if (opening->start_ns != 0 && now_ns >= opening->start_ns)
        connect_begin(links, opening);
    if (opening->error != 0 && tries_again(opening, now_ns))
        return;
    if (opening->error != 0) {
        dial_failed(links, opening, connect_proof(opening->error));
        return;
    }
    if (opening->socket.fd < 0 || opening->wants_hook || connect_failed(links, opening))
        return;
    go_on(links, opening);
    if (opening->socket.fd >= 0 && !opening->wants_hook && now_ns >= opening->deadline_ns)
        give_up(links, opening);
}

static void reap(struct spotnik_links *links)
{
    struct spotnik_opening **at = &links->openings;
    while (*at != NULL) {
        struct spotnik_opening *opening = *at;
        if (is_used(opening)) {
            at = &opening->next;
            continue;
        }
        *at = opening->next;
        free(opening->reply);
        spotnik_shake_done(&opening->shake);
        spotnik_loop_bury(links->loop, &opening->socket);
    }
}

uint64_t spotnik_openings_refusals(const struct spotnik_links *links, char *text, size_t size)
{
    snprintf(text, size, "%s", links->refusal);
    return links->refusals;
}

void spotnik_openings_run(struct spotnik_links *links, uint64_t now_ns)
{
    for (struct spotnik_opening *opening = links->openings; opening != NULL;
         opening = opening->next)
        run_one(links, opening, now_ns);
    reap(links);
}

uint64_t spotnik_openings_deadline(const struct spotnik_links *links)
{
    uint64_t due_ns = links->listener.readable ? 0 : links->accept_ns;
    for (const struct spotnik_opening *opening = links->openings; opening != NULL;
         opening = opening->next) {
        if (opening->error != 0)
            return 0;
        due_ns = spotnik_time_min(due_ns, opening->start_ns != 0 ? opening->start_ns
                                                                 : opening->deadline_ns);
    }
    return due_ns;
}
