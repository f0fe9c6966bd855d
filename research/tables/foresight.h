/* SPDX-License-Identifier: Apache-2.0 */
/* Our policy: a stochastic dynamic programme, and a belief over hazard tables. The programme is
 * over (work left, slack, machine, availability and its age), solved once for each table. What the
 * job sees updates the belief. */
#ifndef SPOTNIK_RESEARCH_FORESIGHT_H
#define SPOTNIK_RESEARCH_FORESIGHT_H

#include "backtest.h"
#include "hazards.h"

struct spotnik_foresight;

/* Solves for the terms. The hazard tables are copied. */
int spotnik_foresight_new(const struct spotnik_job_terms *terms,
                          const struct spotnik_hazard_table *tables, size_t count,
                          struct spotnik_foresight **foresight_out, struct spotnik_fault *fault);
void spotnik_foresight_free(struct spotnik_foresight *foresight);
struct spotnik_policy spotnik_policy_foresight(struct spotnik_foresight *foresight);

#endif
