/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: of two lineages of one job that meet both sides choose the same one, the older one; a
 * stray never ends a job that is further; forks of one founding are found by their chains. */
#include "member/founding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct spotnik_founding elder = {
    .id = 7, .root = 7, .born_ms = 1000, .generation = 1
};
static const struct spotnik_founding younger = {
    .id = 3, .root = 3, .born_ms = 2000, .generation = 4
};

static struct spotnik_presence at(struct spotnik_founding founding, uint64_t step, bool parked)
{
    return (struct spotnik_presence){
        .founding = founding, .epoch = 5, .chain = founding.id * 100, .step = step, .parked = parked
    };
}

static void meeting_is(struct spotnik_presence one, struct spotnik_presence other,
                       enum spotnik_meeting for_one, enum spotnik_meeting for_other)
{
    struct spotnik_chains chains[2] = { { .epoch = { 0 } }, { .epoch = { 0 } } };

    spotnik_chains_note(&chains[0], one.epoch, one.chain);
    spotnik_chains_note(&chains[1], other.epoch, other.chain);
    assert_int_equal(spotnik_founding_meet(&one, &other, &chains[0]), for_one);
    assert_int_equal(spotnik_founding_meet(&other, &one, &chains[1]), for_other);
}

static void the_younger_yields(void **state)
{
    (void)state;
    meeting_is(at(elder, 10, false), at(younger, 9000, false), SPOTNIK_MEETING_STAND,
               SPOTNIK_MEETING_YIELD);
    meeting_is(at(elder, 10, false), at(younger, 9000, true), SPOTNIK_MEETING_STAND,
               SPOTNIK_MEETING_YIELD);
}

static void of_equal_age_one_yields(void **state)
{
    struct spotnik_founding twin = younger;

    (void)state;
    twin.born_ms = elder.born_ms;
    meeting_is(at(elder, 1, false), at(twin, 1, false), SPOTNIK_MEETING_YIELD,
               SPOTNIK_MEETING_STAND);
}

/* The case that was seen: parked at 660, and the accident at 159. And the other: parked for weeks,
 * and the job has long gone on. */
static void a_parked_elder_ends_only_what_is_behind_it(void **state)
{
    (void)state;
    meeting_is(at(elder, 660, true), at(younger, 159, false), SPOTNIK_MEETING_STAND,
               SPOTNIK_MEETING_YIELD);
    meeting_is(at(elder, 660, true), at(younger, 660, false), SPOTNIK_MEETING_REFUSE,
               SPOTNIK_MEETING_REFUSE);
    meeting_is(at(elder, 660, true), at(younger, 50000, false), SPOTNIK_MEETING_REFUSE,
               SPOTNIK_MEETING_REFUSE);
}

static void of_one_root_the_later_generation_stands(void **state)
{
    struct spotnik_founding next = { .id = 99, .root = 7, .born_ms = 1000, .generation = 2 };

    (void)state;
    meeting_is(at(elder, 660, false), at(next, 600, false), SPOTNIK_MEETING_YIELD,
               SPOTNIK_MEETING_STAND);
    meeting_is(at(elder, 660, true), at(next, 600, true), SPOTNIK_MEETING_YIELD,
               SPOTNIK_MEETING_STAND);
}

static void a_founder_without_a_clock_is_the_youngest(void **state)
{
    struct spotnik_founding lost = { .id = 1, .root = 1, .born_ms = SPOTNIK_BORN_UNKNOWN };

    (void)state;
    meeting_is(at(younger, 10, false), at(lost, 10, false), SPOTNIK_MEETING_STAND,
               SPOTNIK_MEETING_YIELD);
}

static void nothing_follows_where_a_name_is_missing(void **state)
{
    struct spotnik_founding none = { .id = 0 };

    (void)state;
    meeting_is(at(none, 10, false), at(younger, 10, false), SPOTNIK_MEETING_NOTHING,
               SPOTNIK_MEETING_NOTHING);
    meeting_is(at(elder, 10, false), at(elder, 11, true), SPOTNIK_MEETING_NOTHING,
               SPOTNIK_MEETING_NOTHING);
}

static void forks_are_found_by_their_chains(void **state)
{
    struct spotnik_presence one = at(elder, 10, false), other = one;
    struct spotnik_chains chains = { .epoch = { 0 } };

    (void)state;
    other.chain++;
    meeting_is(one, other, SPOTNIK_MEETING_STAND, SPOTNIK_MEETING_YIELD);
    other.parked = one.parked = true;
    meeting_is(one, other, SPOTNIK_MEETING_STAND, SPOTNIK_MEETING_YIELD);
    one.parked = true;
    other.parked = false;
    meeting_is(one, other, SPOTNIK_MEETING_YIELD, SPOTNIK_MEETING_STAND);
    /* Behind us: only we can know, as long as we remember. */
    one = other = at(elder, 10, false);
    one.epoch = 9;
    spotnik_chains_note(&chains, 5, other.chain + 1);
    spotnik_chains_note(&chains, 9, one.chain);
    assert_int_equal(spotnik_founding_meet(&one, &other, &chains), SPOTNIK_MEETING_STAND);
    spotnik_chains_note(&chains, 5 + SPOTNIK_CHAINS_KEPT, 1);
    assert_int_equal(spotnik_founding_meet(&one, &other, &chains), SPOTNIK_MEETING_NOTHING);
}

/* Every two of many have an order, it is the same from both sides, and it has no circles. */
static void the_order_is_total(void **state)
{
    struct spotnik_founding many[24];
    uint32_t count = 0;

    (void)state;
    for (uint64_t root = 1; root <= 3; root++)
        for (uint64_t generation = 1; generation <= 4; generation++)
            for (uint64_t id = 0; id < 2; id++)
                many[count++] = (struct spotnik_founding){ root * 100 + generation * 10 + id, root,
                                                           root == 3 ? 1 : root, generation };
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < count; j++) {
            if (i != j)
                assert_true(spotnik_founding_outranks(&many[i], &many[j])
                            != spotnik_founding_outranks(&many[j], &many[i]));
            for (uint32_t k = 0; k < count; k++)
                if (spotnik_founding_outranks(&many[i], &many[j])
                    && spotnik_founding_outranks(&many[j], &many[k]))
                    assert_true(spotnik_founding_outranks(&many[i], &many[k]));
        }
    }
}

static void a_chain_tells_views_apart(void **state)
{
    struct spotnik_entry entry[2] = { { .member.id = { 1, 2 }, .flags = SPOTNIK_ENTRY_MEMBER },
                                      { .member.id = { 3, 4 }, .flags = SPOTNIK_ENTRY_MEMBER } };
    struct spotnik_proposal proposal = {
        .epoch = 2, .entry_count = 2, .entry_max = 2, .entry = entry
    };
    uint64_t chain = spotnik_chain_link(7, &proposal);

    (void)state;
    entry[0].flags |= SPOTNIK_ENTRY_VOTER; /* of the ballot, not of the view */
    assert_true(spotnik_chain_link(7, &proposal) == chain && chain != 0);
    assert_true(spotnik_chain_link(8, &proposal) != chain);
    proposal.epoch = 3;
    assert_true(spotnik_chain_link(7, &proposal) != chain);
    proposal.epoch = 2;
    entry[1].member.id.low = 5; /* as many, but others */
    assert_true(spotnik_chain_link(7, &proposal) != chain);
    entry[1].member.id.low = 4;
    assert_true(spotnik_chain_link(7, &proposal) == chain);
    entry[1].flags = SPOTNIK_ENTRY_VOTER; /* told of it, and not in it */
    assert_true(spotnik_chain_link(7, &proposal) != chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_younger_yields),
        cmocka_unit_test(of_equal_age_one_yields),
        cmocka_unit_test(a_parked_elder_ends_only_what_is_behind_it),
        cmocka_unit_test(of_one_root_the_later_generation_stands),
        cmocka_unit_test(a_founder_without_a_clock_is_the_youngest),
        cmocka_unit_test(nothing_follows_where_a_name_is_missing),
        cmocka_unit_test(forks_are_found_by_their_chains),
        cmocka_unit_test(the_order_is_total),
        cmocka_unit_test(a_chain_tells_views_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
