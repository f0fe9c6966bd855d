/* SPDX-License-Identifier: Apache-2.0 */
/* Reads catalogs. Which machines suit a job is not decided here. */
#include "plan/catalog.h"
#include "common/jsonfile.h"
#include "common/model_lifetime.h"
#include "common/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int spotnik_catalog_add(struct spotnik_catalog *catalog, const struct spotnik_offer *offer,
                        struct spotnik_fault *fault)
{
    if (catalog->count == catalog->capacity) {
        size_t capacity = catalog->capacity ? catalog->capacity * 2 : 256;
        struct spotnik_offer *offers = realloc(catalog->offers, capacity * sizeof(*offers));
        if (!offers)
            return spotnik_fault_set(fault, "out of memory for the catalog");
        catalog->offers = offers;
        catalog->capacity = capacity;
    }
    catalog->offers[catalog->count++] = *offer;
    return 0;
}

void spotnik_catalog_free(struct spotnik_catalog *catalog)
{
    free(catalog->offers);
    for (size_t i = 0; i < catalog->history_count; i++)
        spotnik_prices_free(&catalog->histories[i]);
    *catalog = (struct spotnik_catalog){ 0 };
}

static bool same_place(const struct spotnik_offer *offer, const char *region, const char *instance)
{
    return !strcmp(offer->instance, instance)
           && (!*offer->region || !strcasecmp(offer->region, region));
}

static bool facts_known(const struct spotnik_offer *offer)
{
    return offer->accelerators > 0 || offer->vcpus > 0;
}

static int by_instance(const void *left, const void *right)
{
    const struct spotnik_offer *a = left, *b = right;
    int order = strcmp(a->instance, b->instance);

    return order ? order : (int)facts_known(b) - (int)facts_known(a);
}

/* Where the offers of a type begin, in a catalog that is sorted by type. */
static size_t first_of(const struct spotnik_catalog *catalog, const char *instance)
{
    size_t low = 0, high = catalog->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(catalog->offers[middle].instance, instance) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* A band of the Spot Advisor: which share of the machines was taken back in the month that is over.
 * It is read as a range; no data say how well it tells the hours to come, so that the doubt is a
 * choice, and grows with the band. */
struct band {
    double least_pct, most_pct, doubt;
};

static const struct band bands[] = {
    { 0.5, 5, 0.15 }, { 5, 11, 0.3 }, { 11, 16, 0.4 }, { 16, 22, 0.5 }, { 22, 100, 1 }
};

/* One line of advice: the band, and the savings. */
static void advise(struct spotnik_catalog *catalog, const char *region, const char *instance,
                   const struct band *band, double savings_pct)
{
    for (size_t i = first_of(catalog, instance);
         i < catalog->count && !strcmp(catalog->offers[i].instance, instance); i++) {
        struct spotnik_offer *offer = &catalog->offers[i];
        if (!same_place(offer, region, instance))
            continue;
        offer->losses_per_h = NAN;
        if (band->most_pct < 100) { /* the top band has no upper end: nothing is known */
            offer->losses_per_h = spotnik_monthly_to_hourly(band->least_pct / 100);
            offer->losses_most_per_h = spotnik_monthly_to_hourly(band->most_pct / 100);
            offer->losses_doubt = band->doubt;
        }
        if (isnan(offer->spot_usd_per_h) && !isnan(offer->on_demand_usd_per_h) && savings_pct > 0)
            offer->spot_usd_per_h = offer->on_demand_usd_per_h * (1 - savings_pct / 100);
    }
}

static const struct band *band_up_to(double most_pct)
{
    size_t i = 0;

    while (i < 4 && bands[i].most_pct < most_pct)
        i++;
    return &bands[i];
}

static int advise_json(struct spotnik_catalog *catalog, const char *path, const char *bytes,
                       size_t size, struct spotnik_fault *fault)
{
    const char *region, *instance;
    json_t *json, *systems, *machine;

    if (spotnik_json_parse(path, bytes, size, &json, fault))
        return -1;
    json_t *regions = json_object_get(json, "spot_advisor");
    if (!json_is_object(regions)) {
        json_decref(json);
        return spotnik_fault_set(fault, "%s: no object 'spot_advisor'; not a Spot Advisor file",
                                 path);
    }
    json_object_foreach(regions, region, systems)
    {
        json_t *machines = json_object_get(systems, "Linux");
        json_object_foreach(machines, instance, machine)
        {
            json_int_t range = json_integer_value(json_object_get(machine, "r"));
            double savings = json_number_value(json_object_get(machine, "s"));
            advise(catalog, region, instance, &bands[range < 0 || range > 4 ? 4 : range], savings);
        }
    }
    json_decref(json);
    return 0;
}

static int advise_csv(struct spotnik_catalog *catalog, const char *path, const char *bytes,
                      size_t size, struct spotnik_fault *fault)
{
    static const char *const names[] = { "region", "os", "instance_type", "interruption_max_pct",
                                         "savings_pct" };
    struct spotnik_table *table;
    int columns[5], rc = 0;
    double most_pct, savings_pct;

    if (spotnik_table_parse(path, bytes, size, &table, fault))
        return -1;
    for (size_t i = 0; !rc && i < 5; i++)
        rc = (columns[i] = spotnik_table_need(table, names[i], fault)) < 0 ? -1 : 0;
    for (size_t row = 0; !rc && row < spotnik_table_rows(table); row++) {
        if (strcmp(spotnik_table_text(table, row, columns[1]), "Linux"))
            continue;
        rc = spotnik_table_number(table, row, columns[3], 0, 100, &most_pct, fault);
        if (!rc)
            rc = spotnik_table_number(table, row, columns[4], -1e6, 100, &savings_pct, fault);
        if (!rc)
            advise(catalog, spotnik_table_text(table, row, columns[0]),
                   spotnik_table_text(table, row, columns[2]), band_up_to(most_pct), savings_pct);
    }
    spotnik_table_free(table);
    return rc;
}

int spotnik_catalog_advise_bytes(struct spotnik_catalog *catalog, const char *name,
                                 const char *bytes, size_t size, struct spotnik_fault *fault)
{
    char first = bytes[strspn(bytes, " \t\r\n")];

    if (catalog->count) /* of an empty list there is no array */
        qsort(catalog->offers, catalog->count, sizeof(*catalog->offers), by_instance);
    return first == '{' || first == '[' ? advise_json(catalog, name, bytes, size, fault)
                                        : advise_csv(catalog, name, bytes, size, fault);
}

int spotnik_catalog_advise(struct spotnik_catalog *catalog, const char *path,
                           struct spotnik_fault *fault)
{
    char *bytes;
    size_t size;

    if (spotnik_file_read(path, &bytes, &size, fault))
        return -1;
    int rc = spotnik_catalog_advise_bytes(catalog, path, bytes, size, fault);
    free(bytes);
    return rc;
}

int spotnik_catalog_history(struct spotnik_catalog *catalog, const char *assignment,
                            struct spotnik_fault *fault)
{
    const char *path = strchr(assignment, '=');
    bool known = false;

    if (!path || !path[1])
        return spotnik_fault_set(fault, "'%s': write INSTANCE=FILE", assignment);
    if (catalog->history_count == SPOTNIK_HISTORIES_MAX)
        return spotnik_fault_set(fault, "'%s': more than %d price histories", assignment,
                                 SPOTNIK_HISTORIES_MAX);
    struct spotnik_prices *prices = &catalog->histories[catalog->history_count];
    if (spotnik_prices_read(path + 1, prices, fault))
        return -1;
    catalog->history_count++;
    for (size_t i = 0; i < catalog->count; i++) {
        struct spotnik_offer *offer = &catalog->offers[i];
        if (strncmp(offer->instance, assignment, (size_t)(path - assignment))
            || offer->instance[path - assignment])
            continue;
        offer->spot_usd_per_h = spotnik_prices_mean(prices);
        offer->spot_prices = prices;
        known = true;
    }
    return known
               ? 0
               : spotnik_fault_set(fault, "'%s': no such instance type in the catalog", assignment);
}

static void facts_copy(struct spotnik_offer *to, const struct spotnik_offer *from)
{
    if (!facts_known(to) && facts_known(from)) {
        memcpy(to->accelerator, from->accelerator, sizeof(to->accelerator));
        to->accelerators = from->accelerators;
        to->vcpus = from->vcpus;
        to->memory_gib = from->memory_gib;
    }
    if (isnan(to->link_gbps))
        to->link_gbps = from->link_gbps;
}

void spotnik_catalog_complete(struct spotnik_catalog *catalog)
{
    /* stable results: offers of one type together, those with facts first */
    if (catalog->count) /* of an empty list there is no array */
        qsort(catalog->offers, catalog->count, sizeof(*catalog->offers), by_instance);
    for (size_t i = 1; i < catalog->count; i++)
        if (!strcmp(catalog->offers[i].instance, catalog->offers[i - 1].instance))
            facts_copy(&catalog->offers[i], &catalog->offers[i - 1]);
    for (size_t i = 0; i < catalog->count; i++) {
        struct spotnik_offer known = { .link_gbps = NAN };
        if (spotnik_catalog_fact(catalog->offers[i].instance, &known))
            facts_copy(&catalog->offers[i], &known);
    }
}

void spotnik_catalog_drop(struct spotnik_catalog *catalog, const char *example, const char *why)
{
    struct spotnik_drop *drop = catalog->drops;

    while (drop < catalog->drops + catalog->drop_count && strcmp(drop->why, why))
        drop++;
    if (drop == catalog->drops + SPOTNIK_DROPS_MAX)
        drop--; /* the last one gathers the rest */
    if (drop == catalog->drops + catalog->drop_count) {
        catalog->drop_count++;
        snprintf(drop->why, sizeof(drop->why), "%s", why);
        snprintf(drop->example, sizeof(drop->example), "%s", example);
    }
    drop->rows++;
}

size_t spotnik_catalog_price(struct spotnik_catalog *catalog, const char *region,
                             const char *instance, bool on_demand, double usd_per_h)
{
    size_t set = 0;

    for (size_t i = 0; i < catalog->count; i++) {
        struct spotnik_offer *offer = &catalog->offers[i];
        if (!same_place(offer, region, instance))
            continue;
        *(on_demand ? &offer->on_demand_usd_per_h : &offer->spot_usd_per_h) = usd_per_h;
        set++;
    }
    return set;
}
