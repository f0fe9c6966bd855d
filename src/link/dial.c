/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking client: connect, prove the key, and hand the socket over. For state transfer, status
 * and the search for the job, each on a thread that may wait. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "link/address.h"
#include "link/auth.h"
#include "link/dial.h"
#include "link/shake.h"
#include "link/socket.h"

#define QUESTION_BYTES (1u << 20) /* no answer is longer */

/* What is said and heard in an introduction beside what credentials say. */
struct manner {
    enum spotnik_purpose purpose;
    struct spotnik_presence *ret_presence; /* of the answering side; may be NULL */
    uint8_t *ret_key;                      /* of what it will say; may be NULL */
};

/* Until when, and what ends it before. */
struct patience {
    uint64_t until_ns;
    int stop_fd; /* readable: no more; -1: never */
};

/* Wait until the socket is ready for `events` or patience is over: 0, or SPOTNIK_ERR_PEERS. */
static int ready_wait(int fd, short events, const struct patience *patience)
{
    if (events == POLLIN && spotnik_tls_has_input(fd))
        return 0;
    for (;;) {
        uint64_t left_ns = spotnik_time_since(patience->until_ns, spotnik_clock_ns());
        struct pollfd entry[2] = { { .fd = fd, .events = events },
                                   { .fd = patience->stop_fd, .events = POLLIN } };
        int rc = poll(entry, 2, (int)((left_ns + SPOTNIK_MS - 1) / SPOTNIK_MS));
        if (rc > 0)
            return entry[1].revents != 0 ? SPOTNIK_ERR_PEERS : 0;
        if (rc == 0 || errno != EINTR)
            return SPOTNIK_ERR_PEERS;
    }
}

static int refused(const char *name, int error, bool *ret_refused)
{
    if (ret_refused != NULL)
        *ret_refused = error == ECONNREFUSED;
    errno = error;
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "cannot reach %s: %m", name);
}

static int connect_wait(const char *name, const uint8_t address[16], uint16_t port,
                        const struct patience *patience, int *ret_fd, bool *ret_refused)
{
    int fd = -1, rc = spotnik_socket_connect(address, port, 0, &fd);
    if (rc != 0)
        return refused(name, -rc, ret_refused);
    int error = ready_wait(fd, POLLOUT, patience) == 0 ? spotnik_socket_error(fd) : ETIMEDOUT;
    if (error != 0) {
        close(fd);
        return refused(name, error, ret_refused);
    }
    *ret_fd = fd;
    return 0;
}

static int shake_wait(struct spotnik_shake *shake, const char *name, int fd,
                      const struct patience *patience)
{
    for (;;) {
        int rc = spotnik_shake_run(shake, fd);
        if (rc == 0)
            return 0;
        if (rc != SPOTNIK_SHAKE_AGAIN) {
            char text[SPOTNIK_SHAKE_TEXT];
            spotnik_error_set("%s %s", name, spotnik_shake_text(shake, rc, text));
            return rc == SPOTNIK_ERR_ARGUMENT ? SPOTNIK_ERR_PEERS : rc;
        }
        if (ready_wait(fd, spotnik_shake_is_writing(shake) ? POLLOUT : POLLIN, patience) != 0)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s does not answer", name);
    }
}

/* Prove the key both ways on a connected socket, which is closed on failure and blocking on
 * success. */
static int introduce(const struct spotnik_credentials *credentials, const char *name, int fd,
                     const struct manner *manner, const struct patience *patience,
                     struct spotnik_duplex *ret, struct spotnik_member *ret_peer)
{
    struct spotnik_shake shake;
    spotnik_shake_init_client(&shake, credentials, manner->purpose);
    int rc = shake_wait(&shake, name, fd, patience);
    if (rc == 0 && manner->ret_key != NULL) {
        uint8_t send_key[SPOTNIK_KEY_BYTES];
        spotnik_handshake_keys(&shake.wire, send_key, manner->ret_key);
        explicit_bzero(send_key, sizeof send_key);
    }
    if (rc == 0 && fcntl(fd, F_SETFL, 0) != 0)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make a socket blocking: %m");
    if (rc == 0)
        rc = spotnik_duplex_init(ret, fd, &shake.wire);
    spotnik_shake_done(&shake);
    if (rc != 0)
        spotnik_tls_close(fd);
    else
        *ret_peer = shake.wire.peer;
    if (rc == 0 && manner->ret_presence != NULL)
        *manner->ret_presence = shake.wire.peer_presence;
    return rc;
}

static int dial(const struct spotnik_credentials *credentials, const uint8_t address[16],
                uint16_t port, const struct manner *manner, const struct patience *patience,
                struct spotnik_duplex *ret, struct spotnik_member *ret_peer, bool *ret_refused)
{
    char name[SPOTNIK_ADDRESS_TEXT];
    int fd = -1;
    *ret = spotnik_duplex_bare(-1);
    if (credentials->observes && manner->purpose != SPOTNIK_PURPOSE_STATUS)
        return spotnik_error_return(SPOTNIK_ERR_KEY, "an observer key may ask for the status "
                                                     "alone; give the job key");
    spotnik_address_format(name, address, port);
    int rc = connect_wait(name, address, port, patience, &fd, ret_refused);
    if (rc == 0)
        rc = introduce(credentials, name, fd, manner, patience, ret, ret_peer);
    return rc;
}

int spotnik_net_dial(const struct spotnik_credentials *credentials, const uint8_t address[16],
                     uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                     struct spotnik_duplex *ret, struct spotnik_member *ret_peer)
{
    struct patience patience = { spotnik_time_add(spotnik_clock_ns(), timeout_ns), -1 };
    return dial(credentials, address, port, &(struct manner){ .purpose = purpose }, &patience, ret,
                ret_peer, NULL);
}

int spotnik_net_reach(const struct spotnik_credentials *credentials,
                      const struct spotnik_member *peer, int fd, uint64_t timeout_ns, int stop_fd,
                      struct spotnik_duplex *ret)
{
    struct patience patience = { spotnik_time_add(spotnik_clock_ns(), timeout_ns), stop_fd };
    const struct manner manner = { .purpose = SPOTNIK_PURPOSE_EXCHANGE };
    struct spotnik_member found;
    char name[SPOTNIK_ADDRESS_TEXT];
    spotnik_address_format(name, peer->address, peer->port);
    *ret = spotnik_duplex_bare(-1);
    int rc = fd >= 0 ? introduce(credentials, name, fd, &manner, &patience, ret, &found)
                     : dial(credentials, peer->address, peer->port, &manner, &patience, ret, &found,
                            NULL);
    if (rc != 0)
        return rc;
    if (!spotnik_id_equal(found.id, peer->id)) {
        spotnik_duplex_close(ret);
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is another process by now", name);
    }
    spotnik_socket_yield(ret->fd);
    return 0;
}

/* Until they close, or there would be more than QUESTION_BYTES. NULL: no end came. */
static char *all_read(int fd, const struct patience *patience, size_t *ret_size)
{
    size_t have = 0, room = 4096;
    char *text = malloc(room);
    while (text != NULL && have < QUESTION_BYTES && ready_wait(fd, POLLIN, patience) == 0) {
        char *grown = have == room ? realloc(text, room *= 4) : text;
        ssize_t got =
            grown != NULL ? spotnik_tls_recv(fd, grown + have, room - have, MSG_DONTWAIT) : -1;
        text = grown != NULL ? grown : text;
        if (got == 0) {
            *ret_size = have;
            return text;
        }
        if (grown == NULL || (got < 0 && errno != EINTR && errno != EAGAIN))
            break;
        have += got > 0 ? (size_t)got : 0;
    }
    free(text);
    return NULL;
}

/* What ends in the MAC of all before it; a NUL takes its place. */
static bool seal_take(const uint8_t key[SPOTNIK_KEY_BYTES], char *text, size_t *size)
{
    uint8_t mac[SPOTNIK_AUTH_BYTES];
    if (*size < sizeof mac)
        return false;
    *size -= sizeof mac;
    bool good = spotnik_auth_once(key, text, *size, mac)
                && spotnik_auth_equal(mac, (const uint8_t *)text + *size, sizeof mac);
    text[*size] = '\0';
    return good;
}

static int reply_read(int fd, const char *name, const uint8_t key[SPOTNIK_KEY_BYTES],
                      const struct patience *patience, char **ret_text, size_t *ret_size)
{
    size_t size;
    char *text = all_read(fd, patience, &size);
    if (text != NULL && seal_take(key, text, &size)) {
        *ret_text = text;
        *ret_size = size;
        return 0;
    }
    bool cut = text == NULL;
    free(text);
    if (!cut)
        spotnik_seal_failure_note();
    return spotnik_error_return(
        SPOTNIK_ERR_PEERS,
        cut ? "%s gives no answer"
            : "the answer of %s was cut short or altered on its way; ask again, and look for a "
              "proxy in between",
        name);
}

int spotnik_net_question(const struct spotnik_credentials *credentials, const uint8_t address[16],
                         uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                         char **ret_text, size_t *ret_size)
{
    struct patience patience = { spotnik_time_add(spotnik_clock_ns(), timeout_ns), -1 };
    uint8_t key[SPOTNIK_KEY_BYTES];
    const struct manner manner = { .purpose = purpose, .ret_key = key };
    struct spotnik_member peer;
    char name[SPOTNIK_ADDRESS_TEXT];
    struct spotnik_duplex duplex;
    int rc = dial(credentials, address, port, &manner, &patience, &duplex, &peer, NULL);
    if (rc != 0)
        return rc;
    patience.until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    rc = reply_read(duplex.fd, spotnik_address_format(name, address, port), key, &patience,
                    ret_text, ret_size);
    explicit_bzero(key, sizeof key);
    spotnik_duplex_close(&duplex);
    return rc;
}

static bool answer_take(const char *text, size_t size, const struct spotnik_member *peer,
                        struct spotnik_answer *ret)
{
    return size == SPOTNIK_ANSWER_BYTES && spotnik_answer_decode((const uint8_t *)text, ret)
           && spotnik_id_equal(ret->self.id, peer->id);
}

/* A question has three round trips, and TLS has one before them. */
static uint64_t ask_timeout_ns(const struct spotnik_credentials *credentials, uint64_t timeout_ns)
{
    bool tls = credentials->tls != NULL && credentials->tls->mode != SPOTNIK_TLS_OFF;
    return tls ? timeout_ns + timeout_ns / 2 : timeout_ns;
}

int spotnik_net_ask(const struct spotnik_credentials *credentials, const uint8_t address[16],
                    uint16_t port, uint64_t timeout_ns, struct spotnik_answer *ret_answer,
                    bool *ret_refused)
{
    timeout_ns = ask_timeout_ns(credentials, timeout_ns);
    struct patience patience = { spotnik_time_add(spotnik_clock_ns(), timeout_ns), -1 };
    struct spotnik_member peer;
    struct spotnik_presence presence;
    uint8_t key[SPOTNIK_KEY_BYTES];
    const struct manner manner = { SPOTNIK_PURPOSE_PEERS, &presence, key };
    char name[SPOTNIK_ADDRESS_TEXT], *text = NULL;
    size_t size = 0;
    struct spotnik_duplex duplex;
    if (ret_refused != NULL)
        *ret_refused = false;
    int rc = dial(credentials, address, port, &manner, &patience, &duplex, &peer, ret_refused);
    if (rc != 0)
        return rc;
    spotnik_address_format(name, address, port);
    rc = reply_read(duplex.fd, name, key, &patience, &text, &size);
    explicit_bzero(key, sizeof key);
    spotnik_duplex_close(&duplex);
    if (rc == 0 && !answer_take(text, size, &peer, ret_answer))
        rc = spotnik_error_return(SPOTNIK_ERR_PEERS, "%s gives no answer", name);
    ret_answer->presence = presence;
    free(text);
    return rc;
}
