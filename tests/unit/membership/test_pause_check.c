/* SPDX-License-Identifier: Apache-2.0 */
/* The pause check of one member alone: what it counts as an answer, and when it gives up. */
#include <string.h>

#include "base/time.h"
#include "membership/audit.h"
#include "tests.h"

#define MEMBERS_MAX 200
#define SILENCE_NS (80 * SPOTNIK_MS)
#define RETRY_NS (100 * SPOTNIK_MS)
#define STAGGER_NS (2 * SPOTNIK_MS)

static struct spotnik_entry entry[MEMBERS_MAX];
static struct spotnik_known evidence[MEMBERS_MAX];
static struct spotnik_report answer[MEMBERS_MAX];
static struct spotnik_view view;
static struct pause pause_check;
static struct pause_input in;

/* We are the last: on the side of the tie-breaker only with the first. */
static void open_view(uint32_t size)
{
    memset(evidence, 0, sizeof(evidence));
    memset(answer, 0, sizeof(answer));
    for (uint32_t i = 0; i < size; i++)
        entry[i] = (struct spotnik_entry){ .member.id.low = i + 1 };
    view = (struct spotnik_view){ .epoch = 3, .size = size, .entry = entry };
    pause_check = (struct pause){ .answer = answer };
    pause_check_init(&pause_check);
    in = (struct pause_input){ .now_ns = SPOTNIK_S,
                               .view = &view,
                               .rank = size - 1,
                               .evidence = evidence,
                               .silence_ns = SILENCE_NS,
                               .retry_ns = RETRY_NS,
                               .stagger_ns = STAGGER_NS };
}

/* Begins, and asks at the end of the event. True: no answer is needed. */
static bool begin(void)
{
    assert_true(pause_check_begin(&pause_check, &in).started);
    assert_true(pause_check.ask_due);
    struct pause_effects effects = pause_check_ask(&pause_check, &in);
    assert_true(effects.ask);
    assert_int_equal(pause_check.on, !effects.commit);
    return effects.commit;
}

static bool answers(uint32_t rank)
{
    return pause_check_hear(&pause_check, &in, rank, pause_check.serial).commit;
}

/* Claim: three of four may commit, two of four only with the tie-breaker. */
TEST(a_quorum_of_answers)
{
    open_view(4);
    assert_false(begin());
    assert_false(answers(2));
    assert_false(answers(2));
    assert_true(answers(1));
    assert_false(pause_check.on);
    assert_int_equal(pause_check.until_ns, SPOTNIK_NEVER);

    open_view(4);
    assert_false(begin());
    assert_true(answers(0));
}

/* Claim: an answer to what was asked before counts no more. */
TEST(old_serials)
{
    open_view(3);
    assert_false(begin());
    uint64_t old = pause_check.serial;
    assert_false(begin());
    assert_false(pause_check_hear(&pause_check, &in, 0, old).commit);
    assert_true(answers(0));
}

/* Claim: members that are known to be gone need not answer; silent ones must. */
TEST(the_gone_need_not_answer)
{
    open_view(3);
    evidence[0].evidence = evidence[1].evidence = SPOTNIK_EVIDENCE_GONE;
    assert_true(begin());

    open_view(3);
    evidence[0].evidence = SPOTNIK_EVIDENCE_GONE;
    evidence[1].evidence = SPOTNIK_EVIDENCE_SILENT;
    assert_false(begin());
}

/* Claim: 32 answers are enough, in whatever view. */
TEST(a_large_view)
{
    open_view(MEMBERS_MAX);
    assert_false(begin());
    for (uint32_t rank = 0; rank < 31; rank++)
        assert_false(answers(rank));
    assert_true(answers(31));
}

/* Claim: half the silence floor is late, twice as much after each time, up to 16 times as much. And
 * lateness is counted once. */
TEST(patience_doubles)
{
    open_view(3);
    for (uint32_t i = 0; i < 7; i++) {
        uint64_t due_ns = in.now_ns, limit_ns = SILENCE_NS / 2 << (i > 1 ? i - 1 : 0);
        if (limit_ns > 8 * SILENCE_NS)
            limit_ns = 8 * SILENCE_NS;
        in.now_ns = due_ns + limit_ns - 1;
        assert_false(pause_check_late(&pause_check, &in, due_ns));
        in.now_ns = due_ns + limit_ns;
        assert_true(pause_check_late(&pause_check, &in, due_ns));
        assert_false(pause_check_late(&pause_check, &in, due_ns));
        assert_false(begin());
    }
}

/* Claim: without a quorum of answers a ballot is started, again and again, but not while one is
 * under way. */
TEST(no_answer)
{
    open_view(3);
    assert_false(begin());
    uint64_t wait_ns = RETRY_NS + 3 * SPOTNIK_MS + 2 * STAGGER_NS;
    assert_int_equal(pause_check.until_ns, in.now_ns + wait_ns);
    in.now_ns = pause_check.until_ns;
    in.frozen = true;
    assert_false(pause_check_expire(&pause_check, &in).ballot);
    in.frozen = false;
    assert_int_equal(pause_check.until_ns, in.now_ns + wait_ns);
    in.now_ns = pause_check.until_ns;
    assert_true(pause_check_expire(&pause_check, &in).ballot);
    assert_true(pause_check.on);
}

/* Claim: a view ends it if it was chosen in the ballot that we promised since; after any other all
 * members are asked anew. */
TEST(a_view_comes)
{
    struct spotnik_ballot mine = { .round = 5 }, other = { .round = 6 };

    open_view(3);
    assert_false(begin());
    assert_false(pause_check_ends_with(&pause_check, in.now_ns - 1, mine, mine));
    assert_false(pause_check_ends_with(&pause_check, in.now_ns, mine, other));
    assert_true(pause_check_ends_with(&pause_check, in.now_ns, mine, mine));

    uint64_t old = pause_check.serial;
    pause_check_view(&pause_check, &in, false);
    assert_true(pause_check.on && pause_check.ask_due);
    assert_false(pause_check_hear(&pause_check, &in, 0, old).commit);
    pause_check_view(&pause_check, &in, true);
    assert_false(pause_check.on);
}

/* Claim: a member that has left the view in the same event asks no other. */
TEST(no_member_any_more)
{
    open_view(3);
    assert_true(pause_check_begin(&pause_check, &in).started);
    struct pause_effects effects = pause_check_ask(&pause_check, NULL);
    assert_false(effects.ask || effects.commit || effects.ballot);
    assert_false(pause_check.ask_due);
}
