/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of prices, recognised by what is in them:
 *   CSV with InstanceType (or instance_type) and prices: SkyPilot's vms.csv of AWS, GCP, Azure; our
 *   own
 *   CSV with zone ids and zone names (az_mappings of SkyPilot): names for the ids of an account
 *   JSON "spot_advisor" or CSV with interruption_max_pct: the Spot Advisor
 *   JSON (or a call of a function with it) {"config":{"regions":[...]}}: the spot price page of AWS
 *   JSON {"regions":{"US East (N. Virginia)":{"...":{"price":...,"Instance Type":...}}}}: its
 *   on-demand price page */
#include "plan/catalog.h"
#include "common/jsonfile.h"
#include "common/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_MOST 60 /* bytes of a page that is no list */

/* The on-demand page has places by name. */
static const char *const places[][2] = {
    { "US East (N. Virginia)", "us-east-1" },
    { "US East (Ohio)", "us-east-2" },
    { "US West (N. California)", "us-west-1" },
    { "US West (Oregon)", "us-west-2" },
    { "Canada (Central)", "ca-central-1" },
    { "EU (Ireland)", "eu-west-1" },
    { "Europe (Ireland)", "eu-west-1" },
    { "EU (London)", "eu-west-2" },
    { "Europe (London)", "eu-west-2" },
    { "EU (Paris)", "eu-west-3" },
    { "Europe (Paris)", "eu-west-3" },
    { "EU (Frankfurt)", "eu-central-1" },
    { "Europe (Frankfurt)", "eu-central-1" },
    { "EU (Stockholm)", "eu-north-1" },
    { "Europe (Stockholm)", "eu-north-1" },
    { "Asia Pacific (Tokyo)", "ap-northeast-1" },
    { "Asia Pacific (Seoul)", "ap-northeast-2" },
    { "Asia Pacific (Osaka)", "ap-northeast-3" },
    { "Asia Pacific (Singapore)", "ap-southeast-1" },
    { "Asia Pacific (Sydney)", "ap-southeast-2" },
    { "Asia Pacific (Mumbai)", "ap-south-1" },
    { "South America (Sao Paulo)", "sa-east-1" },
};

static const char *region_of(const char *place)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (!strcmp(places[i][0], place))
            return places[i][1];
    return NULL;
}

/* A price of a type in a region; where the catalog does not have it yet, it becomes an offer. */
static int price_put(struct spotnik_catalog *catalog, const char *region, const char *instance,
                     bool on_demand, double usd_per_h, struct spotnik_fault *fault)
{
    struct spotnik_offer offer = { .on_demand_usd_per_h = on_demand ? usd_per_h : NAN,
                                   .spot_usd_per_h = on_demand ? NAN : usd_per_h,
                                   .losses_per_h = NAN,
                                   .link_gbps = NAN,
                                   .cloud = "aws" };

    if (spotnik_catalog_price(catalog, region, instance, on_demand, usd_per_h))
        return 0;
    snprintf(offer.region, sizeof(offer.region), "%s", region);
    snprintf(offer.instance, sizeof(offer.instance), "%s", instance);
    return spotnik_catalog_add(catalog, &offer, fault);
}

static double price_of(const json_t *value)
{
    double price;

    if (json_is_number(value))
        return json_number_value(value);
    return json_is_string(value) && spotnik_number_parse(json_string_value(value), &price) ? price
                                                                                           : NAN;
}

/* One size of the spot page; "N/A*" is no price. */
static int spot_size(struct spotnik_catalog *catalog, const char *region, const json_t *size,
                     struct spotnik_fault *fault)
{
    const char *instance = json_string_value(json_object_get(size, "size"));
    const json_t *column;
    size_t i;

    if (!instance)
        return 0;
    json_array_foreach(json_object_get(size, "valueColumns"), i, column)
    {
        const char *name = json_string_value(json_object_get(column, "name"));
        double price = price_of(json_object_get(json_object_get(column, "prices"), "USD"));
        if (!name || strcmp(name, "linux"))
            continue;
        if (price > 0)
            return price_put(catalog, region, instance, false, price, fault);
        spotnik_catalog_drop(catalog, instance, "types without a spot price on the price page");
    }
    return 0;
}

/* Old names of the page for three regions. */
static const char *spot_region(const char *name)
{
    return !strcmp(name, "us-east")      ? "us-east-1"
           : !strcmp(name, "us-west")    ? "us-west-1"
           : !strcmp(name, "eu-ireland") ? "eu-west-1"
           : !strcmp(name, "apac-sin")   ? "ap-southeast-1"
           : !strcmp(name, "apac-syd")   ? "ap-southeast-2"
           : !strcmp(name, "apac-tokyo") ? "ap-northeast-1"
                                         : name;
}

static int spot_page(struct spotnik_catalog *catalog, const json_t *json,
                     struct spotnik_fault *fault)
{
    const json_t *region, *family, *size;
    size_t i, j, k;
    int rc = 0;

    json_array_foreach(json_object_get(json_object_get(json, "config"), "regions"), i, region)
    {
        const char *name = json_string_value(json_object_get(region, "region"));
        json_array_foreach(json_object_get(region, "instanceTypes"), j, family)
            json_array_foreach(json_object_get(family, "sizes"), k, size) if (!rc && name) rc =
                spot_size(catalog, spot_region(name), size, fault);
    }
    return rc;
}

static int on_demand_page(struct spotnik_catalog *catalog, json_t *json,
                          struct spotnik_fault *fault)
{
    const char *place, *key;
    json_t *machines, *machine;

    json_object_foreach(json_object_get(json, "regions"), place, machines)
    {
        const char *region = region_of(place);
        json_object_foreach(machines, key, machine)
        {
            const char *instance = json_string_value(json_object_get(machine, "Instance Type"));
            double price = price_of(json_object_get(machine, "price"));
            if (!region || !instance || !(price > 0))
                spotnik_catalog_drop(catalog, region ? key : place,
                                     region ? "rows of the price page without type or price"
                                            : "places of the price page that are not known");
            else if (price_put(catalog, region, instance, true, price, fault))
                return -1;
        }
    }
    return 0;
}

static int json_source(struct spotnik_catalog *catalog, const char *name, const char *bytes,
                       size_t size, struct spotnik_fault *fault)
{
    json_t *json;
    int rc;

    if (spotnik_json_parse(name, bytes, size, &json, fault))
        return -1;
    if (json_object_get(json, "spot_advisor"))
        rc = spotnik_catalog_advise_bytes(catalog, name, bytes, size, fault);
    else if (json_is_array(json_object_get(json_object_get(json, "config"), "regions")))
        rc = spot_page(catalog, json, fault);
    else if (json_is_object(json_object_get(json, "regions")))
        rc = on_demand_page(catalog, json, fault);
    else
        rc = spotnik_fault_set(
            fault,
            "%s: JSON, but neither the Spot Advisor ('spot_advisor') nor a price page of AWS "
            "('config' or 'regions'); it begins with: %.*s",
            name, (int)(size < SHOWN_MOST ? size : SHOWN_MOST), bytes);
    json_decref(json);
    return rc;
}

struct zone {
    const char *id, *name;
    size_t row;
};

static int by_id(const void *left, const void *right)
{
    const struct zone *a = left, *b = right;
    int order = strcmp(a->id, b->id);

    return order ? order : (a->row > b->row) - (a->row < b->row);
}

/* The last row of this id, or NULL. */
static const struct zone *zone_find(const struct zone *zones, size_t count, const char *id)
{
    size_t low = 0, high = count; /* zones[low - 1] is at most `id`, zones[high] is beyond */

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(zones[middle].id, id) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low && !strcmp(zones[low - 1].id, id) ? &zones[low - 1] : NULL;
}

/* Names for the zone ids of one's account. */
static int zones_name(struct spotnik_catalog *catalog, const struct spotnik_table *table, int ids,
                      int names, struct spotnik_fault *fault)
{
    size_t count = spotnik_table_rows(table);
    struct zone *zones = calloc(count + 1, sizeof(*zones));

    if (!zones)
        return spotnik_fault_set(fault, "out of memory");
    for (size_t row = 0; row < count; row++)
        zones[row] = (struct zone){ spotnik_table_text(table, row, ids),
                                    spotnik_table_text(table, row, names), row };
    qsort(zones, count, sizeof(*zones), by_id);
    for (size_t i = 0; i < catalog->count; i++) {
        struct spotnik_offer *offer = &catalog->offers[i];
        const struct zone *zone = zone_find(zones, count, offer->zone_id);
        if (zone)
            snprintf(offer->zone, sizeof(offer->zone), "%s", zone->name);
    }
    free(zones);
    return 0;
}

static int csv_source(struct spotnik_catalog *catalog, const char *name, const char *bytes,
                      size_t size, struct spotnik_fault *fault)
{
    struct spotnik_table *table;
    int rc;

    if (spotnik_table_parse(name, bytes, size, &table, fault))
        return -1;
    int ids = spotnik_table_find(table, "zone_id"), names = spotnik_table_find(table, "zone");
    if (spotnik_table_find(table, "AvailabilityZoneName") >= 0) {
        ids = spotnik_table_find(table, "AvailabilityZone");
        names = spotnik_table_find(table, "AvailabilityZoneName");
    }
    bool machines = spotnik_table_find(table, "InstanceType") >= 0
                    || spotnik_table_find(table, "instance_type") >= 0;
    if (spotnik_table_find(table, "interruption_max_pct") >= 0)
        rc = spotnik_catalog_advise_bytes(catalog, name, bytes, size, fault);
    else if (!machines && ids >= 0 && names >= 0)
        rc = zones_name(catalog, table, ids, names, fault);
    else
        rc = spotnik_catalog_take(catalog, table, fault);
    spotnik_table_free(table);
    return rc;
}

bool spotnik_catalog_source_adds(const char *bytes)
{
    char head[1024];

    if (bytes[strspn(bytes, " \t\r\n")] == '{')
        return strstr(bytes, "\"spot_advisor\"");
    snprintf(head, sizeof(head), "%.*s", (int)strcspn(bytes, "\n"), bytes);
    return strcasestr(head, "interruption_max_pct")
           || (strcasestr(head, "zone_id") && !strcasestr(head, "instance_type")
               && !strcasestr(head, "InstanceType"));
}

int spotnik_catalog_source(struct spotnik_catalog *catalog, const char *name, const char *bytes,
                           size_t size, struct spotnik_fault *fault)
{
    size_t at = strspn(bytes, " \t\r\n");

    if (!strncmp(bytes + at, "callback(", 9)) { /* the page calls a function with the JSON */
        const char *end = strrchr(bytes, ')');
        at += 9;
        if (end && end > bytes + at)
            size = (size_t)(end - bytes);
    }
    if (bytes[at] == '{' || bytes[at] == '[')
        return json_source(catalog, name, bytes + at, size - at, fault);
    if (bytes[at] == '<')
        return spotnik_fault_set(fault,
                                 "%s: a web page, not a list of prices; has its address changed, "
                                 "or does a proxy ask to sign in?",
                                 name);
    return csv_source(catalog, name, bytes, size, fault);
}
