/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages as payload of CONTROL frames. Decides whether bytes are a message at all.
 * Refuses values that exceed the limits or break the core's assumptions (ids, shares below the
 * share count, a consistent ledger). The core decides whether a message fits the moment. */
#ifndef SPOTNIK_WIRE_CONTROL_H
#define SPOTNIK_WIRE_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "core/core.h"
#include "member/message.h"

/* Where a decoded message lives. One for each connection that decodes, or one for all that decode
 * in one thread: it is used until the next decode. Opaque but for its size; the fields belong to
 * control.c. */
struct spotnik_wire_storage {
    uint32_t members_max;
    struct spotnik_prepare prepare;
    struct spotnik_proposal proposal;
    /* arrays follow */
};

/* Bytes of memory for a storage that holds any message within the limits. */
size_t spotnik_wire_storage_size(const struct spotnik_limits *limits);

/* `memory`: that number of bytes, aligned to 16; owned by the caller. */
struct spotnik_wire_storage *spotnik_wire_storage_init(void *memory,
                                                       const struct spotnik_limits *limits);

/* No encoded message is longer. */
uint32_t spotnik_control_bytes_max(const struct spotnik_limits *limits);

/* Bytes spotnik_control_encode() will write. */
size_t spotnik_control_size(const struct spotnik_message *message);

/* Returns the bytes written, 0 when they are more than `size`. */
size_t spotnik_control_encode(const struct spotnik_message *message, void *bytes, size_t size);

/* On success *ret_message and what it points to (inside `storage`) are valid until the next decode
 * into it; on failure *ret_message is untouched. SPOTNIK_ERR_LIMIT: more members, joiners or ranges
 * than allowed here; SPOTNIK_ERR_ARGUMENT: not a message. */
int spotnik_control_decode(const void *bytes, size_t size, struct spotnik_wire_storage *storage,
                           struct spotnik_message *ret_message);

#endif
