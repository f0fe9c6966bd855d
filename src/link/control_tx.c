/* SPDX-License-Identifier: Apache-2.0 */
/* The half of a control link that we dialled: frames go out, and nothing ever comes in. So the
 * kernel, when it closes this socket for us, has no unread input and gets none. It says FIN after
 * the last byte it was given: what makes our death provable (docs/design/0004-proof-of-death.md).
 * While bytes wait here that the kernel has not taken, a close says RST instead, which proves
 * nothing. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/time.h"
#include "link/address.h"
#include "link/inside.h"

/* Every tx connection finds room for the one frame that must always fit. */
#define GOODBYE_FRAME_BYTES (SPOTNIK_FRAME_BYTES + SPOTNIK_GOODBYE_BYTES)

int spotnik_control_tx_open(struct spotnik_loop *loop, struct spotnik_control_tx *tx,
                            struct spotnik_pending *pending)
{
    uint8_t send_key[SPOTNIK_KEY_BYTES], receive_key[SPOTNIK_KEY_BYTES];
    spotnik_handshake_keys(&pending->shake.wire, send_key, receive_key);
    int rc = spotnik_auth_init(&tx->auth, send_key);
    if (rc != 0)
        return rc;
    int fd = spotnik_socket_release(&pending->socket, loop->epoll_fd);
    rc = spotnik_socket_watch(&tx->socket, loop->epoll_fd, fd, SPOTNIK_SOCKET_LINK);
    if (rc != 0)
        spotnik_tls_close(fd);
    else
        tx->socket.readable = tx->socket.writable = true;
    return rc;
}

/* A close from now on says RST (true) or FIN. */
static void linger(struct spotnik_control_tx *tx, bool reset)
{
    struct linger option = { .l_onoff = reset, .l_linger = 0 };
    if (tx->resets == reset)
        return;
    setsockopt(tx->socket.fd, SOL_SOCKET, SO_LINGER, &option, sizeof option);
    tx->resets = reset;
}

static void broke(struct spotnik_control_tx *tx)
{
    tx->broken = true;
    tx->socket.readable = true; /* the loop is to see it */
}

static void send_all(struct spotnik_control_tx *tx)
{
    while (tx->out_at < tx->out_have) {
        ssize_t sent = spotnik_tls_send(tx->socket.fd, tx->out + tx->out_at,
                                        tx->out_have - tx->out_at, MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && spotnik_descriptor_waits(errno))
            tx->socket.writable = false;
        else if (sent < 0 && errno != ENOBUFS && errno != ENOMEM)
            broke(tx);
        if (sent < 0)
            return;
        tx->out_at += (size_t)sent;
    }
    tx->out_at = tx->out_have = 0;
}

void spotnik_control_tx_flush(struct spotnik_control_tx *tx)
{
    if (tx->socket.fd < 0 || tx->broken)
        return;
    send_all(tx);
    linger(tx, tx->out_have > 0 || tx->clogged);
}

/* Room for `bytes` more at the end of the queue; NULL beyond the limit. */
static uint8_t *reserve(struct spotnik_control_tx *tx, size_t bytes, size_t max)
{
    if (tx->out_at > 0) {
        memmove(tx->out, tx->out + tx->out_at, tx->out_have - tx->out_at);
        tx->out_have -= tx->out_at;
        tx->out_at = 0;
    }
    if (tx->out_have + bytes > max)
        return NULL;
    if (tx->out_have + bytes > tx->out_size) {
        size_t size = 2 * (tx->out_have + bytes);
        uint8_t *grown = realloc(tx->out, size);
        if (grown == NULL)
            return NULL;
        tx->out = grown;
        tx->out_size = size;
    }
    return tx->out + tx->out_have;
}

/* Sign and queue the frame whose payload stands behind `at`. */
static bool commit(struct spotnik_control_tx *tx, uint8_t *at, enum spotnik_frame_kind kind,
                   uint32_t payload_bytes)
{
    struct spotnik_frame frame = { .kind = kind, .payload_bytes = payload_bytes };
    uint8_t input[SPOTNIK_FRAME_TAG_INPUT_BYTES], mac[SPOTNIK_AUTH_BYTES];
    spotnik_frame_tag_input(&frame, tx->sequence, input);
    const struct spotnik_auth_part part[] = { { input, sizeof input },
                                              { at + SPOTNIK_FRAME_BYTES, payload_bytes } };
    if (!spotnik_auth_mac(&tx->auth, part, 2, mac))
        return false;
    memcpy(frame.tag, mac, sizeof frame.tag);
    spotnik_frame_encode(&frame, at);
    tx->sequence++;
    tx->out_have += SPOTNIK_FRAME_BYTES + payload_bytes;
    return true;
}

static bool facts_of(const struct spotnik_control_tx *tx, struct tcp_info *ret)
{
    socklen_t size = sizeof *ret;
    return getsockopt(tx->socket.fd, IPPROTO_TCP, TCP_INFO, ret, &size) == 0;
}

/* True, with the age of the last acknowledgement: the kernel of the peer owes us one. */
static bool is_owed(const struct spotnik_control_tx *tx, uint64_t *ret_age_ns)
{
    struct tcp_info info;
    if (!facts_of(tx, &info) || info.tcpi_unacked == 0)
        return false;
    *ret_age_ns = info.tcpi_last_ack_recv * SPOTNIK_MS;
    return true;
}

/* of the time that passes, the part by which the longest debt shrinks */
#define FORGET 128
#define LONGEST_NS SPOTNIK_S
/* what is lost once may be lost three times, and then the kernel waits as long as this, or
 * longer */
#define AGAIN_NS (800 * SPOTNIK_MS)

static void remember(struct spotnik_control_tx *tx, uint64_t owed_ns)
{
    if (owed_ns > tx->longest_ns)
        tx->longest_ns = spotnik_time_min(owed_ns, LONGEST_NS);
}

/* Before anything is said. Packets that are lost are sent again, and then an acknowledgement comes
 * late: how late, or might have been, is remembered once it is there. */
static void learn(struct spotnik_control_tx *tx)
{
    struct tcp_info info = { .tcpi_unacked = 0 };
    uint64_t now_ns = spotnik_clock_ns(), said_ns = spotnik_time_since(now_ns, tx->said_ns),
             owed_ns = 0;

    if (facts_of(tx, &info) && info.tcpi_unacked > 0)
        owed_ns = spotnik_time_min(info.tcpi_last_ack_recv * SPOTNIK_MS,
                                   spotnik_time_since(now_ns, tx->asked_ns));
    tx->longest_ns = spotnik_time_since(tx->longest_ns, said_ns / FORGET);
    if (owed_ns < tx->owed_ns)
        remember(tx, tx->owed_ns);
    if (info.tcpi_total_retrans > tx->sent_again && owed_ns < said_ns)
        remember(tx, AGAIN_NS);
    if (owed_ns < said_ns)
        tx->sent_again = info.tcpi_total_retrans;
    if (owed_ns == 0)
        tx->asked_ns = now_ns;
    tx->owed_ns = owed_ns;
    tx->said_ns = now_ns;
}

static void name_of(int (*ask)(int, struct sockaddr *, socklen_t *), int fd,
                    uint8_t ret_address[16], uint16_t *ret_port)
{
    struct sockaddr_storage name;
    socklen_t size = sizeof name;
    memset(ret_address, 0, 16);
    *ret_port = 0;
    if (ask(fd, (struct sockaddr *)&name, &size) == 0)
        spotnik_address_from_kernel(&name, ret_address, ret_port);
}

void spotnik_places_of(int fd, struct spotnik_places *ret)
{
    name_of(getsockname, fd, ret->local, &ret->local_port);
    name_of(getpeername, fd, ret->remote, &ret->remote_port);
}

/* The first frame: its receiver compares, and learns whether a proxy stands between us. */
void spotnik_control_tx_place(struct spotnik_control_tx *tx)
{
    struct spotnik_places places;
    if (tx->broken || tx->clogged)
        return;
    learn(tx);
    uint8_t *at = reserve(tx, SPOTNIK_FRAME_BYTES + SPOTNIK_PLACES_BYTES, SIZE_MAX);
    spotnik_places_of(tx->socket.fd, &places);
    if (at != NULL)
        spotnik_places_encode(&places, at + SPOTNIK_FRAME_BYTES);
    if (at == NULL || !commit(tx, at, SPOTNIK_FRAME_PLACES, SPOTNIK_PLACES_BYTES))
        tx->clogged = true;
    spotnik_control_tx_flush(tx);
}

/* Does what we say arrive? A kernel acknowledges at once, whatever its process does. */
bool spotnik_control_tx_is_heard(const struct spotnik_control_tx *tx, uint64_t now_ns,
                                 uint64_t limit_ns)
{
    uint64_t age_ns;
    if (tx->socket.fd < 0 || tx->broken || spotnik_time_since(now_ns, tx->asked_ns) < limit_ns)
        return true;
    return !is_owed(tx, &age_ns) || age_ns < limit_ns;
}

/* Has its kernel acknowledged anything just now? */
bool spotnik_control_tx_is_answered(const struct spotnik_control_tx *tx, uint64_t limit_ns)
{
    struct tcp_info info;
    return tx->socket.fd >= 0 && !tx->broken && facts_of(tx, &info)
           && info.tcpi_last_ack_recv * SPOTNIK_MS < limit_ns;
}

void spotnik_control_tx_say(struct spotnik_control_tx *tx, const struct spotnik_message *message,
                            size_t queue_max)
{
    size_t bytes = spotnik_control_size(message);
    if (tx->broken || tx->clogged)
        return; /* the loop is about to end the link */
    learn(tx);
    uint8_t *at = reserve(tx, SPOTNIK_FRAME_BYTES + bytes, queue_max);
    if (at == NULL || spotnik_control_encode(message, at + SPOTNIK_FRAME_BYTES, bytes) != bytes
        || !commit(tx, at, SPOTNIK_FRAME_CONTROL, (uint32_t)bytes))
        tx->clogged = true; /* the peer has not read for a long time, or memory is gone */
    spotnik_control_tx_flush(tx);
}

void spotnik_control_tx_goodbye(struct spotnik_control_tx *tx, enum spotnik_goodbye reason)
{
    if (tx->socket.fd < 0)
        return;
    if (tx->broken) { /* perhaps by an end that the peer said alive: no FIN without GOODBYE */
        linger(tx, true);
        return;
    }
    uint8_t *at = reserve(tx, GOODBYE_FRAME_BYTES, SIZE_MAX);
    tx->clogged = at == NULL; /* then only RST can end it, or it would look like a death */
    if (at != NULL) {
        spotnik_goodbye_encode(reason, at + SPOTNIK_FRAME_BYTES);
        tx->clogged = !commit(tx, at, SPOTNIK_FRAME_GOODBYE, SPOTNIK_GOODBYE_BYTES);
    }
    spotnik_control_tx_flush(tx);
}

/* Nothing ever comes in but the end: the peer reads no more. */
void spotnik_control_tx_look(struct spotnik_control_tx *tx)
{
    char byte;
    if (tx->socket.fd < 0 || tx->broken || !tx->socket.readable)
        return;
    ssize_t got = recv(tx->socket.fd, &byte, 1, MSG_DONTWAIT);
    if (got < 0 && spotnik_descriptor_waits(errno))
        tx->socket.readable = false;
    else if (got >= 0 || errno != EINTR)
        broke(tx);
}

bool spotnik_control_tx_is_done(const struct spotnik_control_tx *tx)
{
    return tx->socket.fd < 0 || tx->broken || (tx->out_have == 0 && !tx->clogged);
}

void spotnik_control_tx_close(struct spotnik_loop *loop, struct spotnik_control_tx *tx)
{
    if (tx->socket.fd >= 0)
        spotnik_tls_close(spotnik_socket_release(&tx->socket, loop->epoll_fd));
}

void spotnik_control_tx_free(struct spotnik_control_tx *tx)
{
    spotnik_auth_done(&tx->auth);
    free(tx->out);
    tx->out = NULL;
}
