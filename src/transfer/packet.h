/* SPDX-License-Identifier: Apache-2.0 */
/* Packets on a STATE connection, between a joiner and a donor, after the handshake has proved the
 * job key.
 *
 *     u32 body bytes | u8 kind | u8[16] tag | body       all numbers little-endian
 *
 *     joiner -> donor                                    donor -> joiner
 *     ASK       nothing                                  VIEW    where the job stands, members,
 *               tensors
 *     SNAPSHOT  u64 step: not before it                  TAKEN   u64 step, u64 bytes
 *     FETCH     u64 piece                                PIECE   u64 piece, bytes
 *     EXTRA     nothing                                  EXTRA   what travels beside the
 *               tensors
 *     STREAM    u64 first step                           RESULT  see spotnik_result; bytes
 *     ACK       u64 step: no more needed                 DRY     u64 step: all results up to it
 *               were sent
 *                                                        WAIT    nothing: still there
 *                                                        SORRY   words: why this cannot be had here
 *                                                        DROPPED u64 stable step: too slow for the
 *                                                                log; the last packet
 *
 * The tag (link/seal.h) covers everything else. Nothing of a packet is believed before, but for its
 * length, up to what its reader expects. Blocking sockets. Decides nothing. */
#ifndef SPOTNIK_TRANSFER_PACKET_H
#define SPOTNIK_TRANSFER_PACKET_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "core/core.h"
#include "link/duplex.h"

#define SPOTNIK_PIECE_BYTES (UINT32_C(1) << 20)
#define SPOTNIK_REQUEST_BYTES_MAX 64
#define SPOTNIK_PACKET_BYTES_MAX (UINT32_C(64) << 20)

enum spotnik_packet_kind {
    SPOTNIK_PACKET_ASK = 1,
    SPOTNIK_PACKET_SNAPSHOT,
    SPOTNIK_PACKET_FETCH,
    SPOTNIK_PACKET_STREAM,
    SPOTNIK_PACKET_ACK,
    SPOTNIK_PACKET_WANT_EXTRA,
    SPOTNIK_PACKET_VIEW = 16,
    SPOTNIK_PACKET_TAKEN,
    SPOTNIK_PACKET_PIECE,
    SPOTNIK_PACKET_RESULT,
    SPOTNIK_PACKET_DRY,
    SPOTNIK_PACKET_WAIT,
    SPOTNIK_PACKET_SORRY,
    SPOTNIK_PACKET_EXTRA,
    SPOTNIK_PACKET_DROPPED,
};

struct spotnik_packet {
    uint8_t kind;
    uint32_t size;
    uint8_t *body; /* grows as needed; freed by spotnik_packet_done() */
    uint32_t capacity;
};

/* The head of a RESULT packet: one chunk of a committed result, and how far its donor is. */
struct spotnik_result {
    struct spotnik_chunk_header header;
    uint64_t latest; /* the donor's last stable step */
};
#define SPOTNIK_RESULT_BYTES 46

void spotnik_packet_done(struct spotnik_packet *packet);

/* Send head and payload as one packet. 0 or SPOTNIK_ERR_PEERS. */
int spotnik_packet_send(struct spotnik_duplex *duplex, enum spotnik_packet_kind kind,
                        const void *head, size_t head_bytes, const void *payload,
                        size_t payload_bytes);

/* A packet whose body is one number. */
int spotnik_packet_send_u64(struct spotnik_duplex *duplex, enum spotnik_packet_kind kind,
                            uint64_t value);

/* Read one packet of at most `size_max` body bytes. 0, SPOTNIK_ERR_PEERS (closed, silent too long,
 * oversized, altered), _MEMORY. */
int spotnik_packet_receive(struct spotnik_duplex *duplex, struct spotnik_packet *packet,
                           uint32_t size_max);

void spotnik_result_write(const struct spotnik_result *result, uint8_t out[SPOTNIK_RESULT_BYTES]);
void spotnik_result_read(struct spotnik_reader *reader, struct spotnik_result *ret);

/* Make reads give up after timeout_ns without a byte, and notice a vanished host while nothing is
 * said. */
void spotnik_packet_patience(int fd, uint64_t timeout_ns);

#endif
