/* SPDX-License-Identifier: Apache-2.0 */
/* What traces teach, as `spotnik backtest --learn` prints it. */
#ifndef SPOTNIK_RESEARCH_LEARNED_H
#define SPOTNIK_RESEARCH_LEARNED_H

#include "climate.h"
#include "plan/availability.h"

/* As a C initialiser, for availability_table.c. */
void spotnik_availability_print(const struct spotnik_availability *availability);
/* The prior of a policy, one climate for each trace; and one as a C initialiser, for
 * climate_table.c. */
int spotnik_climates_load(const char *const *paths, size_t count, struct spotnik_climate *climates,
                          struct spotnik_fault *fault);
void spotnik_climate_print(const struct spotnik_climate *climate);

#endif
