/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of the state transfer over a blocking socket. */
#include "transfer/packet.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/time.h"
#include "spotnik/spotnik.h"

#define HEAD_BYTES 5
#define FRONT_BYTES (HEAD_BYTES + SPOTNIK_SEAL_BYTES)

void spotnik_packet_done(struct spotnik_packet *packet)
{
    free(packet->body);
    memset(packet, 0, sizeof *packet);
}

/* sendmsg until all of `parts` is out; a dead peer must be an error, not a signal. */
static int send_all(int fd, struct iovec *parts, int count)
{
    while (count) {
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
        ssize_t sent = spotnik_tls_sendmsg(fd, &message, 0);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "state connection: %m");
        while (count && (size_t)sent >= parts->iov_len) {
            sent -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (uint8_t *)parts->iov_base + sent;
            parts->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

int spotnik_packet_send(struct spotnik_duplex *duplex, enum spotnik_packet_kind kind,
                        const void *head, size_t head_bytes, const void *payload,
                        size_t payload_bytes)
{
    uint8_t front[FRONT_BYTES];
    struct spotnik_writer writer;
    struct iovec parts[3] = { { front, sizeof front },
                              { (void *)head, head_bytes },
                              { (void *)payload, payload_bytes } };

    SPOTNIK_ASSERT(head_bytes + payload_bytes <= SPOTNIK_PACKET_BYTES_MAX);
    spotnik_writer_init(&writer, front, sizeof front);
    spotnik_writer_u32(&writer, (uint32_t)(head_bytes + payload_bytes));
    spotnik_writer_u8(&writer, (uint8_t)kind);
    spotnik_seal_begin(&duplex->send, duplex->sent++);
    spotnik_seal_add(&duplex->send, front, HEAD_BYTES);
    spotnik_seal_add(&duplex->send, head, head_bytes);
    spotnik_seal_add(&duplex->send, payload, payload_bytes);
    spotnik_seal_end(&duplex->send, front + HEAD_BYTES);
    return send_all(duplex->fd, parts, 3);
}

int spotnik_packet_send_u64(struct spotnik_duplex *duplex, enum spotnik_packet_kind kind,
                            uint64_t value)
{
    uint8_t body[8];
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, body, sizeof body);
    spotnik_writer_u64(&writer, value);
    return spotnik_packet_send(duplex, kind, body, sizeof body, NULL, 0);
}

static int receive_all(int fd, uint8_t *out, size_t size)
{
    while (size) {
        ssize_t got = spotnik_tls_recv(fd, out, size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "state connection: silent for too long");
        if (got < 0)
            return spotnik_error_return(SPOTNIK_ERR_PEERS, "state connection: %m");
        if (got == 0)
            return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                        "state connection: closed by the other side");
        out += got;
        size -= (size_t)got;
    }
    return 0;
}

static int reserve(struct spotnik_packet *packet, uint32_t size)
{
    if (size <= packet->capacity)
        return 0;
    uint8_t *body = realloc(packet->body, size);

    if (!body)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a packet of %u bytes", size);
    packet->body = body;
    packet->capacity = size;
    return 0;
}

static bool is_genuine(struct spotnik_duplex *duplex, const uint8_t front[FRONT_BYTES],
                       const uint8_t *body, size_t size)
{
    spotnik_seal_begin(&duplex->receive, duplex->received++);
    spotnik_seal_add(&duplex->receive, front, HEAD_BYTES);
    spotnik_seal_add(&duplex->receive, body, size);
    return spotnik_seal_check(&duplex->receive, front + HEAD_BYTES);
}

int spotnik_packet_receive(struct spotnik_duplex *duplex, struct spotnik_packet *packet,
                           uint32_t size_max)
{
    uint8_t front[FRONT_BYTES];
    struct spotnik_reader reader;
    int rc = receive_all(duplex->fd, front, sizeof front);

    if (rc)
        return rc;
    spotnik_reader_init(&reader, front, sizeof front);
    uint32_t size = spotnik_reader_u32(&reader);
    if (size > size_max && !duplex->receive.bare)
        spotnik_seal_failure_note();
    if (size > size_max)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "state connection: a packet of %u bytes, at most %u expected",
                                    size, size_max);
    rc = reserve(packet, size);
    if (!rc)
        rc = receive_all(duplex->fd, packet->body, size);
    if (!rc && !is_genuine(duplex, front, packet->body, size))
        rc = spotnik_error_return(SPOTNIK_ERR_PEERS,
                                  "state connection: a packet was altered on its way; look for a "
                                  "proxy or a faulty network in between");
    if (rc)
        return rc;
    packet->kind = spotnik_reader_u8(&reader);
    packet->size = size;
    return 0;
}

void spotnik_result_write(const struct spotnik_result *result, uint8_t out[SPOTNIK_RESULT_BYTES])
{
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, out, SPOTNIK_RESULT_BYTES);
    spotnik_writer_u8(&writer, result->header.dtype);
    spotnik_writer_u8(&writer, result->header.op);
    spotnik_writer_u32(&writer, result->header.bucket);
    spotnik_writer_u64(&writer, result->header.step);
    spotnik_writer_u64(&writer, result->header.sequence);
    spotnik_writer_u64(&writer, result->header.count);
    spotnik_writer_u64(&writer, result->header.weight);
    spotnik_writer_u64(&writer, result->latest);
    SPOTNIK_ASSERT(!writer.failed && writer.at == SPOTNIK_RESULT_BYTES);
}

void spotnik_result_read(struct spotnik_reader *reader, struct spotnik_result *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->header.handover = 1;
    ret->header.dtype = spotnik_reader_u8(reader);
    ret->header.op = spotnik_reader_u8(reader);
    ret->header.bucket = spotnik_reader_u32(reader);
    ret->header.step = spotnik_reader_u64(reader);
    ret->header.sequence = spotnik_reader_u64(reader);
    ret->header.count = spotnik_reader_u64(reader);
    ret->header.weight = spotnik_reader_u64(reader);
    ret->latest = spotnik_reader_u64(reader);
}

void spotnik_packet_patience(int fd, uint64_t timeout_ns)
{
    struct timeval patience = { (time_t)(timeout_ns / SPOTNIK_S),
                                (suseconds_t)(timeout_ns % SPOTNIK_S / 1000) };
    int on = 1, idle_s = 5, interval_s = 2, probes = 3;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}
