/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a member asks in a pass by a tree, and when it may answer. */
#include "tests.h"
#include "voters.h"

#define SIZE 20
#define ORIGIN 7

static struct voters voters;
static struct agreement *const agreement = &voters.agreement;

static void open_tree(uint32_t rank)
{
    voters_open(&voters, SIZE, rank);
    voters_promise(&voters, 1, ORIGIN);
    tree_prepare_begin(&agreement->tree, ORIGIN);
}

/* How often each member is asked, when all but `out` do their part. */
static void ask_all(uint32_t asked[SIZE], uint32_t out)
{
    for (uint32_t rank = 0; rank < SIZE; rank++) {
        uint32_t next;
        if (rank == out)
            continue;
        open_tree(rank);
        if (out < SIZE)
            voters.known[out].evidence = SPOTNIK_EVIDENCE_GONE;
        while (tree_prepare_next(agreement, &voters.in, &next))
            asked[next]++;
    }
}

/* Claim: each member but the initiator is asked once. */
TEST(each_member_is_asked_once)
{
    uint32_t asked[SIZE] = { 0 };

    ask_all(asked, SIZE);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        assert_int_equal(asked[rank], rank != ORIGIN);
}

/* Claim: those below a member that is out are asked in its stead, whichever it is. */
TEST(those_below_one_that_is_out)
{
    for (uint32_t out = 0; out < SIZE; out++) {
        uint32_t asked[SIZE] = { 0 };
        if (out == ORIGIN)
            continue;
        ask_all(asked, out);
        for (uint32_t rank = 0; rank < SIZE; rank++)
            assert_int_equal(asked[rank], rank != ORIGIN && rank != out);
    }
}

/* Claim: a member answers when all below it have promised, or are out with all below them done. */
TEST(an_answer_waits_for_all_below)
{
    uint32_t below[TREE_CHILDREN_MAX], deeper[TREE_CHILDREN_MAX];

    open_tree(ORIGIN);
    uint32_t count = tree_prepare_below(agreement, &voters.in, ORIGIN, below);
    for (uint32_t i = 0; i < count; i++) {
        assert_false(tree_prepare_is_whole(agreement, &voters.in));
        voters.report[below[i]].promised = 1;
    }
    assert_true(tree_prepare_is_whole(agreement, &voters.in));
    voters.report[below[0]].promised = 0;
    voters.suspected[below[0]] = true;
    count = tree_prepare_below(agreement, &voters.in, below[0], deeper);
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_false(tree_prepare_is_whole(agreement, &voters.in));
        voters.report[deeper[i]].promised = 1;
    }
    assert_true(tree_prepare_is_whole(agreement, &voters.in));
}

/* Claim: a ballot goes by a tree in large views alone, and not after one that failed. */
TEST(when_a_tree_is_due)
{
    voters_open(&voters, 8, 0);
    assert_false(tree_prepare_is_due(agreement, &voters.in));
    voters_open(&voters, 9, 0);
    assert_true(tree_prepare_is_due(agreement, &voters.in));
    agreement->retries = 1;
    assert_false(tree_prepare_is_due(agreement, &voters.in));
    agreement->retries = 0;
    agreement->parked = true;
    assert_false(tree_prepare_is_due(agreement, &voters.in));
    agreement->parked = false;
    agreement->tree.missed = true;
    assert_false(tree_prepare_is_due(agreement, &voters.in));
}

/* Claim: a ballot is an orphan when its initiator is out, but not for the initiator. */
TEST(an_orphan)
{
    open_tree(3);
    assert_false(tree_prepare_is_orphan(agreement, &voters.in));
    voters.suspected[ORIGIN] = true;
    assert_true(tree_prepare_is_orphan(agreement, &voters.in));
    voters.in.rank = ORIGIN;
    assert_false(tree_prepare_is_orphan(agreement, &voters.in));
}

/* Claim: a member answers each that asked it, once, and at most the last four. */
TEST(those_that_asked)
{
    open_tree(3);
    for (uint32_t i = 0; i <= ASKERS_MAX; i++) {
        tree_prepare_asked_by(&agreement->tree, voters_id(i));
        tree_prepare_asked_by(&agreement->tree, voters_id(i));
    }
    assert_int_equal(agreement->tree.asker_count, ASKERS_MAX);
    for (uint32_t i = 0; i < ASKERS_MAX; i++)
        assert_true(spotnik_id_equal(agreement->tree.asker[i], voters_id(i + 1)));
}

/* Claim: ASK names those that have ended, and a tree has missed those alone that may live. */
TEST(the_ended_and_the_missed)
{
    open_tree(3);
    voters.known[5].evidence = SPOTNIK_EVIDENCE_GONE;
    voters.known[6].evidence = SPOTNIK_EVIDENCE_SILENT;
    tree_prepare_tell_ended(agreement, &voters.in);
    assert_int_equal(agreement->tree.ended.count, 1);
    assert_int_equal(agreement->tree.ended.rank[0], 5);
    for (uint32_t rank = 0; rank < SIZE; rank++)
        voters.report[rank].promised = rank != 5;
    voters.report[5].evidence = SPOTNIK_EVIDENCE_GONE;
    assert_false(tree_prepare_has_missed(&agreement->prepare));
    voters.report[5].evidence = SPOTNIK_EVIDENCE_SILENT;
    assert_true(tree_prepare_has_missed(&agreement->prepare));
}
