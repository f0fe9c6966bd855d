/* SPDX-License-Identifier: Apache-2.0 */
/* Connections before they are links, or another folder's: dialled ones until the peer answers, and
 * at our acceptor until they have proved the job key. Unauthenticated peers cost one slot of a
 * bounded table, for a bounded time, and nothing else. */
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

void spotnik_pending_close(struct spotnik_links *links, struct spotnik_pending *pending)
{
    if (pending->socket.fd >= 0)
        spotnik_tls_close(spotnik_socket_release(&pending->socket, links->loop->epoll_fd));
}

/* Not yet to be taken out of the list. */
static bool is_used(const struct spotnik_pending *pending)
{
    return pending->socket.fd >= 0 || pending->error != 0 || pending->wants_hook
           || pending->start_ns != 0;
}

static struct spotnik_pending *pending_new(struct spotnik_links *links)
{
    struct spotnik_pending *pending = calloc(1, sizeof *pending);
    if (pending == NULL)
        return NULL;
    pending->socket.kind = SPOTNIK_SOCKET_OPENING;
    pending->socket.fd = -1;
    pending->deadline_ns = spotnik_time_add(spotnik_clock_ns(), SPOTNIK_OPENING_NS);
    pending->next = links->pending_list;
    links->pending_list = pending;
    return pending;
}

/* ---- in ---- */

struct spotnik_pending *spotnik_pending_admit(struct spotnik_links *links, int fd)
{
    struct spotnik_pending *pending = pending_new(links);
    if (pending == NULL)
        return NULL;
    spotnik_fork_note(fd);
    spotnik_socket_tune(fd, links->credentials->self.address);
    struct spotnik_credentials credentials = *links->credentials;
    links->hooks.presence(links->hooks.context, &credentials.presence);
    spotnik_shake_init_server(&pending->shake, &credentials);
    if (spotnik_socket_watch(&pending->socket, links->loop->epoll_fd, fd, SPOTNIK_SOCKET_OPENING)
        != 0)
        return NULL; /* with no socket, it is taken out of the list */
    pending->socket.readable = true;
    return pending;
}

/* ---- out ---- */

static bool is_dialling(const struct spotnik_links *links, const struct spotnik_member *peer,
                        enum spotnik_purpose purpose)
{
    for (const struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next)
        if (pending->dialled && pending->purpose == purpose && is_used(pending)
            && spotnik_id_equal(pending->peer.id, peer->id))
            return true;
    return false;
}

/* Close a dial that is no longer wanted, without telling the core. */
static void dial_forget(struct spotnik_links *links, struct spotnik_pending *pending)
{
    pending->error = 0;
    pending->start_ns = 0;
    pending->wants_hook = false;
    spotnik_pending_close(links, pending);
}

/* The result comes later: as an event of the socket, or in opening->error. */
static void connect_begin(struct spotnik_links *links, struct spotnik_pending *pending)
{
    int fd = -1;
    bool speaks =
        pending->purpose == SPOTNIK_PURPOSE_CONTROL || pending->purpose == SPOTNIK_PURPOSE_BACK;
    /* what controls is short, and gets through wherever anything does */
    bool small = speaks && pending->peer.host != links->credentials->self.host;
    pending->start_ns = 0;
    pending->connecting = true;
    int rc = pending->purpose == SPOTNIK_PURPOSE_SHARE
                 ? links->hooks.connect(links->hooks.context, &pending->peer, &fd)
                 : spotnik_socket_connect(pending->peer.address, pending->peer.port,
                                          small ? SPOTNIK_SEGMENT_LEAST : 0, &fd);
    if (rc == 0
        && spotnik_socket_watch(&pending->socket, links->loop->epoll_fd, fd, SPOTNIK_SOCKET_OPENING)
               != 0) {
        close(fd);
        rc = -ENOMEM;
    }
    pending->error = -rc;
}

/* NULL: no memory. Failures are kept for the progress thread, because the core may be the
 * caller. */
static struct spotnik_pending *dial_new(struct spotnik_links *links,
                                        const struct spotnik_member *peer,
                                        enum spotnik_purpose purpose)
{
    struct spotnik_pending *pending = pending_new(links);
    spotnik_loop_kick(links->loop);
    if (pending == NULL)
        return NULL;
    pending->dialled = true;
    pending->purpose = purpose;
    pending->peer = *peer;
    pending->start_ns = spotnik_backoff_until(&links->backed_off, peer->id);
    return pending;
}

/* What we say first. */
static void shake_init(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_credentials credentials = *links->credentials;
    links->hooks.presence(links->hooks.context, &credentials.presence);
    if (pending->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_shake_init_back(&pending->shake, &credentials, pending->name);
    else if (pending->purpose == SPOTNIK_PURPOSE_ADD_CONNECTION)
        spotnik_shake_init_add_connection(&pending->shake, &credentials, pending->name);
    else
        spotnik_shake_init_client(&pending->shake, &credentials, pending->purpose);
}

static void dial_start(struct spotnik_links *links, struct spotnik_pending *pending)
{
    shake_init(links, pending);
    if (pending->start_ns <= spotnik_clock_ns())
        connect_begin(links, pending);
}

void spotnik_pending_dial(struct spotnik_links *links, const struct spotnik_member *peer,
                          enum spotnik_purpose purpose)
{
    if (is_dialling(links, peer, purpose)
        || (purpose == SPOTNIK_PURPOSE_CONTROL && spotnik_link_is_called(links, peer->id)))
        return;
    struct spotnik_pending *pending = dial_new(links, peer, purpose);
    if (pending != NULL) /* without memory there is no telling either; the core asks again */
        dial_start(links, pending);
}

/* Although a link to it is up. */
void spotnik_pending_beside(struct spotnik_links *links, const struct spotnik_member *peer)
{
    if (is_dialling(links, peer, SPOTNIK_PURPOSE_CONTROL)
        || spotnik_link_is_calling(links, peer->id))
        return;
    struct spotnik_pending *pending = dial_new(links, peer, SPOTNIK_PURPOSE_CONTROL);
    if (pending != NULL)
        dial_start(links, pending);
}

/* The other half of the link that `peer` has begun with the connection `name`. */
void spotnik_pending_answer(struct spotnik_links *links, const struct spotnik_member *peer,
                            const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_pending *pending = dial_new(links, peer, SPOTNIK_PURPOSE_BACK);
    if (pending == NULL)
        return; /* the link waits for it, and is given up */
    memcpy(pending->name, name, sizeof pending->name);
    dial_start(links, pending);
}

void spotnik_pending_add_connection(struct spotnik_links *links, const struct spotnik_member *peer,
                                    const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_pending *pending = dial_new(links, peer, SPOTNIK_PURPOSE_ADD_CONNECTION);
    if (pending == NULL)
        return; /* the channel stays as wide as it is */
    memcpy(pending->name, name, sizeof pending->name);
    dial_start(links, pending);
}

void spotnik_pending_cancel(struct spotnik_links *links, struct spotnik_id peer)
{
    for (struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next)
        if (pending->dialled && pending->purpose == SPOTNIK_PURPOSE_CONTROL
            && spotnik_id_equal(pending->peer.id, peer))
            dial_forget(links, pending);
}

void spotnik_pending_list_cancel(struct spotnik_links *links)
{
    for (struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next)
        dial_forget(links, pending);
}

bool spotnik_pending_is_connected(const struct spotnik_links *links, struct spotnik_id peer)
{
    for (const struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next)
        if (pending->dialled && pending->purpose == SPOTNIK_PURPOSE_DATA && pending->socket.fd >= 0
            && pending->start_ns == 0 && !pending->connecting
            && spotnik_id_equal(pending->peer.id, peer))
            return true;
    return false;
}

static bool is_of_carrier(enum spotnik_purpose purpose)
{
    return purpose == SPOTNIK_PURPOSE_DATA || purpose == SPOTNIK_PURPOSE_ADD_CONNECTION
           || purpose == SPOTNIK_PURPOSE_SHARE;
}

static void dial_failed(struct spotnik_links *links, struct spotnik_pending *pending,
                        enum spotnik_proof proof)
{
    struct spotnik_member peer = pending->peer;
    pending->error = 0;
    spotnik_pending_close(links, pending);
    if (is_of_carrier(pending->purpose))
        links->hooks.failed(links->hooks.context, pending->purpose, &peer, pending->name);
    else if (pending->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_link_unanswered(links, pending->name);
    else if (spotnik_link_find(links, peer.id) == NULL) {
        spotnik_link_back_off(links, peer.id);
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_DIAL_FAILED, &peer, proof);
    }
}

static enum spotnik_proof connect_proof(int error)
{
    return error == ECONNREFUSED ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE;
}

/* ---- for the new owner ---- */

int spotnik_pending_take(struct spotnik_links *links, struct spotnik_pending *pending)
{
    return spotnik_socket_release(&pending->socket, links->loop->epoll_fd);
}

int spotnik_pending_seal(const struct spotnik_pending *pending, struct spotnik_seal *ret)
{
    const struct spotnik_handshake *wire = &pending->shake.wire;
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    *ret = (struct spotnik_seal){ .bare = true };
    if (spotnik_socket_is_local(pending->socket.fd) || spotnik_tls_is_on(pending->socket.fd))
        return 0;
    spotnik_handshake_keys(wire, send_key, receive_key);
    int rc = spotnik_seal_init(ret, wire->is_server ? receive_key : send_key);
    explicit_bzero(send_key, sizeof send_key);
    explicit_bzero(receive_key, sizeof receive_key);
    return rc;
}

const struct spotnik_member *spotnik_pending_peer(const struct spotnik_pending *pending)
{
    return &pending->shake.wire.peer;
}

void spotnik_pending_name(const struct spotnik_pending *pending,
                          uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    spotnik_shake_name(&pending->shake, ret_name);
}

void spotnik_pending_adds_connection(const struct spotnik_pending *pending,
                                     uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    if (pending->dialled)
        memcpy(ret_name, pending->name, sizeof pending->name);
    else
        spotnik_shake_answers(&pending->shake, ret_name);
}

/* ---- the handshake ---- */

static void refusal_note(struct spotnik_links *links, const struct spotnik_pending *pending,
                         int error)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    uint8_t address[16] = { 0 };
    uint16_t port = 0;
    char where[SPOTNIK_ADDRESS_TEXT], text[SPOTNIK_SHAKE_TEXT];
    if (getpeername(pending->socket.fd, (struct sockaddr *)&name, &size) == 0)
        spotnik_address_from_kernel(&name, address, &port);
    links->refusals++;
    snprintf(links->refusal, sizeof links->refusal, "%s %s",
             spotnik_address_format(where, address, port),
             spotnik_shake_text(&pending->shake, error, text));
}

static void shake_failed(struct spotnik_links *links, struct spotnik_pending *pending, int error)
{
    if (error != SPOTNIK_ERR_PEERS)
        refusal_note(links, pending, error);
    if (pending->dialled) /* hung up: its process may be about to end */
        dial_failed(links, pending,
                    error == SPOTNIK_ERR_PEERS ? SPOTNIK_PROOF_LIKELY : SPOTNIK_PROOF_NONE);
    else
        spotnik_pending_close(links, pending);
}

static void peers_reply(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_answer answer;
    links->hooks.answer(links->hooks.context, &pending->shake.wire.peer, &answer);
    uint8_t bytes[SPOTNIK_ANSWER_BYTES];
    spotnik_answer_encode(&answer, bytes);
    spotnik_pending_reply_make(links, pending, bytes, sizeof bytes);
}

static void dump_reply(struct spotnik_links *links, struct spotnik_pending *pending)
{
    char line[4096];
    links->hooks.dump(links->hooks.context, line, sizeof line);
    spotnik_pending_reply_make(links, pending, line, strlen(line));
}

static void adopt(struct spotnik_links *links, struct spotnik_pending *pending)
{
    links->hooks.adopt(links->hooks.context, pending, pending->purpose, pending->dialled);
}

/* One that observes has proved the observer key; from here on it asks for the status. */
static enum spotnik_purpose purpose_of(const struct spotnik_shake *shake)
{
    enum spotnik_purpose purpose = (enum spotnik_purpose)shake->wire.purpose;
    return purpose == SPOTNIK_PURPOSE_OBSERVE ? SPOTNIK_PURPOSE_STATUS : purpose;
}

static void service_enter(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_id peer = pending->shake.wire.peer.id;
    /* We may have dialled the address of a dead member, which is ours now. */
    bool ourselves = spotnik_id_equal(peer, links->credentials->self.id);
    pending->purpose = purpose_of(&pending->shake);
    switch (pending->purpose) {
    case SPOTNIK_PURPOSE_CONTROL:
        if (!ourselves)
            spotnik_link_called(links, pending);
        break;
    case SPOTNIK_PURPOSE_BACK:
        spotnik_link_answered(links, pending);
        break;
    case SPOTNIK_PURPOSE_DATA:
        if (!ourselves)
            adopt(links, pending);
        break;
    case SPOTNIK_PURPOSE_ADD_CONNECTION:
    case SPOTNIK_PURPOSE_SHARE:
        adopt(links, pending);
        break;
    case SPOTNIK_PURPOSE_STATE:
    case SPOTNIK_PURPOSE_EXCHANGE:
    case SPOTNIK_PURPOSE_STATUS:
    case SPOTNIK_PURPOSE_OBSERVE:
        pending->wants_hook = links->services = true;
        return;
    case SPOTNIK_PURPOSE_PEERS:
        peers_reply(links, pending);
        return;
    case SPOTNIK_PURPOSE_DUMP:
        dump_reply(links, pending);
        return;
    }
    spotnik_pending_close(links, pending); /* unless it has become something else */
}

/* A holder of the key answered where we dialled. If another id of the same host answers, the
 * expected process has ended: two cannot listen on one port. If another host answers, the address
 * is or was wrong. */
static void host_answered(struct spotnik_links *links, struct spotnik_pending *pending)
{
    struct spotnik_id found = pending->shake.wire.peer.id;
    struct spotnik_member expected = pending->peer;
    bool ourselves = spotnik_id_equal(found, links->credentials->self.id);
    bool as_expected = spotnik_id_equal(found, expected.id);
    bool same_host = pending->shake.wire.peer.host == expected.host && expected.host != 0;
    if (!as_expected && pending->purpose != SPOTNIK_PURPOSE_CONTROL) {
        dial_failed(links, pending, SPOTNIK_PROOF_NONE);
        return;
    }
    if (is_of_carrier(pending->purpose))
        adopt(links, pending);
    else if (pending->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_link_answer(links, pending);
    else if (!ourselves)
        spotnik_link_call(links, pending);
    spotnik_pending_close(links, pending); /* unless it has become something else */
    if (!as_expected)
        spotnik_links_tell_ended(links, SPOTNIK_EVENT_DIAL_FAILED, &expected,
                                 same_host ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE);
}

/* What makes no one a part of the job: questions. */
static bool is_question(uint8_t purpose)
{
    return purpose == SPOTNIK_PURPOSE_PEERS || purpose == SPOTNIK_PURPOSE_STATUS
           || purpose == SPOTNIK_PURPOSE_DUMP || purpose == SPOTNIK_PURPOSE_OBSERVE;
}

/* The peer is of another founding: keep it from the core. */
static bool is_barred(struct spotnik_links *links, const struct spotnik_pending *pending)
{
    return links->hooks.differs(links->hooks.context, &pending->shake)
           && !is_question(pending->shake.wire.purpose);
}

static void shake_on(struct spotnik_links *links, struct spotnik_pending *pending)
{
    pending->socket.readable = pending->socket.writable = false;
    int rc = spotnik_shake_run(&pending->shake, pending->socket.fd);
    if (rc == SPOTNIK_SHAKE_AGAIN)
        return;
    bool barred = rc == 0 && is_barred(links, pending);
    if (rc != 0)
        shake_failed(links, pending, rc);
    else if (barred && pending->dialled)
        dial_failed(links, pending, SPOTNIK_PROOF_NONE);
    else if (barred)
        spotnik_pending_close(links, pending);
    else if (pending->dialled)
        host_answered(links, pending);
    else
        service_enter(links, pending);
}

/* ---- the loop's part ---- */

/* What became of a connection that was under way. True: it failed, and the pending connection is
 * over. */
static bool connect_failed(struct spotnik_links *links, struct spotnik_pending *pending)
{
    if (!pending->connecting || !(pending->socket.writable || pending->socket.readable))
        return false;
    int error = spotnik_socket_error(pending->socket.fd);
    pending->connecting = error != 0;
    if (error != 0)
        dial_failed(links, pending, connect_proof(error));
    return error != 0;
}

/* The handshake, and the reply in the same turn: an idle process may not be woken for another. */
static void go_on(struct spotnik_links *links, struct spotnik_pending *pending)
{
    if (pending->reply == NULL && !pending->connecting
        && (pending->socket.readable || pending->socket.writable))
        shake_on(links, pending);
    if (pending->reply != NULL && pending->socket.fd >= 0)
        spotnik_pending_reply(links, pending);
}

static void give_up(struct spotnik_links *links, struct spotnik_pending *pending)
{
    if (pending->dialled)
        dial_failed(links, pending, SPOTNIK_PROOF_NONE);
    else
        spotnik_pending_close(links, pending);
}

/* Our own host lacks a resource: this proves nothing about the peer, and may pass. The core sees an
 * unanswered call. If it knew each try, it would make hundreds of views of the same members a
 * second. */
static bool is_ours(int error)
{
    return error == EADDRNOTAVAIL || error == EAGAIN || error == EMFILE || error == ENFILE
           || error == ENOBUFS || error == ENOMEM;
}

static bool tries_again(struct spotnik_pending *pending, uint64_t now_ns)
{
    if (!is_ours(pending->error) || now_ns >= pending->deadline_ns)
        return false;
    pending->error = 0;
    pending->connecting = false;
    pending->start_ns = spotnik_time_add(now_ns, AGAIN_NS);
    return true;
}

static void run_one(struct spotnik_links *links, struct spotnik_pending *pending, uint64_t now_ns)
{
    if (pending->start_ns != 0 && now_ns >= pending->start_ns)
        connect_begin(links, pending);
    if (pending->error != 0 && tries_again(pending, now_ns))
        return;
    if (pending->error != 0) {
        dial_failed(links, pending, connect_proof(pending->error));
        return;
    }
    if (pending->socket.fd < 0 || pending->wants_hook || connect_failed(links, pending))
        return;
    go_on(links, pending);
    if (pending->socket.fd >= 0 && !pending->wants_hook && now_ns >= pending->deadline_ns)
        give_up(links, pending);
}

static void reap(struct spotnik_links *links)
{
    struct spotnik_pending **at = &links->pending_list;
    while (*at != NULL) {
        struct spotnik_pending *pending = *at;
        if (is_used(pending)) {
            at = &pending->next;
            continue;
        }
        *at = pending->next;
        free(pending->reply);
        spotnik_shake_done(&pending->shake);
        spotnik_loop_free_later(links->loop, &pending->socket);
    }
}

uint64_t spotnik_pending_list_refusals(const struct spotnik_links *links, char *text, size_t size)
{
    snprintf(text, size, "%s", links->refusal);
    return links->refusals;
}

void spotnik_pending_list_run(struct spotnik_links *links, uint64_t now_ns)
{
    for (struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next)
        run_one(links, pending, now_ns);
    reap(links);
}

uint64_t spotnik_pending_list_deadline(const struct spotnik_links *links)
{
    uint64_t due_ns = links->listener.readable ? 0 : links->accept_ns;
    for (const struct spotnik_pending *pending = links->pending_list; pending != NULL;
         pending = pending->next) {
        if (pending->error != 0)
            return 0;
        due_ns = spotnik_time_min(due_ns, pending->start_ns != 0 ? pending->start_ns
                                                                 : pending->deadline_ns);
    }
    return due_ns;
}
