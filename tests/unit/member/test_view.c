/* SPDX-License-Identifier: Apache-2.0 */
/* Views, proposals, tokens and ballots as data: copies keep the storage of their target, order is
 * total, shares follow the view's first step. */
#include "member/view.h"

#include <string.h>

#include "member/message.h"
#include "tests.h"

#define ENTRIES 4

static struct spotnik_entry entry(uint64_t number, uint32_t flags, uint32_t share)
{
    return (struct spotnik_entry){ .member.id = { 0, number }, .flags = flags, .share = share };
}

/* Members 5 and 3 with 9, a leaver, between them. */
static void fill(struct spotnik_proposal *proposal, struct spotnik_entry *storage)
{
    memset(proposal, 0, sizeof *proposal);
    proposal->epoch = 8;
    proposal->settled_step = 20;
    proposal->ballot = (struct spotnik_ballot){ .round = 2, .initiator = { 0, 5 } };
    proposal->share_count = 7;
    proposal->entry = storage;
    proposal->entry_max = ENTRIES;
    proposal->entry_count = 3;
    storage[0] = entry(5, SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER, 6);
    storage[1] = entry(9, SPOTNIK_ENTRY_VOTER, SPOTNIK_NO_SHARE);
    storage[2] = entry(3, SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_LAGGARD, SPOTNIK_NO_SHARE);
    spotnik_ledger_init(&proposal->ledger, 100, 10);
    proposal->ledger.cursor = 40;
}

/* Claim: ballots are ordered by round, then by the whole 128 bits of the initiator; only equals are
 * equal. */
TEST(ballots)
{
    const struct spotnik_ballot ascending[] = { { 0, { 0, 0 } }, { 1, { 0, 9 } }, { 1, { 1, 0 } },
                                                { 1, { 1, 1 } }, { 2, { 0, 0 } }, { 2, { 0, 1 } } };
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            int order = spotnik_ballot_compare(ascending[i], ascending[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
}

/* Claim: a view is the MEMBER entries in their order, with their shares and the epoch's numbers. */
TEST(view_from_proposal)
{
    struct spotnik_entry storage[ENTRIES], of_view[ENTRIES];
    struct spotnik_proposal proposal;
    struct spotnik_view view = { .entry = of_view };

    fill(&proposal, storage);
    spotnik_view_from_proposal(&view, &proposal);
    assert_int_equal(view.epoch, 8);
    assert_int_equal(view.settled_step, 20);
    assert_int_equal(view.size, 2);
    assert_int_equal(spotnik_proposal_size(&proposal), 2);
    assert_int_equal(spotnik_view_rank(&view, (struct spotnik_id){ 0, 5 }), 0);
    assert_int_equal(spotnik_view_rank(&view, (struct spotnik_id){ 0, 3 }), 1);
    assert_int_equal(spotnik_view_rank(&view, (struct spotnik_id){ 0, 9 }), SPOTNIK_NO_RANK);
    assert_int_equal(spotnik_proposal_find(&proposal, (struct spotnik_id){ 0, 9 }), 1);
    assert_int_equal(spotnik_proposal_find(&proposal, (struct spotnik_id){ 5, 0 }),
                     SPOTNIK_NO_RANK);
}

/* Claim: a place is found whatever index the search begins at, and what is not there is found from
 * none. */
TEST(find_near)
{
    struct spotnik_entry storage[ENTRIES];
    struct spotnik_proposal proposal;

    fill(&proposal, storage);
    struct spotnik_view view = { .entry = storage, .size = proposal.entry_count };
    for (uint32_t near = 0; near <= ENTRIES; near++) {
        for (uint32_t i = 0; i < proposal.entry_count; i++) {
            assert_int_equal(spotnik_proposal_find_near(&proposal, storage[i].member.id, near), i);
            assert_int_equal(spotnik_view_rank_near(&view, storage[i].member.id, near), i);
        }
        assert_int_equal(spotnik_proposal_find_near(&proposal, (struct spotnik_id){ 5, 0 }, near),
                         SPOTNIK_NO_RANK);
    }
    assert_int_equal(spotnik_view_rank_near(&view, storage[1].member.id, SPOTNIK_NO_RANK), 1);
}

/* Claim: the first step of a view is shared as the view says, every later one by rank. */
TEST(shares)
{
    struct spotnik_entry storage[ENTRIES], of_view[ENTRIES];
    struct spotnik_proposal proposal;
    struct spotnik_view view = { .entry = of_view };

    fill(&proposal, storage);
    spotnik_view_from_proposal(&view, &proposal);
    assert_int_equal(spotnik_view_shares(&view, 21), 7);
    assert_int_equal(spotnik_view_share(&view, 0, 21), 6);
    assert_int_equal(spotnik_view_share(&view, 1, 21), SPOTNIK_NO_SHARE);
    assert_int_equal(spotnik_view_shares(&view, 22), 2);
    assert_int_equal(spotnik_view_share(&view, 0, 22), 0);
    assert_int_equal(spotnik_view_share(&view, 1, 22), 1);
}

/* Claim: a copy has the same value in its own storage; copying onto itself is nothing. */
TEST(proposal_copy)
{
    struct spotnik_entry storage[ENTRIES], of_copy[ENTRIES + 3] = { 0 };
    struct spotnik_proposal proposal, copy = { .entry = of_copy, .entry_max = ENTRIES + 3 };

    fill(&proposal, storage);
    spotnik_proposal_copy(&copy, &proposal);
    spotnik_proposal_copy(&copy, &copy);
    assert_ptr_equal(copy.entry, of_copy);
    assert_int_equal(copy.entry_max, ENTRIES + 3);
    assert_int_equal(copy.epoch, 8);
    assert_int_equal(copy.share_count, 7);
    assert_int_equal(copy.entry_count, 3);
    assert_memory_equal(of_copy, storage, 3 * sizeof *storage);
    assert_true(spotnik_ledger_equal(&copy.ledger, &proposal.ledger));
    assert_int_equal(spotnik_ballot_compare(copy.ballot, proposal.ballot), 0);
}

/* Claim: a token's copy carries reports, joiners, ledger and the accepted value, but only if there
 * is one. */
TEST(prepare_copy)
{
    static struct spotnik_prepare prepare, copy;
    struct spotnik_report report[2] = { { .promised = 1, .committed = 5 },
                                        { .evidence = SPOTNIK_EVIDENCE_GONE } };
    struct spotnik_report of_copy[3] = { 0 };
    struct spotnik_entry storage[ENTRIES], entry_of_copy[ENTRIES] = { 0 };

    memset(&prepare, 0, sizeof prepare);
    memset(&copy, 0, sizeof copy);
    fill(&prepare.accepted, storage);
    prepare.ballot = (struct spotnik_ballot){ .round = 9, .initiator = { 0, 3 } };
    prepare.parked = 1;
    prepare.report = report;
    prepare.report_count = 2;
    prepare.joiner_count = 1;
    prepare.joiner[0] = (struct spotnik_enter){ .member.id = { 0, 77 }, .committed = 4 };
    spotnik_ledger_init(&prepare.ledger, 100, 10);
    prepare.ledger_step = 5;
    copy.report = of_copy;
    copy.accepted.entry = entry_of_copy;
    copy.accepted.entry_max = ENTRIES;
    spotnik_prepare_copy(&copy, &prepare);
    assert_int_equal(copy.accepted.epoch, 0);
    prepare.accepted_ballot = prepare.accepted.ballot;
    spotnik_prepare_copy(&copy, &prepare);
    assert_ptr_equal(copy.report, of_copy);
    assert_memory_equal(of_copy, report, sizeof report);
    assert_int_equal(copy.parked, 1);
    assert_int_equal(copy.joiner[0].committed, 4);
    assert_int_equal(copy.ledger_step, 5);
    assert_true(spotnik_ledger_equal(&copy.ledger, &prepare.ledger));
    assert_int_equal(copy.accepted.epoch, 8);
    assert_ptr_equal(copy.accepted.entry, entry_of_copy);
    assert_memory_equal(entry_of_copy, storage, 3 * sizeof *storage);
}

/* Claim: evidence only grows along its chain, and anything but NONE takes its subject out. */
TEST(evidence)
{
    for (uint8_t a = SPOTNIK_EVIDENCE_NONE; a <= SPOTNIK_EVIDENCE_GONE; a++) {
        assert_int_equal(spotnik_evidence_out(a), a != SPOTNIK_EVIDENCE_NONE);
        for (uint8_t b = SPOTNIK_EVIDENCE_NONE; b <= SPOTNIK_EVIDENCE_GONE; b++)
            assert_int_equal(spotnik_evidence_merge(a, b), a > b ? a : b);
    }
}
