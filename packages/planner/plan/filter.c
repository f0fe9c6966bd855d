/* SPDX-License-Identifier: Apache-2.0 */
/* Filters of a catalog. */
#include "plan/filter.h"
#include "plan/accelerators.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PLACES_NAMED 6

static bool passes(const struct spotnik_patterns *patterns, const char *one, const char *other)
{
    for (size_t i = 0; i < patterns->count; i++)
        if (!fnmatch(patterns->list[i], one, FNM_CASEFOLD)
            || (*other && !fnmatch(patterns->list[i], other, FNM_CASEFOLD)))
            return true;
    return !patterns->count;
}

/* By any of its names. */
static bool accelerator_passes(const struct spotnik_patterns *patterns, const char *accelerator)
{
    const struct spotnik_accelerator *own = spotnik_accelerator_find(accelerator);

    if (passes(patterns, accelerator, own ? own->name : ""))
        return true;
    for (size_t i = 0; own && i < patterns->count; i++)
        if (spotnik_accelerator_find(patterns->list[i]) == own)
            return true;
    return false;
}

/* A machine with an eighth of an accelerator has an eighth of its memory. */
static double memory_of(const struct spotnik_accelerator *own, const struct spotnik_offer *offer)
{
    return own->memory_gib * fmin(1, offer->accelerators > 0 ? offer->accelerators : 1);
}

/* Why an offer is out; NULL: it is not. */
static const char *reason(const struct spotnik_filter *filter, const struct spotnik_offer *offer)
{
    const struct spotnik_accelerator *own = spotnik_accelerator_find(offer->accelerator);

    if (!passes(&filter->clouds, offer->cloud, ""))
        return "offers by --cloud";
    if (!passes(&filter->regions, offer->region, ""))
        return "offers by --region";
    if (!passes(&filter->zones, offer->zone, offer->zone_id))
        return "offers by --zone";
    if (!passes(&filter->types, offer->instance, ""))
        return "offers by --type";
    if (!accelerator_passes(&filter->accelerators, offer->accelerator))
        return "offers by --accelerator";
    if (filter->accelerator_gib > 0 && !own)
        return "offers by --gpu-memory, whose memory is not known";
    return filter->accelerator_gib > 0 && memory_of(own, offer) < filter->accelerator_gib
               ? "offers by --gpu-memory"
               : NULL;
}

/* What a place is called in the catalog. */
static const char *place_of(const struct spotnik_offer *offer, bool zone)
{
    return !zone ? offer->region : *offer->zone ? offer->zone : offer->zone_id;
}

/* A few of the names that a filter by place could have taken: ids and names of zones, and regions,
 * are easily confused. */
static void places_name(const struct spotnik_catalog *catalog, bool zone, char *text, size_t size)
{
    size_t used = 0, named = 0;

    *text = '\0';
    for (size_t i = 0; i < catalog->count && named < PLACES_NAMED; i++) {
        const char *place = place_of(&catalog->offers[i], zone);
        bool before = !*place;
        for (size_t j = 0; j < i && !before; j++)
            before = !strcmp(place, place_of(&catalog->offers[j], zone));
        if (before || used >= size)
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%s", named++ ? ", " : "; there are ",
                                 place);
    }
}

int spotnik_catalog_filter(struct spotnik_catalog *catalog, const struct spotnik_filter *filter,
                           struct spotnik_fault *fault)
{
    size_t kept = 0, before = catalog->count;
    const char *last = "";
    char places[160] = "";

    if (filter->regions.count || filter->zones.count)
        places_name(catalog, filter->zones.count, places, sizeof(places));
    for (size_t i = 0; i < before; i++) {
        const char *why = reason(filter, &catalog->offers[i]);
        if (!why) {
            catalog->offers[kept++] = catalog->offers[i];
            continue;
        }
        spotnik_catalog_drop(catalog, catalog->offers[i].instance, why);
        last = why;
    }
    catalog->count = kept;
    return kept || !before
               ? 0
               : spotnik_fault_set(fault,
                                   "no offer of %zu passes the filters; the last to go were %s%s",
                                   before, last,
                                   strstr(last, "--region") || strstr(last, "--zone") ? places
                                                                                      : "");
}
