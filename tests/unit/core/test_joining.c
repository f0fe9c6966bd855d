/* SPDX-License-Identifier: Apache-2.0 */
/* How long a joiner stays out: a wait for it that was in vain costs it a rest in proportion to that
 * wait, and to nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "pair.h"

#define LONG_AGO (60 * SPOTNIK_S)
#define SOON SPOTNIK_S /* two rests after the shortest wait */
#define BEHIND 2       /* steps: near enough that everybody waits for it */
#define JOINER 3

static struct pair pair;

static int close_pair(void **state)
{
    (void)state;
    pair_close(&pair);
    return 0;
}

/* One more step, which ends the recovery that the last view belongs to. */
static void step(void)
{
    uint64_t next = pair_status(&pair, 0).committed + 1;

    for (uint32_t i = 0; i < NODES_MAX; i++)
        pair.node[i].goal = next;
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).committed, next);
}

/* Three members, and a fourth node that is nothing yet. */
static void assemble(void)
{
    pair_open(&pair, 4, 1, 0, 0);
    pair.count = 3;
    pair_goal(&pair, 4);
    pair_assemble(&pair);
    step();
    pair.count = 4;
}

/* The joiner asks, and no donor streams to it: whoever waits for it waits in vain. */
static void ask(void)
{
    pair_join(&pair, JOINER, pair_status(&pair, 0).committed - BEHIND, 0, 0);
    pair.donor[JOINER] = 0;
}

static void stream(void)
{
    pair.donor[JOINER] = 1;
}

static bool is_in(void)
{
    return pair_status(&pair, JOINER).role == SPOTNIK_ROLE_MEMBER;
}

/* Member 0 does not hear member 2 for this long, then both go on as if nothing had been. */
static void be_silent(uint64_t silence_ns)
{
    pair_cut_one_way(&pair, 2, 0, true);
    for (uint64_t past_ns = 0; past_ns < silence_ns; past_ns += SPOTNIK_MS) {
        while (pair_turn(&pair))
            ;
        pair_pass(&pair, SPOTNIK_MS);
    }
    pair_cut_one_way(&pair, 2, 0, false);
    pair_run(&pair, LONG_AGO);
}

/* Claim: a suspicion that was taken back, however long the silence was, makes neither a later
 * recovery look long nor a joiner rest long. */
static void test_a_suspicion_taken_back_is_none(void **state)
{
    (void)state;
    uint32_t taken_back = 0;
    for (uint64_t ms = 1; ms <= 1500; ms += 3) {
        assemble();
        uint64_t epoch = pair_status(&pair, 0).epoch;
        be_silent(ms * SPOTNIK_MS);
        bool same = pair_status(&pair, 0).epoch == epoch;
        taken_back += same;
        uint64_t asked_ns = pair.now_ns;
        ask();
        pair_run(&pair, SPOTNIK_S);
        assert_false(is_in());
        if (same)
            assert_true(pair_status(&pair, 0).detected_ns >= asked_ns);
        stream();
        pair_run(&pair, SOON);
        assert_true(is_in());
        pair_close(&pair);
    }
    assert_true(taken_back > 0);
    assemble(); /* for the teardown */
}

/* Claim: a joiner does not rest for a view that a loss has forced upon the members, however long
 * the token took: nobody waited for it. */
static void test_no_rest_for_a_loss(void **state)
{
    (void)state;
    assemble();
    ask();
    pair_stop(&pair, 2, true);
    pair_kill(&pair, 1);
    pair_run(&pair, 4 * pair.limits.enter_wait_ns);
    pair_stop(&pair, 2, false);
    pair_run(&pair, SPOTNIK_MS);
    assert_int_equal(pair_status(&pair, 0).losses, 1);
    assert_int_equal(pair_status(&pair, 0).size, 2);
    stream();
    pair_run(&pair, 4 * pair.limits.enter_wait_ns);
    assert_true(is_in());
}

static void share(uint32_t node, uint32_t peer)
{
    pair_event(&pair, node,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_SHARED,
                                       .shared = { pair.node[peer].member, true } });
}

/* Three members that share memory and rest, and a joiner at their step. */
static void assemble_sharing(void)
{
    assemble();
    for (uint32_t node = 0; node < JOINER; node++)
        for (uint32_t peer = 0; peer < JOINER; peer++)
            if (peer != node)
                share(node, peer);
    pair_event(&pair, JOINER,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_JOIN,
                                       .join.committed = pair_status(&pair, 0).committed });
    pair_event(&pair, JOINER,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_ENTER_READY,
                                       .peer = pair.node[0].member });
}

/* Everybody begins a step in the view that has the joiner: in memory, or not. */
static void assert_begins_in_memory(bool in_memory)
{
    assert_true(is_in());
    pair_goal(&pair, pair_status(&pair, 0).committed + 1);
    pair_run(&pair, SPOTNIK_MS);
    for (uint32_t node = 0; node <= JOINER; node++)
        assert_int_equal(pair.node[node].flats > 0, in_memory);
}

/* Claim: a view with a joiner begins in memory if the joiner shares it with all members, and on the
 * ring if it lacks one. */
static void test_a_joiner_that_shares(void **state)
{
    (void)state;
    for (uint32_t shared = 2; shared <= JOINER; shared++) {
        assemble_sharing();
        for (uint32_t peer = 0; peer < shared; peer++)
            share(JOINER, peer);
        pair_run(&pair, SPOTNIK_S);
        assert_begins_in_memory(shared == JOINER);
        if (shared < JOINER)
            pair_close(&pair);
    }
}

/* Three members of one host, and a joiner there that has been ready for half the time that it waits
 * for their memory. */
static void assemble_waiting(void)
{
    pair_open(&pair, 4, 1, 0, 0);
    pair.limits.memory = true;
    pair_together(&pair, 1, 0, 0);
    pair.count = 3;
    pair_goal(&pair, 4);
    pair_assemble(&pair);
    pair.count = 4;
    for (uint32_t node = 0; node < JOINER; node++)
        for (uint32_t peer = 0; peer < JOINER; peer++)
            if (peer != node)
                share(node, peer);
    pair_join(&pair, JOINER, pair_status(&pair, 0).committed, 0, 0);
    pair_run(&pair, pair.limits.silence_floor_ns / 2);
    assert_false(is_in());
}

/* Claim: where memory is shared as a rule, a joiner that is ready asks when it has the memory of
 * its host, at once, and a while later without. */
static void test_a_joiner_waits_for_memory(void **state)
{
    (void)state;
    assemble_waiting();
    for (uint32_t peer = 0; peer < JOINER; peer++)
        share(JOINER, peer);
    pair_run(&pair, 20 * SPOTNIK_MS);
    assert_true(is_in());
    pair_close(&pair);
    assemble_waiting();
    pair_run(&pair, SPOTNIK_S);
    assert_begins_in_memory(false);
}

/* Claim: it waits no longer when one of its host will not share memory, or its own has failed for
 * good. */
static void test_a_joiner_is_refused(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 2; who++) {
        assemble_waiting();
        const struct spotnik_member refuser = pair.node[who == 0 ? 1 : JOINER].member;
        pair_event(&pair, JOINER,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_SHARED,
                                           .shared = { refuser, false } });
        pair_run(&pair, 20 * SPOTNIK_MS);
        assert_begins_in_memory(false);
        if (who == 0)
            pair_close(&pair);
    }
}

/* A member alone, and a joiner that has got its memory; it has failed for good, or not. */
static void let_in_to_one(bool failed)
{
    pair_open(&pair, 2, 1, 0, 0);
    pair.limits.memory = true;
    pair_together(&pair, 1, 0, 0);
    pair.count = 1;
    pair_goal(&pair, 4);
    pair_assemble(&pair);
    pair.count = 2;
    if (failed)
        pair_event(&pair, 0,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_SHARED,
                                           .shared = { pair.node[0].member, false } });
    pair_join(&pair, 1, pair_status(&pair, 0).committed, 0, 0);
    share(1, 0);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 1).role, SPOTNIK_ROLE_MEMBER);
}

/* Claim: memory that has failed for good counts in a view of one, where nobody shares it yet: its
 * joiner takes it for good, and the view begins on the ring all the same. */
static void test_a_lone_member_without_memory(void **state)
{
    (void)state;
    for (uint32_t failed = 0; failed < 2; failed++) {
        let_in_to_one(failed);
        pair_goal(&pair, pair_status(&pair, 0).committed + 1);
        pair_run(&pair, SPOTNIK_MS);
        for (uint32_t node = 0; node < 2; node++)
            assert_int_equal(pair.node[node].flats > 0, failed == 0);
        if (failed == 0)
            pair_close(&pair);
    }
}

/* Claim: what a joiner says of its memory it says of one view. In the next one, where a member may
 * be that it knows nothing of, it does not count. */
static void test_a_word_of_the_view_before(void **state)
{
    (void)state;
    for (uint64_t before = 0; before < 2; before++) {
        assemble_waiting();
        const struct spotnik_core_status status = pair_status(&pair, 0);
        const struct spotnik_member joiner = pair.node[JOINER].member;
        const struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_ENTER,
                                                 .epoch = status.epoch - before,
                                                 .enter = { joiner, status.committed, true } };
        pair_event(&pair, 0,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                           .message = { joiner, &message } });
        pair_run(&pair, 20 * SPOTNIK_MS);
        assert_begins_in_memory(before == 0);
        if (before == 0)
            pair_close(&pair);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_suspicion_taken_back_is_none, close_pair),
        cmocka_unit_test_teardown(test_no_rest_for_a_loss, close_pair),
        cmocka_unit_test_teardown(test_a_joiner_that_shares, close_pair),
        cmocka_unit_test_teardown(test_a_joiner_waits_for_memory, close_pair),
        cmocka_unit_test_teardown(test_a_joiner_is_refused, close_pair),
        cmocka_unit_test_teardown(test_a_lone_member_without_memory, close_pair),
        cmocka_unit_test_teardown(test_a_word_of_the_view_before, close_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
