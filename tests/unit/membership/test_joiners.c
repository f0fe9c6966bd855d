/* SPDX-License-Identifier: Apache-2.0 */
/* The joiners of one sponsor alone: which is worth a view change, and how long it is waited for. */
#include <string.h>

#include "base/time.h"
#include "membership/admission.h"
#include "tests.h"

#define WAIT_NS (50 * SPOTNIK_MS)
#define STEP_NS (10 * SPOTNIK_MS)

static struct joiners joiners;
static struct joiners_input in;

static int open_table(void **state)
{
    (void)state;
    memset(&joiners, 0, sizeof(joiners));
    joiners_init(&joiners);
    in = (struct joiners_input){ .now_ns = SPOTNIK_S,
                                 .committed = 1000,
                                 .step_ns = STEP_NS,
                                 .heartbeat_ns = 20 * SPOTNIK_MS,
                                 .silence_ceiling_ns = 2 * SPOTNIK_S,
                                 .enter_wait_ns = WAIT_NS };
    return 0;
}

static struct spotnik_id id_of(uint64_t number)
{
    return (struct spotnik_id){ .low = number };
}

static bool asks(uint64_t number, uint64_t behind)
{
    return joiners_remember(&joiners, &in,
                            &(struct spotnik_enter){ .member.id = id_of(number),
                                                     .committed = in.committed - behind });
}

/* Claim: all members wait for a joiner that is two steps behind, for as long as it may need. */
TEST_WITH(a_near_one, open_table, NULL)
{
    assert_true(asks(1, 2));
    assert_true(joiners_due(&joiners, &in));
    assert_int_equal(joiners.deadline_ns, in.now_ns + WAIT_NS + 4 * STEP_NS);
}

/* Claim: one that is further behind is tried now and then, without a longer wait. */
TEST_WITH(a_far_one, open_table, NULL)
{
    assert_true(asks(1, 3));
    assert_true(joiners_due(&joiners, &in));
    assert_int_equal(joiners.deadline_ns, 0);
    in.now_ns += 16 * WAIT_NS - 1;
    assert_false(joiners_due(&joiners, &in));
    in.now_ns++;
    assert_true(joiners_due(&joiners, &in));
}

/* Claim: one that is too far is not tried, unless our steps are quick. */
TEST_WITH(too_far, open_table, NULL)
{
    assert_true(asks(1, 200));
    assert_false(joiners_due(&joiners, &in));
    in.step_ns = SPOTNIK_MS;
    assert_true(joiners_due(&joiners, &in));
}

/* Claim: one that came no nearer in eight steps is waited for. */
TEST_WITH(one_that_comes_no_nearer, open_table, NULL)
{
    assert_true(asks(1, 5));
    assert_true(joiners_due(&joiners, &in));
    in.now_ns += 2 * WAIT_NS;
    in.committed += 7;
    assert_true(asks(1, 5));
    assert_false(joiners_due(&joiners, &in));
    in.committed++;
    assert_true(asks(1, 5));
    assert_true(joiners_due(&joiners, &in));
    assert_int_equal(joiners.deadline_ns, in.now_ns + WAIT_NS + 10 * STEP_NS);
}

/* Claim: one that was waited for in vain rests eight times as long, and is then waited for with
 * twice the patience, up to eight times. */
TEST_WITH(one_that_was_left_out, open_table, NULL)
{
    assert_true(asks(1, 0));
    for (uint32_t tries = 1; tries <= 5; tries++) {
        joiners_back_off(&joiners, id_of(1), in.now_ns, WAIT_NS);
        in.now_ns += 8 * WAIT_NS - 1;
        assert_false(joiners_due(&joiners, &in));
        in.now_ns++;
        assert_true(joiners_due(&joiners, &in));
        assert_int_equal(joiners.deadline_ns, in.now_ns + (WAIT_NS << (tries < 3 ? tries : 3)));
    }
}

/* Claim: a far one that was waited for in vain is waited for with patience, by a sponsor that has
 * not seen that it comes no nearer. */
TEST_WITH(a_far_one_that_was_left_out, open_table, NULL)
{
    assert_true(asks(1, 5));
    joiners_back_off(&joiners, id_of(1), in.now_ns, WAIT_NS);
    in.now_ns += 8 * WAIT_NS;
    assert_true(joiners_due(&joiners, &in));
    assert_int_equal(joiners.deadline_ns, in.now_ns + 2 * (WAIT_NS + 10 * STEP_NS));
}

/* Claim: of those that rest the last sixteen are known. */
TEST_WITH(many_that_rest, open_table, NULL)
{
    assert_true(asks(1, 0));
    joiners_back_off(&joiners, id_of(1), in.now_ns, WAIT_NS);
    for (uint64_t number = 2; number <= JOINER_BACKOFF_MAX; number++)
        joiners_back_off(&joiners, id_of(number), in.now_ns, WAIT_NS);
    assert_false(joiners_due(&joiners, &in));
    joiners_back_off(&joiners, id_of(99), in.now_ns, WAIT_NS);
    assert_true(joiners_due(&joiners, &in));
}

/* Claim: a joiner that has not asked for the ceiling of silence is named, and no other is. */
TEST_WITH(silent_ones, open_table, NULL)
{
    struct spotnik_id silent;
    assert_true(asks(1, 0) && asks(2, 0));
    in.now_ns += in.silence_ceiling_ns;
    assert_true(asks(2, 0) && asks(3, 0));
    assert_false(joiners_silent(&joiners, &in, &silent));
    in.now_ns++;
    assert_true(joiners_silent(&joiners, &in, &silent));
    assert_int_equal(silent.low, 1);
    joiners_remove(&joiners, silent);
    assert_false(joiners_silent(&joiners, &in, &silent));
    assert_int_equal(joiners.count, 2);
}

/* Claim: a joiner is heard if it asked since the ballot began, and two heartbeats ago at most. */
TEST_WITH(heard, open_table, NULL)
{
    uint64_t began_ns = in.now_ns;
    assert_true(asks(1, 0));
    assert_false(joiners_heard(&joiners, &in, id_of(1), began_ns));
    in.now_ns++;
    assert_true(asks(1, 0));
    assert_true(joiners_heard(&joiners, &in, id_of(1), began_ns));
    assert_false(joiners_heard(&joiners, &in, id_of(2), began_ns));
    in.now_ns += 2 * in.heartbeat_ns;
    assert_true(joiners_heard(&joiners, &in, id_of(1), began_ns));
    in.now_ns++;
    assert_false(joiners_heard(&joiners, &in, id_of(1), began_ns));
}

/* Claim: a full table takes no other joiner, and keeps hearing those that it holds. */
TEST_WITH(a_full_table, open_table, NULL)
{
    for (uint64_t number = 1; number <= SPOTNIK_JOINERS_MAX; number++)
        assert_true(asks(number, 0));
    assert_false(asks(SPOTNIK_JOINERS_MAX + 1, 0));
    assert_true(asks(1, 0));
    joiners_remove(&joiners, id_of(7));
    assert_true(asks(SPOTNIK_JOINERS_MAX + 1, 0));
}

/* Claim: the members of an epoch wait once, a loss ends the wait, and the next view may wait
 * again. */
TEST_WITH(one_wait_an_epoch, open_table, NULL)
{
    uint64_t limit_ns = in.now_ns + WAIT_NS;
    assert_int_equal(joiners_wait(&joiners, in.now_ns, WAIT_NS), limit_ns);
    assert_int_equal(joiners_wait(&joiners, in.now_ns + 5, WAIT_NS), limit_ns);
    joiners_hurry(&joiners, in.now_ns + 6);
    assert_int_equal(joiners_wait(&joiners, in.now_ns + 7, WAIT_NS), in.now_ns + 6);
    joiners_view(&joiners);
    joiners.deadline_ns = in.now_ns + 3 * WAIT_NS; /* a patient one's */
    assert_int_equal(joiners_wait(&joiners, in.now_ns, WAIT_NS), in.now_ns + 3 * WAIT_NS);
}
