/* SPDX-License-Identifier: Apache-2.0 */
/* Silence: who goes on, who parks, who is told afterwards that it was left behind (P1). */
#include "base/time.h"
#include "pair_fixture.h"

static void assemble(uint32_t count)
{
    pair_open(&pair, count, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    pair_goal(&pair, 3);
    for (uint32_t i = 0; i < count; i++)
        pair.node[i].hold = true; /* all are in step 2 when it happens */
    pair_run(&pair, SPOTNIK_MS);
    for (uint32_t i = 0; i < count; i++)
        pair.node[i].hold = false;
}

static void assert_member(uint32_t node, uint32_t size, uint64_t committed)
{
    struct spotnik_core_status status = pair_status(&pair, node);
    assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
    assert_int_equal(status.size, size);
    assert_int_equal(status.committed, committed);
    assert_false(status.parked);
}

static void assert_parked(uint32_t node)
{
    struct spotnik_core_status status = pair_status(&pair, node);
    assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
    assert_true(status.parked);
    assert_true(status.frozen);
    assert_int_equal(status.committed, 1);
}

/* Claim: of two that do not hear each other the smaller id goes on and the larger parks; once they
 * hear each other again the larger learns that it was left behind. */
TEST_PAIR(two_cut)
{
    assemble(2);
    pair_cut(&pair, 0, 1, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_member(0, 1, 3);
    assert_parked(1);
    assert_int_equal(pair.node[1].parked, 1);
    pair_cut(&pair, 0, 1, false);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[1].excluded, 1);
    assert_int_equal(pair_status(&pair, 1).committed, 1);
    assert_int_equal(pair_status(&pair, 1).stable, 0); /* the other may have reduced it again */
    assert_member(0, 1, 3);
}

/* Claim: the larger of two parks when the smaller is stopped, and goes on with it when it is heard
 * again: nothing is lost. */
TEST_PAIR(two_smaller_stops)
{
    assemble(2);
    pair_stop(&pair, 0, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_parked(1);
    pair_stop(&pair, 0, false);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_member(0, 2, 3);
    assert_member(1, 2, 3);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(pair.node[1].result[3][0][i]
                    == pair_input(0, 3, 0, i) + pair_input(1, 3, 0, i));
}

/* Claim: the larger of two that parked for silence goes on alone as soon as the smaller is proven
 * dead. */
TEST_PAIR(two_smaller_dies)
{
    assemble(2);
    pair_stop(&pair, 0, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_parked(1);
    pair_kill(&pair, 0);
    pair_run(&pair, SPOTNIK_S);
    assert_member(1, 1, 3);
}

/* Claim: a stopped member that wakes to find FENCED and the clean end of all others does not take
 * that for deaths it may survive: they went on without it, committed, and only then died. */
TEST_PAIR(fenced_is_not_gone)
{
    for (uint32_t count = 2; count <= 5; count++) {
        uint32_t last = count - 1;
        assemble(count);
        pair_stop(&pair, last, true);
        pair_run(&pair, 5 * SPOTNIK_S);
        for (uint32_t i = 0; i < last; i++)
            assert_member(i, last, 3);
        for (uint32_t i = 0; i < last; i++)
            pair_kill(&pair, i);
        pair_stop(&pair, last, false);
        pair_run(&pair, 5 * SPOTNIK_S);
        assert_parked(last);
        pair_close(&pair);
    }
}

static enum spotnik_message_kind first_said;

/* Node 1 has voted, and its vote gets nowhere. */
static bool stuck_voter(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    if (node != 1 || action->kind != SPOTNIK_ACTION_SEND)
        return false;
    if (action->send.message->kind == SPOTNIK_MESSAGE_ACCEPT)
        pair_cut(of, 0, 1, true);
    if (!first_said && spotnik_id_equal(action->send.to.id, of->node[2].member.id))
        first_said = action->send.message->kind;
    return false;
}

/* Claim: who has voted without a member says so first on every new link to it, also when hearing it
 * makes it try again at once. */
TEST_PAIR(fenced_comes_first)
{
    assemble(3);
    pair.before = stuck_voter;
    first_said = SPOTNIK_MESSAGE_HEARTBEAT;
    pair_stop(&pair, 2, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_parked(1);
    first_said = 0;
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended.peer = pair.node[2].member });
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP,
                                       .peer = pair.node[2].member });
    assert_int_equal(first_said, SPOTNIK_MESSAGE_FENCED);
}

/* Claim: the same when the old link is lost too and a new one says nothing but a later epoch. */
TEST_PAIR(moved_on_is_not_gone)
{
    assemble(2);
    pair_cut(&pair, 0, 1, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_member(0, 1, 3);
    assert_parked(1);
    for (uint32_t i = 0; i < 2; i++) {
        pair.node[i].linked[1 - i] = false;
        pair_event(&pair, i,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                           .ended.peer = pair.node[1 - i].member });
    }
    /* 0 says on the new link only that it is at a later epoch, and ends before it can say more */
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP,
                                       .peer = pair.node[0].member });
    struct spotnik_message heartbeat = { .kind = SPOTNIK_MESSAGE_HEARTBEAT,
                                         .epoch = pair_status(&pair, 0).epoch,
                                         .committed = 3 };
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[0].member, &heartbeat } });
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended = { pair.node[0].member, SPOTNIK_PROOF_GONE } });
    pair.node[0].alive = false;
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_parked(1);
}

/* The initiator is stopped the moment the last vote is on its way to it. */
static bool stops_who_counts(struct pair *on, uint32_t node, const struct spotnik_action *action)
{
    (void)node;
    if (action->kind != SPOTNIK_ACTION_SEND || action->send.message->kind != SPOTNIK_MESSAGE_ACCEPT
        || !spotnik_id_equal(action->send.to.id, action->send.message->proposal->ballot.initiator))
        return false;
    for (uint32_t i = 0; i < on->count; i++)
        if (spotnik_id_equal(on->node[i].member.id, action->send.to.id))
            pair_stop(on, i, true);
    on->before = NULL;
    return false;
}

/* Claim: a silence that lasts across a view counts from where it began. The others must first
 * install what the stopped one may have decided, a view that holds it, and are not patient with it
 * a second time. */
TEST_PAIR(silence_across_a_view)
{
    uint32_t went_on = 0;
    assemble(5);
    pair.before = stops_who_counts;
    pair_kill(&pair, 4);
    pair_run(&pair, pair.limits.silence_floor_ns * 8 / 5);
    assert_null(pair.before);
    for (uint32_t i = 0; i < 4; i++)
        went_on += !pair.node[i].stopped && pair_status(&pair, i).size == 3
                   && pair_status(&pair, i).committed == 3;
    assert_int_equal(went_on, 3);
}

/* Claim: a link that ends before the other has said a word proves no clean death. */
TEST_PAIR(unheard_is_not_gone)
{
    assemble(2);
    pair_cut(&pair, 0, 1, true);
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended.peer = pair.node[0].member });
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP,
                                       .peer = pair.node[0].member });
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended = { pair.node[0].member, SPOTNIK_PROOF_GONE } });
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_parked(1);
}

/* Claim: of five, three go on; the two parked ones are left behind when the network heals, and may
 * join anew. */
TEST_PAIR(majority)
{
    assemble(5);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 5; b++)
            pair_cut(&pair, a, b, true);
    pair_run(&pair, 10 * SPOTNIK_S);
    assert_parked(0);
    assert_parked(1);
    for (uint32_t i = 2; i < 5; i++)
        assert_member(i, 3, 3);
    for (uint32_t a = 0; a < 2; a++)
        for (uint32_t b = 2; b < 5; b++)
            pair_cut(&pair, a, b, false);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_int_equal(pair.node[0].excluded, 1);
    assert_int_equal(pair.node[1].excluded, 1);
    for (uint32_t i = 2; i < 5; i++)
        assert_member(i, 3, 3);
}

/* Claim: of four cut in halves the one with the smallest id goes on, the other never does. */
TEST_PAIR(halves)
{
    assemble(4);
    for (uint32_t a = 0; a < 4; a += 2)
        for (uint32_t b = 1; b < 4; b += 2)
            pair_cut(&pair, a, b, true);
    pair_run(&pair, 20 * SPOTNIK_S);
    assert_member(0, 2, 3);
    assert_member(2, 2, 3);
    assert_parked(1);
    assert_parked(3);
}

/* Claim: nobody has a majority: all park. When healed, a majority goes on as soon as it has found
 * itself, in one view, and whoever was not in time is told so. */
TEST_PAIR(all_park)
{
    uint32_t members = 0, excluded = 0;

    assemble(5);
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < a; b++)
            pair_cut(&pair, a, b, a / 2 != b / 2);
    pair_run(&pair, 10 * SPOTNIK_S);
    for (uint32_t i = 0; i < 5; i++)
        assert_parked(i);
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < a; b++)
            pair_cut(&pair, a, b, false);
    pair_run(&pair, 10 * SPOTNIK_S);
    for (uint32_t i = 0; i < 5; i++) {
        members += pair_status(&pair, i).role == SPOTNIK_ROLE_MEMBER;
        excluded += pair.node[i].excluded;
    }
    assert_true(members >= 3);
    assert_int_equal(members + excluded, 5);
    for (uint32_t i = 0; i < 5; i++)
        if (!pair.node[i].excluded)
            assert_member(i, members, 3);
}

/* Claim: a stopped member of three is voted out, told so when it wakes, and then does nothing
 * more. */
TEST_PAIR(stopped)
{
    assemble(3);
    pair_stop(&pair, 1, true);
    pair_run(&pair, 5 * SPOTNIK_S);
    assert_member(0, 2, 3);
    assert_member(2, 2, 3);
    pair_stop(&pair, 1, false);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[1].excluded, 1);
    assert_int_equal(pair_status(&pair, 1).committed, 1);
    assert_int_equal(spotnik_core_deadline(pair.node[1].core), SPOTNIK_NEVER);
}

/* Claim: a short pause, below the limit of silence, costs no view. */
TEST_PAIR(short_pause)
{
    assemble(3);
    uint32_t views = pair.node[0].views;
    pair_stop(&pair, 1, true);
    pair_run(&pair, 200 * SPOTNIK_MS);
    pair_stop(&pair, 1, false);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair.node[0].views, views);
    for (uint32_t i = 0; i < 3; i++)
        assert_member(i, 3, 3);
}

static bool entered_alone; /* node 2 has asked to be let in before it was linked to node 1 */

static bool looks_at_enter(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    entered_alone |= node == 2 && action->kind == SPOTNIK_ACTION_SEND
                     && action->send.message->kind == SPOTNIK_MESSAGE_ENTER
                     && !of->node[2].linked[1];
    return false;
}

/* Claim: a joiner links to the members before it asks to be let in. So it goes on when all others
 * die at once right after, though its sponsor was the only one it had to do with. */
TEST_PAIR(joiner_meets_all_first)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair.before = looks_at_enter;
    entered_alone = false;
    pair.count = 2;
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    pair.count = 3;
    pair.node[2].goal = 3;
    pair_join(&pair, 2, 1, 0, 0);
    while (spotnik_core_view(pair.node[2].core)->size != 3 && pair_turn(&pair))
        ;
    assert_int_equal(pair_status(&pair, 2).role, SPOTNIK_ROLE_MEMBER);
    assert_false(entered_alone);
    pair_kill(&pair, 0);
    pair_kill(&pair, 1);
    pair_run(&pair, SPOTNIK_S);
    assert_member(2, 1, 3);
}

/* Claim: a certificate says how far the dead had gone. One of a later view than ours proves an end,
 * and no more; when we have come to that view it proves that the dead had not gone on without us,
 * and the survivor goes on. */
TEST_PAIR(certificate_of_a_later_view)
{
    for (uint64_t ahead = 0; ahead < 2; ahead++) {
        assemble(2);
        uint64_t epoch = pair_status(&pair, 1).epoch;
        struct spotnik_event death = { .kind = SPOTNIK_EVENT_DEATH,
                                       .death = { pair.node[0].member, epoch + ahead } };
        pair.node[0].alive = false; /* without a word on its link */
        pair_event(&pair, 1, death);
        pair_run(&pair, SPOTNIK_S);
        if (ahead)
            assert_parked(1);
        else
            assert_member(1, 1, 3);
        pair_close(&pair);
    }
}

/* The view after the present one of nodes 0 and 1: both of them, and node 1 votes for it. */
static void told_of_a_next_view(uint32_t node, struct spotnik_founding founding)
{
    const struct spotnik_view *view = spotnik_core_view(pair.node[node].core);
    struct spotnik_entry entry[2] = { { .member = pair.node[0].member,
                                        .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER,
                                        .share = 0 },
                                      { .member = pair.node[1].member,
                                        .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER,
                                        .share = 1 } };
    struct spotnik_proposal next = { .epoch = view->epoch + 1,
                                     .settled_step = pair_status(&pair, node).committed,
                                     .ballot = { 1, pair.node[0].member.id },
                                     .share_count = 2,
                                     .entry_count = 2,
                                     .entry_max = 2,
                                     .ledger = *spotnik_core_ledger(pair.node[node].core),
                                     .entry = entry,
                                     .founding = founding };
    struct spotnik_message restart = { .kind = SPOTNIK_MESSAGE_RESTART,
                                       .epoch = next.epoch,
                                       .committed = next.settled_step,
                                       .proposal = &next };
    pair_event(&pair, node,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[0].member, &restart } });
}

static void told_of_the_next_view(uint32_t node)
{
    const struct spotnik_view *view = spotnik_core_view(pair.node[node].core);
    told_of_a_next_view(node, view->founding);
}

static const struct spotnik_founding another = { .id = 77, .root = 77, .founded_at_ms = 1 };

/* Claim: a view of another founding, however much later, is none of ours: nobody gives up its
 * lineage for it. */
TEST_PAIR(another_founding_is_not_followed)
{
    assemble(2);
    uint64_t epoch = pair_status(&pair, 1).epoch;
    told_of_a_next_view(1, another);
    assert_int_equal(pair_status(&pair, 1).epoch, epoch);
    assert_int_equal(pair.node[1].failed + pair.node[1].excluded, 0);
    pair_goal(&pair, 5);
    pair_run(&pair, SPOTNIK_S);
    assert_member(1, 2, 5);
}

/* Claim: it is kept until then. */
TEST_PAIR(certificate_waits_for_its_view)
{
    assemble(2);
    struct spotnik_event death = { .kind = SPOTNIK_EVENT_DEATH,
                                   .death = { pair.node[0].member,
                                              pair_status(&pair, 1).epoch + 1 } };
    pair_event(&pair, 1, death);
    told_of_the_next_view(1); /* its last words, read late */
    pair.node[0].alive = false;
    pair_run(&pair, SPOTNIK_S);
    assert_member(1, 1, 3);
}

/* The tx connection of node 0 ends at node 1, as if it had died. */
static void end_heard(enum spotnik_proof proof)
{
    pair.node[1].linked[0] = false;
    pair_event(&pair, 1,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended = { pair.node[0].member, proof } });
}

/* Claim: the end of a connection from another host proves a death only together with a dial that is
 * refused next, and with nobody in between. A dial that ran out of time first makes the refusal
 * worthless. */
TEST_PAIR(end_and_refusal)
{
    static const struct {
        enum spotnik_proof proof;
        bool timed_out, goes_on;
    } of[] = { { SPOTNIK_PROOF_LIKELY, false, true },
               { SPOTNIK_PROOF_LIKELY, true, false },
               { SPOTNIK_PROOF_END, false, false } };
    for (uint32_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        assemble(2);
        pair.node[0].alive = false;
        end_heard(of[i].proof);
        assert_true(pair.node[1].dialling[0]);
        assert_true(pair_status(&pair, 1).frozen);
        if (of[i].timed_out) {
            pair.node[1].dialling[0] = false;
            pair_event(&pair, 1,
                       (struct spotnik_event){ .kind = SPOTNIK_EVENT_DIAL_FAILED,
                                               .ended.peer = pair.node[0].member });
        }
        pair_run(&pair, SPOTNIK_S);
        if (of[i].goes_on)
            assert_member(1, 1, 3);
        else
            assert_parked(1);
        pair_close(&pair);
    }
}

/* Claim: who takes the dial lives, and nothing is held against it: both go on, in one view, and
 * nobody is lost. */
TEST_PAIR(end_and_answer)
{
    for (uint32_t first = 0; first < 2; first++) {
        assemble(2);
        pair.node[0].linked[1] = false; /* both read the end of the other */
        if (first == 0)
            pair_event(&pair, 0,
                       (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                               .ended.peer = pair.node[1].member });
        end_heard(first ? SPOTNIK_PROOF_END : SPOTNIK_PROOF_LIKELY);
        pair_run(&pair, SPOTNIK_S);
        assert_member(0, 2, 3);
        assert_member(1, 2, 3);
        assert_int_equal(pair_status(&pair, 1).losses, 0);
        pair_close(&pair);
    }
}
