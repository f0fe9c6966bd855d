/* SPDX-License-Identifier: Apache-2.0 */
/* The evidence of one member alone: when it starts a ballot itself, and what it keeps. */
#include <string.h>

#include "base/time.h"
#include "membership/detection.h"
#include "tests.h"

#define SIZE 6
#define STAGGER_NS (2 * SPOTNIK_MS)
#define RETRY_NS (100 * SPOTNIK_MS)

static struct spotnik_entry entry[SIZE];
static struct spotnik_known known[SIZE];
static struct spotnik_report report[SIZE], scratch[SIZE];
static bool covered[SIZE], suspected[SIZE];
static uint64_t quiet_until_ns[SIZE];
static struct spotnik_id quiet_by[SIZE];
static struct spotnik_view view;
static struct evidence_table table;
static struct evidence_input in;

static void open_table(uint32_t rank)
{
    memset(known, 0, sizeof(known));
    memset(report, 0, sizeof(report));
    for (uint32_t i = 0; i < SIZE; i++)
        entry[i] = (struct spotnik_entry){ .member.id.low = i + 1, .flags = SPOTNIK_ENTRY_MEMBER };
    view = (struct spotnik_view){ .epoch = 3, .size = SIZE, .entry = entry };
    table = (struct evidence_table){ .known = known,
                                     .covered = covered,
                                     .suspected_by_peer = suspected,
                                     .quiet_until_ns = quiet_until_ns,
                                     .quiet_by = quiet_by,
                                     .quiet_any = true };
    evidence_table_view(&table, SIZE);
    evidence_table_init(&table);
    in = (struct evidence_input){ .now_ns = SPOTNIK_S,
                                  .view = &view,
                                  .rank = rank,
                                  .warm_count = 1,
                                  .stagger_ns = STAGGER_NS,
                                  .retry_ns = RETRY_NS };
}

/* How long we wait after the loss of rank 3 before we start a ballot. */
static uint64_t wait_of(uint32_t rank, bool by_tree)
{
    open_table(rank);
    in.by_tree = by_tree;
    assert_true(evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT).schedule);
    if (evidence_table_schedule(&table, &in))
        return 0;
    return table.initiate_ns - in.now_ns;
}

/* Claim: the nearest live predecessor starts at once, the live successor is next, and then the
 * other predecessors by their distance. */
TEST(the_order_of_witnesses)
{
    assert_int_equal(wait_of(2, false), 0);
    assert_int_equal(wait_of(4, false), STAGGER_NS);
    assert_int_equal(wait_of(1, false), 2 * STAGGER_NS);
    assert_int_equal(wait_of(0, false), 3 * STAGGER_NS);
}

/* Claim: by a tree the other predecessors wait for the word to go down all heads of blocks. */
TEST(witnesses_by_a_tree)
{
    assert_int_equal(wait_of(4, true), STAGGER_NS);
    assert_int_equal(wait_of(1, true), 5 * STAGGER_NS); /* 6, 3 and 1 heads */
}

/* Claim: where the nearest witness is lost, too, the next one starts. */
TEST(a_lost_witness)
{
    open_table(1);
    evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT);
    assert_false(evidence_table_schedule(&table, &in));
    evidence_table_add(&table, &in, 2, SPOTNIK_EVIDENCE_GONE);
    assert_true(evidence_table_schedule(&table, &in));
}

/* Claim: what the last PREPARE carried starts no ballot of ours. */
TEST(evidence_under_way)
{
    open_table(2);
    evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT);
    table.covered[3] = true;
    assert_false(evidence_table_schedule(&table, &in));
    assert_int_equal(table.initiate_ns, SPOTNIK_NEVER);
    assert_true(evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_GONE).schedule);
    assert_true(evidence_table_schedule(&table, &in));
}

/* Claim: only an end freezes; evidence that is known, weaker, or against ourselves has no
 * effect. */
TEST(what_is_new)
{
    open_table(2);
    assert_false(evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT).freeze);
    assert_false(evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT).reroute);
    assert_true(evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_TAINTED).freeze);
    assert_false(evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT).hurry);
    assert_false(evidence_table_add(&table, &in, 2, SPOTNIK_EVIDENCE_GONE).freeze);
    assert_int_equal(known[3].evidence, SPOTNIK_EVIDENCE_TAINTED);
    assert_int_equal(known[2].evidence, SPOTNIK_EVIDENCE_NONE);
}

/* Claim: a word forgives silence and no end; the suspicion lasts from the first of them until none
 * is left. */
TEST(it_is_heard_again)
{
    open_table(2);
    evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_SILENT);
    in.now_ns++;
    evidence_table_add(&table, &in, 4, SPOTNIK_EVIDENCE_SILENT);
    assert_true(evidence_table_hear(&table, &in, 3));
    assert_false(evidence_table_hear(&table, &in, 3));
    assert_int_equal(table.suspected_ns, SPOTNIK_S);
    assert_true(evidence_table_hear(&table, &in, 4));
    assert_int_equal(table.suspected_ns, 0);
    evidence_table_add(&table, &in, 4, SPOTNIK_EVIDENCE_TAINTED);
    assert_false(evidence_table_hear(&table, &in, 4));
}

/* Claim: another's word of a silence fades after half of retry_ns, or when a later PREPARE of the
 * same initiator, or the member itself, takes it back. */
TEST(silence_by_hearsay)
{
    struct spotnik_prepare prepare = { .report = report,
                                       .report_count = SIZE,
                                       .ballot.initiator.low = 1 };
    open_table(2);
    report[4].evidence = SPOTNIK_EVIDENCE_SILENT;
    evidence_table_learn_silences(&table, &in, &prepare);
    assert_true(in.now_ns + RETRY_NS / 2 - 1 < table.quiet_until_ns[4]);
    assert_false(in.now_ns + RETRY_NS / 2 < table.quiet_until_ns[4]);
    report[4].evidence = SPOTNIK_EVIDENCE_NONE;
    prepare.ballot.initiator.low = 2;
    evidence_table_learn_silences(&table, &in, &prepare);
    assert_true(in.now_ns < table.quiet_until_ns[4]);
    prepare.ballot.initiator.low = 1;
    evidence_table_learn_silences(&table, &in, &prepare);
    assert_false(in.now_ns < table.quiet_until_ns[4]);
    report[4].evidence = SPOTNIK_EVIDENCE_SILENT;
    evidence_table_learn_silences(&table, &in, &prepare);
    assert_false(evidence_table_hear(&table, &in, 4));
    assert_false(in.now_ns < table.quiet_until_ns[4]);
}

/* Claim: others' evidence never becomes ours; a leave does. */
TEST(facts_by_hearsay)
{
    struct spotnik_prepare prepare = { .report = report, .report_count = SIZE };
    open_table(2);
    report[4].evidence = report[2].evidence = SPOTNIK_EVIDENCE_GONE;
    report[5].leaving = 1;
    evidence_table_learn(&table, &in, &prepare);
    assert_true(suspected[4]);
    assert_false(suspected[2]);
    assert_int_equal(known[4].evidence, SPOTNIK_EVIDENCE_NONE);
    assert_int_equal(known[5].leaving, 1);
}

/* Claim: into the next view go ends of its members, by their new ranks; silence and leaves stay
 * behind. */
TEST(the_next_view)
{
    struct spotnik_entry next[] = { entry[0], entry[2], entry[4], entry[5] };
    struct spotnik_proposal proposal = { .epoch = 4, .entry = next, .entry_count = 4 };
    open_table(2);
    evidence_table_add(&table, &in, 0, SPOTNIK_EVIDENCE_SILENT);
    evidence_table_add(&table, &in, 4, SPOTNIK_EVIDENCE_TAINTED);
    evidence_table_add(&table, &in, 3, SPOTNIK_EVIDENCE_GONE);
    known[5].leaving = 1;
    evidence_table_carry(&table, &view, &proposal, scratch);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(known[rank].evidence,
                         rank == 2 ? SPOTNIK_EVIDENCE_TAINTED : SPOTNIK_EVIDENCE_NONE);
        assert_int_equal(known[rank].leaving, 0);
    }
}
