/* SPDX-License-Identifier: Apache-2.0 */
/* How long a joiner stays out: a wait for it that was in vain costs it a rest in proportion to that
 * wait, and to nothing else. And who is no joiner any more. */
#include "base/time.h"
#include "pair_fixture.h"

#define LONG_AGO (60 * SPOTNIK_S)
#define SOON SPOTNIK_S /* two rests after the shortest wait */
#define BEHIND 2       /* steps: near enough that everybody waits for it */
#define JOINER 3

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
TEST_PAIR(a_suspicion_taken_back_is_none)
{
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
TEST_PAIR(no_rest_for_a_loss)
{
    assemble();
    ask();
    while (pair_turn(&pair)) /* the joiner is linked to all, and asks */
        ;
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

/* What the joiner said in this epoch reaches member 0 now. */
static void hear_enter(uint64_t epoch)
{
    const struct spotnik_member *member = &pair.node[JOINER].member;
    uint64_t committed = pair_status(&pair, 0).committed;
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_ENTER,
                                       .epoch = epoch,
                                       .committed = committed,
                                       .enter = { .member = *member, .committed = committed } };

    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { *member, &message } });
    while (pair_turn(&pair))
        ;
}

/* Claim: a member that was left out is not let in once more by what it had asked as a joiner, when
 * that was held up on the way. One that is a joiner still, because it heard of no view that held
 * it, is let in when it asks at our epoch. */
TEST_PAIR(an_old_wish_lets_nobody_in)
{
    assemble();
    uint64_t asked = pair_status(&pair, 0).epoch;
    ask();
    stream();
    pair_run(&pair, SOON);
    assert_true(is_in());
    pair_stop(&pair, JOINER, true);
    pair_run(&pair, LONG_AGO);
    uint64_t epoch = pair_status(&pair, 0).epoch;
    assert_int_equal(pair_status(&pair, 0).size, 3);
    hear_enter(asked);
    assert_int_equal(pair_status(&pair, 0).epoch, epoch);
    assert_int_equal(pair_status(&pair, 0).size, 3);
    hear_enter(epoch);
    assert_int_equal(pair_status(&pair, 0).epoch, epoch + 1);
    assert_int_equal(pair_status(&pair, 0).size, 4);
}

/* Claim: a joiner that asks another member while the first one has everybody wait for it is let in
 * when that wait ends, if it has come near. */
TEST_PAIR(it_asked_another_meanwhile)
{
    assemble();
    uint32_t frozen = pair.node[2].frozen;
    uint64_t epoch = pair_status(&pair, 0).epoch;
    ask();
    while (pair_turn(&pair))
        ;
    assert_int_equal(pair.node[2].frozen, frozen + 1); /* for member 0, which waits */
    assert_int_equal(pair_status(&pair, 0).epoch, epoch);
    pair_event(&pair, JOINER,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_ENTER_READY,
                                       .peer = pair.node[1].member });
    stream();
    pair_run(&pair, SPOTNIK_S);
    assert_true(is_in());
    assert_int_equal(pair_status(&pair, 0).epoch, epoch + 1);
}
