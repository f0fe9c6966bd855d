/* SPDX-License-Identifier: Apache-2.0 */
/* Reads catalogs. Which machines suit a job is not decided here. */
#include "plan/catalog.h"
#include "plan/jsonfile.h"
#include "plan/model_lifetime.h"
#include "plan/table.h"

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

/* SkyPilot's name, then ours. */
static const char *const column_names[][2] = {
    { "InstanceType", "instance_type" },
    { "Region", "region" },
    { "AvailabilityZone", "zone" },
    { "AcceleratorName", "accelerator" },
    { "AcceleratorCount", "accelerator_count" },
    { "vCPUs", "vcpus" },
    { "MemoryGiB", "mem_gib" },
    { "Price", "on_demand_usd_per_h" },
    { "SpotPrice", "spot_usd_per_h" },
};
enum { INSTANCE, REGION, ZONE, ACCELERATOR, ACCELERATORS, VCPUS, MEMORY, PRICE, SPOT, COLUMNS };

static void columns_find(const struct spotnik_table *table, int columns[COLUMNS])
{
    for (size_t i = 0; i < COLUMNS; i++) {
        columns[i] = spotnik_table_find(table, column_names[i][0]);
        if (columns[i] < 0)
            columns[i] = spotnik_table_find(table, column_names[i][1]);
    }
    if (columns[INSTANCE] < 0)
        columns[INSTANCE] = spotnik_table_find(table, "instance");
}

static void text_take(const struct spotnik_table *table, size_t row, int column, char *to, size_t size)
{
    snprintf(to, size, "%s", column < 0 ? "" : spotnik_table_text(table, row, column));
}

/* A number, or `otherwise` when the column or the field is not there. */
static int number_take(const struct spotnik_table *table, size_t row, int column, double least, double most,
                       double otherwise, double *to, struct spotnik_fault *fault)
{
    *to = otherwise;
    if (column < 0 || spotnik_table_empty(table, row, column))
        return 0;
    return spotnik_table_number(table, row, column, least, most, to, fault);
}

static int offer_read(const struct spotnik_table *table, size_t row, const int columns[COLUMNS],
                      struct spotnik_offer *offer, struct spotnik_fault *fault)
{
    *offer = (struct spotnik_offer){ .losses_per_h = NAN, .link_gbps = NAN };
    text_take(table, row, columns[INSTANCE], offer->instance, sizeof(offer->instance));
    text_take(table, row, columns[REGION], offer->region, sizeof(offer->region));
    text_take(table, row, columns[ZONE], offer->zone, sizeof(offer->zone));
    text_take(table, row, columns[ACCELERATOR], offer->accelerator, sizeof(offer->accelerator));
    if (number_take(table, row, columns[ACCELERATORS], 0, 1024, 0, &offer->accelerators, fault)
        || number_take(table, row, columns[VCPUS], 0, 1e5, 0, &offer->vcpus, fault)
        || number_take(table, row, columns[MEMORY], 0, 1e6, 0, &offer->memory_gib, fault)
        || number_take(table, row, columns[PRICE], 1e-6, SPOTNIK_PRICE_MAX_USD_PER_H, NAN,
                       &offer->on_demand_usd_per_h, fault)
        || number_take(table, row, columns[SPOT], 1e-6, SPOTNIK_PRICE_MAX_USD_PER_H, NAN,
                       &offer->spot_usd_per_h, fault))
        return -1;
    return 0;
}

int spotnik_catalog_read(struct spotnik_catalog *catalog, const char *path, struct spotnik_fault *fault)
{
    struct spotnik_table *table;
    int columns[COLUMNS], rc = 0;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    columns_find(table, columns);
    if (columns[INSTANCE] < 0)
        rc = spotnik_table_need(table, "InstanceType", fault);
    else if (columns[PRICE] < 0 && columns[SPOT] < 0)
        rc = spotnik_table_need(table, "Price", fault);
    size_t before = catalog->count;
    for (size_t row = 0; !rc && row < spotnik_table_rows(table); row++) {
        struct spotnik_offer offer;
        rc = offer_read(table, row, columns, &offer, fault);
        if (!rc && (!isnan(offer.on_demand_usd_per_h) || !isnan(offer.spot_usd_per_h)))
            rc = spotnik_catalog_add(catalog, &offer, fault);
    }
    if (!rc && catalog->count == before)
        rc = spotnik_fault_set(fault, "%s: no row has a price", path);
    spotnik_table_free(table);
    const char *slash = strrchr(path, '/');
    size_t used = strlen(catalog->source);
    snprintf(catalog->source + used, sizeof(catalog->source) - used, "%s%s", used ? " + " : "",
             slash ? slash + 1 : path);
    return rc;
}

static bool same_place(const struct spotnik_offer *offer, const char *region, const char *instance)
{
    return !strcmp(offer->instance, instance) && (!*offer->region || !strcmp(offer->region, region));
}

/* A band of the Spot Advisor: which share of the machines was taken back in the month that is over. It is read as a range;
 * no data say how well it tells the hours to come, so that the doubt is a choice, and grows with the band. */
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
    for (size_t i = 0; i < catalog->count; i++) {
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

static int advise_json(struct spotnik_catalog *catalog, const char *path, struct spotnik_fault *fault)
{
    const char *region, *instance;
    json_t *json, *systems, *machine;

    if (spotnik_json_load(path, &json, fault))
        return -1;
    json_t *regions = json_object_get(json, "spot_advisor");
    if (!json_is_object(regions)) {
        json_decref(json);
        return spotnik_fault_set(fault, "%s: no object 'spot_advisor'; not a Spot Advisor file", path);
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

static int advise_csv(struct spotnik_catalog *catalog, const char *path, struct spotnik_fault *fault)
{
    static const char *const names[] = { "region", "os", "instance_type", "interruption_max_pct",
                                         "savings_pct" };
    struct spotnik_table *table;
    int columns[5], rc = 0;
    double most_pct, savings_pct;

    if (spotnik_table_load(path, &table, fault))
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

int spotnik_catalog_advise(struct spotnik_catalog *catalog, const char *path, struct spotnik_fault *fault)
{
    return spotnik_json_looks_like(path) ? advise_json(catalog, path, fault)
                                         : advise_csv(catalog, path, fault);
}

int spotnik_catalog_history(struct spotnik_catalog *catalog, const char *assignment,
                            struct spotnik_fault *fault)
{
    const char *path = strchr(assignment, '=');
    bool known = false;

    if (!path)
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
    return known ? 0 : spotnik_fault_set(fault, "'%s': no such instance type in the catalog", assignment);
}

static bool facts_known(const struct spotnik_offer *offer)
{
    return offer->accelerators > 0 || offer->vcpus > 0;
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

static int by_instance(const void *left, const void *right)
{
    const struct spotnik_offer *a = left, *b = right;
    int order = strcmp(a->instance, b->instance);

    return order ? order : (int)facts_known(b) - (int)facts_known(a);
}

void spotnik_catalog_complete(struct spotnik_catalog *catalog)
{
    struct spotnik_catalog builtin = { 0 };

    /* stable results: offers of one type together, those with facts first */
    qsort(catalog->offers, catalog->count, sizeof(*catalog->offers), by_instance);
    for (size_t i = 1; i < catalog->count; i++)
        if (!strcmp(catalog->offers[i].instance, catalog->offers[i - 1].instance))
            facts_copy(&catalog->offers[i], &catalog->offers[i - 1]);
    if (spotnik_catalog_builtin(&builtin, NULL))
        return;
    for (size_t i = 0; i < catalog->count; i++)
        for (size_t j = 0; j < builtin.count; j++)
            if (!strcmp(catalog->offers[i].instance, builtin.offers[j].instance))
                facts_copy(&catalog->offers[i], &builtin.offers[j]);
    spotnik_catalog_free(&builtin);
}
