/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts that do not reach each other, and all others reach both: one of the two is left out. */
#include "base/time.h"
#include "pair_fixture.h"

static void assemble(uint32_t count)
{
    pair_open(&pair, count, 1, 0, 0);
    for (uint32_t i = 0; i < count; i++)
        pair_on_host(&pair, i, i + 1, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
}

static uint32_t rank_of(uint32_t node)
{
    return pair_status(&pair, node).rank;
}

static bool are_neighbours(uint32_t a, uint32_t b, uint32_t size)
{
    uint32_t ahead = (rank_of(b) + size - rank_of(a)) % size;
    return ahead == 1 || ahead == size - 1;
}

/* As its driver does while data wait for an acknowledgement. */
static void tell_of(uint32_t a, uint32_t b)
{
    pair_event(&pair, a,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_PATH_DOWN,
                                       .peer = pair.node[b].member });
}

/* All but one of a and b in one view, with step 5. Returns the one. */
static uint32_t left_out(uint32_t count, uint32_t a, uint32_t b)
{
    uint32_t out = pair.node[a].excluded ? a : b;

    for (uint32_t i = 0; i < count; i++) {
        struct spotnik_core_status status = pair_status(&pair, i);
        if (i == out) {
            assert_int_equal(status.role, SPOTNIK_ROLE_EXCLUDED);
            continue;
        }
        assert_int_equal(status.role, SPOTNIK_ROLE_MEMBER);
        assert_int_equal(status.size, count - 1);
        assert_int_equal(status.committed, 5);
        assert_int_equal(status.losses, 1);
    }
    return out;
}

/* Claim: whichever two of three, four or five do not hear each other: one of them is left out,
 * and steps go on. Ring neighbours find it by silence. The others are told by their drivers:
 * there it is the one with the larger id, and the other names the path. */
TEST_PAIR(any_two)
{
    for (uint32_t count = 3; count <= 5; count++)
        for (uint32_t a = 0; a < count; a++)
            for (uint32_t b = a + 1; b < count; b++) {
                assemble(count);
                pair_cut(&pair, a, b, true);
                pair_goal(&pair, 5);
                pair_run(&pair, 10 * SPOTNIK_MS);
                bool neighbours = are_neighbours(a, b, count);
                if (!neighbours)
                    tell_of(a, b);
                pair_run(&pair, SPOTNIK_S);
                uint32_t out = left_out(count, a, b);
                if (!neighbours) {
                    struct spotnik_path path = pair_status(&pair, a).path;
                    assert_int_equal(out, b);
                    assert_true(spotnik_id_equal(path.from.id, pair.node[a].member.id));
                    assert_true(spotnik_id_equal(path.to.id, pair.node[b].member.id));
                }
                pair_close(&pair);
            }
}

/* Claim: data that do not arrive count although heartbeats do, also between two hosts. */
TEST_PAIR(data_alone)
{
    for (uint32_t count = 2; count <= 5; count++) {
        assemble(count);
        tell_of(0, 1);
        pair_goal(&pair, 5);
        pair_run(&pair, SPOTNIK_S);
        assert_int_equal(left_out(count, 0, 1), 1);
        pair_close(&pair);
    }
}

/* Claim: one way is as good as none: its driver leaves unread who does not hear it. */
TEST_PAIR(unheard)
{
    for (uint32_t count = 3; count <= 5; count++)
        for (uint32_t a = 0; a < count; a++) {
            uint32_t b = (a + 1) % count;
            assemble(count);
            pair_cut_one_way(&pair, b, a, true);
            pair_goal(&pair, 5);
            pair_run(&pair, 2 * SPOTNIK_S);
            left_out(count, a, b);
            pair_close(&pair);
        }
}

/* Claim: two of four that a second broken path cuts off at the same time, each from another: the
 * view that the lineage rule allows goes on, and nobody for ever waits for it. */
TEST_PAIR(two_pairs)
{
    assemble(5);
    pair_cut(&pair, 0, 1, true);
    pair_cut(&pair, 2, 3, true);
    pair_goal(&pair, 5);
    pair_run(&pair, 2 * SPOTNIK_S);
    uint32_t done = 0;
    for (uint32_t i = 0; i < 5; i++)
        done += pair_status(&pair, i).role == SPOTNIK_ROLE_MEMBER
                && pair_status(&pair, i).committed == 5;
    assert_true(done >= 3);
}

/* Claim: a joiner that does not reach one member is not let in, and costs the members no ballot.
 * After two seconds its sponsor and it name the path. It is let in when the path works. */
TEST_PAIR(joiner)
{
    assemble(5);
    pair_event(&pair, 4, (struct spotnik_event){ .kind = SPOTNIK_EVENT_LEAVE });
    pair_run(&pair, SPOTNIK_S);
    pair_renew(&pair, 4, 99, 1, 0, 0);
    pair_cut(&pair, 4, 2, true);
    pair_join(&pair, 4, 1, 0, 0);
    uint64_t ballots = pair_status(&pair, 0).ballots_started;
    pair_run(&pair, 20 * SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 4).role, SPOTNIK_ROLE_JOINER);
    assert_int_equal(pair_status(&pair, 0).ballots_started, ballots);
    for (uint32_t i = 0; i < 5; i += 4) {
        struct spotnik_path path = pair_status(&pair, i).path;
        assert_true(spotnik_id_equal(path.from.id, pair.node[4].member.id));
        assert_true(spotnik_id_equal(path.to.id, pair.node[2].member.id));
    }
    pair_cut(&pair, 4, 2, false);
    pair_run(&pair, SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 4).role, SPOTNIK_ROLE_MEMBER);
    assert_int_equal(pair_status(&pair, 0).size, 5);
}

/* Claim: a member that is stopped is not taken for one behind a broken path: the others go on
 * without it as fast as ever. */
TEST_PAIR(stopped)
{
    assemble(5);
    pair_stop(&pair, 2, true);
    pair_goal(&pair, 5);
    pair_run(&pair, SPOTNIK_S);
    for (uint32_t i = 0; i < 5; i++)
        if (i != 2) {
            assert_int_equal(pair_status(&pair, i).size, 4);
            assert_int_equal(pair_status(&pair, i).committed, 5);
        }
}

/* What the driver of everybody else says of a stopped member whose machine runs. */
static void kernel_answers(uint32_t count, uint32_t stopped, uint64_t duration_ns)
{
    uint64_t step_ns = pair.limits.heartbeat_ns / 4;
    for (uint64_t ns = 0; ns < duration_ns; ns += step_ns) {
        for (uint32_t i = 0; i < count; i++)
            if (i != stopped
                && spotnik_core_is_quiet(pair.node[i].core, pair.node[stopped].member.id,
                                         pair.now_ns))
                pair_event(&pair, i,
                           (struct spotnik_event){ .kind = SPOTNIK_EVENT_KERNEL,
                                                   .peer = pair.node[stopped].member });
        pair_run(&pair, step_ns);
    }
}

/* Claim: who says nothing, while its kernel answers, is waited for three times as long, and no
 * longer. */
TEST_PAIR(kernel)
{
    assemble(3);
    pair_stop(&pair, 1, true);
    kernel_answers(3, 1, 2 * pair.limits.silence_floor_ns);
    assert_int_equal(pair_status(&pair, 0).size, 3);
    assert_int_equal(pair_status(&pair, 2).size, 3);
    kernel_answers(3, 1, pair.limits.silence_floor_ns + 4 * pair.limits.heartbeat_ns);
    assert_int_equal(pair_status(&pair, 0).size, 2);
    assert_int_equal(pair_status(&pair, 2).size, 2);
}
