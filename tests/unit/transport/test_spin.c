/* SPDX-License-Identifier: Apache-2.0 */
/* How long a waiting caller looks: less and less when that is not enough, in full when it was; and
 * when it has to make room. */
#include "transport/spin.h"
#include "tests.h"

#define LONG_NS (10 * SPOTNIK_MS)

static bool wait(struct spotnik_spin *spin, uint64_t slept_ns, bool enough)
{
    uint64_t ns = spotnik_spin_choose(spin);
    return spotnik_spin_learn(spin, ns, ns + slept_ns, enough);
}

TEST(looks_less_when_in_vain)
{
    struct spotnik_spin spin = { 0 };
    spotnik_spin_init(&spin, true);
    assert_int_equal(spin.ns, SPOTNIK_SPIN_MOST_NS);
    uint64_t spent_ns = 0;
    for (unsigned i = 0; i < 160; i++) {
        uint64_t ns = spotnik_spin_choose(&spin);
        spent_ns += i < 16 ? 0 : ns;
        assert_false(spotnik_spin_learn(&spin, ns, ns + LONG_NS, false));
    }
    assert_int_equal(spin.ns, SPOTNIK_SPIN_LEAST_NS);
    assert_true(spent_ns < 144 * 10 * SPOTNIK_US); /* 10 us a wait */
    wait(&spin, 0, true);
    assert_int_equal(spin.ns, SPOTNIK_SPIN_MOST_NS);
}

TEST(never_where_it_is_not_allowed)
{
    struct spotnik_spin spin = { 0 };
    spotnik_spin_init(&spin, false);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(spotnik_spin_choose(&spin), 0);
        assert_false(spotnik_spin_learn(&spin, 0, 5 * SPOTNIK_US, false));
    }
}

/* What comes at once when we sleep, and not while we look, comes from our own processor. */
TEST(makes_room)
{
    struct spotnik_spin spin = { 0 };
    unsigned told = 0, waits = 0;
    spotnik_spin_init(&spin, true);
    while (told == 0 && waits < 100) {
        told += wait(&spin, 5 * SPOTNIK_US, false);
        waits++;
    }
    assert_int_equal(told, 1);
    assert_true(waits <= (SPOTNIK_SPIN_CROWDED + 1) * SPOTNIK_SPIN_TRY_AGAIN);
    assert_int_equal(spin.crowded, 0);
}
