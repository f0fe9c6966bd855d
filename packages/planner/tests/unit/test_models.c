/* SPDX-License-Identifier: Apache-2.0 */
/* The models against numbers that are known otherwise: closed forms and limits. */
#include "plan/pareto.h"
#include "plan/ring_cost.h"

#include <math.h>

#include "tests.h"

static void near(double value, double wanted, double apart)
{
    if (!(fabs(value - wanted) <= apart))
        fail_msg("%.9g, wanted %.9g within %g", value, wanted, apart);
}

TEST(ring_cost)
{
    near(spotnik_ring_allreduce_s(1e9, 1, 1e9, 1e-3), 0, 0);
    near(spotnik_ring_allreduce_s(1e9, 4, 1e9, 1e-3), 1.5 + 0.006, 1e-12);
    near(spotnik_ring_step_s(1, 1.5, 1), 1.5, 1e-12);
    near(spotnik_ring_step_s(1, 1.5, 0), 2.5, 1e-12);
}

TEST(pareto_and_knee)
{
    struct spotnik_tradeoff p[] = { { 5, 5 }, { 1, 10 }, { 2, 3 }, { 3, 3 }, { 10, 1 }, { 4, 2 } };
    size_t index[] = { 0, 1, 2, 3, 4, 5 };

    size_t kept = spotnik_pareto(p, index, 6);
    assert_int_equal(kept, 4);
    assert_int_equal(index[0], 1);
    assert_int_equal(index[3], 4);
    assert_int_equal(index[spotnik_knee(p, kept)], 2);
}
