/* SPDX-License-Identifier: Apache-2.0 */
/* The planner's memory: one SQLite file with profiles, prices and plans, made on first use. */
#ifndef SPOTNIK_PLAN_PROFILE_STORE_H
#define SPOTNIK_PLAN_PROFILE_STORE_H

#include "plan/catalog.h"
#include "plan/profile.h"

struct spotnik_store;

/* Opens or makes the file. A file that is not a store of ours is a fault, and is left as it is. */
int spotnik_plan_store_open(const char *path, struct spotnik_store **store_out,
                            struct spotnik_fault *fault);
void spotnik_store_close(struct spotnik_store *store);
/* True when the file starts as SQLite files do. */
bool spotnik_store_is(const char *path);

int spotnik_store_profile_put(struct spotnik_store *store, const struct spotnik_profile *profile,
                              struct spotnik_fault *fault);
/* The newest one; `name` null takes any. */
int spotnik_store_profile_get(struct spotnik_store *store, const char *name,
                              struct spotnik_profile *profile_out, struct spotnik_fault *fault);
int spotnik_store_prices_put(struct spotnik_store *store, const struct spotnik_catalog *catalog,
                             struct spotnik_fault *fault);
/* Adds the newest prices of every offer. */
int spotnik_store_prices_get(struct spotnik_store *store, struct spotnik_catalog *catalog,
                             struct spotnik_fault *fault);
/* What was predicted, so that a finished run can be held against it. */
int spotnik_store_plan_put(struct spotnik_store *store, const char *profile, const char *fleet,
                           double batch, double time_s, double cost_usd,
                           struct spotnik_fault *fault);

#endif
