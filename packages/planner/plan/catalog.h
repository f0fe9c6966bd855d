/* SPDX-License-Identifier: Apache-2.0 */
/* What can be rented: offers, one for each instance type and zone, with on-demand and spot prices
 * and how often spot is taken back. Read from SkyPilot's vms.csv (and two plainer headers),
 * completed by Spot Advisor files and price histories. Where a price is missing the offer is not
 * sold that way: it is never taken for zero. */
#ifndef SPOTNIK_PLAN_CATALOG_H
#define SPOTNIK_PLAN_CATALOG_H

#include "common/fault.h"
#include "common/prices.h"

#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_HISTORIES_MAX 16
#define SPOTNIK_DROPS_MAX 24

struct spotnik_pool;

struct spotnik_offer {
    char instance[40], region[28], zone[32], accelerator[28];
    double accelerators, vcpus, memory_gib;
    double on_demand_usd_per_h; /* NAN: not sold so */
    double spot_usd_per_h;      /* NAN: not sold so */
    double losses_per_h;        /* of single machines; of a band its lower end; NAN: unknown */
    double link_gbps;           /* NAN: unknown */
    const struct spotnik_prices
        *spot_prices; /* its history, of which spot_usd_per_h is the mean; NULL: none */
    const struct spotnik_pool *pool; /* what was seen of its capacity; NULL: nothing */
    double losses_most_per_h;        /* upper end of a band; 0: losses_per_h is a rate */
    /* the chance that the band tells nothing of the hours to come */
    double losses_doubt;
    char cloud[8];    /* aws, gcp, azure, or other */
    char zone_id[24]; /* where the list has ids (use1-az2), which mean the same to every account */
};

/* Rows that were left out, by reason. */
struct spotnik_drop {
    char why[96], example[48];
    size_t rows;
};

struct spotnik_catalog {
    struct spotnik_offer *offers;
    size_t count, capacity;
    struct spotnik_prices histories[SPOTNIK_HISTORIES_MAX];
    size_t history_count;
    struct spotnik_drop drops[SPOTNIK_DROPS_MAX];
    size_t drop_count;
    char source[256];
};

/* The built-in table, so that a first command works without files. `spotnik_catalog_builtin_date`
 * says how old it is. */
int spotnik_catalog_builtin(struct spotnik_catalog *catalog_out, struct spotnik_fault *fault);
extern const char spotnik_catalog_builtin_date[];

/* Fills in what a plain price list leaves out (accelerators, vCPUs, network) from other offers of
 * the same instance type and from the built-in table. Call it once, after the last file. */
void spotnik_catalog_complete(struct spotnik_catalog *catalog);

/* Adds the offers of a price file: SkyPilot's vms.csv of AWS, GCP or Azure, our own columns, or a
 * file that spotnik_catalog_write made. Negative prices are faults, rows without any price are left
 * out, and a file of such rows is a fault. Of GCP, accelerators find their hosts. */
int spotnik_catalog_read(struct spotnik_catalog *catalog, const char *path,
                         struct spotnik_fault *fault);
struct spotnik_table;
int spotnik_catalog_take(struct spotnik_catalog *catalog, const struct spotnik_table *table,
                         struct spotnik_fault *fault);
/* Any source that is recognised (price_sources.c): the above, the Spot Advisor, the price pages of
 * AWS for spot and on-demand, and a table of zone ids and names. */
int spotnik_catalog_source(struct spotnik_catalog *catalog, const char *name, const char *bytes,
                           size_t size, struct spotnik_fault *fault);
/* The Spot Advisor and zones say more of offers that are there: they are read after all lists. */
bool spotnik_catalog_source_adds(const char *bytes);
int spotnik_catalog_write(const struct spotnik_catalog *catalog, const char *path,
                          struct spotnik_fault *fault);
/* From the type the cloud; and of what stands as the zone, whether it is a name or an id. */
void spotnik_catalog_locate(struct spotnik_offer *offer);
/* Adds the file's own name to `source`, which says where prices come from. */
void spotnik_catalog_source_add(struct spotnik_catalog *catalog, const char *path);
/* Notes that a row is left out. */
void spotnik_catalog_drop(struct spotnik_catalog *catalog, const char *example, const char *why);
/* Sets a price wherever the type is known in the region; returns how many offers took it.
 * `on_demand` or spot. */
size_t spotnik_catalog_price(struct spotnik_catalog *catalog, const char *region,
                             const char *instance, bool on_demand, double usd_per_h);

/* What is known of a type without a list: accelerators, vCPUs, memory, network; false when nothing
 * is. */
bool spotnik_catalog_fact(const char *type, struct spotnik_offer *offer);
/* A machine that is only sold with its accelerators, which GCP lists apart. */
bool spotnik_catalog_host_only(const char *type);
/* Adds rows of GCP, joined. */
int spotnik_catalog_gcp_join(struct spotnik_catalog *catalog, struct spotnik_offer *rows,
                             size_t count, struct spotnik_fault *fault);
/* Spot Advisor, as its JSON or as CSV: losses, and spot prices (on-demand less savings) where there
 * are none. */
int spotnik_catalog_advise(struct spotnik_catalog *catalog, const char *path,
                           struct spotnik_fault *fault);
int spotnik_catalog_advise_bytes(struct spotnik_catalog *catalog, const char *name,
                                 const char *bytes, size_t size, struct spotnik_fault *fault);
/* "INSTANCE=FILE": a price history (see prices.h). Its mean becomes the spot price; simulated runs
 * pay what it says by the second. */
int spotnik_catalog_history(struct spotnik_catalog *catalog, const char *assignment,
                            struct spotnik_fault *fault);

int spotnik_catalog_add(struct spotnik_catalog *catalog, const struct spotnik_offer *offer,
                        struct spotnik_fault *fault);
void spotnik_catalog_free(struct spotnik_catalog *catalog);

#endif
