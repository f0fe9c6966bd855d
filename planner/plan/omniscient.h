/* SPDX-License-Identifier: Apache-2.0 */
/* What a job on one machine at a time would pay if it knew the availability of the whole window: the bound
 * that Can't Be Late (NSDI'24) calls Omniscient and solves as an integer programme. Like there, a machine is
 * held for whole ticks, a start takes one changeover off the work done, the machine of each tick is chosen
 * so that the cost is least. */
#ifndef SPOTNIK_PLAN_OMNISCIENT_H
#define SPOTNIK_PLAN_OMNISCIENT_H

#include "plan/backtest.h"

/* -1 with a fault when the window is too short, the terms cannot be met, or memory is short. Prices that
 * change, a notice and a pair of machines are not taken into account. */
int spotnik_omniscient_run(const struct spotnik_window *window, double tick_s,
                           const struct spotnik_job_terms *terms, struct spotnik_job_result *result_out,
                           struct spotnik_fault *fault);

#endif
