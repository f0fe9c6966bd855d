/* SPDX-License-Identifier: Apache-2.0 */
/* What the options of `spotnik plan` tell of spot capacity: traces of places, traces of others to
 * learn from, lifetimes. */
#ifndef SPOTNIK_PLANNER_PLAN_KNOWN_H
#define SPOTNIK_PLANNER_PLAN_KNOWN_H

#include "plan/catalog.h"
#include "plan/fleet.h"
#include "plan/pool.h"

#define SPOTNIK_SEEN_MAX 64
#define SPOTNIK_REGIMES_LEARNED 8

struct spotnik_known {
    const char *seen[SPOTNIK_SEEN_MAX], *learn_from[SPOTNIK_SEEN_MAX], *lifetimes;
    size_t seen_count, learn_from_count;
    struct spotnik_pool pools[SPOTNIK_SEEN_MAX];
    struct spotnik_availability availability;
    struct spotnik_survival lives;
};

/* Sets the pools of the catalog's offers, and what `work` says of all others. */
int spotnik_known_load(struct spotnik_known *known, struct spotnik_catalog *catalog,
                       struct spotnik_work *work, struct spotnik_fault *fault);
void spotnik_known_free(struct spotnik_known *known);

/* Learns from files of traces. */
int spotnik_availability_read(const char *const *paths, size_t count, size_t regimes,
                              struct spotnik_availability *availability_out,
                              struct spotnik_fault *fault);

#endif
