/* SPDX-License-Identifier: Apache-2.0 */
/* What the end of a peer is worth as evidence (src/member/evidence.h). Rules: docs/protocol.md
 * 4. */
#include "base/assert.h"
#include "membership/detection.h"

/* May it, as far as its words go, have voted in `epoch` without us? Before such a vote goes on it
 * says FENCED on a link that stands. It says FENCED first on one that comes up in the same
 * epoch. So it may have if it fenced us then or later; or if, when the link came up, it was in a
 * later epoch already, where it fences no peer for the earlier one. A later epoch heard on a link
 * older than that says nothing against it: it went there by a view that we voted for, or one chosen
 * by others, which fenced us. */
bool peer_end_moved_on(const struct peer_end *end, uint64_t epoch)
{
    return end->fenced_epoch >= epoch || end->first_epoch > epoch;
}

/* What its known end is worth in `epoch`: GONE where it did not vote without us there, by its own
 * last words or by the certificate of its host. A certificate that is too young for our view is
 * worth more as soon as we have moved on. */
enum spotnik_evidence peer_end_worth(const struct peer_end *end, uint64_t epoch)
{
    SPOTNIK_ASSERT(!end->certified || end->ended >= SPOTNIK_EVIDENCE_TAINTED);
    if (end->ended == SPOTNIK_EVIDENCE_NONE)
        return SPOTNIK_EVIDENCE_NONE;
    if (end->certified && end->last_epoch <= epoch)
        return SPOTNIK_EVIDENCE_GONE;
    return end->ended == SPOTNIK_EVIDENCE_GONE && !peer_end_moved_on(end, epoch)
               ? SPOTNIK_EVIDENCE_GONE
               : SPOTNIK_EVIDENCE_TAINTED;
}
