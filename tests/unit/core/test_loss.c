/* SPDX-License-Identifier: Apache-2.0 */
/* Members that die: at every moment of a step, at every pass of a recovery, two at once. */
#include <string.h>

#include "base/time.h"
#include "pair_fixture.h"

static void assemble(uint32_t count)
{
    pair_open(&pair, count, 1, 0, 0);
    for (uint32_t i = 0; i < count; i++)
        pair.node[i].buckets = 2;
    pair_assemble(&pair);
    memset(pair.sent, 0, sizeof pair.sent);
}

static double sum(uint64_t step, uint32_t bucket, uint64_t index, uint32_t nodes)
{
    double total = 0;
    for (uint32_t i = 0; i < pair.count; i++)
        if (nodes >> i & 1)
            total += pair_input(i, step, bucket, index);
    return total;
}

/* Is the result of `step` at `node` the exact sum over this set of nodes? */
static bool is_sum_of(uint32_t node, uint64_t step, uint32_t nodes)
{
    for (uint32_t b = 0; b < pair.node[node].buckets; b++)
        for (uint64_t i = 0; i < pair.node[node].count[b]; i++)
            if (pair.node[node].result[step][b][i] != sum(step, b, i, nodes))
                return false;
    return true;
}

static uint32_t alive(void)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < pair.count; i++)
        nodes |= (uint32_t)pair.node[i].alive << i;
    return nodes;
}

/* One view of just the living; every step up to `step` committed, `first` with one result for
 * all. */
static void assert_survivors(uint64_t first, uint64_t step)
{
    uint32_t nodes = alive(), leader = (uint32_t)__builtin_ctz(nodes);

    for (uint32_t i = 0; i < pair.count; i++) {
        if (!(nodes >> i & 1))
            continue;
        struct spotnik_core_status status = pair_status(&pair, i);
        assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
        assert_int_equal(status.size, __builtin_popcount(nodes));
        assert_int_equal(status.epoch, pair_status(&pair, leader).epoch);
        assert_int_equal(status.committed, step);
        assert_false(status.frozen);
        assert_int_equal(pair.node[i].bad, 0);
        assert_memory_equal(pair.node[i].result[first], pair.node[leader].result[first],
                            sizeof pair.node[i].result[first]);
        assert_true(step == 0 || is_sum_of(i, step, nodes));
    }
}

static void turns(uint32_t count)
{
    while (count--)
        pair_turn(&pair);
}

/* Who has committed `step` by now. */
static uint32_t committed(uint64_t step)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < pair.count; i++)
        nodes |= (uint32_t)(pair.node[i].alive && pair.node[i].has[step]) << i;
    return nodes;
}

/* Claim: whenever one of them dies, the survivors commit the step it died in, all with one result:
 * the exact sum over the survivors, or, where a survivor had committed before, that very result,
 * with the dead one's contribution in it. */
TEST_PAIR(any_moment)
{
    uint32_t reduced_again = 0, handed_over = 0;

    for (uint32_t size = 2; size <= 4; size++)
        for (uint32_t slow = 0; slow < size; slow++)
            for (uint32_t when = 0; when < 320; when += 3) {
                assemble(size);
                pair_goal(&pair, 1);
                pair.slow = slow + 1;
                turns(when);
                pair_kill(&pair, size - 1);
                uint32_t before = committed(1);
                pair.slow = 0;
                pair_run(&pair, SPOTNIK_S);
                pair_goal(&pair, 3);
                pair_run(&pair, SPOTNIK_S);
                assert_survivors(1, 3);
                bool all = is_sum_of(0, 1, (1u << size) - 1);
                assert_true(all || is_sum_of(0, 1, alive()));
                assert_true(all || !before);
                reduced_again += !all;
                handed_over += before && before != alive();
                pair_close(&pair);
            }
    assert_true(reduced_again > 100);
    assert_true(handed_over > 20);
}

static enum spotnik_message_kind fatal;
static uint32_t victim, fatal_after;

static bool dies_sending(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    return node == victim && action->kind == SPOTNIK_ACTION_SEND
           && action->send.message->kind == fatal && of->node[victim].alive && fatal_after-- == 0;
}

/* Claim: whoever dies when it is about to pass on PREPARE, ACCEPT or RESTART, the initiator or
 * another, the rest end in one view of the living and go on. */
TEST_PAIR(dies_in_a_pass)
{
    static const enum spotnik_message_kind passes[] = { SPOTNIK_MESSAGE_PREPARE,
                                                        SPOTNIK_MESSAGE_ACCEPT,
                                                        SPOTNIK_MESSAGE_RESTART };
    uint32_t died = 0;

    for (uint32_t p = 0; p < 3; p++)
        for (victim = 0; victim < 4; victim++)
            for (uint32_t when = 0; when < 60; when += 12) {
                assemble(5);
                pair_goal(&pair, 1);
                turns(when);
                fatal = passes[p];
                fatal_after = 0;
                pair.before = dies_sending;
                pair_kill(&pair, 4);
                pair_run(&pair, 3 * SPOTNIK_S);
                pair_goal(&pair, 3);
                pair_run(&pair, SPOTNIK_S);
                assert_survivors(1, 3);
                died += !pair.node[victim].alive;
                pair_close(&pair);
            }
    assert_true(died > 40); /* the last hop of RESTART sends none */
}

/* Claim: of the messages of a recovery any one may be the last of its sender: the second, too,
 * after a first got away. */
TEST_PAIR(dies_in_a_second_ballot)
{
    for (victim = 0; victim < 3; victim++)
        for (fatal = SPOTNIK_MESSAGE_PREPARE; fatal <= SPOTNIK_MESSAGE_RESTART; fatal++) {
            assemble(5);
            pair_goal(&pair, 1);
            turns(20);
            fatal_after = 1;
            pair.before = dies_sending;
            pair_kill(&pair, 4);
            pair_turn(&pair);
            pair_kill(&pair, 3);
            pair_run(&pair, 3 * SPOTNIK_S);
            pair_goal(&pair, 3);
            pair_run(&pair, SPOTNIK_S);
            assert_survivors(1, 3);
            pair_close(&pair);
        }
}

static uint32_t told[NODES_MAX];

static bool counts_restart(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    (void)of;
    told[node] += action->kind == SPOTNIK_ACTION_SEND
                  && action->send.message->kind == SPOTNIK_MESSAGE_RESTART;
    return false;
}

/* Claim: RESTART reaches every survivor once, and nobody sends more than three, however far apart
 * they stand. */
TEST_PAIR(restart_spreads)
{
    for (uint32_t warm = 1; warm <= 8; warm++) {
        pair_open_warm(&pair, 8, 1, 0, 0, warm);
        pair_assemble(&pair);
        memset(told, 0, sizeof told);
        pair.before = counts_restart;
        pair_kill(&pair, 3);
        pair_run(&pair, SPOTNIK_S);
        assert_survivors(0, 0);
        uint32_t total = 0;
        for (uint32_t i = 0; i < 8; i++) {
            assert_in_range(told[i], 0, 3);
            total += told[i];
        }
        /* Over a link still to come up both ends may speak first; and the two below the dead in the
         * tree of the view before are told of that view again. */
        assert_in_range(total, 6, warm == 8 ? 8 : 12);
        pair_close(&pair);
    }
}

/* Claim: whoever holds the proof of a death stops moving data at once, before any token: else the
 * token would wait at every hop for a member busy with a step that cannot commit. */
TEST_PAIR(proof_freezes)
{
    assemble(4);
    pair_goal(&pair, 1);
    turns(10);
    uint64_t ballots =
        pair_status(&pair, 0).ballots_started + pair_status(&pair, 1).ballots_started;
    pair_stop(&pair, 2, true); /* it would start the ballot */
    pair_kill(&pair, 3);
    pair_turn(&pair);
    assert_int_equal(pair_status(&pair, 0).ballots_started + pair_status(&pair, 1).ballots_started,
                     ballots);
    assert_true(pair_status(&pair, 0).frozen);
    assert_true(pair_status(&pair, 1).frozen);
    pair_stop(&pair, 2, false);
    pair_run(&pair, SPOTNIK_S);
    assert_survivors(1, 1);
}

/* Claim: two that die at once on opposite sides make two initiators, and still one view. */
TEST_PAIR(two_initiators)
{
    assemble(6);
    pair_goal(&pair, 1);
    turns(10);
    pair_kill(&pair, 1);
    pair_kill(&pair, 4);
    pair_run(&pair, SPOTNIK_S);
    assert_survivors(1, 1);
    assert_true(pair_status(&pair, 0).ballots_started > 0);
    assert_true(pair_status(&pair, 3).ballots_started > 0);
    assert_int_equal(pair_status(&pair, 0).epoch, pair_status(&pair, 3).epoch);
}

/* How long a group of 8 takes to go on without two that stop answering at the same instant. */
static uint64_t without_two(uint32_t first, uint32_t second)
{
    uint32_t observer = 0;

    assemble(8);
    pair_stop(&pair, first, true);
    pair_stop(&pair, second, true);
    while (observer == first || observer == second)
        observer++;
    uint64_t since_ns = pair.now_ns;
    while (pair_status(&pair, observer).size != 6 && pair.now_ns - since_ns < 10 * SPOTNIK_S)
        pair_run(&pair, SPOTNIK_MS);
    uint64_t took_ns = pair.now_ns - since_ns;
    pair_close(&pair);
    return took_ns;
}

/* Claim: two silences that begin together cost one, wherever the two stand. A token that has gone
 * to the second before anybody knew of it is made good by the next witness's, also where that is
 * outbid. */
TEST(two_silences)
{
    for (uint32_t first = 0; first < 8; first++)
        for (uint32_t apart = 1; apart <= 4; apart++) {
            uint64_t took_ns = without_two(first, (first + apart) % 8);
            assert_in_range(took_ns, 200 * SPOTNIK_MS, 260 * SPOTNIK_MS); /* 250: of one */
        }
}

/* Claim: all but one may die at once, cleanly; the last one goes on by itself. */
TEST_PAIR(all_but_one)
{
    assemble(5);
    pair_goal(&pair, 1);
    turns(15);
    for (uint32_t i = 0; i < 4; i++)
        pair_kill(&pair, i);
    pair_run(&pair, SPOTNIK_S);
    assert_survivors(1, 1);
}

/* Claim: spotnik_core_linked() counts those whose end proves itself. Who hears all the others goes
 * on when they end at once; two that came at once, and do not hear each other yet, cannot. */
TEST(linked)
{
    for (int apart = 0; apart < 2; apart++) {
        pair_open(&pair, 3, 1, 0, 0);
        pair_cut(&pair, 1, 2, apart);
        pair_assemble(&pair);
        assert_int_equal(spotnik_core_linked(pair.node[0].core), 2);
        assert_int_equal(spotnik_core_linked(pair.node[1].core), apart ? 1 : 2);
        pair_kill(&pair, 0);
        pair_kill(&pair, 2);
        pair_run(&pair, 10 * SPOTNIK_S);
        assert_int_equal(spotnik_core_linked(pair.node[1].core), 0);
        assert_int_equal(pair_status(&pair, 1).parked, apart);
        assert_int_equal(pair_status(&pair, 1).size, apart ? 3 : 1);
        pair_close(&pair);
    }
}

/* Node 2, which decided, dies when it has told node 0 of the view, and not yet node 1. */
static bool dies_half_told(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    return node == 2 && action->kind == SPOTNIK_ACTION_SEND
           && action->send.message->kind == SPOTNIK_MESSAGE_RESTART
           && spotnik_id_equal(action->send.to.id, of->node[1].member.id);
}

/* Claim: a heartbeat that tells of a view its sender died before passing on does not make the last
 * survivor park: it voted for that view, nobody fenced it, and all ends are clean. */
TEST_PAIR(last_hears_of_a_view)
{
    assemble(4);
    pair_goal(&pair, 1);
    turns(10);
    uint64_t epoch = pair_status(&pair, 1).epoch;
    pair.before = dies_half_told;
    pair_kill(&pair, 3);
    while (pair.node[2].alive)
        pair_turn(&pair);
    pair_stop(&pair, 1, true);
    while (pair_status(&pair, 0).epoch == epoch)
        pair_turn(&pair);
    uint32_t heartbeats = pair.sent[SPOTNIK_MESSAGE_HEARTBEAT];
    pair_pass(&pair, 0);
    assert_true(pair.sent[SPOTNIK_MESSAGE_HEARTBEAT] > heartbeats);
    pair_kill(&pair, 0);
    pair_stop(&pair, 1, false);
    assert_int_equal(pair_status(&pair, 1).epoch, epoch);
    pair_run(&pair, SPOTNIK_S);
    assert_survivors(1, 1);
    /* first the view of three, then alone */
    assert_int_equal(pair_status(&pair, 1).epoch, epoch + 2);
    assert_int_equal(pair.node[1].parked, 0);
}

/* Claim: one loss costs three control messages per survivor: PREPARE and ACCEPT go round, RESTART
 * spares the initiator. No member starts a second ballot. */
TEST_PAIR(messages)
{
    for (uint32_t size = 3; size <= NODES_MAX; size++) {
        assemble(size);
        pair_kill(&pair, size / 2);
        pair_run(&pair, SPOTNIK_S);
        assert_survivors(1, 0);
        assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PREPARE], size - 1);
        assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ACCEPT], size - 1);
        assert_int_equal(pair.sent[SPOTNIK_MESSAGE_RESTART], size - 2);
        assert_int_equal(pair.sent[SPOTNIK_MESSAGE_FENCED], 0);
        pair_close(&pair);
    }
}

/* Claim: a broken data connection between two that live makes a new view of the same members, and
 * the step is reduced again. */
TEST_PAIR(channel_down)
{
    assemble(3);
    uint64_t epoch = pair_status(&pair, 0).epoch;
    pair_goal(&pair, 1);
    turns(10);
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHANNEL_DOWN,
                                       .peer = pair.node[2].member });
    pair_run(&pair, SPOTNIK_S);
    assert_survivors(1, 1);
    assert_int_equal(pair_status(&pair, 0).epoch, epoch + 1);
    assert_true(is_sum_of(0, 1, 7));
}

/* Claim: samples of the lost return to the pool: with one of four lost, its share is drawn again,
 * and none twice. */
TEST_PAIR(samples_return)
{
    pair_open(&pair, 4, 4, 64, 8);
    pair_assemble(&pair);
    for (uint32_t i = 0; i < 4; i++)
        pair.node[i].hold = true;
    pair_goal(&pair, 1);
    pair_run(&pair, SPOTNIK_MS);
    pair_kill(&pair, 2);
    for (uint32_t i = 0; i < 4; i++)
        pair.node[i].hold = false;
    pair_run(&pair, SPOTNIK_S);
    const struct spotnik_ledger *ledger = spotnik_core_ledger(pair.node[0].core);
    assert_int_equal(pair.node[0].drawn[1] + pair.node[1].drawn[1] + pair.node[3].drawn[1], 6);
    assert_int_equal(ledger->cursor, 8);
    assert_int_equal(ledger->returned_count, 1);
    assert_int_equal(ledger->returned[0].begin, 4);
    assert_int_equal(ledger->returned[0].end, 6);
    assert_true(spotnik_ledger_equal(ledger, spotnik_core_ledger(pair.node[3].core)));
}

static uint32_t
    second_view[NODES_MAX]; /* size of the view each installed at the epoch after the assembly's */
static uint64_t second_epoch;

/* Node 3, the initiator, is cut off the moment it has installed the view it decided, before it can
 * tell. */
static bool cut_off_when_chosen(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    if (action->kind == SPOTNIK_ACTION_VIEW && action->epoch == second_epoch)
        second_view[node] = spotnik_core_view(of->node[node].core)->size;
    for (uint32_t i = 0; i < 3 && node == 3 && action->kind == SPOTNIK_ACTION_VIEW; i++)
        pair_cut(of, 3, i, true);
    return false;
}

/* Claim: a view that one member may have installed is the one that the rest install, though that
 * member is silent by now and they could do without it; only then do they go on to a view without
 * it. */
TEST_PAIR(chosen_stands)
{
    assemble(5);
    second_epoch = pair_status(&pair, 0).epoch + 1;
    memset(second_view, 0, sizeof second_view);
    pair.before = cut_off_when_chosen;
    pair_kill(&pair, 4);
    pair_run(&pair, 5 * SPOTNIK_S);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(second_view[i], 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(pair_status(&pair, i).size, 3);
        assert_true(pair_status(&pair, i).epoch > second_epoch);
    }
    assert_int_equal(pair_status(&pair, 3).epoch, second_epoch);
    assert_true(pair_status(&pair, 3).parked);
}

/* Claim: a view that is too small to go on, and began with a laggard, is settled once more when the
 * laggard has been served, so that a joiner may have the step the others wait with. */
TEST_PAIR(settles_while_waiting)
{
    uint32_t cases = 0;

    for (uint32_t when = 60; when < 320; when += 3) {
        pair_open(&pair, 3, 3, 0, 0);
        pair_assemble(&pair);
        pair_goal(&pair, 9);
        pair.slow = 1;
        turns(when);
        pair_kill(&pair, 2);
        uint32_t before = committed(1);
        pair.slow = 0;
        pair_run(&pair, 2 * SPOTNIK_S);
        uint64_t step = pair_status(&pair, 0).committed;
        assert_int_equal(pair_status(&pair, 1).committed, step);
        assert_int_equal(pair_status(&pair, 0).stable, step);
        assert_int_equal(pair_status(&pair, 1).stable, step);
        assert_true(pair.node[0].wants);
        cases += before == 2 && step == 1;
        pair_close(&pair);
    }
    assert_true(cases > 0);
}
