/* SPDX-License-Identifier: Apache-2.0 */
/* A leaver alone: when it starts a ballot. */
#include "base/time.h"
#include "membership/admission.h"
#include "tests.h"

#define STAGGER_NS (2 * SPOTNIK_MS)

/* Claim: it starts a ballot at once, or as soon as the one under way is over. */
TEST(it_asks)
{
    struct leaving leaving = { .wanted = false };
    leave_init(&leaving);
    assert_true(leave_begin(&leaving, 100, false));
    assert_int_equal(leaving.at_ns, SPOTNIK_NEVER);

    assert_false(leave_begin(&leaving, 200, true));
    assert_int_equal(leaving.at_ns, 200);
    assert_false(leave_again(&leaving, 200, STAGGER_NS, true));
    assert_int_equal(leaving.at_ns, 200 + STAGGER_NS);
    assert_true(leave_again(&leaving, 200 + STAGGER_NS, STAGGER_NS, false));
    assert_int_equal(leaving.at_ns, SPOTNIK_NEVER);
}

/* Claim: a view that keeps it makes it ask again, four times as late each time, up to a limit; a
 * member that does not leave is not made to ask. */
TEST(it_is_kept)
{
    struct leaving leaving = { .wanted = false };
    leave_init(&leaving);
    leave_view(&leaving, 100, STAGGER_NS);
    assert_int_equal(leaving.at_ns, SPOTNIK_NEVER);
    assert_true(leave_begin(&leaving, 100, false));
    for (uint32_t i = 0; i < 9; i++) {
        leave_view(&leaving, 100, STAGGER_NS);
        assert_int_equal(leaving.at_ns, 100 + (STAGGER_NS << 2 * (i < 6 ? i : 6)));
    }
}
