/* SPDX-License-Identifier: Apache-2.0 */
/* What a job on one machine at a time would pay if it knew the availability of the whole window:
 * the bound that Can't Be Late (NSDI'24) calls Omniscient and solves as an integer programme. Like
 * there, the job holds a machine for whole ticks, and a start takes one changeover off the work
 * done. Of all choices of a machine for each tick, the one of least cost counts. */
#ifndef SPOTNIK_RESEARCH_OFFLINE_OPTIMUM_H
#define SPOTNIK_RESEARCH_OFFLINE_OPTIMUM_H

#include "backtest.h"

/* -1 with a fault when the window is too short, the terms cannot be met, or memory is short. Prices
 * that change, a notice and a pair of machines are not taken into account. */
int spotnik_offline_optimum_run(const struct spotnik_window *window, double tick_s,
                                const struct spotnik_job_terms *terms,
                                struct spotnik_job_result *result_out, struct spotnik_fault *fault);

/* Mean spot price of a tick; 1 without a history. */
double spotnik_tick_price(const struct spotnik_job_terms *terms, double at_s, double tick_s);

/* The lower bound of any policy: work and one changeover in the cheapest minutes of the window.
 * These are minutes of spot, at its least price in the minute, and of on-demand. There is no start
 * but the first, and any number of machines at once. */
int spotnik_bound_run(const struct spotnik_window *window, double tick_s,
                      const struct spotnik_job_terms *terms, struct spotnik_job_result *result_out,
                      struct spotnik_fault *fault);

#endif
