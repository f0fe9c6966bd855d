/* SPDX-License-Identifier: Apache-2.0 */
/* I/O of the handshake: whole messages in and out over a socket that gives and takes a few bytes at
 * a time. */
#include "base/descriptor.h"
#include "link/shake.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "link/auth.h"
#include "link/socket.h"
#include "link/tls.h"
#include "wire/frame.h"

#define TLS_HANDSHAKE 0x16 /* first byte of a record of TLS */
#define TLS_ALERT 0x15
#define TLS_UNKNOWN (SPOTNIK_TLS_CERT + 1) /* psk or cert */

/* Where purpose and nonce stand in HELLO and ANSWER (docs/reference/wire-format.md). */
#define PURPOSE_AT 11
#define NONCE_AT (SPOTNIK_HANDSHAKE_PREAMBLE_BYTES + SPOTNIK_JOB_HASH_BYTES)

static void mac(void *context, const uint8_t key[SPOTNIK_KEY_BYTES], const void *bytes, size_t size,
                uint8_t ret_mac[SPOTNIK_MAC_BYTES])
{
    struct spotnik_shake *shake = context;
    if (spotnik_auth_once(key, bytes, size, ret_mac))
        return;
    shake->mac_failed = true;
    spotnik_auth_random(ret_mac, SPOTNIK_MAC_BYTES); /* matches nothing */
}

static void init(struct spotnik_shake *shake, const struct spotnik_credentials *credentials)
{
    memset(shake, 0, sizeof *shake);
    shake->wire.mac = mac;
    memcpy(shake->wire.key, credentials->key, sizeof shake->wire.key); /* until it is done */
    shake->settings = credentials->tls;
    shake->wire.tls = credentials->tls != NULL ? (uint8_t)credentials->tls->mode : SPOTNIK_TLS_OFF;
    memcpy(shake->wire.job, credentials->job, sizeof shake->wire.job);
    shake->wire.self = credentials->self;
    shake->wire.presence = credentials->presence;
    shake->observes = credentials->observes;
    spotnik_auth_random(shake->wire.nonce, sizeof shake->wire.nonce);
    shake->in_want = SPOTNIK_HANDSHAKE_PREAMBLE_BYTES;
}

static void hello(struct spotnik_shake *shake, enum spotnik_purpose purpose)
{
    shake->wire.purpose = (uint8_t)purpose;
    shake->state = SPOTNIK_SHAKE_READ_ANSWER;
    spotnik_handshake_hello(&shake->wire, shake->out);
    shake->out_size = SPOTNIK_HANDSHAKE_HELLO_BYTES;
}

void spotnik_shake_init_client(struct spotnik_shake *shake,
                               const struct spotnik_credentials *credentials,
                               enum spotnik_purpose purpose)
{
    init(shake, credentials);
    hello(shake, credentials->observes ? SPOTNIK_PURPOSE_OBSERVE : purpose);
}

/* The second half stays random, and the first half was random when it was drawn: both sides' nonces
 * are fresh. */
static void init_named(struct spotnik_shake *shake, const struct spotnik_credentials *credentials,
                       const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES], enum spotnik_purpose purpose)
{
    init(shake, credentials);
    memcpy(shake->wire.nonce, name, SPOTNIK_SHAKE_NAME_BYTES);
    hello(shake, purpose);
}

void spotnik_shake_init_back(struct spotnik_shake *shake,
                             const struct spotnik_credentials *credentials,
                             const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    init_named(shake, credentials, name, SPOTNIK_PURPOSE_BACK);
}

void spotnik_shake_init_add_connection(struct spotnik_shake *shake,
                                       const struct spotnik_credentials *credentials,
                                       const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES])
{
    init_named(shake, credentials, name, SPOTNIK_PURPOSE_ADD_CONNECTION);
}

void spotnik_shake_name(const struct spotnik_shake *shake,
                        uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    memcpy(ret_name, shake->wire.answer + NONCE_AT, SPOTNIK_SHAKE_NAME_BYTES);
}

void spotnik_shake_answers(const struct spotnik_shake *shake,
                           uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES])
{
    memcpy(ret_name, shake->wire.hello + NONCE_AT, SPOTNIK_SHAKE_NAME_BYTES);
}

void spotnik_shake_init_server(struct spotnik_shake *shake,
                               const struct spotnik_credentials *credentials)
{
    init(shake, credentials);
    shake->mac_failed = !spotnik_auth_observer_key(credentials->key, shake->observer_key);
    shake->state = SPOTNIK_SHAKE_READ_HELLO;
}

/* 0: everything is out. */
static int out_flush(struct spotnik_shake *shake, int fd)
{
    while (shake->out_at < shake->out_size) {
        ssize_t sent = spotnik_tls_send(fd, shake->out + shake->out_at,
                                        shake->out_size - shake->out_at, MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return spotnik_descriptor_waits(errno) ? SPOTNIK_SHAKE_AGAIN : SPOTNIK_ERR_PEERS;
        shake->out_at += (size_t)sent;
    }
    return 0;
}

static void out_put(struct spotnik_shake *shake, size_t size)
{
    shake->out_at = 0;
    shake->out_size = size;
}

static int in_fill(struct spotnik_shake *shake, int fd)
{
    while (shake->in_have < shake->in_want) {
        ssize_t got = spotnik_tls_recv(fd, shake->in + shake->in_have,
                                       shake->in_want - shake->in_have, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && spotnik_descriptor_waits(errno))
            return SPOTNIK_SHAKE_AGAIN;
        if (got < 0 && spotnik_tls_why(fd) != NULL) /* it refuses our certificate */
            return SPOTNIK_ERR_KEY;
        if (got <= 0)
            return SPOTNIK_ERR_PEERS;
        shake->in_have += (size_t)got;
    }
    return 0;
}

static enum spotnik_handshake_type expected(const struct spotnik_shake *shake)
{
    switch (shake->state) {
    case SPOTNIK_SHAKE_READ_ANSWER:
        return SPOTNIK_HANDSHAKE_ANSWER;
    case SPOTNIK_SHAKE_READ_PROOF:
        return SPOTNIK_HANDSHAKE_PROOF;
    case SPOTNIK_SHAKE_READ_HELLO:
    case SPOTNIK_SHAKE_LAST_WRITE:
    case SPOTNIK_SHAKE_DONE:
    case SPOTNIK_SHAKE_FAILED:
        break;
    }
    return SPOTNIK_HANDSHAKE_HELLO;
}

/* The other side has another mode. What is left of its message is read, since bytes that lie unread
 * would end the connection before it has read our refusal. */
static int tls_differs(struct spotnik_shake *shake, int fd, uint8_t peer_tls)
{
    uint8_t sink[4096];
    shake->wire.peer_version = SPOTNIK_WIRE_VERSION;
    shake->wire.peer_tls = peer_tls;
    (void)!recv(fd, sink, sizeof sink, MSG_DONTWAIT);
    return SPOTNIK_ERR_VERSION;
}

/* One whole message. */
static int in_message(struct spotnik_shake *shake, int fd, enum spotnik_handshake_type *ret_type)
{
    int rc = in_fill(shake, fd);
    if (rc != 0)
        return rc;
    size_t size;
    if (shake->tls == SPOTNIK_SHAKE_PLAIN && shake->in[0] == TLS_HANDSHAKE && shake->in[1] == 3)
        return tls_differs(shake, fd, TLS_UNKNOWN);
    rc = spotnik_handshake_preamble(&shake->wire, shake->in, expected(shake), ret_type, &size);
    if (rc != 0)
        return rc;
    if (rc == 0 && shake->tls == SPOTNIK_SHAKE_REFUSAL_ONLY
        && *ret_type != SPOTNIK_HANDSHAKE_REFUSAL)
        return tls_differs(shake, fd, SPOTNIK_TLS_OFF);
    shake->in_want = size;
    rc = in_fill(shake, fd);
    if (rc != 0)
        return rc;
    shake->in_have = 0;
    shake->in_want = SPOTNIK_HANDSHAKE_PREAMBLE_BYTES;
    return 0;
}

/* One that observes proves another key. It cannot ask for more: all else needs the job key. */
static int observer_key_take(struct spotnik_shake *shake, int fd)
{
    if (shake->in[PURPOSE_AT] != SPOTNIK_PURPOSE_OBSERVE)
        return 0;
    if (shake->tls == SPOTNIK_SHAKE_TLS_DONE)
        return spotnik_tls_key(fd, shake->observer_key, shake->wire.key);
    memcpy(shake->wire.key, shake->observer_key, sizeof shake->wire.key);
    return 0;
}

static int message_take(struct spotnik_shake *shake, int fd, enum spotnik_handshake_type type)
{
    int rc;
    if (type == SPOTNIK_HANDSHAKE_REFUSAL) {
        shake->from_peer = true;
        return spotnik_handshake_refused(&shake->wire, shake->in);
    }
    switch (shake->state) {
    case SPOTNIK_SHAKE_READ_HELLO:
        rc = observer_key_take(shake, fd);
        if (rc == 0)
            rc = spotnik_handshake_answer(&shake->wire, shake->in, shake->out);
        out_put(shake, rc == 0 ? SPOTNIK_HANDSHAKE_ANSWER_BYTES : 0);
        shake->state = SPOTNIK_SHAKE_READ_PROOF;
        return rc;
    case SPOTNIK_SHAKE_READ_ANSWER:
        rc = spotnik_handshake_prove(&shake->wire, shake->in, shake->out);
        out_put(shake, rc == 0 ? SPOTNIK_HANDSHAKE_PROOF_BYTES : 0);
        shake->state = SPOTNIK_SHAKE_LAST_WRITE;
        return rc;
    case SPOTNIK_SHAKE_READ_PROOF:
        shake->state = SPOTNIK_SHAKE_DONE;
        return spotnik_handshake_admit(&shake->wire, shake->in);
    case SPOTNIK_SHAKE_LAST_WRITE:
    case SPOTNIK_SHAKE_DONE:
    case SPOTNIK_SHAKE_FAILED:
        break;
    }
    return SPOTNIK_ERR_ARGUMENT;
}

/* 0, and the first byte that has come, which stays. AGAIN: none has. */
static int first_byte(int fd, uint8_t *ret)
{
    ssize_t got;
    do
        got = recv(fd, ret, 1, MSG_PEEK | MSG_DONTWAIT);
    while (got < 0 && errno == EINTR);
    if (got < 0 && spotnik_descriptor_waits(errno))
        return SPOTNIK_SHAKE_AGAIN;
    return got == 1 ? 0 : SPOTNIK_ERR_PEERS;
}

static int tls_shake(struct spotnik_shake *shake, int fd)
{
    uint8_t key[SPOTNIK_KEY_BYTES];
    int rc = spotnik_tls_shake(fd, shake->wire.key, key);
    if (rc == 0) {
        memcpy(shake->wire.key, key, sizeof key);
        shake->tls = SPOTNIK_SHAKE_TLS_DONE;
    }
    OPENSSL_cleanse(key, sizeof key);
    return rc;
}

/* 0, and whether this connection has TLS. AGAIN: a server waits for a byte, since one that says
 * nothing must cost nothing: CERT reads three files. Inside a host the side that dials decides: a
 * process that was told psk dials its neighbours so, too. */
static int tls_choose(const struct spotnik_shake *shake, int fd, bool is_server, bool *ret)
{
    uint8_t byte = 0;
    *ret = shake->settings != NULL && shake->settings->mode != SPOTNIK_TLS_OFF
           && !spotnik_socket_is_local(fd);
    int rc = *ret && is_server ? first_byte(fd, &byte) : 0;
    if (rc == 0 && *ret && shake->settings->bare_inside && byte != TLS_HANDSHAKE)
        *ret = !spotnik_socket_is_inside(fd);
    return rc;
}

static int tls_begin(struct spotnik_shake *shake, int fd)
{
    bool is_server = shake->state == SPOTNIK_SHAKE_READ_HELLO, chosen;
    int rc = tls_choose(shake, fd, is_server, &chosen);
    if (rc != 0)
        return rc;
    if (!chosen) {
        spotnik_tls_end(fd); /* of a descriptor that the process closed behind our back */
        shake->tls = SPOTNIK_SHAKE_PLAIN;
        shake->wire.tls = SPOTNIK_TLS_OFF;
        return 0;
    }
    rc = spotnik_tls_begin(fd, shake->settings, shake->wire.key,
                           is_server         ? SPOTNIK_TLS_SERVER
                           : shake->observes ? SPOTNIK_TLS_OBSERVER
                                             : SPOTNIK_TLS_CLIENT);
    if (rc != 0) {
        snprintf(shake->why, sizeof shake->why, "%s", spotnik_last_error());
        return rc;
    }
    shake->tls = SPOTNIK_SHAKE_TLS_BEGUN;
    return is_server ? 0 : tls_shake(shake, fd);
}

/* The first byte of the other side shows whether it speaks TLS, too. */
static int tls_go_on(struct spotnik_shake *shake, int fd)
{
    uint8_t byte = TLS_HANDSHAKE;
    int rc = shake->tls == SPOTNIK_SHAKE_TLS_UNKNOWN ? tls_begin(shake, fd) : 0;
    if (rc != 0 || shake->tls != SPOTNIK_SHAKE_TLS_BEGUN)
        return rc;
    rc = spotnik_tls_is_heard(fd) ? 0 : first_byte(fd, &byte);
    if (rc != 0)
        return rc;
    if (byte == TLS_HANDSHAKE || byte == TLS_ALERT)
        return tls_shake(shake, fd);
    spotnik_tls_end(fd);
    shake->tls = SPOTNIK_SHAKE_REFUSAL_ONLY;
    out_put(shake, 0);
    return 0;
}

static int go_on(struct spotnik_shake *shake, int fd)
{
    int secured = tls_go_on(shake, fd);
    if (secured != 0)
        return secured;
    for (;;) {
        enum spotnik_handshake_type type;
        int rc = out_flush(shake, fd);
        if (rc != 0)
            return rc;
        if (shake->state == SPOTNIK_SHAKE_LAST_WRITE)
            shake->state = SPOTNIK_SHAKE_DONE;
        if (shake->state == SPOTNIK_SHAKE_DONE)
            return 0;
        rc = in_message(shake, fd, &type);
        if (rc == 0)
            rc = message_take(shake, fd, type);
        if (rc == 0 && shake->mac_failed)
            rc = SPOTNIK_ERR_SYSTEM;
        if (rc != 0)
            return rc;
    }
}

/* Tell the other side, as far as the socket takes it now; it is closed next. */
static void refuse(struct spotnik_shake *shake, int fd, int error)
{
    if (shake->from_peer || shake->tls == SPOTNIK_SHAKE_TLS_BEGUN
        || (error != SPOTNIK_ERR_VERSION && error != SPOTNIK_ERR_JOB && error != SPOTNIK_ERR_KEY))
        return;
    spotnik_handshake_refusal(&shake->wire, error, shake->out);
    out_put(shake, SPOTNIK_HANDSHAKE_REFUSAL_BYTES);
    (void)!out_flush(shake, fd);
}

int spotnik_shake_run(struct spotnik_shake *shake, int fd)
{
    shake->wire.mac_context = shake; /* the structure may have moved since */
    int rc = go_on(shake, fd);
    if (rc < 0) {
        const char *why = spotnik_tls_why(fd);
        if (why != NULL)
            snprintf(shake->why, sizeof shake->why, "%s", why);
        refuse(shake, fd, rc);
        shake->state = SPOTNIK_SHAKE_FAILED;
    }
    return rc;
}

bool spotnik_shake_is_writing(const struct spotnik_shake *shake)
{
    return shake->tls != SPOTNIK_SHAKE_TLS_BEGUN && shake->out_at < shake->out_size;
}

static const char *text_of(const struct spotnik_shake *shake, int error)
{
    switch (error) {
    case SPOTNIK_ERR_KEY:
        return "has another job key; give all members the same SPOTNIK_KEY_FILE";
    case SPOTNIK_ERR_JOB:
        return "belongs to another job; compare SPOTNIK_JOB and SPOTNIK_PEERS";
    case SPOTNIK_ERR_ARGUMENT:
        return "does not speak Spotnik's protocol";
    case SPOTNIK_ERR_SYSTEM:
        return "could not be checked: OpenSSL failed";
    default:
        break;
    }
    return shake->state == SPOTNIK_SHAKE_DONE
               ? "answered"
               : "closed the connection before it had proved the job key";
}

const char *spotnik_shake_text(const struct spotnik_shake *shake, int error,
                               char ret_text[SPOTNIK_SHAKE_TEXT])
{
    if (shake->why[0] != '\0')
        snprintf(ret_text, SPOTNIK_SHAKE_TEXT, "%s", shake->why);
    else if (error == SPOTNIK_ERR_VERSION && shake->wire.peer_version == SPOTNIK_WIRE_VERSION
             && shake->wire.peer_tls != shake->wire.tls)
        spotnik_tls_differs_text(shake->wire.peer_tls, shake->wire.tls, ret_text);
    else if (error == SPOTNIK_ERR_VERSION)
        snprintf(ret_text, SPOTNIK_SHAKE_TEXT,
                 "speaks wire version %u, and we speak %u; install the same Spotnik on all hosts "
                 "(\"spotnik --version\" names it)",
                 shake->wire.peer_version, SPOTNIK_WIRE_VERSION);
    else
        snprintf(ret_text, SPOTNIK_SHAKE_TEXT, "%s", text_of(shake, error));
    return ret_text;
}

void spotnik_shake_done(struct spotnik_shake *shake)
{
    OPENSSL_cleanse(shake->wire.key, sizeof shake->wire.key);
    OPENSSL_cleanse(shake->observer_key, sizeof shake->observer_key);
}
