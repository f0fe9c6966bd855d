/* SPDX-License-Identifier: Apache-2.0 */
/* Which offers may be looked at. Patterns are those of the shell ("us-*", "p4d.*"); of a kind that
 * is not given, all may. */
#ifndef SPOTNIK_PLAN_FILTER_H
#define SPOTNIK_PLAN_FILTER_H

#include "plan/catalog.h"

#define SPOTNIK_PATTERNS_MAX 16

struct spotnik_patterns {
    const char *list[SPOTNIK_PATTERNS_MAX];
    size_t count;
};

struct spotnik_filter {
    struct spotnik_patterns clouds, regions, zones, types, accelerators;
    double accelerator_gib; /* memory of one accelerator, at least; 0: any */
};

/* Takes out what does not pass; the catalog notes why. A filter that leaves nothing is a fault. */
int spotnik_catalog_filter(struct spotnik_catalog *catalog, const struct spotnik_filter *filter,
                           struct spotnik_fault *fault);

#endif
