/* SPDX-License-Identifier: Apache-2.0 */
/* Connections under TLS: OpenSSL reads and writes through calls of ours, which never block longer
 * than the socket and raise no signal. See tls.h. */
#include "link/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "link/seal.h"
#include "link/tls_session.h"
#include "spotnik/spotnik.h"

#define RECORD_BYTES 16384u
#define READ_BYTES (1u << 30) /* of one call */
#define TABLE 1024u           /* of tables of as many descriptors */

/* AES-GCM is safe for 2^24.5 records under one key; the next key comes before. */
uint64_t spotnik_tls_key_records = UINT64_C(1) << 23;

typedef _Atomic(struct spotnik_tls_session *) slot;
static _Atomic(slot *) tables[TABLE];

static slot *slot_find(int fd)
{
    slot *table = fd >= 0 && (unsigned)fd < TABLE * TABLE ? tables[(unsigned)fd / TABLE] : NULL;
    return table != NULL ? &table[(unsigned)fd % TABLE] : NULL;
}

static struct spotnik_tls_session *session_find(int fd)
{
    slot *place = slot_find(fd);
    return place != NULL ? atomic_load(place) : NULL;
}

/* NULL: no memory, or more descriptors than a system gives. */
static slot *slot_make(int fd)
{
    if ((unsigned)fd < TABLE * TABLE && slot_find(fd) == NULL) {
        slot *none = NULL, *table = calloc(TABLE, sizeof *table);
        if (table != NULL
            && !atomic_compare_exchange_strong(&tables[(unsigned)fd / TABLE], &none, table))
            free(table);
    }
    return slot_find(fd);
}

static void session_end(slot *place)
{
    struct spotnik_tls_session *session = place != NULL ? atomic_exchange(place, NULL) : NULL;
    if (session == NULL)
        return;
    SSL_free(session->ssl);
    OPENSSL_clear_free(session, sizeof *session);
}

/* ---- what OpenSSL calls ---- */

/* The kernel reports an error of a socket once. We keep it, and report it at each call: FIN after
 * RST would look like the end of a process. */
static int io_end(BIO *bio, struct spotnik_tls_session *session, ssize_t moved, int retry)
{
    if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
    else if (moved < 0)
        session->error = errno;
    return (int)moved;
}

static int io_write(BIO *bio, const char *bytes, int size)
{
    struct spotnik_tls_session *session = BIO_get_data(bio);
    ssize_t sent = -1;
    BIO_clear_retry_flags(bio);
    if (session->error != 0)
        return -1;
    do
        sent = send(session->fd, bytes, (size_t)size, MSG_NOSIGNAL | session->flags);
    while (sent < 0 && errno == EINTR);
    return io_end(bio, session, sent, BIO_FLAGS_WRITE);
}

static int io_read(BIO *bio, char *bytes, int size)
{
    struct spotnik_tls_session *session = BIO_get_data(bio);
    ssize_t got = -1;
    BIO_clear_retry_flags(bio);
    if (session->error != 0)
        return -1;
    do
        got = recv(session->fd, bytes, (size_t)size, session->flags);
    while (got < 0 && errno == EINTR);
    session->ended |= got == 0;
    session->heard |= got > 0;
    return io_end(bio, session, got, BIO_FLAGS_READ);
}

static long io_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *io_method(void)
{
    static _Atomic(BIO_METHOD *) method;
    BIO_METHOD *made = atomic_load(&method), *none = NULL;
    if (made != NULL)
        return made;
    made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "spotnik");
    if (made == NULL)
        return NULL;
    BIO_meth_set_write(made, io_write);
    BIO_meth_set_read(made, io_read);
    BIO_meth_set_ctrl(made, io_control);
    if (atomic_compare_exchange_strong(&method, &none, made))
        return made;
    BIO_meth_free(made);
    return none;
}

static bool io_attach(struct spotnik_tls_session *session)
{
    BIO_METHOD *method = io_method();
    BIO *bio = method != NULL ? BIO_new(method) : NULL;
    if (bio == NULL)
        return false;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    return true;
}

/* ---- begin and end ---- */

int spotnik_tls_begin(int fd, const struct spotnik_tls_settings *settings, const uint8_t key[32],
                      enum spotnik_tls_role role)
{
    slot *place = slot_make(fd);
    struct spotnik_tls_session *session = OPENSSL_zalloc(sizeof *session);
    if (place == NULL || session == NULL) {
        OPENSSL_free(session);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a connection under TLS");
    }
    *session = (struct spotnik_tls_session){
        .fd = fd, .mode = settings->mode, .flags = MSG_DONTWAIT, .role = role
    };
    int rc = spotnik_tls_session_open(session, settings, key);
    if (rc == 0 && !io_attach(session))
        rc = spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a connection under TLS");
    if (rc != 0) {
        SSL_free(session->ssl);
        OPENSSL_clear_free(session, sizeof *session);
        ERR_clear_error();
        return rc;
    }
    session_end(place); /* of a descriptor that the process closed behind our back */
    atomic_store(place, session);
    return 0;
}

/* After a call of OpenSSL that returned `rc`, before which the queue of errors was empty. */
static bool waits(const struct spotnik_tls_session *session, int rc)
{
    int error = SSL_get_error(session->ssl, rc);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
}

int spotnik_tls_shake(int fd, const uint8_t key[32], uint8_t ret_key[32])
{
    struct spotnik_tls_session *session = session_find(fd);
    ERR_clear_error();
    int rc = SSL_do_handshake(session->ssl);
    if (rc == 1)
        return spotnik_tls_session_key(session, key, ret_key) ? 0 : SPOTNIK_ERR_SYSTEM;
    rc = waits(session, rc) ? 1 : spotnik_tls_session_judge(session);
    ERR_clear_error();
    return rc;
}

int spotnik_tls_key(int fd, const uint8_t key[32], uint8_t ret_key[32])
{
    return spotnik_tls_session_key(session_find(fd), key, ret_key) ? 0 : SPOTNIK_ERR_SYSTEM;
}

const char *spotnik_tls_why(int fd)
{
    struct spotnik_tls_session *session = session_find(fd);
    return session != NULL && session->why[0] != '\0' ? session->why : NULL;
}

bool spotnik_tls_is_on(int fd)
{
    return session_find(fd) != NULL;
}

bool spotnik_tls_is_heard(int fd)
{
    struct spotnik_tls_session *session = session_find(fd);
    return session != NULL && session->heard;
}

void spotnik_tls_end(int fd)
{
    session_end(slot_find(fd));
}

void spotnik_tls_close(int fd)
{
    spotnik_tls_end(fd);
    close(fd);
}

/* ---- bytes ---- */

/* A part of one has come. OpenSSL counts a header that is whole no more, but waits for the body. */
static bool is_within_record(const SSL *ssl)
{
    return SSL_has_pending(ssl) || strcmp(SSL_rstate_string(ssl), "RB") == 0;
}

/* What a call of OpenSSL that returned `rc` means for a socket. FIN within a record is none. */
static ssize_t failed(struct spotnik_tls_session *session, int rc)
{
    bool again = waits(session, rc);
    errno = again ? EAGAIN : session->error != 0 ? session->error : ECONNRESET;
    if (again || session->error != 0)
        return -1;
    if (session->ended)
        return is_within_record(session->ssl) ? -1 : 0;
    (void)spotnik_tls_session_judge(session);
    if (session->alert == 0)
        spotnik_seal_failure_note();
    errno = session->error = EBADMSG; /* no record of the peer's */
    return -1;
}

/* What a call returns that moved `total` bytes before OpenSSL gave `rc`. No error stays behind in
 * this thread: Python's own TLS would take it for its own. */
static ssize_t outcome(struct spotnik_tls_session *session, int rc, size_t total)
{
    ssize_t moved = total > 0 ? (ssize_t)total : failed(session, rc);
    ERR_clear_error();
    return moved;
}

/* Up to one record of what stands behind the first `skip` bytes: in place where it lies in one
 * piece, else in `room`. */
static size_t record_gather(const struct msghdr *message, size_t skip, uint8_t room[RECORD_BYTES],
                            const uint8_t **ret_from)
{
    size_t have = 0;
    *ret_from = room;
    for (size_t i = 0; i < message->msg_iovlen && have < RECORD_BYTES; i++) {
        const uint8_t *base = message->msg_iov[i].iov_base;
        size_t size = message->msg_iov[i].iov_len;
        size_t gone = skip < size ? skip : size;
        skip -= gone;
        size -= gone;
        if (have == 0 && size >= RECORD_BYTES) {
            *ret_from = base + gone;
            return RECORD_BYTES;
        }
        size = size < RECORD_BYTES - have ? size : RECORD_BYTES - have;
        if (size > 0)
            memcpy(room + have, base + gone, size);
        have += size;
    }
    return have;
}

/* A new key, on its way before anything is written under it. 1: it is. */
static int key_renew(struct spotnik_tls_session *session)
{
    if (session->records >= spotnik_tls_key_records
        && SSL_key_update(session->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
        session->records = 0;
        session->updates = true;
    }
    int rc = session->updates ? SSL_do_handshake(session->ssl) : 1;
    session->updates = rc != 1;
    return rc;
}

/* One record; 1: it is gone. What OpenSSL has encrypted and the kernel has not taken is written
 * again first, whatever stands in `from` by then. */
static int record_write(struct spotnik_tls_session *session, const uint8_t *from, size_t size)
{
    static const uint8_t any[RECORD_BYTES];
    ERR_clear_error();
    int rc = session->promised == 0 ? key_renew(session) : 1;
    if (rc != 1)
        return rc;
    rc = SSL_write(session->ssl, session->promised == 0 ? from : any, (int)size);
    session->promised = rc <= 0 && waits(session, rc) ? size : 0;
    session->records += rc > 0;
    return rc > 0 ? 1 : rc;
}

ssize_t spotnik_tls_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct spotnik_tls_session *session = session_find(fd);
    uint8_t room[RECORD_BYTES];
    size_t total = 0;
    if (session == NULL)
        return sendmsg(fd, message, flags | MSG_NOSIGNAL);
    session->flags = flags & MSG_DONTWAIT;
    for (;;) {
        const uint8_t *from = room;
        size_t size = session->promised;
        if (size == 0)
            size = record_gather(message, total, room, &from);
        if (size == 0)
            return (ssize_t)total;
        int rc = record_write(session, from, size);
        if (rc != 1)
            return outcome(session, rc, total);
        total += size;
    }
}

ssize_t spotnik_tls_send(int fd, const void *bytes, size_t size, int flags)
{
    struct iovec piece = { (void *)(uintptr_t)bytes, size };
    return spotnik_tls_sendmsg(fd, &(struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 }, flags);
}

/* As much as there is, as the kernel would: only the first byte may be waited for. Returns what
 * SSL_read() returned last. */
static int piece_read(struct spotnik_tls_session *session, const struct iovec *piece, size_t *total)
{
    int got = 1;
    for (size_t have = 0; have < piece->iov_len && got > 0; have += got > 0 ? (size_t)got : 0) {
        size_t left = piece->iov_len - have;
        ERR_clear_error();
        got = SSL_read(session->ssl, (uint8_t *)piece->iov_base + have,
                       (int)(left < READ_BYTES ? left : READ_BYTES));
        session->flags = got > 0 ? MSG_DONTWAIT : session->flags;
        *total += got > 0 ? (size_t)got : 0;
    }
    return got;
}

ssize_t spotnik_tls_recvmsg(int fd, struct msghdr *message, int flags)
{
    struct spotnik_tls_session *session = session_find(fd);
    size_t total = 0;
    int got = 1;
    if (session == NULL)
        return recvmsg(fd, message, flags);
    session->flags = flags & MSG_DONTWAIT;
    for (size_t i = 0; i < message->msg_iovlen && got > 0; i++)
        got = piece_read(session, &message->msg_iov[i], &total);
    return got > 0 ? (ssize_t)total : outcome(session, got, total);
}

ssize_t spotnik_tls_recv(int fd, void *bytes, size_t size, int flags)
{
    struct iovec piece = { bytes, size };
    return spotnik_tls_recvmsg(fd, &(struct msghdr){ .msg_iov = &piece, .msg_iovlen = 1 }, flags);
}

size_t spotnik_tls_promised(int fd)
{
    struct spotnik_tls_session *session = session_find(fd);
    return session != NULL ? session->promised : 0;
}

bool spotnik_tls_has_input(int fd)
{
    struct spotnik_tls_session *session = session_find(fd);
    return session != NULL && SSL_pending(session->ssl) > 0;
}
