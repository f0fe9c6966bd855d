/* SPDX-License-Identifier: Apache-2.0 */
/* Where price lists come from by default, and how one is read into a catalogue. */
#ifndef SPOTNIK_PLANNER_PRICE_UPDATE_H
#define SPOTNIK_PLANNER_PRICE_UPDATE_H

#include "plan/catalog.h"

#include <stdbool.h>

#define SPOTNIK_PRICE_SOURCES_MAX 32

struct spotnik_price_update {
    const char *sources[SPOTNIK_PRICE_SOURCES_MAX], *clouds[SPOTNIK_PRICE_SOURCES_MAX];
    size_t source_count, cloud_count;
    const char *mirror; /* null: the lists' own hosts */
    double patience_s;  /* how long a server may be silent */
};

/* Reads all sources, or the default lists of the clouds, into `catalog`. Pages are kept beside
 * `prices`. A default list that is missing or broken is left out, loudly; one that was asked for is
 * a fault, and so is a network that is not there, or no price at all. */
int spotnik_price_update(const struct spotnik_price_update *update, const char *prices,
                         struct spotnik_catalog *catalog, struct spotnik_fault *fault);

#endif
