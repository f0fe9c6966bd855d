/* SPDX-License-Identifier: Apache-2.0 */
/* What one initiator may do with the promises that it has. */
#include <string.h>

#include "membership/agreement.h"
#include "tests.h"

#define SIZE 4
#define SETTLED 9

static struct spotnik_entry entry[SIZE];
static struct spotnik_report report[SIZE];
static struct spotnik_view view;
static struct spotnik_prepare prepare;

/* All have promised, hold step 9 and know its ledger. */
static int open_view(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < SIZE; i++) {
        entry[i] = (struct spotnik_entry){ .member.id.low = i + 1, .flags = SPOTNIK_ENTRY_MEMBER };
        report[i] = (struct spotnik_report){ .promised = 1, .committed = SETTLED };
    }
    view =
        (struct spotnik_view){ .epoch = 3, .settled_step = SETTLED, .size = SIZE, .entry = entry };
    memset(&prepare, 0, sizeof(prepare));
    prepare.report = report;
    prepare.report_count = SIZE;
    prepare.ledger_step = SETTLED;
    return 0;
}

static enum decision decide(bool named)
{
    return decision_of(&(struct decision_input){
        .view = &view, .prepare = &prepare, .named = named });
}

static void lose(uint32_t rank, uint8_t evidence)
{
    report[rank] = (struct spotnik_report){ .evidence = evidence };
}

/* Claim: a majority proposes, less than half parks. */
TEST_WITH(a_majority, open_view, NULL)
{
    assert_int_equal(decide(false), DECISION_PROPOSE);
    lose(0, SPOTNIK_EVIDENCE_SILENT);
    assert_int_equal(decide(false), DECISION_PROPOSE);
    lose(1, SPOTNIK_EVIDENCE_SILENT);
    lose(2, SPOTNIK_EVIDENCE_SILENT);
    assert_int_equal(decide(false), DECISION_PARK);
}

/* Claim: in a lineage with a witness half of the view asks it, and proposes when it names them. */
TEST_WITH(a_half, open_view, NULL)
{
    view.founding.id = 1; /* odd: with a witness */
    lose(0, SPOTNIK_EVIDENCE_SILENT);
    lose(1, SPOTNIK_EVIDENCE_TAINTED);
    assert_int_equal(decide(false), DECISION_TIED);
    assert_int_equal(decide(true), DECISION_PROPOSE);
    lose(2, SPOTNIK_EVIDENCE_SILENT);
    assert_int_equal(decide(true), DECISION_PARK);
}

/* Claim: voters that lack the settled step of their own view park while a member may live that
 * could serve them, and are excluded when all those have ended. */
TEST_WITH(no_voter_was_served, open_view, NULL)
{
    lose(0, SPOTNIK_EVIDENCE_SILENT);
    for (uint32_t rank = 1; rank < SIZE; rank++) {
        entry[rank].flags |= SPOTNIK_ENTRY_LAGGARD;
        report[rank].committed = SETTLED - 1;
    }
    prepare.ledger_step = SPOTNIK_NO_LEDGER;
    assert_int_equal(decide(false), DECISION_PARK);
    report[0].evidence = SPOTNIK_EVIDENCE_TAINTED;
    assert_int_equal(decide(false), DECISION_EXCLUDED);
    prepare.ledger_step = SETTLED - 1;
    assert_int_equal(decide(false), DECISION_PROPOSE);
}

/* Claim: where the ledger is not that of the settled step, the voters are asked once more. */
TEST_WITH(the_ledger_is_another_one, open_view, NULL)
{
    prepare.ledger_step = SETTLED + 1;
    assert_int_equal(decide(false), DECISION_AGAIN);
    prepare.accepted_ballot.round = 1; /* its proposal brings a ledger */
    assert_int_equal(decide(false), DECISION_PROPOSE);
}

/* Claim: the initiator waits for a joiner that is on its way, but not with a proposal that may have
 * been chosen. */
TEST_WITH(a_joiner, open_view, NULL)
{
    uint64_t settled = spotnik_proposal_settled(&prepare);
    prepare.joiner_count = 1;
    prepare.joiner[0] = (struct spotnik_enter){ .member.id.low = 9, .committed = settled };
    assert_false(decision_awaits_joiner(&prepare));
    prepare.joiner[0].committed = settled - 3;
    assert_true(decision_awaits_joiner(&prepare));
    prepare.accepted_ballot.round = 1;
    assert_false(decision_awaits_joiner(&prepare));
}
