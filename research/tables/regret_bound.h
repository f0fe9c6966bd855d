/* SPDX-License-Identifier: Apache-2.0 */
/* A policy that is never dearer than Uniform Progress by more than a share of it. Uniform Progress
 * is run beside it on what is seen. Another policy decides for as long as there is a way back whose
 * worst cost the share still pays for; from there on the way back is gone. The proof is in
 * docs/design/0006-planner.md. For one place, and machines that work together faster than one
 * (pair_speed above 1). */
#ifndef SPOTNIK_RESEARCH_REGRET_BOUND_H
#define SPOTNIK_RESEARCH_REGRET_BOUND_H

#include "backtest.h"

struct spotnik_regret_bound {
    struct spotnik_policy inner, uniform;
    double share; /* 0.02: at most 2 % dearer */
    double saved; /* by earlier jobs, in spot-hours: may be spent too; the caller keeps it */
};

/* Sets up `bound` around `inner`; the policy returned lives as long as it. */
struct spotnik_policy spotnik_policy_bounded(struct spotnik_regret_bound *bound,
                                             struct spotnik_policy inner, double share);

#endif
