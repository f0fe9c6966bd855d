/* SPDX-License-Identifier: Apache-2.0 */
/* Founding, joining and undisturbed steps. */
#include <string.h>

#include "base/time.h"
#include "pair_fixture.h"

/* Claim: a founder and a joiner make a view of two, one epoch after the founding. */
TEST_PAIR(founder_and_joiner)
{
    pair_open(&pair, 2, 1, 0, 0);
    pair_assemble(&pair);
    for (uint32_t i = 0; i < 2; i++) {
        struct spotnik_core_status status = pair_status(&pair, i);
        assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
        assert_int_equal(status.epoch, 2);
        assert_int_equal(status.size, 2);
        assert_int_equal(status.rank, i);
        assert_int_equal(status.committed, 0);
    }
}

/* Claim: eight that start at once stand in one view, the same for all. */
TEST_PAIR(eight)
{
    pair_open(&pair, 8, 1, 0, 0);
    pair_assemble(&pair);
    for (uint32_t i = 0; i < 8; i++) {
        const struct spotnik_view *view = spotnik_core_view(pair.node[i].core);
        assert_int_equal(pair_status(&pair, i).role, SPOTNIK_ROLE_MEMBER);
        assert_int_equal(view->size, 8);
        assert_int_equal(view->epoch, spotnik_core_view(pair.node[0].core)->epoch);
        for (uint32_t r = 0; r < 8; r++)
            assert_int_equal(view->entry[r].member.port,
                             spotnik_core_view(pair.node[0].core)->entry[r].member.port);
    }
}

/* Claim: a member alone commits its own input. */
TEST_PAIR(alone)
{
    pair_open(&pair, 1, 1, 0, 0);
    pair.node[0].buckets = 2;
    pair_goal(&pair, 3);
    pair_assemble(&pair);
    assert_int_equal(pair_status(&pair, 0).committed, 3);
    for (uint64_t i = 0; i < COUNT - 7; i++)
        assert_true(pair.node[0].result[3][1][i] == pair_input(0, 3, 1, i));
}

/* Claim: three members commit the exact sum of their inputs, in every bucket and step. */
TEST_PAIR(sums)
{
    pair_open(&pair, 3, 3, 0, 0);
    for (uint32_t i = 0; i < 3; i++)
        pair.node[i].buckets = BUCKETS;
    pair_goal(&pair, 4);
    pair_assemble(&pair);
    for (uint32_t n = 0; n < 3; n++)
        for (uint64_t s = 1; s <= 4; s++)
            for (uint32_t b = 0; b < BUCKETS; b++)
                for (uint64_t i = 0; i < pair.node[n].count[b]; i++)
                    assert_true(pair.node[n].result[s][b][i]
                                == pair_input(0, s, b, i) + pair_input(1, s, b, i)
                                       + pair_input(2, s, b, i));
}

/* Claim: the mean is weighted by what each caller said: 1, 2 and 5 of 8. */
TEST_PAIR(weighted_mean)
{
    static const uint64_t weight[] = { 1, 2, 5 };

    pair_open(&pair, 3, 3, 0, 0);
    for (uint32_t i = 0; i < 3; i++) {
        pair.node[i].op = SPOTNIK_MEAN;
        pair.node[i].weight = weight[i];
    }
    pair_goal(&pair, 2);
    pair_assemble(&pair);
    for (uint32_t n = 0; n < 3; n++)
        for (uint64_t i = 0; i < COUNT; i++)
            assert_true(pair.node[n].result[2][0][i]
                        == (pair_input(0, 2, 0, i) + 2 * pair_input(1, 2, 0, i)
                            + 5 * pair_input(2, 2, 0, i))
                               / 8);
}

/* Claim: with a ledger the weights are the samples drawn, and a step draws `batch` of them
 * together. */
TEST_PAIR(ledger_weights)
{
    pair_open(&pair, 3, 3, 100, 8);
    for (uint32_t i = 0; i < 3; i++)
        pair.node[i].op = SPOTNIK_MEAN;
    pair_goal(&pair, 2);
    pair_assemble(&pair);
    uint64_t *drawn =
        (uint64_t[]){ pair.node[0].drawn[2], pair.node[1].drawn[2], pair.node[2].drawn[2] };
    assert_int_equal(drawn[0] + drawn[1] + drawn[2], 8);
    for (uint64_t i = 0; i < COUNT; i++) {
        double sum = 0;
        for (uint32_t n = 0; n < 3; n++)
            sum += (double)drawn[n] * pair_input(n, 2, 0, i);
        assert_true(pair.node[1].result[2][0][i] == sum / 8);
    }
    assert_int_equal(spotnik_core_ledger(pair.node[0].core)->cursor, 16);
}

/* Claim: nobody begins a step before the view has members_min. */
TEST_PAIR(members_min)
{
    pair_open(&pair, 2, 2, 0, 0);
    pair.node[0].goal = 1;
    pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_FOUND });
    pair_run(&pair, SPOTNIK_S);
    assert_true(pair.node[0].wants);
    assert_false(pair.node[0].begun);
    pair.node[1].goal = 1;
    pair_join(&pair, 1, 0, 0, 0);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).committed, 1);
    assert_int_equal(pair_status(&pair, 1).committed, 1);
}

/* Claim: a founder that holds the state of a checkpoint goes on behind its step and at its place in
 * the data; who joins copies that state, and a loss in the first step is recovered from although
 * nobody has the result of the one before. */
TEST_PAIR(resume)
{
    struct spotnik_ledger ledger;

    pair_open(&pair, 3, 3, 100, 8);
    spotnik_ledger_init(&ledger, 100, 8);
    ledger.data_epoch = 2;
    ledger.cursor = 40;
    ledger.returned_count = 1;
    ledger.returned[0] = (struct spotnik_range){ 3, 6 };
    pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_FOUND });
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_RESUME, .resume = { 7, &ledger } });
    assert_int_equal(pair_status(&pair, 0).committed, 7);
    assert_int_equal(pair_status(&pair, 0).stable, 7);
    for (uint32_t i = 1; i < 3; i++)
        pair_join(&pair, i, 7, 0, 0);
    pair_goal(&pair, 8);
    pair.node[1].hold = true; /* step 8 is begun, and stays so */
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).size, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pair.node[i].step, 8);
    uint64_t lost = pair.node[2].drawn[8];
    assert_true(spotnik_core_ledger_known(pair.node[0].core, 7));
    pair_kill(&pair, 2);
    pair.node[1].hold = false;
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pair_status(&pair, i).committed, 8);
        const struct spotnik_ledger *after = spotnik_core_ledger(pair.node[i].core);
        assert_int_equal(after->data_epoch, 2);
        /* a batch of 8 fresh ones, and one of the 3 that had returned */
        assert_int_equal(after->cursor, 48);
        uint64_t waiting = 0;
        for (uint32_t r = 0; r < after->returned_count; r++)
            waiting += after->returned[r].end - after->returned[r].begin;
        assert_int_equal(waiting, lost + 2); /* of those that had returned two wait */
    }
}

/* Claim: a step without buckets still waits for everybody. */
TEST_PAIR(barrier)
{
    pair_open(&pair, 3, 3, 0, 0);
    for (uint32_t i = 0; i < 3; i++)
        pair.node[i].buckets = 0;
    pair_assemble(&pair);
    pair.node[0].goal = pair.node[1].goal = 1;
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).committed, 0);
    assert_int_equal(pair_status(&pair, 1).committed, 0);
    pair.node[2].goal = 1;
    pair_run(&pair, SPOTNIK_MS);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(pair_status(&pair, i).committed, 1);
}

/* Claim: a joiner begins a step only when its stream has a frame of it; it replays each result bit
 * for bit, without samples, and only stable ones. */
TEST_PAIR(joiner_replays)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair.count = 2;
    pair_goal(&pair, 4);
    pair_assemble(&pair);
    pair_goal(&pair, 5);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).stable, 4);
    pair.count = 3;
    pair.node[2].goal = 8;
    pair_event(&pair, 2, (struct spotnik_event){ .kind = SPOTNIK_EVENT_JOIN });
    pair_run(&pair, SPOTNIK_S);
    assert_true(pair.node[2].wants);
    assert_false(pair.node[2].begun);
    pair.donor[2] = 1;
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 2).committed, 4);
    assert_true(pair.node[2].replay);
    for (uint64_t s = 1; s <= 4; s++) {
        assert_int_equal(pair.node[2].drawn[s], 0);
        assert_memory_equal(pair.node[2].result[s][0], pair.node[0].result[s][0],
                            sizeof pair.node[0].result[s][0]);
    }
}

/* Claim: a joiner one step behind enters as a laggard, is served the settled result, and works in
 * the next step. */
TEST_PAIR(joiner_enters_as_laggard)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair.count = 2;
    pair_goal(&pair, 5);
    pair_assemble(&pair);
    pair.count = 3;
    pair_goal(&pair, 7);
    pair.node[0].idle = pair.node[1].idle = true;
    pair_join(&pair, 2, 0, 0, 0);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 2).role, SPOTNIK_ROLE_MEMBER);
    assert_int_equal(pair_status(&pair, 2).committed, 5);
    assert_memory_equal(pair.node[2].result[5][0], pair.node[0].result[5][0],
                        sizeof pair.node[0].result[5][0]);
    pair.node[0].idle = pair.node[1].idle = false;
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t n = 0; n < 3; n++) {
        assert_int_equal(pair_status(&pair, n).committed, 7);
        for (uint64_t i = 0; i < COUNT; i++)
            assert_true(pair.node[n].result[7][0][i]
                        == pair_input(0, 7, 0, i) + pair_input(1, 7, 0, i)
                               + pair_input(2, 7, 0, i));
    }
}

/* Claim: a joiner that dies while it copies, linked to a member, costs the members nothing: no
 * view, no frozen step. */
TEST_PAIR(joiner_dies)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair.count = 2;
    pair_goal(&pair, 5);
    pair_assemble(&pair);
    uint32_t views = pair.node[0].views, frozen = pair.node[0].frozen;
    pair.count = 3;
    pair_event(&pair, 2, (struct spotnik_event){ .kind = SPOTNIK_EVENT_JOIN });
    pair.node[2].dialling[0] = true;
    pair_run(&pair, SPOTNIK_S);
    assert_true(pair.node[0].linked[2]);
    /* it asked for the view, and got it */
    assert_int_equal(spotnik_core_view(pair.node[2].core)->size, 2);
    pair_kill(&pair, 2);
    pair.node[0].goal = pair.node[1].goal = 9;
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 0).committed, 9);
    assert_int_equal(pair.node[0].views, views);
    assert_int_equal(pair.node[0].frozen, frozen);
}

static uint32_t asked[NODES_MAX];

static bool counts_enter(struct pair *of, uint32_t node, const struct spotnik_action *action)
{
    if (node == 2 && action->kind == SPOTNIK_ACTION_SEND
        && action->send.message->kind == SPOTNIK_MESSAGE_ENTER)
        for (uint32_t i = 0; i < of->count; i++)
            asked[i] += spotnik_id_equal(of->node[i].member.id, action->send.to.id);
    return false;
}

/* Claim: a joiner asks another sponsor when one does nothing for long, even if it replays step
 * after step meanwhile and so never waits for as long as a heartbeat. */
TEST_PAIR(joiner_leaves_a_deaf_sponsor)
{
    pair_open(&pair, 3, 1, 0, 0);
    pair.count = 2;
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    pair.count = 3;
    memset(asked, 0, sizeof asked);
    pair.before = counts_enter;
    pair_join(&pair, 2, 0, 1, 0);
    while (!pair.node[2].linked[1] || !pair.node[2].linked[0])
        assert_true(pair_turn(&pair));
    pair_cut(&pair, 1, 2, true);
    for (uint64_t step = 2; step <= 28 && asked[0] == 0; step++) {
        while (pair_turn(&pair))
            ;
        pair_goal(&pair, step);
        pair_pass(&pair, pair.limits.heartbeat_ns * 9 / 10);
    }
    assert_true(asked[1] > 10);
    assert_true(asked[0] > 0);
}
