/* SPDX-License-Identifier: Apache-2.0 */
/* What the flight recorder keeps, and what a dump is made of
 * (docs/design/0023-observability.md). A dump is a head, then parts: a part is a saved core,
 * and the records of what entered it since. Structures as they lie in memory: only a build with the
 * same structures runs them again, and the head says whether this one can. */
#ifndef SPOTNIK_RECORD_DUMP_H
#define SPOTNIK_RECORD_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/core.h"

#define SPOTNIK_DUMP_MAGIC "SpDump1\n"
#define SPOTNIK_DUMP_PARTS 2

struct spotnik_dump_head {
    char magic[8];
    char version[32]; /* of Spotnik */
    char reason[256];
    uint32_t event_bytes, record_bytes, entry_bytes, parts;
    uint64_t saved_bytes, now_ns;
    struct spotnik_member self;
    /* 0: limits.choice was NULL; 1: the measured table; 2: another, which cannot be run again */
    uint32_t choice;
    struct spotnik_limits limits; /* choice: NULL */
};

struct spotnik_dump_part {
    uint64_t bytes; /* of records */
    uint64_t torn;  /* 1: records are missing at its end */
};

enum spotnik_record_what {
    SPOTNIK_RECORD_EVENT = 1, /* kind; its arm follows, with pointers that mean nothing any more */
    SPOTNIK_RECORD_ACTION,    /* as polled: kind, number (spotnik_action_number()), bucket, peer */
    /* spotnik_core_place() of a header from `peer`, which may have changed the core; kind: the
     * verdict */
    SPOTNIK_RECORD_PLACED,
    SPOTNIK_RECORD_SENT,    /* spotnik_core_send_next() to `peer` gave something out */
    SPOTNIK_RECORD_MINIMUM, /* spotnik_core_members_min_set(number) */
    SPOTNIK_RECORD_BAR,     /* spotnik_core_bar(number) */
};

/* What follows a record, in this order, each padded to 8 bytes. */
enum spotnik_record_with {
    SPOTNIK_WITH_ARM = (1 << 0),      /* of an event: spotnik_event_arm_bytes(kind) */
    SPOTNIK_WITH_HEADER = (1 << 1),   /* struct spotnik_chunk_header */
    SPOTNIK_WITH_LEDGER = (1 << 2),   /* struct spotnik_ledger */
    SPOTNIK_WITH_FOUNDING = (1 << 3), /* struct spotnik_founding */
    SPOTNIK_WITH_WEIGHTS = (1 << 4),  /* `deal.count` of uint32_t */
    /* as on the wire, to the end of the record; the last `padding` bytes are none of it */
    SPOTNIK_WITH_MESSAGE = (1 << 5),
};

struct spotnik_record {
    uint32_t bytes; /* with what follows; a multiple of 8 */
    uint8_t what, kind, with, padding;
    uint64_t now_ns;
    uint64_t number;
    struct spotnik_id peer;
    uint32_t bucket, unused;
};

#endif
