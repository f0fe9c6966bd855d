/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage rule, exhaustively for up to six members: against an independent statement of it in
 * sets, and against what it is for: no two disjoint groups that could both have decided. */
#include "member/lineage.h"
#include "tests.h"

#define N_MAX 6

enum state { VOTER, SILENT, TAINTED, GONE, STATE_COUNT };

struct sets {
    uint32_t voters, gone; /* bit per rank */
};

static uint32_t assignments(uint32_t size)
{
    return 1u << (2 * size);
}

static enum state state_of(uint32_t assignment, uint32_t rank)
{
    return (assignment >> (2 * rank)) & 3;
}

static struct sets sets_of(uint32_t size, uint32_t assignment)
{
    struct sets sets = { 0, 0 };
    for (uint32_t i = 0; i < size; i++) {
        sets.voters |= (uint32_t)(state_of(assignment, i) == VOTER) << i;
        sets.gone |= (uint32_t)(state_of(assignment, i) == GONE) << i;
    }
    return sets;
}

/* `late`: the others had promised too, before somebody accused them. It must make no difference.
 * `founding`: odd, with a witness. */
static bool ask_of(uint64_t founding, uint32_t size, uint32_t smallest, uint32_t assignment,
                   bool late, bool named)
{
    static const uint8_t evidence[STATE_COUNT] = { SPOTNIK_EVIDENCE_NONE, SPOTNIK_EVIDENCE_SILENT,
                                                   SPOTNIK_EVIDENCE_TAINTED,
                                                   SPOTNIK_EVIDENCE_GONE };
    struct spotnik_entry entry[N_MAX] = { 0 };
    struct spotnik_report report[N_MAX] = { 0 };
    struct spotnik_view view = {
        .epoch = 1, .size = size, .entry = entry, .founding = { .id = founding }
    };

    for (uint32_t i = 0; i < size; i++) {
        entry[i].member.id.high = i == smallest ? 1 : 2;
        entry[i].member.id.low = 100 - i;
        report[i].evidence = evidence[state_of(assignment, i)];
        report[i].promised = late || state_of(assignment, i) == VOTER;
    }
    return spotnik_lineage_allows(&view, report, named);
}

static bool ask(uint32_t size, uint32_t smallest, uint32_t assignment, bool late)
{
    return ask_of(2, size, smallest, assignment, late, false);
}

static bool by_the_book(uint32_t size, uint32_t smallest, struct sets sets)
{
    uint32_t voters = (uint32_t)__builtin_popcount(sets.voters), all = (1u << size) - 1;

    if (sets.voters == 0)
        return false;
    if ((sets.voters | sets.gone) == all || voters > size / 2)
        return true;
    return size % 2 == 0 && voters == size / 2 && (sets.voters >> smallest & 1);
}

/* Claim: the rule is "a majority, or half with the smallest id, or everybody who is not GONE",
 * wherever the smallest id stands and whether or not the accused had promised. */
TEST(rule)
{
    for (uint32_t size = 1; size <= N_MAX; size++)
        for (uint32_t smallest = 0; smallest < size; smallest++)
            for (uint32_t a = 0; a < assignments(size); a++) {
                bool expected = by_the_book(size, smallest, sets_of(size, a));
                assert_int_equal(ask(size, smallest, a, false), expected);
                assert_int_equal(ask(size, smallest, a, true), expected);
            }
}

/* Claim: of two groups without a common member at most one is allowed, as long as neither calls a
 * voter of the other GONE, which FENCED sees to: whoever votes has first told everybody outside its
 * group, and who has heard that never says GONE. */
TEST(no_two_lineages)
{
    static bool allowed[1u << (2 * N_MAX)];
    uint64_t pairs = 0;

    for (uint32_t size = 1; size <= N_MAX; size++) {
        for (uint32_t a = 0; a < assignments(size); a++)
            allowed[a] = ask(size, size / 2, a, false);
        for (uint32_t a = 0; a < assignments(size); a++) {
            struct sets one = sets_of(size, a);
            for (uint32_t b = 0; allowed[a] && b < a; b++) {
                struct sets other = sets_of(size, b);
                if (!allowed[b] || (one.voters & other.voters))
                    continue;
                assert_true((one.gone & other.voters) || (other.gone & one.voters));
                pairs++;
            }
        }
    }
    assert_true(pairs > 0); /* there are such pairs, so untruthful evidence would be dangerous */
}

/* Claim: with a witness that names one member at most, or nobody, the same holds, whoever it names
 * and wherever the smallest id stands: what two groups know of it is one fact. */
TEST(no_two_by_the_witness)
{
    static bool allowed[1u << (2 * N_MAX)];
    uint64_t ties = 0;

    for (uint32_t size = 2; size <= N_MAX; size += 2)
        for (uint32_t owner = 0; owner <= size; owner++) { /* size: nobody */
            for (uint32_t a = 0; a < assignments(size); a++) {
                bool named = sets_of(size, a).voters >> owner & 1;
                allowed[a] = ask_of(1, size, 0, a, false, named);
                ties += allowed[a] && !ask(size, 0, a, false);
            }
            for (uint32_t a = 0; a < assignments(size); a++) {
                struct sets one = sets_of(size, a);
                for (uint32_t b = 0; allowed[a] && b < a; b++) {
                    struct sets other = sets_of(size, b);
                    assert_true(!allowed[b] || (one.voters & other.voters)
                                || (one.gone & other.voters) || (other.gone & one.voters));
                }
            }
        }
    assert_true(ties > 0); /* halves that go on though they lack the smallest id */
}

/* Claim: who survives alone goes on exactly when everybody else is GONE, or when it is half of two
 * and the smaller. */
TEST(alone)
{
    assert_true(ask(1, 0, VOTER, false));
    assert_true(ask(2, 0, VOTER | SILENT << 2, false));
    assert_false(ask(2, 1, VOTER | SILENT << 2, false));
    assert_false(ask(2, 1, VOTER | TAINTED << 2, false));
    assert_true(ask(2, 1, VOTER | GONE << 2, false));
    assert_true(ask(4, 3, VOTER | GONE << 2 | GONE << 4 | GONE << 6, false));
    assert_false(ask(4, 0, VOTER | GONE << 2 | GONE << 4 | TAINTED << 6, false));
}
