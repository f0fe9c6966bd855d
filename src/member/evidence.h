/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence against a member of the current view: a chain that only grows while the members decide
 * an epoch.
 *
 *     NONE < SILENT < TAINTED < GONE
 *
 * GONE      its process ended; our link to it had delivered everything it ever said (the driver's
 *           proof, docs/design/0004-proof-of-death.md); and by what it said it did not vote for a
 *           view without us.
 * TAINTED   ended, but one of three holds: it had fenced us; we had no working link to it at the
 *           end; or our working link came up when it was in a later epoch. It may have moved on
 *           with others first.
 * SILENT    no sign of life; revoked when we hear from it.
 *
 * GONE is a first-hand statement and counts only in a ballot in which its witness votes. A member
 * never repeats another's GONE in a later ballot (docs/design/0001-core.md, Lineage). model/ has
 * the run that goes wrong otherwise. */
#ifndef SPOTNIK_MEMBER_EVIDENCE_H
#define SPOTNIK_MEMBER_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"

enum spotnik_evidence {
    SPOTNIK_EVIDENCE_NONE = 0,
    SPOTNIK_EVIDENCE_SILENT = 1,
    SPOTNIK_EVIDENCE_TAINTED = 2,
    SPOTNIK_EVIDENCE_GONE = 3,
};

/* What we know ourselves of a member of the view. */
struct spotnik_known {
    uint8_t evidence; /* spotnik_evidence */
    uint8_t leaving;  /* 1: asked to leave */
};

/* One member of the old view in PREPARE and in a member's own evidence table. */
struct spotnik_report {
    uint8_t evidence; /* spotnik_evidence */
    uint8_t leaving;  /* 1: asked to leave */
    uint8_t promised; /* 1: promised in this ballot; the two fields below are its words */
    uint8_t begun;    /* 1: has begun step committed + 1 in this epoch */
    /* 1: copied its state after `committed` and does not hold the result of that step */
    uint8_t bare;
    uint64_t committed;
    uint32_t share, share_count; /* of the begun step, as it was begun; SPOTNIK_NO_SHARE: none */
    /* bit r % 64: data from it do not reach some rank r of the view, of another host */
    uint64_t cut;
    /* bit r % 64: it does not share memory with some rank r of the view. All bits: nor can it with
     * anybody */
    uint64_t apart;
};

static inline bool spotnik_evidence_out(uint8_t evidence)
{
    return evidence != SPOTNIK_EVIDENCE_NONE;
}

static inline uint8_t spotnik_evidence_merge(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

#endif
