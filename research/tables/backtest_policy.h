/* SPDX-License-Identifier: Apache-2.0 */
/* When to run on spot, on on-demand, or not at all. Greedy, Time-Sliced and Uniform Progress are
 * those of Can't Be Late (NSDI'24, section 4); `dp` is ours: see dp_policy.c. */
#ifndef SPOTNIK_RESEARCH_BACKTEST_POLICY_H
#define SPOTNIK_RESEARCH_BACKTEST_POLICY_H

#include "backtest.h"

struct spotnik_policy spotnik_policy_greedy(void);
struct spotnik_policy spotnik_policy_on_demand(void);
struct spotnik_policy spotnik_policy_uniform(void);

struct spotnik_sliced {
    unsigned slices;
};
struct spotnik_policy spotnik_policy_sliced(struct spotnik_sliced *sliced);

#endif
