/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches price lists. What is broken never replaces a page that is kept. */
#include "price_update.h"
#include "price_cache.h"
#include "price_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LISTS "https://raw.githubusercontent.com/skypilot-org/skypilot-catalog/master/catalogs"
#define ADVISOR "https://spot-bid-advisor.s3.amazonaws.com"

static const struct {
    const char *cloud, *host, *path;
    const char *older; /* instead of a path that is not there: Azure's list changes seldom */
} defaults[] = {
    { "aws", LISTS, "v8/aws/vms.csv", NULL },
    { "gcp", LISTS, "v8/gcp/vms.csv", NULL },
    { "azure", LISTS, "v8/azure/vms.csv", "v6/azure/vms.csv" },
    { "aws", ADVISOR, "spot-advisor-data.json", NULL },
};

static bool cloud_wanted(const struct spotnik_price_update *update, const char *cloud)
{
    for (size_t i = 0; i < update->cloud_count; i++)
        if (!strcmp(update->clouds[i], cloud))
            return true;
    return !update->cloud_count;
}

/* A list that nobody has touched for long may be that of a mirror that has died. */
static void age_note(const char *where, double modified_s)
{
    double age_s = difftime(time(NULL), (time_t)modified_s);
    char age[32];

    if (!(modified_s > 0) || age_s < SPOTNIK_PRICES_FRESH_S)
        return;
    spotnik_age_print(age_s, age, sizeof(age));
    fprintf(stderr, "spotnik prices: note: %s has not changed for %s\n", where, age);
}

/* The page, from the network or, where it has not changed, as it is kept. */
static int page_take(const struct spotnik_price_update *update, const char *where,
                     const char *prices, struct spotnik_page *page, struct spotnik_fault *fault)
{
    struct spotnik_page kept = { .bytes = NULL };
    bool there = spotnik_source_is_page(where) && spotnik_price_page_load(prices, where, &kept);
    int rc = spotnik_source_fetch(where, there ? &kept : NULL, update->patience_s, page, fault);

    if (!rc && page->unchanged && there) {
        kept.unchanged = true;
        *page = kept;
        return 0;
    }
    free(kept.bytes);
    return rc;
}

static int page_use(const char *where, struct spotnik_page *page, const char *prices,
                    struct spotnik_catalog *catalog, struct spotnik_fault *fault)
{
    size_t before = catalog->count;
    int rc = spotnik_catalog_source(catalog, where, page->bytes, page->size, fault);

    if (!rc) {
        fprintf(stderr, "spotnik prices: %s: %zu bytes%s, ", where, page->size,
                page->unchanged ? ", unchanged since the last update" : "");
        if (spotnik_catalog_source_adds(page->bytes))
            fprintf(stderr, "adds to the %zu offers\n", before);
        else
            fprintf(stderr, "%zu offers more\n", catalog->count - before);
        age_note(where, page->modified_s);
    }
    if (!rc && !page->unchanged && spotnik_source_is_page(where))
        spotnik_price_page_keep(prices, where, page);
    free(page->bytes);
    return rc;
}

static int source_read(const struct spotnik_price_update *update, const char *where,
                       const char *prices, struct spotnik_catalog *catalog,
                       struct spotnik_fault *fault)
{
    struct spotnik_page page;
    int rc = page_take(update, where, prices, &page, fault);

    return rc ? rc : page_use(where, &page, prices, catalog, fault);
}

/* In the order in which they are named, but what adds to offers comes last. */
static int named_read(const struct spotnik_price_update *update, const char *prices,
                      struct spotnik_catalog *catalog, struct spotnik_fault *fault)
{
    struct spotnik_page page, late[SPOTNIK_PRICE_SOURCES_MAX];
    const char *late_where[SPOTNIK_PRICE_SOURCES_MAX];
    size_t late_count = 0;
    int rc = 0;

    for (size_t i = 0; !rc && i < update->source_count; i++) {
        const char *where = update->sources[i];
        rc = page_take(update, where, prices, &page, fault);
        if (!rc && spotnik_catalog_source_adds(page.bytes)) {
            late_where[late_count] = where;
            late[late_count++] = page;
        } else if (!rc) {
            rc = page_use(where, &page, prices, catalog, fault);
        }
    }
    for (size_t i = 0; i < late_count; i++)
        if (rc)
            free(late[i].bytes);
        else
            rc = page_use(late_where[i], &late[i], prices, catalog, fault);
    return rc;
}

/* Rows of a list that broke half-way do not count. */
static void catalog_shorten(struct spotnik_catalog *catalog, size_t count)
{
    catalog->count = count < catalog->count ? count : catalog->count;
}

static int default_read(const struct spotnik_price_update *update, size_t i, const char *prices,
                        struct spotnik_catalog *catalog, struct spotnik_fault *fault)
{
    const char *host = update->mirror ? update->mirror : defaults[i].host;
    size_t before = catalog->count;
    char where[1024];

    snprintf(where, sizeof(where), "%s/%s", host, defaults[i].path);
    int rc = source_read(update, where, prices, catalog, fault);
    if (!rc || rc == SPOTNIK_UNREACHABLE || !defaults[i].older)
        return rc;
    catalog_shorten(catalog, before);
    fprintf(stderr, "spotnik prices: note: %s; an older list is tried\n", fault->text);
    snprintf(where, sizeof(where), "%s/%s", host, defaults[i].older);
    return source_read(update, where, prices, catalog, fault);
}

static int defaults_read(const struct spotnik_price_update *update, const char *prices,
                         struct spotnik_catalog *catalog, struct spotnik_fault *fault)
{
    for (size_t i = 0; i < sizeof(defaults) / sizeof(*defaults); i++) {
        size_t before = catalog->count;
        if (!cloud_wanted(update, defaults[i].cloud))
            continue;
        int rc = default_read(update, i, prices, catalog, fault);
        if (!rc)
            continue;
        if (rc == SPOTNIK_UNREACHABLE && !catalog->count)
            return rc; /* without a network the others need not be tried */
        catalog_shorten(catalog, before);
        fprintf(stderr, "spotnik prices: LEFT OUT: %s\n", fault->text);
    }
    if (catalog->count)
        return 0;
    return spotnik_fault_set(
        fault, "none of the lists could be used; see above, or give files with --from");
}

int spotnik_price_update(const struct spotnik_price_update *update, const char *prices,
                         struct spotnik_catalog *catalog, struct spotnik_fault *fault)
{
    if (!update->source_count)
        return defaults_read(update, prices, catalog, fault);
    int rc = named_read(update, prices, catalog, fault);
    if (!rc && !catalog->count)
        return spotnik_fault_set(
            fault, "no source has a price; the Spot Advisor and zones only add to lists");
    return rc;
}
