/* SPDX-License-Identifier: Apache-2.0 */
/* GCP sells accelerators beside the machines that hold them, and lists them so: rows without an
 * instance type are accelerators alone. Here each finds its host in its zone, and both prices are
 * added. The oldest go with the cheapest n1 that has enough vCPUs; all others have machines of
 * their own (a2, a3, a4, g2, g4). The host of a TPU costs nothing. */
#include "plan/catalog.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_zone(const void *left, const void *right)
{
    const struct spotnik_offer *a = left, *b = right;

    return strcmp(a->zone, b->zone);
}

static bool is_tpu(const char *accelerator)
{
    return (accelerator[0] | 0x20) == 't' && (accelerator[1] | 0x20) == 'p'
           && (accelerator[2] | 0x20) == 'u';
}

/* What GCP attaches to an n1. */
static bool is_attached(const char *accelerator)
{
    static const char *const attached[] = { "K80", "P4", "P100", "V100", "T4" };

    for (size_t i = 0; i < sizeof(attached) / sizeof(*attached); i++)
        if (!strcmp(accelerator, attached[i]))
            return true;
    return false;
}

/* vCPUs that n accelerators of a kind want, as SkyPilot rents them. */
static double vcpus_wanted(const char *accelerator, double n)
{
    if (!strcmp(accelerator, "K80"))
        return 4 * n;
    if (!strcmp(accelerator, "T4"))
        return n >= 4 ? 48 : 4 * n;
    return 8 * n;
}

/* Whether `host` can hold what `part` is. */
static bool fits(const struct spotnik_offer *host, const struct spotnik_offer *part)
{
    struct spotnik_offer own = { .vcpus = 0 };

    if (spotnik_catalog_host_only(host->instance))
        return spotnik_catalog_fact(host->instance, &own)
               && !strcmp(own.accelerator, part->accelerator)
               && own.accelerators == part->accelerators;
    double vcpus = vcpus_wanted(part->accelerator, part->accelerators);
    return is_attached(part->accelerator) && !strncmp(host->instance, "n1-", 3)
           && host->vcpus >= vcpus && host->memory_gib >= 3.7 * vcpus;
}

/* Machines of their own come first, whatever they cost; of several the cheapest. */
static const struct spotnik_offer *host_find(const struct spotnik_offer *hosts, size_t count,
                                             const struct spotnik_offer *part)
{
    const struct spotnik_offer *best = NULL;
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(hosts[middle].zone, part->zone) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (size_t i = low; i < count && !strcmp(hosts[i].zone, part->zone); i++) {
        if (isnan(hosts[i].on_demand_usd_per_h) || !fits(&hosts[i], part))
            continue;
        bool own = spotnik_catalog_host_only(hosts[i].instance);
        bool best_own = best && spotnik_catalog_host_only(best->instance);
        if (!best || own > best_own
            || (own == best_own && hosts[i].on_demand_usd_per_h < best->on_demand_usd_per_h))
            best = &hosts[i];
    }
    return best;
}

static int part_join(struct spotnik_catalog *catalog, const struct spotnik_offer *hosts,
                     size_t host_count, const struct spotnik_offer *part,
                     struct spotnik_fault *fault)
{
    struct spotnik_offer whole = *part;

    if (is_tpu(part->accelerator)) {
        snprintf(whole.instance, sizeof(whole.instance), "TPU-VM");
        return spotnik_catalog_add(catalog, &whole, fault);
    }
    const struct spotnik_offer *host = host_find(hosts, host_count, part);
    if (!host) {
        spotnik_catalog_drop(catalog, part->accelerator,
                             "accelerators without a machine to hold them in their zone");
        return 0;
    }
    memcpy(whole.instance, host->instance, sizeof(whole.instance));
    whole.vcpus = host->vcpus;
    whole.memory_gib = host->memory_gib;
    whole.link_gbps = host->link_gbps;
    whole.on_demand_usd_per_h += host->on_demand_usd_per_h; /* NAN stays NAN: not sold so */
    whole.spot_usd_per_h += host->spot_usd_per_h;
    if (isnan(whole.on_demand_usd_per_h) && isnan(whole.spot_usd_per_h)) {
        spotnik_catalog_drop(catalog, part->accelerator,
                             "accelerators whose price or whose host's price is missing");
        return 0;
    }
    return spotnik_catalog_add(catalog, &whole, fault);
}

int spotnik_catalog_gcp_join(struct spotnik_catalog *catalog, struct spotnik_offer *rows,
                             size_t count, struct spotnik_fault *fault)
{
    struct spotnik_offer *hosts = malloc((count + 1) * sizeof(*hosts));
    size_t host_count = 0;
    int rc = hosts ? 0 : spotnik_fault_set(fault, "out of memory for the catalog");

    for (size_t i = 0; !rc && i < count; i++)
        if (*rows[i].instance && !*rows[i].accelerator)
            hosts[host_count++] = rows[i];
    if (!rc)
        qsort(hosts, host_count, sizeof(*hosts), by_zone);
    for (size_t i = 0; !rc && i < count; i++) {
        const struct spotnik_offer *row = &rows[i];
        if (*row->accelerator && (!*row->instance || !strcmp(row->instance, "TPU-VM")))
            rc = part_join(catalog, hosts, host_count, row, fault);
        else if (!*row->accelerator && spotnik_catalog_host_only(row->instance))
            continue; /* is sold with its accelerators, which have rows of their own */
        else
            rc = spotnik_catalog_add(catalog, row, fault);
    }
    free(hosts);
    return rc;
}
