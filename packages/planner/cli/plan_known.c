/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of spot capacity, from files. What is not known stays so: pool.h says what then is
 * assumed. */
#include "plan_known.h"
#include "common/lives.h"
#include "common/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Regimes of few places are of few kinds: held out, chances from three or four traces were up to 18
 * points off, from eight or more up to 8 (docs/results/plan.md). */
#define FEW_TRACES 6

static void few_tell(size_t count)
{
    if (count < FEW_TRACES)
        fprintf(stderr,
                "warning: regimes of %zu trace%s alone; chances of other places may be off by 20 "
                "points. Give traces of %d places or more, calm and rough ones\n",
                count, count == 1 ? "" : "s", FEW_TRACES);
}

int spotnik_availability_read(const char *const *paths, size_t count, size_t regimes,
                              struct spotnik_availability *availability_out,
                              struct spotnik_fault *fault)
{
    struct spotnik_trace *traces = calloc(count + 1, sizeof(*traces));
    int rc = traces ? 0 : spotnik_fault_set(fault, "out of memory");
    size_t loaded = 0;

    for (; !rc && loaded < count; loaded += !rc)
        rc = spotnik_trace_load_seen(paths[loaded], &traces[loaded], fault);
    few_tell(count);
    if (!rc)
        rc = spotnik_availability_learn(traces, count, regimes, 1, availability_out, fault);
    for (size_t i = 0; i < loaded; i++)
        spotnik_trace_free(&traces[i]);
    free(traces);
    return rc;
}

static bool in_place(const struct spotnik_offer *offer, const char *type, const char *zone)
{
    return !strcmp(offer->instance, type)
           && (!*zone || !strcmp(offer->zone, zone) || !strcmp(offer->zone_id, zone)
               || !strcasecmp(offer->region, zone));
}

/* "p3.2xlarge@us-east-1a=FILE": what was seen of a place, until now. Places without a zone take it
 * all the same. */
static int seen_load(const char *text, const struct spotnik_known *known,
                     struct spotnik_catalog *catalog, struct spotnik_pool *pool,
                     struct spotnik_fault *fault)
{
    char type[128], *zone;
    const char *path = strchr(text, '=');
    struct spotnik_trace trace;
    size_t set = 0;

    if (!path || !path[1] || (size_t)(path - text) >= sizeof(type))
        return spotnik_fault_set(fault, "--availability '%s': write TYPE=FILE or TYPE@ZONE=FILE",
                                 text);
    snprintf(type, sizeof(type), "%.*s", (int)(path - text), text);
    zone = strchr(type, '@');
    if (zone)
        *zone++ = '\0';
    if (spotnik_trace_load_seen(path + 1, &trace, fault))
        return -1;
    for (size_t i = 0; i < catalog->count; i++) {
        struct spotnik_offer *offer = &catalog->offers[i];
        if (!in_place(offer, type, zone ? zone : ""))
            continue;
        pool->kind = SPOTNIK_POOL_SEEN;
        pool->availability = known->learn_from_count   ? &known->availability
                             : offer->accelerators > 0 ? &spotnik_availability_accelerators
                                                       : &spotnik_availability_processors;
        offer->pool = pool;
        set++;
    }
    if (set)
        pool->belief = spotnik_belief_after(pool->availability, &trace, 1, INFINITY);
    spotnik_trace_free(&trace);
    return set ? 0
               : spotnik_fault_set(fault, "--availability '%s': no %s%s%s in the catalog", text,
                                   type, zone ? " in " : "", zone ? zone : "");
}

int spotnik_known_load(struct spotnik_known *known, struct spotnik_catalog *catalog,
                       struct spotnik_work *work, struct spotnik_fault *fault)
{
    int rc = 0;

    if (known->learn_from_count) {
        rc = spotnik_availability_read(known->learn_from, known->learn_from_count,
                                       SPOTNIK_REGIMES_LEARNED, &known->availability, fault);
        work->availability = &known->availability;
    }
    for (size_t i = 0; !rc && i < known->seen_count; i++)
        rc = seen_load(known->seen[i], known, catalog, &known->pools[i], fault);
    if (!rc && known->lifetimes) {
        rc = spotnik_survival_load(known->lifetimes, &known->lives, fault);
        work->lives = &known->lives;
        /* lifetimes say it all */
        work->losses_per_h = isnan(work->losses_per_h) ? 0 : work->losses_per_h;
    }
    return rc;
}

void spotnik_known_free(struct spotnik_known *known)
{
    spotnik_survival_free(&known->lives);
}
