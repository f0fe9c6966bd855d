/* SPDX-License-Identifier: Apache-2.0 */
/* Our policy: a stochastic dynamic programme, and a belief over hazard tables. The programme is
 * over (work left, slack, machine, availability and its age), solved once for each table. What the
 * job sees updates the belief. */
#ifndef SPOTNIK_RESEARCH_DP_POLICY_H
#define SPOTNIK_RESEARCH_DP_POLICY_H

#include "backtest.h"
#include "hazards.h"

struct spotnik_dp_policy;

/* Solves for the terms. The hazard tables are copied. */
int spotnik_dp_policy_new(const struct spotnik_job_terms *terms,
                          const struct spotnik_hazard_table *tables, size_t count,
                          struct spotnik_dp_policy **dp_out, struct spotnik_fault *fault);
void spotnik_dp_policy_free(struct spotnik_dp_policy *dp);
struct spotnik_policy spotnik_policy_dp(struct spotnik_dp_policy *dp);

#endif
