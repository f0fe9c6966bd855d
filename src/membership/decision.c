/* SPDX-License-Identifier: Apache-2.0 */
/* PREPARE holds every promise there is: may its initiator propose a view (P1)? Rules:
 * docs/protocol.md 5 and 6; the lineage rule itself is member/lineage.c. */
#include "base/assert.h"
#include "membership/agreement.h"

/* The voter that knows the most joined lagging, and has not been served since: then no voter has
 * the ledger. They must not make the settled step of our view anew, for it may have left the
 * job. */
static bool unserved(const struct decision_input *in)
{
    const struct spotnik_prepare *prepare = in->prepare;
    uint64_t settled = spotnik_proposal_settled(prepare);
    bool known = prepare->ledger_step != SPOTNIK_NO_LEDGER && prepare->ledger_step >= settled;

    return !prepare->accepted_ballot.round && settled < in->view->settled_step && !known;
}

/* Is a member left, as far as any voter knows, that could still serve us? */
static bool servant_left(const struct decision_input *in)
{
    SPOTNIK_ASSERT(in->prepare->report_count == in->view->size);
    for (uint32_t rank = 0; rank < in->view->size; rank++)
        if (!(in->view->entry[rank].flags & SPOTNIK_ENTRY_LAGGARD)
            && in->prepare->report[rank].evidence < SPOTNIK_EVIDENCE_TAINTED)
            return true;
    return false;
}

/* The member that knew the most signed the ledger and died since. */
static bool ledger_lost(const struct spotnik_prepare *prepare)
{
    return !prepare->accepted_ballot.round
           && prepare->ledger_step != spotnik_proposal_settled(prepare);
}

enum decision decision_of(const struct decision_input *in)
{
    const struct spotnik_report *report = in->prepare->report;

    SPOTNIK_ASSERT(in->prepare->report_count == in->view->size);
    if (!spotnik_lineage_allows(in->view, report, in->named) && !in->any_quorum)
        return spotnik_lineage_is_tied(in->view, report) ? DECISION_TIED : DECISION_PARK;
    if (unserved(in))
        return servant_left(in) ? DECISION_PARK : DECISION_EXCLUDED;
    return ledger_lost(in->prepare) ? DECISION_AGAIN : DECISION_PROPOSE;
}

/* May it enter the view that settles this step? */
bool decision_is_near(const struct spotnik_enter *joiner, uint64_t settled)
{
    return spotnik_proposal_admits(joiner, settled) || joiner->committed >= settled;
}

/* Is a joiner one step too far behind to enter, though it is on its way? */
bool decision_awaits_joiner(const struct spotnik_prepare *prepare)
{
    uint64_t settled = spotnik_proposal_settled(prepare);

    SPOTNIK_ASSERT(prepare->joiner_count <= SPOTNIK_JOINERS_MAX);
    if (prepare->accepted_ballot.round)
        return false;
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (!decision_is_near(&prepare->joiner[i], settled))
            return true;
    return false;
}
