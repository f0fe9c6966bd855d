/* SPDX-License-Identifier: Apache-2.0 */
/* What the initiator proposes, case by case: who stays, who lags, who is let in, whose shares
 * stand. */
#include "member/proposal.h"

#include <string.h>

#include "tests.h"

#define MEMBERS_MAX 6
#define ENTRIES_MAX (2 * MEMBERS_MAX + SPOTNIK_JOINERS_MAX)

struct scene {
    struct spotnik_entry view_entry[MEMBERS_MAX], entry[ENTRIES_MAX], accepted_entry[ENTRIES_MAX];
    struct spotnik_report report[MEMBERS_MAX];
    struct spotnik_view view;
    struct spotnik_prepare prepare;
    struct spotnik_proposal proposal;
};

static struct scene scene;

static struct spotnik_member member(uint64_t number)
{
    return (struct spotnik_member){ .id = { 0, number }, .port = (uint16_t)number };
}

/* Epoch 4, members 1..size, all of them voters that have committed step 10, whose ledger is at
 * 100. */
static void set(uint32_t size)
{
    memset(&scene, 0, sizeof scene);
    scene.view = (struct spotnik_view){
        .epoch = 4, .settled_step = 7, .size = size, .share_count = size, .entry = scene.view_entry
    };
    scene.prepare.report = scene.report;
    scene.prepare.report_count = size;
    scene.prepare.ballot = (struct spotnik_ballot){ .round = 3, .initiator = { 0, 1 } };
    scene.prepare.accepted.entry = scene.accepted_entry;
    scene.prepare.accepted.entry_max = scene.proposal.entry_max = ENTRIES_MAX;
    scene.proposal.entry = scene.entry;
    spotnik_ledger_init(&scene.prepare.ledger, 1000, 10);
    scene.prepare.ledger.cursor = 100;
    scene.prepare.ledger_step = 10;
    for (uint32_t i = 0; i < size; i++) {
        scene.view_entry[i] = (struct spotnik_entry){ .member = member(i + 1),
                                                      .flags = SPOTNIK_ENTRY_MEMBER,
                                                      .share = i };
        scene.report[i] = (struct spotnik_report){ .promised = 1, .committed = 10 };
    }
}

static void join(uint64_t number, uint64_t committed)
{
    scene.prepare.joiner[scene.prepare.joiner_count++] =
        (struct spotnik_enter){ .member = member(number), .committed = committed };
}

static void make(void)
{
    spotnik_proposal_make(&scene.proposal, &scene.view, &scene.prepare, MEMBERS_MAX);
}

static const struct spotnik_entry *entry(uint64_t number)
{
    uint32_t at = spotnik_proposal_find(&scene.proposal, member(number).id);
    return at == SPOTNIK_NO_RANK ? NULL : &scene.proposal.entry[at];
}

static void assert_entry(uint64_t number, uint32_t flags, uint32_t share)
{
    assert_non_null(entry(number));
    assert_int_equal(entry(number)->flags, flags);
    assert_int_equal(entry(number)->share, share);
    assert_int_equal(entry(number)->member.port, number);
}

enum {
    M = SPOTNIK_ENTRY_MEMBER,
    V = SPOTNIK_ENTRY_VOTER,
    L = SPOTNIK_ENTRY_LAGGARD,
    J = SPOTNIK_ENTRY_JOINER,
    C = SPOTNIK_ENTRY_CUT,
    NONE = (int)SPOTNIK_NO_SHARE,
};

/* Claim: without news the next view is the same members in the same order, one epoch later, shared
 * afresh. */
TEST(same_again)
{
    set(3);
    make();
    assert_int_equal(scene.proposal.epoch, 5);
    assert_int_equal(scene.proposal.settled_step, 10);
    assert_int_equal(scene.proposal.ballot.round, 3);
    assert_int_equal(scene.proposal.entry_count, 3);
    assert_int_equal(scene.proposal.share_count, 3);
    assert_int_equal(scene.proposal.ledger.cursor, 100);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(scene.proposal.entry[i].member.id.low, i + 1);
        assert_entry(i + 1, M | V, i);
    }
}

static void assert_flat(bool flat)
{
    make();
    assert_int_equal(scene.proposal.flat, flat);
}

/* Claim: the next view is flat when no two that stay in it say that they share no memory: whom the
 * dead, the lost and the leaving did not share it with does not matter. One that fails, or has only
 * just come in, keeps it on the ring; a proposal found again stays as it was. */
TEST(flat)
{
    set(4);
    assert_flat(true);
    scene.report[1].apart = 1u << 3;
    assert_flat(false);
    scene.report[3].evidence = SPOTNIK_EVIDENCE_GONE;
    assert_flat(true);
    scene.report[3] =
        (struct spotnik_report){ .promised = 1, .committed = 10, .leaving = 1, .apart = 7 };
    assert_flat(true);
    scene.report[0].apart = UINT64_MAX;
    assert_flat(false);
    scene.report[0].apart = 0;
    join(9, 10);
    assert_flat(false);
    scene.prepare.joiner_count = 0;
    spotnik_proposal_copy(&scene.prepare.accepted, &scene.proposal);
    scene.prepare.accepted_ballot.round = 2;
    assert_flat(false);
    scene.prepare.accepted.flat = true;
    scene.report[0].apart = UINT64_MAX;
    assert_flat(true);
}

/* Claim: who has not promised, and who has but is accused by a later hop, is not in it. */
TEST(lost)
{
    set(4);
    scene.report[0].promised = 0;
    scene.report[2].evidence = SPOTNIK_EVIDENCE_SILENT;
    make();
    assert_null(entry(1));
    assert_null(entry(3));
    assert_int_equal(spotnik_proposal_size(&scene.proposal), 2);
    assert_entry(2, M | V, 0);
    assert_entry(4, M | V, 1);
}

/* Claim: settled is the highest step a voter committed, a dead one's does not count, and who is
 * behind it is a laggard. */
TEST(laggards)
{
    set(4);
    scene.report[0].committed = 11;
    scene.report[3].committed = 12;
    scene.report[3].evidence = SPOTNIK_EVIDENCE_GONE;
    scene.prepare.ledger_step = 11;
    make();
    assert_int_equal(scene.proposal.settled_step, 11);
    assert_entry(1, M | V, 0);
    assert_entry(2, M | V | L, 1);
    assert_entry(3, M | V | L, 2);
    assert_null(entry(4));
}

/* Claim: a leaver is told (an entry, a voter) but not in the view, and has no share. */
TEST(leaver)
{
    set(3);
    scene.report[1].leaving = 1;
    make();
    assert_entry(1, M | V, 0);
    assert_entry(2, V, NONE);
    assert_entry(3, M | V, 1);
    assert_int_equal(scene.proposal.share_count, 2);
}

/* Claim: a leaver that lags may go when a member that stays holds the result. */
TEST(leaver_lags)
{
    set(3);
    scene.report[1].leaving = 1;
    scene.report[1].committed = 9;
    make();
    assert_entry(2, V | L, NONE);
    assert_entry(1, M | V, 0);
}

/* Claim: when only a leaver holds the settled result, all leavers stay one view longer. */
TEST(leaver_holds)
{
    set(3);
    scene.report[1].leaving = scene.report[2].leaving = 1;
    scene.report[0].committed = scene.report[2].committed = 9;
    make();
    assert_entry(1, M | V | L, 0);
    assert_entry(2, M | V, 1);
    assert_entry(3, M | V | L, 2);
}

/* Claim: when everybody leaves and nobody lags the view is empty, whoever would like to join. */
TEST(everybody_leaves)
{
    set(2);
    scene.report[0].leaving = scene.report[1].leaving = 1;
    join(9, 10);
    make();
    assert_int_equal(spotnik_proposal_size(&scene.proposal), 0);
    assert_int_equal(scene.proposal.entry_count, 2);
    assert_int_equal(scene.proposal.share_count, 0);
}

/* Claim: when everybody leaves but one lags, nobody goes before it is served: else its caller's
 * last step would differ. */
TEST(everybody_leaves_one_lags)
{
    set(2);
    scene.report[0].leaving = scene.report[1].leaving = 1;
    scene.report[1].committed = 9;
    make();
    assert_entry(1, M | V, 0);
    assert_entry(2, M | V | L, 1);
}

/* Claim: joiners at the settled step or one behind come in; others wait; nobody comes in twice. */
TEST(joiners)
{
    set(2);
    join(9, 10);
    join(8, 9);
    join(7, 8);
    join(6, 11);
    join(9, 10);
    join(2, 10);
    make();
    assert_int_equal(scene.proposal.entry_count, 4);
    assert_int_equal(entry(9)->flags, M | J);
    assert_int_equal(entry(8)->flags, M | J | L);
    assert_null(entry(7));
    assert_null(entry(6));
}

static void assert_order(const uint64_t *numbers, uint32_t count)
{
    assert_int_equal(scene.proposal.entry_count, count);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(scene.proposal.entry[i].member.id.low, numbers[i]);
}

/* Claim: members keep their order and joiners come after them, unless somebody who only copied the
 * settled state might have to serve a laggard: then copiers come first, holders next, laggards
 * last, so that a holder precedes the laggards. */
TEST(order)
{
    set(3);
    join(9, 10);
    scene.report[1].bare = 1;
    make();
    assert_order((uint64_t[]){ 1, 2, 3, 9 }, 4); /* nobody lags */
    scene.report[0].committed = 9;
    make();
    assert_order((uint64_t[]){ 2, 9, 3, 1 }, 4);
    assert_entry(3, M | V, 2);
    assert_entry(1, M | V | L, 3);
    set(3);
    join(8, 9);
    scene.report[1].committed = 9;
    make();
    assert_order((uint64_t[]){ 1, 2, 3, 8 }, 4); /* everybody else holds the result */
}

/* Claim: laggards whom nobody can serve are left out, and told so if they voted: they join again by
 * copying. */
TEST(nobody_to_serve)
{
    set(3);
    join(8, 9);
    scene.report[0].bare = 1;
    scene.report[1].committed = scene.report[2].committed = 9;
    make();
    assert_int_equal(spotnik_proposal_size(&scene.proposal), 1);
    assert_entry(1, M | V, 0);
    assert_entry(2, V | L, NONE);
    assert_entry(3, V | L, NONE);
    assert_null(entry(8));
}

/* Claim: the view never grows beyond members_max; a leaver makes room. */
TEST(members_max)
{
    set(5);
    join(7, 10);
    join(8, 10);
    make();
    assert_int_equal(spotnik_proposal_size(&scene.proposal), MEMBERS_MAX);
    assert_null(entry(8));
    scene.report[0].leaving = 1;
    make();
    assert_int_equal(spotnik_proposal_size(&scene.proposal), MEMBERS_MAX);
    assert_non_null(entry(8));
}

/* Claim: a step somebody has begun keeps the shares it was begun with: holes for the lost, none for
 * joiners. */
TEST(shares_kept)
{
    set(4);
    /* the begun step is the view's first: it carries shares of its own */
    scene.view.settled_step = 10;
    scene.view.share_count = 7;
    scene.view_entry[3].share = 6;
    scene.view_entry[1].share = SPOTNIK_NO_SHARE;
    scene.report[2].evidence = SPOTNIK_EVIDENCE_GONE;
    scene.report[3].begun = 1;
    join(9, 10);
    make();
    assert_int_equal(scene.proposal.share_count, 7);
    assert_entry(1, M | V, 0);
    assert_entry(2, M | V, NONE);
    assert_entry(4, M | V, 6);
    assert_entry(9, M | J, NONE);
}

/* Claim: in a later step of the view shares are the ranks; they too are kept. */
TEST(shares_kept_by_rank)
{
    set(3);
    scene.view_entry[2].share = 55;
    scene.report[0].begun = 1;
    scene.report[1].promised = 0;
    make();
    assert_int_equal(scene.proposal.share_count, 3);
    assert_entry(1, M | V, 0);
    assert_entry(3, M | V, 2);
}

/* Claim: what a laggard or a dead member has begun is not the coming step: shared afresh. */
TEST(shares_fresh)
{
    set(3);
    scene.report[0].committed = 9;
    scene.report[0].begun = 1;
    scene.report[1].begun = 1;
    scene.report[1].evidence = SPOTNIK_EVIDENCE_GONE;
    join(9, 9);
    make();
    assert_int_equal(scene.proposal.share_count, 3);
    assert_entry(1, M | V | L, 0);
    assert_entry(3, M | V, 1);
    assert_entry(9, M | J | L, 2);
}

/* Claim: an accepted value found on the way is proposed again: same view, step, ledger and shares,
 * whatever is known by now; only the ballot and the voters are this ballot's, and voters it leaves
 * out are on the route. */
TEST(again)
{
    struct spotnik_proposal *accepted = &scene.prepare.accepted;

    set(4);
    scene.prepare.accepted_ballot = (struct spotnik_ballot){ .round = 2, .initiator = { 0, 2 } };
    accepted->epoch = 5;
    accepted->settled_step = 11;
    accepted->ballot = scene.prepare.accepted_ballot;
    accepted->share_count = 6;
    accepted->entry_count = 4;
    accepted->entry[0] = (struct spotnik_entry){ member(2), M | V, 4 };
    accepted->entry[1] = (struct spotnik_entry){ member(3), M | V | L, 5 };
    accepted->entry[2] = (struct spotnik_entry){ member(4), V, NONE };
    accepted->entry[3] = (struct spotnik_entry){ member(9), M | J, NONE };
    spotnik_ledger_init(&accepted->ledger, 1000, 10);
    accepted->ledger.cursor = 110;
    /* 3 votes no more; 1, left out by the value, does */
    scene.report[2].evidence = SPOTNIK_EVIDENCE_SILENT;
    join(8, 10);
    make();
    assert_int_equal(scene.proposal.ballot.round, 3);
    assert_int_equal(scene.proposal.settled_step, 11);
    assert_int_equal(scene.proposal.ledger.cursor, 110);
    assert_int_equal(scene.proposal.share_count, 6);
    assert_int_equal(spotnik_proposal_size(&scene.proposal), 3);
    assert_entry(1, V, NONE);
    assert_entry(2, M | V, 4);
    assert_entry(3, M | L, 5);
    assert_entry(4, V, NONE);
    assert_entry(9, M | J, NONE);
    assert_null(entry(8));
    assert_int_equal(accepted->entry_count, 4); /* the token is left as it was */
    assert_int_equal(accepted->entry[0].flags, M | V);
}

/* Member 1 of `size` hosts does not reach `to`, and `to` does not reach member 1. */
static void cut_path(uint32_t to)
{
    for (uint32_t i = 0; i < scene.view.size; i++)
        scene.view_entry[i].member.host = i + 1;
    scene.report[0].cut = UINT64_C(1) << (to - 1);
    scene.report[to - 1].cut = 1;
}

/* Claim: of two hosts that do not reach each other the only holder of the settled step stays,
 * though its id is the larger one; else the laggard would wait for ever for its result. Where
 * another holds it, too, the larger id goes. A holder that leaves hands over first: no one is left
 * out for the path in that view. */
TEST(path_of_a_holder)
{
    set(2);
    cut_path(2);
    scene.report[0].committed = 9;
    make();
    assert_entry(1, V | L | C, SPOTNIK_NO_SHARE);
    assert_entry(2, M | V, 0);

    set(3);
    cut_path(2);
    scene.report[0].committed = 9;
    make();
    assert_entry(1, M | V | L, 0);
    assert_entry(2, V | C, SPOTNIK_NO_SHARE);
    assert_entry(3, M | V, 1);

    scene.report[2].committed = 9;
    make();
    assert_entry(1, V | L | C, SPOTNIK_NO_SHARE);
    assert_entry(2, M | V, 0);
    assert_entry(3, M | V | L, 1);

    set(3);
    cut_path(2);
    scene.report[0].committed = scene.report[1].committed = 9;
    scene.report[2].leaving = 1;
    make();
    assert_entry(1, M | V | L, 0);
    assert_entry(2, M | V | L, 1);
    assert_entry(3, M | V, 2);
}
