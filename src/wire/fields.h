/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that several kinds of message share. For src/wire only. */
#ifndef SPOTNIK_WIRE_FIELDS_H
#define SPOTNIK_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/bytes.h"
#include "member/view.h"

#define SPOTNIK_WIRE_MEMBER_BYTES 48

/* Encoded sizes; "and" names what follows with a length of its own. */
enum {
    SPOTNIK_WIRE_HEAD_BYTES = 24, /* of every control message */
    SPOTNIK_WIRE_SERIAL_BYTES = 8,
    SPOTNIK_WIRE_ID_BYTES = 16,
    SPOTNIK_WIRE_DIGEST_BYTES = 32,
    SPOTNIK_WIRE_MISMATCH_BYTES = 80,
    SPOTNIK_WIRE_FOUNDING_BYTES = 32,
    SPOTNIK_WIRE_BALLOT_BYTES = 24,
    SPOTNIK_WIRE_REPORT_BYTES = 40,
    SPOTNIK_WIRE_REPORTS_BYTES = 48, /* of a run of reports, in a brief PREPARE */
    SPOTNIK_WIRE_RUN_BYTES = 16,     /* of entries, in a brief proposal */
    SPOTNIK_WIRE_BRIEF_BYTES = 8,    /* and runs, and new entries */
    SPOTNIK_WIRE_ENDED_BYTES = 8,    /* and ranks */
    SPOTNIK_WIRE_RANK_BYTES = 4,
    SPOTNIK_WIRE_RANGE_BYTES = 16,
    SPOTNIK_WIRE_ENTER_BYTES = SPOTNIK_WIRE_MEMBER_BYTES + 8,
    SPOTNIK_WIRE_ENTRY_BYTES = SPOTNIK_WIRE_MEMBER_BYTES + 8,
    SPOTNIK_WIRE_LEDGER_BYTES = 48, /* and deal, ranges */
    SPOTNIK_WIRE_DEAL_BYTES = 4,
    SPOTNIK_WIRE_PROPOSAL_BYTES = 32 + SPOTNIK_WIRE_BALLOT_BYTES, /* and ledger, entries */
    SPOTNIK_WIRE_TOKEN_BYTES =
        24 + 2 * SPOTNIK_WIRE_BALLOT_BYTES, /* and reports, joiners, ledger, accepted */
};

void spotnik_wire_member_write(struct spotnik_writer *writer, const struct spotnik_member *member);

/* False for no id, or reserved bytes in use. What is missing shows in the reader. */
bool spotnik_wire_member_read(struct spotnik_reader *reader, struct spotnik_member *ret_member);

void spotnik_wire_founding_write(struct spotnik_writer *writer,
                                 const struct spotnik_founding *founding);
void spotnik_wire_founding_read(struct spotnik_reader *reader, struct spotnik_founding *ret);

/* Pass over reserved bytes; false unless all are zero. */
bool spotnik_wire_zeros_read(struct spotnik_reader *reader, size_t size);

#endif
