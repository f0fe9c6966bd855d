/* SPDX-License-Identifier: Apache-2.0 */
/* Two parts of what a ballot has gathered become one (docs/design/0036-many-members.md). */
#include "base/assert.h"
#include "member/message.h"

/* A promise is its member's own: it is copied as it was signed, and no other word makes one.
 * Silence does not count against a member that has spoken in this very ballot. */
static void report_join(struct spotnik_report *to, const struct spotnik_report *from)
{
    uint8_t evidence = spotnik_evidence_merge(to->evidence, from->evidence);
    uint8_t leaving = to->leaving | from->leaving;

    if (!to->promised)
        *to = *from;
    to->leaving = leaving;
    to->evidence =
        to->promised && evidence == SPOTNIK_EVIDENCE_SILENT ? SPOTNIK_EVIDENCE_NONE : evidence;
}

static void joiner_join(struct spotnik_prepare *to, const struct spotnik_enter *joiner)
{
    for (uint32_t i = 0; i < to->joiner_count; i++) {
        if (!spotnik_id_equal(to->joiner[i].member.id, joiner->member.id))
            continue;
        if (to->joiner[i].committed < joiner->committed)
            to->joiner[i].committed = joiner->committed;
        return;
    }
    if (to->joiner_count < SPOTNIK_JOINERS_MAX)
        to->joiner[to->joiner_count++] = *joiner;
}

static bool knows_more(const struct spotnik_prepare *to, const struct spotnik_prepare *from)
{
    return from->ledger_step != SPOTNIK_NO_LEDGER
           && (to->ledger_step == SPOTNIK_NO_LEDGER || from->ledger_step > to->ledger_step);
}

void spotnik_prepare_join(struct spotnik_prepare *to, const struct spotnik_prepare *from)
{
    SPOTNIK_ASSERT(to != from && to->report_count == from->report_count);
    SPOTNIK_ASSERT(spotnik_ballot_compare(to->ballot, from->ballot) == 0);
    for (uint32_t rank = 0; rank < to->report_count; rank++)
        report_join(&to->report[rank], &from->report[rank]);
    for (uint32_t i = 0; i < from->joiner_count; i++)
        joiner_join(to, &from->joiner[i]);
    if (knows_more(to, from)) {
        spotnik_ledger_copy(&to->ledger, &from->ledger);
        to->ledger_step = from->ledger_step;
    }
    /* the value with the highest ballot is the one that may have been chosen */
    if (spotnik_ballot_compare(from->accepted_ballot, to->accepted_ballot) > 0) {
        to->accepted_ballot = from->accepted_ballot;
        spotnik_proposal_copy(&to->accepted, &from->accepted);
    }
}
