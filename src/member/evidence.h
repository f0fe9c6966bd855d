/* SPDX-License-Identifier: Apache-2.0 */
/* What is known against a member of the current view: a lattice that only grows while an epoch is being decided.
 *
 *     NONE -> SILENT  -> TAINTED -> GONE
 *          -> REFUSED ->
 *
 * GONE      its process ended and our link to it delivered everything it ever said (EOF, or RST, which Linux accepts only
 *           at the exact next sequence number), and it never said FENCED: it cannot have moved on without us.
 * REFUSED   its kernel refused a connection: it has ended, but we had no link on which it could have fenced us.
 * TAINTED   ended, but it had fenced us, or the link was lost or silent: it may have moved on with others first.
 * SILENT    no sign of life; taken back when we hear from it.
 *
 * Only GONE reduces the quorum, and REFUSED where nobody is SILENT or TAINTED (docs/design/0001-core.md, Lineage). */
#ifndef SPOTNIK_MEMBER_EVIDENCE_H
#define SPOTNIK_MEMBER_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

enum spotnik_evidence {
    SPOTNIK_EVIDENCE_NONE = 0,
    SPOTNIK_EVIDENCE_SILENT = 1,
    SPOTNIK_EVIDENCE_REFUSED = 2,
    SPOTNIK_EVIDENCE_TAINTED = 3,
    SPOTNIK_EVIDENCE_GONE = 4,
};

/* One member of the old view in a RECONCILE token and in a member's own book. */
struct spotnik_report {
    uint8_t evidence; /* spotnik_evidence */
    uint8_t leaving;  /* 1: asked to leave */
    uint8_t promised; /* 1: promised in this ballot; the two fields below are its words */
    uint8_t begun;    /* 1: has begun step committed + 1 in this epoch */
    uint64_t committed;
};

static inline bool spotnik_evidence_out(uint8_t evidence)
{
    return evidence != SPOTNIK_EVIDENCE_NONE;
}

/* One witness saw silence, another a refused connection: the silent link may have lost a FENCED. */
static inline uint8_t spotnik_evidence_merge(uint8_t a, uint8_t b)
{
    uint8_t strong = a > b ? a : b, weak = a > b ? b : a;
    if (strong == SPOTNIK_EVIDENCE_REFUSED && weak == SPOTNIK_EVIDENCE_SILENT)
        return SPOTNIK_EVIDENCE_TAINTED;
    return strong;
}

#endif
