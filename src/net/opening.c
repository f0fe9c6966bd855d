/* SPDX-License-Identifier: Apache-2.0 */
/* Connections before they are links, lanes or streams: on their way out until somebody answers, and at our
 * door until they have proved the job key. Strangers cost one slot of a bounded table, for a bounded time,
 * and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/time.h"
#include "net/address.h"
#include "net/answer.h"
#include "net/share.h"
#include "net/state.h"

#define STATUS_BYTES (256u * 1024)

void spotnik_opening_close(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    if (opening->socket.fd >= 0)
        close(spotnik_socket_release(&opening->socket, engine->loop.epoll_fd));
}

/* Not yet to be taken out of the list. */
static bool is_used(const struct spotnik_opening *opening)
{
    return opening->socket.fd >= 0 || opening->error != 0 || opening->wants_hook || opening->start_ns != 0;
}

static struct spotnik_opening *opening_new(struct spotnik_engine *engine)
{
    struct spotnik_opening *opening = calloc(1, sizeof *opening);
    if (opening == NULL)
        return NULL;
    opening->socket.kind = SPOTNIK_SOCKET_OPENING;
    opening->socket.fd = -1;
    opening->deadline_ns = spotnik_time_add(spotnik_clock_ns(), SPOTNIK_OPENING_NS);
    opening->next = engine->openings;
    engine->openings = opening;
    return opening;
}

/* ---- in ---- */

struct spotnik_opening *spotnik_opening_admit(struct spotnik_engine *engine, int fd)
{
    struct spotnik_opening *opening = opening_new(engine);
    if (opening == NULL)
        return NULL;
    spotnik_fork_note(fd);
    spotnik_socket_tune(fd, engine->config.credentials.self.address);
    struct spotnik_credentials credentials = engine->config.credentials;
    spotnik_presence_get(engine, &credentials.presence);
    spotnik_shake_init_server(&opening->shake, &credentials);
    explicit_bzero(&credentials, sizeof credentials);
    if (spotnik_socket_watch(&opening->socket, engine->loop.epoll_fd, fd, SPOTNIK_SOCKET_OPENING) != 0)
        return NULL; /* with no socket, it is taken out of the list */
    opening->socket.readable = true;
    return opening;
}

/* ---- out ---- */

static bool is_dialling(const struct spotnik_engine *engine, const struct spotnik_member *peer,
                        enum spotnik_purpose purpose)
{
    for (const struct spotnik_opening *opening = engine->openings; opening != NULL; opening = opening->next)
        if (opening->dialled && opening->purpose == purpose && is_used(opening)
            && spotnik_id_equal(opening->peer.id, peer->id))
            return true;
    return false;
}

static uint64_t shunned_until(const struct spotnik_engine *engine, struct spotnik_id peer)
{
    uint64_t until_ns = 0;
    for (uint32_t i = 0; i < SPOTNIK_SHUNNED; i++)
        if (spotnik_id_equal(engine->shunned[i].peer, peer) && engine->shunned[i].until_ns > until_ns)
            until_ns = engine->shunned[i].until_ns;
    return until_ns;
}

/* What is not dialled any more: nobody is told. */
static void dial_forget(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    opening->error = 0;
    opening->start_ns = 0;
    opening->wants_hook = false;
    spotnik_opening_close(engine, opening);
}

/* The result comes later: as an event of the socket, or in opening->error. */
static void connect_begin(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    int fd = -1;
    bool speaks = opening->purpose == SPOTNIK_PURPOSE_CONTROL || opening->purpose == SPOTNIK_PURPOSE_BACK;
    bool narrow = opening->peer.host != engine->config.credentials.self.host && (speaks || spotnik_watch_is_narrow(engine, &opening->peer));
    opening->start_ns = 0;
    opening->connecting = true;
    int rc = opening->purpose == SPOTNIK_PURPOSE_SHARE
                 ? spotnik_share_connect(engine, &opening->peer, &fd)
             : narrow
                 ? spotnik_socket_connect_narrow(opening->peer.address, opening->peer.port, &fd)
                 : spotnik_socket_connect(opening->peer.address, opening->peer.port, &fd);
    if (rc == 0
        && spotnik_socket_watch(&opening->socket, engine->loop.epoll_fd, fd, SPOTNIK_SOCKET_OPENING) != 0) {
        close(fd);
        rc = -ENOMEM;
    }
    opening->error = -rc;
}

/* NULL: no memory. Failures are kept for the progress thread, because the core may be the caller. */
static struct spotnik_opening *dial_new(struct spotnik_engine *engine, const struct spotnik_member *peer,
                                        enum spotnik_purpose purpose)
{
    struct spotnik_opening *opening = opening_new(engine);
    spotnik_engine_kick(engine);
    if (opening == NULL)
        return NULL;
    opening->dialled = true;
    opening->purpose = purpose;
    opening->peer = *peer;
    opening->start_ns = shunned_until(engine, peer->id);
    return opening;
}

/* What we say first; again, when the peer speaks an older version. */
static void shake_init(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    struct spotnik_credentials credentials = engine->config.credentials;
    credentials.speech = spotnik_speech_of(engine, opening->peer.id);
    spotnik_presence_get(engine, &credentials.presence);
    if (opening->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_shake_init_back(&opening->shake, &credentials, opening->name);
    else if (opening->purpose == SPOTNIK_PURPOSE_WIDEN)
        spotnik_shake_init_widen(&opening->shake, &credentials, opening->name);
    else
        spotnik_shake_init_client(&opening->shake, &credentials, opening->purpose);
    explicit_bzero(&credentials, sizeof credentials);
}

static void dial_start(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    shake_init(engine, opening);
    if (opening->start_ns <= spotnik_clock_ns())
        connect_begin(engine, opening);
}

void spotnik_opening_dial(struct spotnik_engine *engine, const struct spotnik_member *peer,
                          enum spotnik_purpose purpose)
{
    if (is_dialling(engine, peer, purpose)
        || (purpose == SPOTNIK_PURPOSE_CONTROL && spotnik_link_is_called(engine, peer->id)))
        return;
    struct spotnik_opening *opening = dial_new(engine, peer, purpose);
    if (opening != NULL) /* without memory there is no telling either; the core asks again */
        dial_start(engine, opening);
}

/* The other half of the link that `peer` has begun with the connection `name`. */
void spotnik_opening_answer(struct spotnik_engine *engine, const struct spotnik_member *peer,
                            const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_opening *opening = dial_new(engine, peer, SPOTNIK_PURPOSE_BACK);
    if (opening == NULL)
        return; /* the link waits for it, and is given up */
    memcpy(opening->name, name, sizeof opening->name);
    dial_start(engine, opening);
}

/* One more connection beside `name`, which leads from us to `peer`. */
void spotnik_opening_widen(struct spotnik_engine *engine, const struct spotnik_member *peer,
                           const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    struct spotnik_opening *opening = dial_new(engine, peer, SPOTNIK_PURPOSE_WIDEN);
    if (opening == NULL)
        return; /* the lane stays as wide as it is */
    memcpy(opening->name, name, sizeof opening->name);
    dial_start(engine, opening);
}

void spotnik_opening_cancel(struct spotnik_engine *engine, struct spotnik_id peer)
{
    for (struct spotnik_opening *opening = engine->openings; opening != NULL; opening = opening->next)
        if (opening->dialled && opening->purpose == SPOTNIK_PURPOSE_CONTROL
            && spotnik_id_equal(opening->peer.id, peer))
            dial_forget(engine, opening);
}

void spotnik_openings_cancel(struct spotnik_engine *engine, bool lanes_only)
{
    for (struct spotnik_opening *opening = engine->openings; opening != NULL; opening = opening->next)
        if (!lanes_only || (opening->dialled && opening->purpose == SPOTNIK_PURPOSE_DATA))
            dial_forget(engine, opening);
}

/* The kernel there has answered the dial of a lane; its process, not yet. */
bool spotnik_opening_is_connected(const struct spotnik_engine *engine, struct spotnik_id peer)
{
    for (const struct spotnik_opening *opening = engine->openings; opening != NULL; opening = opening->next)
        if (opening->dialled && opening->purpose == SPOTNIK_PURPOSE_DATA && opening->socket.fd >= 0 && opening->start_ns == 0
            && !opening->connecting && spotnik_id_equal(opening->peer.id, peer))
            return true;
    return false;
}

static void dial_failed(struct spotnik_engine *engine, struct spotnik_opening *opening,
                        enum spotnik_proof proof)
{
    struct spotnik_member peer = opening->peer;
    opening->error = 0;
    spotnik_opening_close(engine, opening);
    if (opening->purpose == SPOTNIK_PURPOSE_SHARE)
        return; /* it is tried again; until then steps go round the ring */
    if (opening->purpose == SPOTNIK_PURPOSE_DATA)
        spotnik_lane_failed(engine, &peer);
    else if (opening->purpose == SPOTNIK_PURPOSE_WIDEN)
        spotnik_widen_failed(engine, opening);
    else if (opening->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_link_unanswered(engine, opening->name);
    else if (spotnik_link_find(engine, peer.id) == NULL)
        spotnik_engine_tell(engine, SPOTNIK_EVENT_DIAL_FAILED, &peer, proof);
}

static enum spotnik_proof connect_proof(int error)
{
    return error == ECONNREFUSED ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE;
}

/* ---- the handshake ---- */

static void refusal_note(struct spotnik_engine *engine, const struct spotnik_opening *opening, int error)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    uint8_t address[16] = { 0 };
    uint16_t port = 0;
    char text[SPOTNIK_ADDRESS_TEXT];
    if (getpeername(opening->socket.fd, (struct sockaddr *)&name, &size) == 0)
        spotnik_address_from_kernel(&name, address, &port);
    engine->refusals++;
    snprintf(engine->refusal, sizeof engine->refusal, "%s %s", spotnik_address_format(text, address, port),
             spotnik_shake_text(&opening->shake, error));
}

/* The peer has not been upgraded yet: once more, in its words. */
static bool dial_older(struct spotnik_engine *engine, struct spotnik_opening *opening, int error)
{
    uint16_t older = opening->dialled ? spotnik_shake_older(&opening->shake, error) : 0;
    if (older == 0)
        return false;
    spotnik_speech_note(engine, opening->peer.id, older);
    spotnik_opening_close(engine, opening);
    shake_init(engine, opening);
    connect_begin(engine, opening);
    return true;
}

static void shake_failed(struct spotnik_engine *engine, struct spotnik_opening *opening, int error)
{
    if (dial_older(engine, opening, error))
        return;
    if (error != SPOTNIK_ERR_PEERS)
        refusal_note(engine, opening, error);
    if (opening->dialled) /* hung up: its process may be about to end */
        dial_failed(engine, opening, error == SPOTNIK_ERR_PEERS ? SPOTNIK_PROOF_LIKELY : SPOTNIK_PROOF_NONE);
    else
        spotnik_opening_close(engine, opening);
}

static void peers_reply(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    spotnik_caller_note(engine, &opening->shake.wire.peer);
    struct spotnik_answer answer = { .self = engine->config.credentials.self, .vote = engine->vote };
    if (status.role == SPOTNIK_ROLE_MEMBER) {
        answer.epoch = view->epoch;
        answer.size = view->size;
        answer.parked = status.parked;
    }
    opening->reply = malloc(SPOTNIK_ANSWER_BYTES);
    if (opening->reply == NULL) {
        spotnik_opening_close(engine, opening);
        return;
    }
    spotnik_answer_encode(&answer, (uint8_t *)opening->reply);
    opening->reply_size = SPOTNIK_ANSWER_BYTES;
}

static void word_reply(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    char line[4096];
    spotnik_word_take(engine, &opening->shake, line, sizeof line);
    opening->reply = strdup(line);
    opening->reply_size = opening->reply != NULL ? strlen(opening->reply) : 0;
    if (opening->reply == NULL)
        spotnik_opening_close(engine, opening);
}

static void guest_enter(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    struct spotnik_id peer = opening->shake.wire.peer.id;
    /* We may have dialled the address of a dead member, which is ours now. */
    bool ourselves = spotnik_id_equal(peer, engine->config.credentials.self.id);
    opening->purpose = (enum spotnik_purpose)opening->shake.wire.purpose;
    switch (opening->purpose) {
    case SPOTNIK_PURPOSE_CONTROL:
        if (!ourselves)
            spotnik_link_called(engine, opening);
        break;
    case SPOTNIK_PURPOSE_BACK:
        spotnik_link_answered(engine, opening);
        break;
    case SPOTNIK_PURPOSE_DATA:
        if (!ourselves)
            spotnik_stream_adopt(engine, opening);
        break;
    case SPOTNIK_PURPOSE_WIDEN:
        spotnik_stream_widen(engine, opening);
        break;
    case SPOTNIK_PURPOSE_STATE:
    case SPOTNIK_PURPOSE_EXCHANGE:
    case SPOTNIK_PURPOSE_STATUS:
        opening->wants_hook = engine->hooks_due = true;
        return;
    case SPOTNIK_PURPOSE_SHARE:
        spotnik_share_adopt(engine, opening);
        break;
    case SPOTNIK_PURPOSE_PEERS:
        peers_reply(engine, opening);
        return;
    case SPOTNIK_PURPOSE_WORD:
        word_reply(engine, opening);
        return;
    }
    spotnik_opening_close(engine, opening); /* unless it has become something else */
}

/* A holder of the key answered where we dialled. Another id than expected, of the same host: the expected process is
 * not there any more, for two cannot listen on one port. Of another host: the address is not what it was, or never was. */
static void host_answered(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    struct spotnik_id found = opening->shake.wire.peer.id;
    struct spotnik_member expected = opening->peer;
    bool ourselves = spotnik_id_equal(found, engine->config.credentials.self.id);
    bool as_expected = spotnik_id_equal(found, expected.id);
    bool same_host = opening->shake.wire.peer.host == expected.host && expected.host != 0;
    if (!as_expected && opening->purpose != SPOTNIK_PURPOSE_CONTROL) {
        dial_failed(engine, opening, SPOTNIK_PROOF_NONE);
        return;
    }
    if (opening->purpose == SPOTNIK_PURPOSE_DATA)
        spotnik_lane_adopt(engine, opening);
    else if (opening->purpose == SPOTNIK_PURPOSE_WIDEN)
        spotnik_widen_adopt(engine, opening);
    else if (opening->purpose == SPOTNIK_PURPOSE_BACK)
        spotnik_link_answer(engine, opening);
    else if (opening->purpose == SPOTNIK_PURPOSE_SHARE)
        spotnik_share_adopt(engine, opening);
    else if (!ourselves)
        spotnik_link_call(engine, opening);
    spotnik_opening_close(engine, opening); /* unless it has become something else */
    if (!as_expected)
        spotnik_engine_tell(engine, SPOTNIK_EVENT_DIAL_FAILED, &expected, same_host ? SPOTNIK_PROOF_GONE : SPOTNIK_PROOF_NONE);
}

/* Others, such as `spotnik status`, have a new id every time. */
static bool is_of_member(uint8_t purpose)
{
    return purpose == SPOTNIK_PURPOSE_CONTROL || purpose == SPOTNIK_PURPOSE_BACK || purpose == SPOTNIK_PURPOSE_DATA
           || purpose == SPOTNIK_PURPOSE_WIDEN || purpose == SPOTNIK_PURPOSE_SHARE;
}

/* What makes no one a part of the job: questions. */
static bool is_question(uint8_t purpose)
{
    return purpose == SPOTNIK_PURPOSE_PEERS || purpose == SPOTNIK_PURPOSE_STATUS || purpose == SPOTNIK_PURPOSE_WORD;
}

/* Of another lineage: the core must not hear a word of it. */
static bool is_barred(struct spotnik_engine *engine, const struct spotnik_opening *opening)
{
    return spotnik_meet_is_foreign(engine, &opening->shake) && !is_question(opening->shake.wire.purpose);
}

static void shake_on(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    opening->socket.readable = opening->socket.writable = false;
    int rc = spotnik_shake_run(&opening->shake, opening->socket.fd);
    if (rc == SPOTNIK_SHAKE_AGAIN)
        return;
    if (rc == 0 && is_of_member(opening->shake.wire.purpose))
        spotnik_speech_note(engine, opening->shake.wire.peer.id, opening->shake.wire.speech);
    bool barred = rc == 0 && is_barred(engine, opening);
    if (rc != 0)
        shake_failed(engine, opening, rc);
    else if (barred && opening->dialled)
        dial_failed(engine, opening, SPOTNIK_PROOF_NONE);
    else if (barred)
        spotnik_opening_close(engine, opening);
    else if (opening->dialled)
        host_answered(engine, opening);
    else
        guest_enter(engine, opening);
}

/* ---- replies ---- */

static void reply_on(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    while (opening->reply_at < opening->reply_size) {
        ssize_t sent = send(opening->socket.fd, opening->reply + opening->reply_at,
                            opening->reply_size - opening->reply_at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            opening->socket.writable = false;
            return;
        }
        if (sent < 0)
            break;
        opening->reply_at += (size_t)sent;
    }
    spotnik_opening_close(engine, opening);
}

/* ---- the loop's part ---- */

static void run_one(struct spotnik_engine *engine, struct spotnik_opening *opening, uint64_t now_ns)
{
    if (opening->start_ns != 0 && now_ns >= opening->start_ns)
        connect_begin(engine, opening);
    if (opening->error != 0) {
        dial_failed(engine, opening, connect_proof(opening->error));
        return;
    }
    if (opening->socket.fd < 0 || opening->wants_hook)
        return;
    if (opening->connecting && (opening->socket.writable || opening->socket.readable)) {
        int error = spotnik_socket_error(opening->socket.fd);
        if (error != 0) {
            dial_failed(engine, opening, connect_proof(error));
            return;
        }
        opening->connecting = false;
    }
    if (opening->reply == NULL && !opening->connecting && (opening->socket.readable || opening->socket.writable))
        shake_on(engine, opening);
    if (opening->reply != NULL && opening->socket.fd >= 0)
        reply_on(engine, opening); /* in the same turn: an idle process may not be woken for another */
    if (opening->socket.fd < 0 || opening->wants_hook || now_ns < opening->deadline_ns)
        return;
    if (opening->dialled)
        dial_failed(engine, opening, SPOTNIK_PROOF_NONE);
    else
        spotnik_opening_close(engine, opening);
}

static void reap(struct spotnik_engine *engine)
{
    struct spotnik_opening **at = &engine->openings;
    while (*at != NULL) {
        struct spotnik_opening *opening = *at;
        if (is_used(opening)) {
            at = &opening->next;
            continue;
        }
        *at = opening->next;
        free(opening->reply);
        spotnik_shake_done(&opening->shake);
        spotnik_engine_bury(engine, &opening->socket);
    }
}

void spotnik_openings_run(struct spotnik_engine *engine, uint64_t now_ns)
{
    for (struct spotnik_opening *opening = engine->openings; opening != NULL; opening = opening->next)
        run_one(engine, opening, now_ns);
    reap(engine);
}

uint64_t spotnik_openings_deadline(const struct spotnik_engine *engine)
{
    uint64_t due_ns = engine->listener.readable ? 0 : engine->accept_ns;
    for (const struct spotnik_opening *opening = engine->openings; opening != NULL; opening = opening->next) {
        if (opening->error != 0)
            return 0;
        due_ns = spotnik_time_min(due_ns, opening->start_ns != 0 ? opening->start_ns : opening->deadline_ns);
    }
    return due_ns;
}

/* ---- guests that are served by the rooms above, without the lock ---- */

static void hand_over(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    bool exchange = opening->purpose == SPOTNIK_PURPOSE_EXCHANGE;
    void (*take)(void *, int, const struct spotnik_member *) =
        exchange ? hooks->exchange_connection : hooks->state_connection;
    struct spotnik_member peer = opening->shake.wire.peer;
    spotnik_engine_lock(engine);
    int fd = spotnik_socket_release(&opening->socket, engine->loop.epoll_fd);
    opening->wants_hook = false;
    spotnik_engine_unlock(engine);
    if (exchange)
        spotnik_socket_yield(fd);
    if (take == NULL || fcntl(fd, F_SETFL, 0) != 0)
        close(fd);
    else
        take(hooks->context, fd, &peer);
}

static void status_serve(struct spotnik_engine *engine, struct spotnik_opening *opening)
{
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    char *text = malloc(STATUS_BYTES);
    size_t size = text != NULL && hooks->status_text != NULL
                      ? hooks->status_text(hooks->context, text, STATUS_BYTES)
                      : 0;
    spotnik_engine_lock(engine);
    opening->wants_hook = false;
    opening->reply = text;
    opening->reply_size = size < STATUS_BYTES ? size : STATUS_BYTES;
    if (text == NULL)
        spotnik_opening_close(engine, opening);
    else
        reply_on(engine, opening);
    spotnik_engine_unlock(engine);
}

static struct spotnik_opening *next_guest(struct spotnik_engine *engine)
{
    struct spotnik_opening *opening;
    spotnik_engine_lock(engine);
    for (opening = engine->openings; opening != NULL; opening = opening->next)
        if (opening->wants_hook && opening->socket.fd >= 0)
            break;
    engine->hooks_due = opening != NULL;
    spotnik_engine_unlock(engine);
    return opening;
}

/* Only the progress thread takes openings out of the list, so one it holds stays. */
void spotnik_openings_serve(struct spotnik_engine *engine)
{
    struct spotnik_opening *opening;
    while ((opening = next_guest(engine)) != NULL) {
        if (opening->purpose != SPOTNIK_PURPOSE_STATUS)
            hand_over(engine, opening);
        else
            status_serve(engine, opening);
    }
}
