/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope of everything that follows the handshake on control and data connections
 * (docs/reference/wire-format.md). Decides where one frame ends and what is too long to be read at
 * all; the payloads are control.h and data.h.
 *
 *     0      1        2     3      4              8                24
 *     | 'S'  version  kind  zero | payload bytes | tag (16)       | payload ...
 *                                DATA:           | turn (8)  zero | elements ...
 *
 * Every frame but DATA carries a tag here: the first 16 bytes of HMAC-SHA-256, under the sender's
 * key of this connection (spotnik_handshake_keys()), over the input that spotnik_frame_tag_input()
 * begins and the payload ends. It covers a sequence number that is not sent, so what is injected,
 * replayed, dropped or swapped is refused. src/link computes it; this file knows its place only.
 * The tags of DATA stand behind its chunk header (data.h). */
#ifndef SPOTNIK_WIRE_FRAME_H
#define SPOTNIK_WIRE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

#define SPOTNIK_WIRE_VERSION 1
#define SPOTNIK_FRAME_BYTES 24
#define SPOTNIK_FRAME_TAG_BYTES 16
#define SPOTNIK_FRAME_TAG_INPUT_BYTES 16
#define SPOTNIK_GOODBYE_BYTES 8
#define SPOTNIK_PLACES_BYTES 36

enum spotnik_frame_kind {
    SPOTNIK_FRAME_CONTROL = 1, /* control.h; tagged */
    SPOTNIK_FRAME_GOODBYE,     /* a reason; tagged; nothing follows */
    SPOTNIK_FRAME_DATA,        /* data.h; a turn in place of the tag, its own tags behind */
    /* between which addresses this connection runs, as its sender sees it; tagged */
    SPOTNIK_FRAME_PLACES,
    SPOTNIK_FRAME_KIND_COUNT,
};

struct spotnik_frame {
    enum spotnik_frame_kind kind;
    uint32_t payload_bytes;
    uint8_t tag[SPOTNIK_FRAME_TAG_BYTES];
    /* DATA: which of those of its epoch that the sender has for this member, from 0, over all
     * connections between them */
    uint64_t turn;
};

struct spotnik_places {
    uint8_t local[16], remote[16];
    uint16_t local_port, remote_port;
};

/* Why a connection is closed in good order. LEAVING and OVER are the last words of a member that
 * will never act again. */
enum spotnik_goodbye {
    SPOTNIK_GOODBYE_LEAVING = 1, /* planned leave is complete */
    SPOTNIK_GOODBYE_EXCLUDED,    /* the others have gone on without us, or we without you */
    SPOTNIK_GOODBYE_DUPLICATE,   /* there is another connection between us */
    SPOTNIK_GOODBYE_SHUTDOWN,    /* not needed any more, or the program ends */
    SPOTNIK_GOODBYE_PROTOCOL,    /* you sent what cannot be understood */
    SPOTNIK_GOODBYE_VERSION,     /* you speak another wire version */
    /* the member that spoke here has ended without leaving, or joins again as another */
    SPOTNIK_GOODBYE_OVER,
    SPOTNIK_GOODBYE_COUNT,
};

/* The longest payload of a frame of this kind: a connection's buffer need not be larger. */
uint32_t spotnik_frame_payload_max(enum spotnik_frame_kind kind,
                                   const struct spotnik_limits *limits);

void spotnik_frame_encode(const struct spotnik_frame *frame,
                          uint8_t ret_bytes[SPOTNIK_FRAME_BYTES]);

/* Read a header before anything is done about the payload. 0, SPOTNIK_ERR_VERSION for another wire
 * version, SPOTNIK_ERR_LIMIT for a payload over the limits, else SPOTNIK_ERR_ARGUMENT. */
int spotnik_frame_decode(const uint8_t bytes[SPOTNIK_FRAME_BYTES],
                         const struct spotnik_limits *limits, struct spotnik_frame *ret_frame);

static inline bool spotnik_frame_is_tagged(enum spotnik_frame_kind kind)
{
    return kind != SPOTNIK_FRAME_DATA;
}

/* The first 16 bytes that the tag covers; the payload follows. `sequence`: tagged frames sent
 * before on this connection in this direction. frame->tag is not looked at. */
void spotnik_frame_tag_input(const struct spotnik_frame *frame, uint64_t sequence,
                             uint8_t ret_input[SPOTNIK_FRAME_TAG_INPUT_BYTES]);

void spotnik_goodbye_encode(enum spotnik_goodbye reason,
                            uint8_t ret_payload[SPOTNIK_GOODBYE_BYTES]);
int spotnik_goodbye_decode(const uint8_t payload[SPOTNIK_GOODBYE_BYTES],
                           enum spotnik_goodbye *ret_reason);

void spotnik_places_encode(const struct spotnik_places *places,
                           uint8_t ret_payload[SPOTNIK_PLACES_BYTES]);
void spotnik_places_decode(const uint8_t payload[SPOTNIK_PLACES_BYTES],
                           struct spotnik_places *ret_places);

/* Equal, in a time that does not depend on where the first difference lies. */
bool spotnik_wire_equal(const uint8_t *a, const uint8_t *b, uint32_t size);

#endif
