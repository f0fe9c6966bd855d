/* SPDX-License-Identifier: Apache-2.0 */
/* PREPARE, the first pass (docs/protocol.md 5): what a member signs in it, and where it goes
 * next. */
#include <string.h>

#include "base/assert.h"
#include "membership/agreement.h"

/* A PREPARE of the promised ballot that no member has signed. */
void prepare_clear(struct agreement *agreement, const struct agreement_input *in,
                   const struct prepare_words *words)
{
    struct spotnik_prepare *prepare = &agreement->prepare;

    SPOTNIK_ASSERT(agreement->promised.round > 0);
    prepare->ballot = agreement->promised;
    prepare->parked = agreement->parked;
    prepare->report_count = in->view->size;
    memset(prepare->report, 0, in->view->size * sizeof(*prepare->report));
    prepare->joiner_count = 0;
    spotnik_ledger_copy(&prepare->ledger, words->ledger);
    prepare->ledger_step = words->ledger_step;
    prepare->accepted_ballot = (struct spotnik_ballot){ 0 };
}

/* Evidence is merged, but silence is not held against a member that has spoken in this ballot. */
static void sign_evidence(struct spotnik_prepare *prepare, const struct agreement_input *in)
{
    SPOTNIK_ASSERT(prepare->report_count == in->view->size);
    for (uint32_t rank = 0; rank < in->view->size; rank++) {
        struct spotnik_report *report = &prepare->report[rank];
        if (!report->promised || in->known[rank].evidence != SPOTNIK_EVIDENCE_SILENT)
            report->evidence = spotnik_evidence_merge(report->evidence, in->known[rank].evidence);
        report->leaving |= in->known[rank].leaving;
    }
}

/* Voters may have accepted several proposals. PREPARE keeps the one with the highest ballot: it may
 * have been chosen. */
static void sign_accepted(struct agreement *agreement, const struct agreement_input *in)
{
    struct spotnik_prepare *prepare = &agreement->prepare;

    if (!agreement->accepted.ballot.round
        || spotnik_ballot_compare(agreement->accepted.ballot, prepare->accepted_ballot) <= 0)
        return;
    prepare->accepted_ballot = agreement->accepted.ballot;
    spotnik_proposal_copy(&prepare->accepted, &agreement->accepted);
    bool whole = !prepare->accepted.packed || spotnik_brief_unpack(&prepare->accepted, in->view);
    SPOTNIK_ASSERT(whole);
}

/* Our promise, our report, all we know but for the joiners. */
void prepare_sign(struct agreement *agreement, const struct agreement_input *in,
                  const struct prepare_words *words)
{
    struct spotnik_prepare *prepare = &agreement->prepare;
    bool known = words->ledger_step != SPOTNIK_NO_LEDGER;

    SPOTNIK_ASSERT(words->report.promised);
    sign_evidence(prepare, in);
    prepare->report[in->rank] = words->report;
    if (known
        && (prepare->ledger_step == SPOTNIK_NO_LEDGER
            || words->ledger_step >= prepare->ledger_step)) {
        spotnik_ledger_copy(&prepare->ledger, words->ledger);
        prepare->ledger_step = words->ledger_step;
    }
    if (!words->hides_accepted)
        sign_accepted(agreement, in);
}

/* A joiner that asks us, as near as it has told any member. False: there is no place left. */
bool prepare_sign_joiner(struct agreement *agreement, const struct spotnik_enter *enter)
{
    struct spotnik_prepare *prepare = &agreement->prepare;
    uint32_t at = 0;

    while (at < prepare->joiner_count
           && !spotnik_id_equal(prepare->joiner[at].member.id, enter->member.id))
        at++;
    if (at == SPOTNIK_JOINERS_MAX)
        return false;
    if (at == prepare->joiner_count)
        prepare->joiner[prepare->joiner_count++] = *enter;
    else if (prepare->joiner[at].committed < enter->committed)
        prepare->joiner[at].committed = enter->committed;
    return true;
}

/* A joiner that has ended: a ballot that waits for it must not let it in. */
void prepare_drop_joiner(struct agreement *agreement, struct spotnik_id id)
{
    struct spotnik_prepare *prepare = &agreement->prepare;

    SPOTNIK_ASSERT(prepare->joiner_count <= SPOTNIK_JOINERS_MAX);
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (spotnik_id_equal(prepare->joiner[i].member.id, id)) {
            prepare->joiner[i] = prepare->joiner[--prepare->joiner_count];
            return;
        }
}

static bool is_lost(const struct agreement *agreement, const struct agreement_input *in,
                    uint32_t rank)
{
    SPOTNIK_ASSERT(rank < in->view->size);
    return spotnik_evidence_out(agreement->prepare.report[rank].evidence) || in->suspected[rank];
}

/* To the next member in ring order that is not out; when that is the initiator, the circle is
 * closed. A PREPARE whose initiator is out would go nowhere: its holder bids higher. */
struct prepare_hop prepare_next(const struct agreement *agreement, const struct agreement_input *in)
{
    const struct spotnik_prepare *prepare = &agreement->prepare;
    uint32_t origin = spotnik_view_rank(in->view, prepare->ballot.initiator);

    if (origin == SPOTNIK_NO_RANK || (origin != in->rank && is_lost(agreement, in, origin)))
        return (struct prepare_hop){ .next = BALLOT_START };
    for (uint32_t ahead = 1; ahead < in->view->size; ahead++) {
        uint32_t rank = (in->rank + ahead) % in->view->size;
        bool done = prepare->report[rank].promised && rank != origin;
        bool quiet = rank != origin && in->now_ns < in->quiet_until_ns[rank];
        if (!is_lost(agreement, in, rank) && !done && !quiet)
            return (struct prepare_hop){ .next = BALLOT_WAITS, .rank = rank };
    }
    SPOTNIK_ASSERT(origin == in->rank);
    return (struct prepare_hop){ .next = BALLOT_DECIDE }; /* no other member is left */
}
