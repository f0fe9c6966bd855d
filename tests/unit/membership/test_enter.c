/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner alone: what it says to its sponsor, and when it turns to another one. */
#include "base/time.h"
#include "membership/admission.h"
#include "tests.h"

#define HEARTBEAT_NS (20 * SPOTNIK_MS)
#define CEILING_NS (2 * SPOTNIK_S)

static struct spotnik_entry entry[3];
static struct spotnik_view view;
static struct spotnik_member guide = { .id.low = 9 };
static struct entering entering;
static struct enter_input in;

static int open_joiner(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        entry[i].member.id.low = i + 1;
    view = (struct spotnik_view){ .epoch = 4, .size = 3, .entry = entry };
    in = (struct enter_input){ .now_ns = SPOTNIK_S,
                               .view = &view,
                               .heartbeat_ns = HEARTBEAT_NS,
                               .silence_ceiling_ns = CEILING_NS };
    entering = (struct entering){ .wanted = false };
    enter_init(&entering);
    enter_begin(&entering, &guide);
    enter_ask(&entering, &in, guide.id);
    return 0;
}

/* Claim: without a view it asks for one, and with links to all members it asks to be let in. */
TEST_WITH(what_it_says, open_joiner, NULL)
{
    view.size = 0;
    assert_int_equal(enter_say(&entering, &in, NULL).say, SPOTNIK_MESSAGE_VIEW_ASK);
    view.size = 3;
    assert_int_equal(enter_say(&entering, &in, NULL).say, SPOTNIK_MESSAGE_ENTER);
    assert_true(spotnik_id_is_none(entering.unmet));
}

/* Claim: while it is not linked to a member it only shows that it lives; after the ceiling of
 * silence it names that member, until it is linked to all. */
TEST_WITH(a_member_out_of_reach, open_joiner, NULL)
{
    const struct spotnik_member *unmet = &entry[1].member;
    struct enter_effects effects = enter_say(&entering, &in, unmet);
    assert_int_equal(effects.say, SPOTNIK_MESSAGE_HEARTBEAT);
    in.now_ns += CEILING_NS - 1;
    assert_false(enter_say(&entering, &in, unmet).path_broken);
    in.now_ns++;
    effects = enter_say(&entering, &in, unmet);
    assert_int_equal(effects.say, SPOTNIK_MESSAGE_ENTER);
    assert_true(effects.path_broken);
    assert_int_equal(entering.unmet.low, 2);
    effects = enter_say(&entering, &in, NULL);
    assert_false(effects.path_broken);
    assert_true(spotnik_id_is_none(entering.unmet));
    assert_int_equal(enter_say(&entering, &in, unmet).say, SPOTNIK_MESSAGE_HEARTBEAT);
}

/* Claim: it asks every heartbeat, and another member when its sponsor has not answered for 20. The
 * answer of another member changes nothing. */
TEST_WITH(patience_with_a_sponsor, open_joiner, NULL)
{
    assert_int_equal(entering.at_ns, in.now_ns + HEARTBEAT_NS);
    in.now_ns += 20 * HEARTBEAT_NS - 1;
    assert_true(enter_again(&entering, &in));
    assert_int_equal(entering.at_ns, in.now_ns + HEARTBEAT_NS);
    enter_answer(&entering, &in, entry[0].member.id);
    in.now_ns++;
    assert_false(enter_again(&entering, &in));
    enter_answer(&entering, &in, guide.id);
    assert_true(enter_again(&entering, &in));
    in.now_ns += 20 * HEARTBEAT_NS;
    assert_false(enter_again(&entering, &in));
    view.size = 0; /* it knows no other member */
    assert_true(enter_again(&entering, &in));
}

/* Claim: it asks all members of the view in turn, and then the one that the driver has named if
 * that is another one. */
TEST_WITH(the_next_sponsor, open_joiner, NULL)
{
    static const uint64_t order[] = { 1, 2, 3, 9, 1 };
    for (uint32_t i = 0; i < 5; i++) {
        const struct spotnik_member *next = enter_next(&entering, &view);
        assert_int_equal(next->id.low, order[i]);
        enter_ask(&entering, &in, next->id);
    }
    enter_begin(&entering, &entry[0].member);
    enter_ask(&entering, &in, entry[2].member.id);
    assert_int_equal(enter_next(&entering, &view)->id.low, 1);
}

/* Claim: once in, or without a view, there is nothing to ask. */
TEST_WITH(nothing_to_ask, open_joiner, NULL)
{
    view.size = 0;
    assert_null(enter_next(&entering, &view));
    view.size = 3;
    enter_end(&entering);
    assert_null(enter_next(&entering, &view));
    assert_int_equal(entering.at_ns, SPOTNIK_NEVER);
}
