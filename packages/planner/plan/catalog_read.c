/* SPDX-License-Identifier: Apache-2.0 */
/* Price lists as CSV, in and out: the columns of SkyPilot's catalogs and our own. */
#include "plan/catalog.h"
#include "common/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    { "zone_id", "AvailabilityZoneId" },
    { "losses_per_h", "losses_per_h" },
    { "losses_most_per_h", "losses_most_per_h" },
    { "losses_doubt", "losses_doubt" },
    { "link_gbps", "link_gbps" },
};
enum {
    INSTANCE,
    REGION,
    ZONE,
    ACCELERATOR,
    ACCELERATORS,
    VCPUS,
    MEMORY,
    PRICE,
    SPOT,
    ZONE_ID,
    LOSSES,
    LOSSES_MOST,
    DOUBT,
    LINK,
    COLUMNS
};

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

/* Names go into commands, into files for other systems and into the kept list: what would not come
 * out as it went in is no name. False: it was not taken. */
static bool name_take(const struct spotnik_table *table, size_t row, int column, char *to,
                      size_t size)
{
    const char *text = column < 0 ? "" : spotnik_table_text(table, row, column);
    bool plain = strlen(text) < size;

    for (const char *at = text; *at && plain; at++)
        plain = *at >= ' ' && *at <= '~' && !strchr(",\"'\\`$", *at);
    snprintf(to, size, "%s", plain ? text : "");
    return plain;
}

/* A number, or `otherwise` when the column or the field is not there. */
static int number_take(const struct spotnik_table *table, size_t row, int column, double least,
                       double most, double otherwise, double *to, struct spotnik_fault *fault)
{
    *to = otherwise;
    if (column < 0 || spotnik_table_empty(table, row, column))
        return 0;
    return spotnik_table_number(table, row, column, least, most, to, fault);
}

/* "use1-az2" is an id: the same place for every account; "us-east-1a" is a name. */
static bool is_zone_id(const char *zone)
{
    const char *number = strstr(zone, "-az");

    return number && number[3] && !number[3 + strspn(number + 3, "0123456789")];
}

/* AWS has "p4d.24xlarge" and "u-6tb1.metal"; GCP "n1-standard-8" and "f1-micro". SkyPilot has lists of
 * a dozen clouds more ("gpu_8x_a100", "VM.GPU.A10.1"): those are of neither. */
static const char *cloud_of(const char *instance)
{
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz", digits[] = "0123456789";

    if (!strncmp(instance, "Standard_", 9) || !strncmp(instance, "Basic_", 6))
        return "azure";
    if (!*instance || !strcmp(instance, "TPU-VM"))
        return "gcp";
    size_t letters = strspn(instance, lower), number = strspn(instance + letters, digits);
    if (strchr(instance, '.'))
        return letters && !strpbrk(instance, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") ? "aws" : "other";
    const char *rest = instance + letters + number;
    return letters == 1 && number && rest[strspn(rest, lower)] == '-' ? "gcp" : "other";
}

void spotnik_catalog_locate(struct spotnik_offer *offer)
{
    if (is_zone_id(offer->zone)) {
        snprintf(offer->zone_id, sizeof(offer->zone_id), "%.23s", offer->zone);
        *offer->zone = '\0';
    }
    snprintf(offer->cloud, sizeof(offer->cloud), "%s", cloud_of(offer->instance));
}

/* A price of nothing is no price. */
static int price_take(const struct spotnik_table *table, size_t row, int column, double *to,
                      struct spotnik_fault *fault)
{
    int rc = number_take(table, row, column, 0, SPOTNIK_PRICE_MAX_USD_PER_H, NAN, to, fault);

    if (!rc && !(*to > 0))
        *to = NAN;
    return rc;
}

static int offer_read(const struct spotnik_table *table, size_t row, const int columns[COLUMNS],
                      struct spotnik_offer *offer, bool *named_out, struct spotnik_fault *fault)
{
    *offer = (struct spotnik_offer){ .losses_per_h = NAN, .link_gbps = NAN };
    *named_out = name_take(table, row, columns[INSTANCE], offer->instance, sizeof(offer->instance))
                 && name_take(table, row, columns[REGION], offer->region, sizeof(offer->region))
                 && name_take(table, row, columns[ZONE], offer->zone, sizeof(offer->zone))
                 && name_take(table, row, columns[ZONE_ID], offer->zone_id, sizeof(offer->zone_id))
                 && name_take(table, row, columns[ACCELERATOR], offer->accelerator,
                              sizeof(offer->accelerator));
    spotnik_catalog_locate(offer);
    if (number_take(table, row, columns[ACCELERATORS], 0, 1024, 0, &offer->accelerators, fault)
        || number_take(table, row, columns[VCPUS], 0, 1e5, 0, &offer->vcpus, fault)
        || number_take(table, row, columns[MEMORY], 0, 1e6, 0, &offer->memory_gib, fault)
        || number_take(table, row, columns[LOSSES], 0, 1e6, NAN, &offer->losses_per_h, fault)
        || number_take(table, row, columns[LOSSES_MOST], 0, 1e6, 0, &offer->losses_most_per_h,
                       fault)
        || number_take(table, row, columns[DOUBT], 0, 1, 0, &offer->losses_doubt, fault)
        || number_take(table, row, columns[LINK], 0, 1e6, NAN, &offer->link_gbps, fault)
        || price_take(table, row, columns[PRICE], &offer->on_demand_usd_per_h, fault)
        || price_take(table, row, columns[SPOT], &offer->spot_usd_per_h, fault))
        return -1;
    return 0;
}

/* Without a price there is nothing to rent; without a name, only GCP's accelerators are
 * something. */
static bool offer_is_one(struct spotnik_catalog *catalog, const struct spotnik_offer *offer,
                         bool named)
{
    bool priced = !isnan(offer->on_demand_usd_per_h) || !isnan(offer->spot_usd_per_h);

    if (!named)
        spotnik_catalog_drop(catalog, *offer->instance ? offer->instance : "an odd one",
                             "rows with a name that is too long, or not of plain letters");
    else if (!priced)
        spotnik_catalog_drop(catalog, *offer->instance ? offer->instance : offer->accelerator,
                             "rows without a price");
    else if (!*offer->instance && !*offer->accelerator)
        spotnik_catalog_drop(catalog, offer->region, "rows without a machine or an accelerator");
    return named && priced && (*offer->instance || *offer->accelerator);
}

void spotnik_catalog_source_add(struct spotnik_catalog *catalog, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t used = strlen(catalog->source);

    if (used < sizeof(catalog->source) - 1)
        snprintf(catalog->source + used, sizeof(catalog->source) - used, "%s%s", used ? " + " : "",
                 slash ? slash + 1 : path);
}

int spotnik_catalog_take(struct spotnik_catalog *catalog, const struct spotnik_table *table,
                         struct spotnik_fault *fault)
{
    size_t rows = spotnik_table_rows(table), kept = 0;
    int columns[COLUMNS], rc = 0;
    bool gcp = false, named;

    columns_find(table, columns);
    if (columns[INSTANCE] < 0)
        return spotnik_table_need(table, "InstanceType", fault);
    if (columns[PRICE] < 0 && columns[SPOT] < 0)
        return spotnik_table_need(table, "Price", fault);
    struct spotnik_offer *offers = malloc((rows + 1) * sizeof(*offers));
    if (!offers)
        return spotnik_fault_set(fault, "out of memory for the catalog");
    for (size_t row = 0; !rc && row < rows; row++) {
        rc = offer_read(table, row, columns, &offers[kept], &named, fault);
        if (rc || !offer_is_one(catalog, &offers[kept], named))
            continue;
        gcp = gcp || !*offers[kept].instance || !strcmp(offers[kept].instance, "TPU-VM");
        kept++;
    }
    if (!rc && !kept)
        rc = spotnik_fault_set(fault, "%s: no row has a price", spotnik_table_name(table));
    if (!rc && gcp)
        rc = spotnik_catalog_gcp_join(catalog, offers, kept, fault);
    for (size_t i = 0; !rc && !gcp && i < kept; i++)
        rc = spotnik_catalog_add(catalog, &offers[i], fault);
    free(offers);
    spotnik_catalog_source_add(catalog, spotnik_table_name(table));
    return rc;
}

int spotnik_catalog_read(struct spotnik_catalog *catalog, const char *path,
                         struct spotnik_fault *fault)
{
    struct spotnik_table *table;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    int rc = spotnik_catalog_take(catalog, table, fault);
    spotnik_table_free(table);
    return rc;
}

static void put_number(FILE *out, double value)
{
    if (isnan(value))
        fputc(',', out);
    else
        fprintf(out, ",%.10g", value);
}

int spotnik_catalog_write(const struct spotnik_catalog *catalog, const char *path,
                          struct spotnik_fault *fault)
{
    FILE *out = fopen(path, "w");

    if (!out)
        return spotnik_fault_set(fault, "%s: cannot write: %s", path, strerror(errno));
    for (size_t i = 0; i < COLUMNS; i++)
        fprintf(out, "%s%s", i ? "," : "", column_names[i][i < ZONE_ID]);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct spotnik_offer *o = &catalog->offers[i];
        const double numbers[] = { o->accelerators, o->vcpus, o->memory_gib, o->on_demand_usd_per_h,
                                   o->spot_usd_per_h };
        fprintf(out, "\n%s,%s,%s,%s", o->instance, o->region, o->zone, o->accelerator);
        for (size_t j = 0; j < 5; j++)
            put_number(out, numbers[j]);
        fprintf(out, ",%s", o->zone_id);
        put_number(out, o->losses_per_h);
        put_number(out, o->losses_most_per_h);
        put_number(out, o->losses_doubt);
        put_number(out, o->link_gbps);
    }
    fputc('\n', out);
    bool bad = ferror(out) != 0;
    return fclose(out) || bad
               ? spotnik_fault_set(fault, "%s: cannot write: %s", path, strerror(errno))
               : 0;
}
