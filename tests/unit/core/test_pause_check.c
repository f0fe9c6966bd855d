/* SPDX-License-Identifier: Apache-2.0 */
/* Pause check: who was stopped commits nothing before a quorum has said that it has promised
 * nothing. */
#include "base/time.h"
#include "pair_fixture.h"

/* Shorter than the silence that counts as loss, longer than what is forgiven without a question. */
#define NOTICED_NS (200 * SPOTNIK_MS)
#define UNNOTICED_NS (150 * SPOTNIK_MS)

static uint32_t watched, assured_before, committed_early;

/* All have committed step 1 and are in step 2. */
static void assemble(uint32_t count, uint32_t warm_count)
{
    pair_open_warm(&pair, count, 1, 0, 0, warm_count);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    pair_goal(&pair, 3);
    for (uint32_t i = 0; i < count; i++)
        pair.node[i].hold = true;
    pair_run(&pair, SPOTNIK_MS);
}

static void release(void)
{
    for (uint32_t i = 0; i < pair.count; i++)
        pair.node[i].hold = false;
}

static void sleep_of(uint32_t node, uint64_t duration_ns)
{
    pair_stop(&pair, node, true);
    pair_run(&pair, duration_ns);
    pair_stop(&pair, node, false);
}

static void assert_member(uint32_t node, uint32_t size, uint64_t committed)
{
    struct spotnik_core_status status = pair_status(&pair, node);
    assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
    assert_int_equal(status.size, size);
    assert_int_equal(status.committed, committed);
    assert_false(status.parked);
}

/* Notes a commit of the watched node before it can have had an answer. Kills nobody. */
static bool watch(struct pair *the, uint32_t node, const struct spotnik_action *action)
{
    committed_early += node == watched && action->kind == SPOTNIK_ACTION_COMMITTED
                       && the->sent[SPOTNIK_MESSAGE_PAUSE_ACK] == assured_before;
    return false;
}

/* Claim: a member that was stopped for a while in which nobody suspected it asks everybody, commits
 * once most of them have answered, and no view changes for it. */
TEST_PAIR(asks_and_goes_on)
{
    for (uint32_t count = 2; count <= 5; count++) {
        assemble(count, NODES_MAX);
        uint64_t epoch = pair_status(&pair, 0).epoch;
        sleep_of(1, NOTICED_NS);
        watched = 1;
        committed_early = 0;
        pair.before = watch;
        release();
        pair_run(&pair, 100 * SPOTNIK_MS);
        assert_int_equal(pair_status(&pair, 1).pauses, 1);
        assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_CHECK], count - 1);
        assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_ACK], count - 1);
        assert_int_equal(committed_early, 0);
        for (uint32_t i = 0; i < count; i++)
            assert_member(i, count, 3);
        assert_int_equal(pair_status(&pair, 0).epoch, epoch);
        pair_close(&pair);
    }
}

/* Claim: lateness that others bear with costs no question. */
TEST_PAIR(short_stops_are_not_noticed)
{
    assemble(3, NODES_MAX);
    for (int i = 0; i < 10; i++) {
        sleep_of(i % 3, UNNOTICED_NS);
        pair_run(&pair, 100 * SPOTNIK_MS);
    }
    release();
    pair_run(&pair, 100 * SPOTNIK_MS);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_CHECK], 0);
    assert_member(0, 3, 3);
}

/* Claim: a member that is stopped again before it has sent a heartbeat asks again. */
TEST_PAIR(stopped_again_before_a_tick)
{
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_PAUSE_ACK };
    struct spotnik_event any = { .kind = SPOTNIK_EVENT_MESSAGE, .message.body = &message };

    assemble(3, NODES_MAX);
    message.epoch = pair_status(&pair, 1).epoch;
    any.message.from = pair.node[0].member;
    pair_stop(&pair, 1, true); /* no tick, and nothing that is on its way */
    for (uint32_t stops = 1; stops <= 2; stops++) {
        pair_run(&pair, NOTICED_NS);
        pair_event(&pair, 1, any);
        assert_int_equal(pair_status(&pair, 1).pauses, stops);
        pair_event(&pair, 1, any);
        assert_int_equal(pair_status(&pair, 1).pauses, stops);
    }
}

/* Claim: members of one host, who bear with each other for longer, may also be late for longer. */
TEST_PAIR(one_host_is_patient)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair_together(&pair, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    sleep_of(1, 2 * NOTICED_NS);
    pair_run(&pair, 100 * SPOTNIK_MS);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_CHECK], 0);
    sleep_of(1, 3 * NOTICED_NS);
    pair_run(&pair, 100 * SPOTNIK_MS);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_CHECK], 2);
    assert_int_equal(pair_status(&pair, 0).losses, 0);
}

/* Claim: who wakes up when the others have gone on without it is told by the first word it says,
 * and commits nothing. */
TEST_PAIR(left_behind)
{
    for (uint32_t count = 3; count <= 5; count++) {
        assemble(count, NODES_MAX);
        pair_stop(&pair, 1, true);
        release();
        pair_run(&pair, 5 * SPOTNIK_S);
        assert_member(0, count - 1, 3);
        pair_stop(&pair, 1, false);
        while (pair_turn(&pair))
            ; /* no time passes */
        pair_pass(&pair, 0);
        while (pair_turn(&pair))
            ;
        assert_int_equal(pair.node[1].excluded, 1);
        assert_int_equal(pair_status(&pair, 1).committed, 1);
        pair_close(&pair);
    }
}

/* Claim: when all were stopped (a laptop sleeps) they assure each other, and go on in the same
 * view. */
TEST_PAIR(all_were_stopped)
{
    for (uint32_t count = 2; count <= 5; count++) {
        assemble(count, NODES_MAX);
        uint64_t epoch = pair_status(&pair, 0).epoch;
        for (uint32_t i = 0; i < count; i++)
            pair_stop(&pair, i, true);
        pair_run(&pair, 100 * SPOTNIK_S);
        for (uint32_t i = 0; i < count; i++)
            pair_stop(&pair, i, false);
        release();
        pair_run(&pair, SPOTNIK_S);
        for (uint32_t i = 0; i < count; i++) {
            assert_member(i, count, 3);
            assert_int_equal(pair_status(&pair, i).pauses, 1);
        }
        assert_int_equal(pair_status(&pair, 0).epoch, epoch);
        pair_close(&pair);
    }
}

/* A link breaks, and proves nothing. */
static void unlink_nodes(uint32_t a, uint32_t b)
{
    pair.node[a].linked[b] = pair.node[b].linked[a] = false;
    pair_event(&pair, a,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended.peer = pair.node[b].member });
    pair_event(&pair, b,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended.peer = pair.node[a].member });
}

/* Claim: in a ring where nobody is linked to a quorum a ballot gives the answer: a view of the same
 * members, and nobody is lost. */
TEST_PAIR(without_links_to_a_quorum)
{
    assemble(8, 1);
    for (uint32_t i = 3; i < 8; i++) /* whom it met when it came in */
        unlink_nodes(1, i);
    uint64_t epoch = pair_status(&pair, 0).epoch;
    sleep_of(1, NOTICED_NS);
    release();
    pair_run(&pair, 50 * SPOTNIK_MS);
    assert_int_equal(pair_status(&pair, 1).committed, 1);
    assert_int_equal(pair_status(&pair, 1).epoch, epoch);
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 8; i++)
        assert_member(i, 8, 3);
    assert_int_equal(pair_status(&pair, 0).epoch, epoch + 1);
    assert_int_equal(pair_status(&pair, 0).losses, 0);
}

/* Claim: who has promised assures nobody. */
TEST_PAIR(the_frozen_do_not_answer)
{
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_PAUSE_CHECK, .serial = 5 };

    assemble(2, NODES_MAX);
    message.epoch = pair_status(&pair, 0).epoch;
    struct spotnik_event pause = { .kind = SPOTNIK_EVENT_MESSAGE,
                                   .message = { pair.node[1].member, &message } };
    pair_event(&pair, 0, pause);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_ACK], 1);
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHANNEL_DOWN,
                                       .peer = pair.node[1].member });
    assert_true(pair_status(&pair, 0).frozen);
    pair_event(&pair, 0, pause);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_ACK], 1);
}

/* Claim: an answer to a question that was asked before counts no more, nor one of another epoch or
 * of an unauthenticated peer. */
TEST_PAIR(old_answers_do_not_count)
{
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_PAUSE_ACK };
    struct spotnik_event answer = { .kind = SPOTNIK_EVENT_MESSAGE, .message.body = &message };

    assemble(2, NODES_MAX);
    release();
    pair_cut(&pair, 0, 1, true);
    pair_run(&pair, SPOTNIK_MS); /* all is on its way */
    pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_WOKEN });
    pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_WOKEN });
    assert_int_equal(pair_status(&pair, 0).pauses, 2);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PAUSE_CHECK], 2);
    for (uint32_t from = 0; from < 2; from++)
        for (uint64_t serial = 1; serial <= 3; serial++)
            for (uint64_t later = 0; later < 2; later++) {
                answer.message.from = pair.node[from].member;
                message.serial = serial;
                message.epoch = pair_status(&pair, 0).epoch + later;
                if (from == 0 || serial != 2 || later)
                    pair_event(&pair, 0, answer);
            }
    watched = 0;
    committed_early = 0;
    assured_before = 0;
    pair.before = watch;
    pair_cut(&pair, 0, 1, false);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(committed_early, 0);
    assert_member(0, 2, 3);
    assert_member(1, 2, 3);
}
