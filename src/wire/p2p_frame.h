/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of an EXCHANGE connection, outside of steps: heads of one size, each followed by the
 * payload of its kind. Decides whether bytes are a head at all; src/p2p acts on it.
 *
 *
 *     the one that asks                                  the one that is asked
 *     PULL    name, type, bytes, version at least        SNAPSHOT  version, bytes | payload
 *     PUSH    owner, sequence | payload: an update       DONE      all copies have it
 *     PASS    the same, from the primary to a copy       DONE      this copy has it
 *     FETCH   a range of the store                       SHARD     bytes | payload
 *     HAVE    a block of the store                       HOLD      version: how new it is here
 *     TAKE    a block of the store                       BLOCK     version, sequence: rows |
 *             payload: rows, elements
 *     BORROW  let me read your snapshots myself          LEND      here is the memory they lie in
 *             (Unix sockets)
 *     AWAIT   as PULL, but I will read it myself         READY     version: it is there
 *     SHARE   the memory of that name and size           LEND      here it is (Unix sockets)
 *                                                        LATER     not in this view, or not yet:
 *                                                                  ask again
 *                                                        WAIT      still there; the answer follows
 *                                                        ABSENT    nothing of that kind here
 *                                                        OTHER     there is, but of another size or
 *                                                                  type
 *
 * Like data frames, heads carry no tag: their connection has proved the key (wire/data.h says what
 * that leaves open). */
#ifndef SPOTNIK_WIRE_P2P_FRAME_H
#define SPOTNIK_WIRE_P2P_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

#define SPOTNIK_P2P_HEAD_BYTES 128
#define SPOTNIK_P2P_NAME_MAX 63
#define SPOTNIK_P2P_BYTES_MAX (UINT64_C(1) << 48)

enum spotnik_p2p_kind {
    SPOTNIK_P2P_PULL = 1,
    SPOTNIK_P2P_SNAPSHOT,
    SPOTNIK_P2P_DONE,
    SPOTNIK_P2P_WAIT,
    SPOTNIK_P2P_ABSENT,
    SPOTNIK_P2P_OTHER,
    SPOTNIK_P2P_PUSH,
    SPOTNIK_P2P_PASS,
    SPOTNIK_P2P_FETCH,
    SPOTNIK_P2P_SHARD,
    SPOTNIK_P2P_HAVE,
    SPOTNIK_P2P_HOLD,
    SPOTNIK_P2P_TAKE,
    SPOTNIK_P2P_BLOCK,
    SPOTNIK_P2P_LATER,
    SPOTNIK_P2P_IMPORT,
    SPOTNIK_P2P_EXPORT,
    SPOTNIK_P2P_AWAIT,
    SPOTNIK_P2P_READY,
    SPOTNIK_P2P_SHARE,
    SPOTNIK_P2P_KIND_COUNT,
};

/* A payload of `bytes` bytes follows, which may be none. */
bool spotnik_p2p_has_payload(uint8_t kind);

/* Fields that a kind does not use are zero. */
struct spotnik_p2p_head {
    uint8_t kind;
    uint8_t dtype;                       /* spotnik_dtype; 0: no data are spoken of */
    char name[SPOTNIK_P2P_NAME_MAX + 1]; /* ends with a zero byte */
    struct spotnik_id owner;             /* of an update that is passed on */
    uint64_t epoch;                      /* of the view by which the sender knows the holders */
    uint64_t version, sequence;
    uint64_t offset, bytes; /* of the payload, in the whole of that name */
};

void spotnik_p2p_encode(const struct spotnik_p2p_head *head,
                        uint8_t ret_bytes[SPOTNIK_P2P_HEAD_BYTES]);

/* 0 or SPOTNIK_ERR_ARGUMENT. */
int spotnik_p2p_decode(const uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES],
                       struct spotnik_p2p_head *ret_head);

/* Is this a name: 1 to 63 bytes, none of them below blank? */
bool spotnik_p2p_is_name(const char *name);

#endif
