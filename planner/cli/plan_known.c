/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of spot capacity, from files. What is not known stays so: pool.h says what then is
 * assumed. */
#include "plan_known.h"
#include "cmd_model.h"
#include "plan/table.h"

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

int spotnik_climates_learn(const char *const *paths, size_t count, size_t regimes,
                           struct spotnik_weather *weather_out, struct spotnik_fault *fault)
{
    struct spotnik_trace *traces = calloc(count + 1, sizeof(*traces));
    int rc = traces ? 0 : spotnik_fault_set(fault, "out of memory");
    size_t loaded = 0;

    for (; !rc && loaded < count; loaded += !rc)
        rc = spotnik_trace_load_seen(paths[loaded], &traces[loaded], fault);
    few_tell(count);
    if (!rc)
        rc = spotnik_weather_learn(traces, count, regimes, 1, weather_out, fault);
    for (size_t i = 0; i < loaded; i++)
        spotnik_trace_free(&traces[i]);
    free(traces);
    return rc;
}

static void numbers_print(const double *numbers, size_t count, int digits)
{
    putchar('{');
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : " ", stdout);
        printf("%.*f", digits, numbers[i]);
    }
    fputs(" }", stdout);
}

void spotnik_weather_print(const struct spotnik_weather *w)
{
    printf("    .name = \"%s\",\n    .regimes = %zu,\n    .share = ", w->name, w->regimes);
    numbers_print(w->share, w->regimes, 4);
    fputs(",\n    .up = ", stdout);
    numbers_print(w->up, w->regimes, 4);
    fputs(",\n    .end = {\n", stdout);
    for (size_t r = 0; r < w->regimes; r++) {
        fputs("        { ", stdout);
        numbers_print(w->end[r][0], SPOTNIK_AGES, 4);
        fputs(",\n          ", stdout);
        numbers_print(w->end[r][1], SPOTNIK_AGES, 4);
        fputs(" },\n", stdout);
    }
    fputs("    },\n    .go = {\n", stdout);
    for (size_t r = 0; r < w->regimes; r++) {
        fputs("        ", stdout);
        numbers_print(w->go[r], w->regimes, 6);
        fputs(",\n", stdout);
    }
    fputs("    },\n", stdout);
}

int spotnik_climates_load(const char *const *paths, size_t count, struct spotnik_climate *climates,
                          struct spotnik_fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        struct spotnik_windows windows;
        if (spotnik_windows_load(paths[i], &windows, fault))
            return -1;
        const char *slash = strrchr(paths[i], '/');
        snprintf(climates[i].name, sizeof(climates[i].name), "%.47s", slash ? slash + 1 : paths[i]);
        spotnik_climate_learn(&windows, &climates[i]);
        spotnik_windows_free(&windows);
    }
    return 0;
}

void spotnik_climate_print(const struct spotnik_climate *climate)
{
    printf("    {\"%s\",\n     {", climate->name);
    for (int up = 0; up < 2; up++)
        for (size_t b = 0; b < SPOTNIK_CLIMATE_BUCKETS; b++)
            printf("%s%.3f%s",
                   b    ? ", "
                   : up ? "\n      {"
                        : "{",
                   climate->end_per_h[up][b],
                   b < SPOTNIK_CLIMATE_BUCKETS - 1 ? ""
                   : up                            ? "}}},\n"
                                                   : "},");
}

static bool in_place(const struct spotnik_offer *offer, const char *type, const char *zone)
{
    return !strcmp(offer->instance, type)
           && (!*zone || !strcmp(offer->zone, zone) || !strcmp(offer->zone_id, zone)
               || !strcmp(offer->region, zone));
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
        pool->weather = known->climate_count      ? &known->weather
                        : offer->accelerators > 0 ? &spotnik_weather_accelerators
                                                  : &spotnik_weather_processors;
        offer->pool = pool;
        set++;
    }
    if (set)
        pool->outlook = spotnik_outlook_after(pool->weather, &trace, 1, INFINITY);
    spotnik_trace_free(&trace);
    return set ? 0
               : spotnik_fault_set(fault, "--availability '%s': no %s%s%s in the catalog", text,
                                   type, zone ? " in " : "", zone ? zone : "");
}

static int lifetimes_load(const char *path, struct spotnik_survival *survival_out,
                          struct spotnik_fault *fault)
{
    struct spotnik_table *table;
    struct spotnik_life *lives;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    size_t count = spotnik_table_rows(table);
    int age = spotnik_life_column(table, fault), kind = spotnik_table_find(table, "end_kind");
    int flag = spotnik_table_find(table, "revoked_before_24h"), rc = age < 0 ? -1 : 0;
    if (!rc && kind < 0 && flag < 0)
        rc = spotnik_table_need(table, "end_kind", fault) < 0 ? -1 : 0;
    lives = calloc(count + 1, sizeof(*lives));
    if (!rc && !lives)
        rc = spotnik_fault_set(fault, "out of memory");
    for (size_t row = 0; !rc && row < count; row++)
        rc = spotnik_life_read(table, row, age, kind, flag, &lives[row], fault);
    if (!rc)
        rc = spotnik_survival_estimate(lives, count, true, survival_out, fault);
    free(lives);
    spotnik_table_free(table);
    return rc;
}

int spotnik_known_load(struct spotnik_known *known, struct spotnik_catalog *catalog,
                       struct spotnik_work *work, struct spotnik_fault *fault)
{
    int rc = 0;

    if (known->climate_count) {
        rc = spotnik_climates_learn(known->climates, known->climate_count, SPOTNIK_REGIMES_LEARNED,
                                    &known->weather, fault);
        work->weather = &known->weather;
    }
    for (size_t i = 0; !rc && i < known->seen_count; i++)
        rc = seen_load(known->seen[i], known, catalog, &known->pools[i], fault);
    if (!rc && known->lifetimes) {
        rc = lifetimes_load(known->lifetimes, &known->lives, fault);
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
