/* SPDX-License-Identifier: Apache-2.0 */
/* How many members a new view has lost, let go and let in, and why: for status. No rule of the
 * protocol is here. */
#include "base/assert.h"
#include "membership/agreement.h"

/* What we know ourselves of a lost member, or the last PREPARE has said. */
static uint8_t cause_of(const struct spotnik_known *known, const struct spotnik_prepare *prepare,
                        uint32_t size, uint32_t rank)
{
    bool told = prepare->ballot.round != 0 && prepare->report_count == size;

    SPOTNIK_ASSERT(rank < size);
    return spotnik_evidence_merge(known[rank].evidence,
                                  told ? prepare->report[rank].evidence : SPOTNIK_EVIDENCE_NONE);
}

/* `flags`: of its entry; `entered`: it has one. */
static void count(struct view_changes *changes, uint8_t cause, bool leaving, bool entered,
                  uint32_t flags)
{
    if (flags & SPOTNIK_ENTRY_CUT) {
        changes->lost++;
        changes->silent++;
    } else if (flags & SPOTNIK_ENTRY_MEMBER) {
        return;
    } else if (leaving || entered) {
        changes->left++;
    } else {
        changes->lost++;
        changes->ended += cause >= SPOTNIK_EVIDENCE_TAINTED;
        changes->silent += cause == SPOTNIK_EVIDENCE_SILENT;
    }
}

/* `view`: the one that `proposal` replaces; `known`, per rank of it: our evidence. */
struct view_changes view_changes_of(const struct spotnik_view *view,
                                    const struct spotnik_known *known,
                                    const struct spotnik_prepare *prepare,
                                    const struct spotnik_proposal *proposal)
{
    struct view_changes changes = { 0 };
    uint32_t near = 0;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        uint32_t at = spotnik_proposal_find_near(proposal, view->entry[rank].member.id, near);
        bool entered = at != SPOTNIK_NO_RANK;
        near = entered ? at + 1 : near;
        count(&changes, cause_of(known, prepare, view->size, rank), known[rank].leaving, entered,
              entered ? proposal->entry[at].flags : 0);
    }
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        changes.joined += (proposal->entry[i].flags & SPOTNIK_ENTRY_JOINER) != 0;
    return changes;
}
