/* SPDX-License-Identifier: Apache-2.0 */
/* What traces teach, as `spotnik backtest --learn` prints it. */
#ifndef SPOTNIK_RESEARCH_LEARNED_H
#define SPOTNIK_RESEARCH_LEARNED_H

#include "hazards.h"
#include "plan/availability.h"

/* As a C initialiser, for availability_table.c. */
void spotnik_availability_print(const struct spotnik_availability *availability);
/* The prior of a policy, one hazard table for each trace; and one as a C initialiser, for
 * hazards_builtin.c. */
int spotnik_hazard_tables_load(const char *const *paths, size_t count,
                               struct spotnik_hazard_table *tables, struct spotnik_fault *fault);
void spotnik_hazard_table_print(const struct spotnik_hazard_table *hazards);

#endif
