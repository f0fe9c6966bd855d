/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik prices`: gets price lists, joins them, keeps them, and says what they hold and what was
 * left out. */
#include "price_fetch.h"
#include "plan/accelerators.h"
#include "common/table.h"
#include "plan_args.h"
#include "price_cache.h"
#include "price_update.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: spotnik prices update [--cloud aws|gcp|azure]... [--mirror URL | --from FILE|URL...] "
    "[--into FILE]\n"
    "                      [--timeout 60s]\n"
    "       spotnik prices show\n"
    "       spotnik prices accelerators\n"
    "\n"
    "update fetches SkyPilot's catalogs and the Spot Advisor (all three clouds, or those of "
    "--cloud), from --mirror\n"
    "where that is given, or reads --from, in the order given: vms.csv of SkyPilot, the Spot "
    "Advisor, the spot and\n"
    "on-demand price pages of AWS, a table of zone ids and names. It keeps them for `spotnik "
    "plan`, which refuses\n"
    "prices older than a week, and asks servers for changes only. A page that is broken changes "
    "nothing. show tells\n"
    "their age; accelerators has memory, rates and other names of all that can be rented. "
    "SPOTNIK_PRICES_MIRROR\n"
    "stands for --mirror. A server may be silent for --timeout, and a page take ten times as "
    "long.\n"
    "Exit status: 0 done, 1 no prices or bad input, 2 bad usage.\n";

#define TIMEOUT_S 60
#define TIMEOUT_MOST_S 86400

struct call {
    struct spotnik_price_update update;
    const char *into;
    bool timeout_given;
};

static bool timeout_read(struct call *call)
{
    call->timeout_given = true;
    return spotnik_cli_duration("prices", "--timeout", optarg, false, &call->update.patience_s)
           && ((call->update.patience_s >= 1 && call->update.patience_s <= TIMEOUT_MOST_S)
               || spotnik_cli_refuse("prices", 0, "--timeout '%s' is not in [1s, 1d]", optarg));
}

static bool read_option(void *context, int option)
{
    struct call *call = context;

    switch (option) {
    case 'f':
        return spotnik_cli_append("prices", optarg, call->update.sources,
                                  &call->update.source_count, SPOTNIK_PRICE_SOURCES_MAX);
    case 'c':
        if (strcmp(optarg, "aws") && strcmp(optarg, "gcp") && strcmp(optarg, "azure"))
            return spotnik_cli_refuse("prices", 0, "--cloud is aws, gcp or azure, not '%s'",
                                      optarg);
        return spotnik_cli_append("prices", optarg, call->update.clouds, &call->update.cloud_count,
                                  SPOTNIK_PRICE_SOURCES_MAX);
    case 'm':
        if (!spotnik_source_is_page(optarg))
            return spotnik_cli_refuse(
                "prices", 0, "--mirror is https://, file:// or http:// of this machine, not '%s'",
                optarg);
        call->update.mirror = optarg;
        return true;
    case 'i':
        call->into = optarg;
        return true;
    case 't':
        return timeout_read(call);
    default:
        return false;
    }
}

static void catalog_tell(const struct spotnik_catalog *catalog, FILE *out)
{
    static const char *const clouds[] = { "aws", "gcp", "azure", "other" };

    for (size_t c = 0; c < 4; c++) {
        size_t offers = 0, accelerated = 0, spot = 0;
        for (size_t i = 0; i < catalog->count; i++) {
            const struct spotnik_offer *offer = &catalog->offers[i];
            if (strcmp(offer->cloud, clouds[c]))
                continue;
            offers++;
            accelerated += offer->accelerators > 0;
            spot += !isnan(offer->spot_usd_per_h);
        }
        if (offers)
            fprintf(out, "%s: %zu offers, %zu with accelerators, %zu with a spot price\n",
                    clouds[c], offers, accelerated, spot);
    }
    for (size_t i = 0; i < catalog->drop_count; i++)
        fprintf(out, "left out: %zu %s (the first: %s)\n", catalog->drops[i].rows,
                catalog->drops[i].why, catalog->drops[i].example);
}

/* Names that the table does not have would be silent holes in every plan. */
static void strangers_note(struct spotnik_catalog *catalog, FILE *out)
{
    struct spotnik_catalog strangers = { 0 };

    for (size_t i = 0; i < catalog->count; i++)
        if (*catalog->offers[i].accelerator
            && !spotnik_accelerator_find(catalog->offers[i].accelerator))
            spotnik_catalog_drop(&strangers, catalog->offers[i].instance,
                                 catalog->offers[i].accelerator);
    for (size_t i = 0; i < strangers.drop_count; i++)
        fprintf(out,
                "not in the table of accelerators: %s (%zu offers, such as %s): no memory or rate "
                "is known "
                "of it\n",
                strangers.drops[i].why, strangers.drops[i].rows, strangers.drops[i].example);
}

/* In a file beside, then in one step: a plan at the same time reads the old prices or the new
 * ones. */
static int keep(struct spotnik_catalog *catalog, const char *path, struct spotnik_fault *fault)
{
    char beside[1100];

    snprintf(beside, sizeof(beside), "%s.new", path);
    if (spotnik_catalog_write(catalog, beside, fault))
        return -1;
    return rename(beside, path)
               ? spotnik_fault_set(fault, "%s: cannot write: %s", path, strerror(errno))
               : 0;
}

/* Tells, after a fault, what stays. */
static int still_there(const char *path, struct spotnik_fault *fault)
{
    double age_s = spotnik_price_cache_age_s(path);
    char age[32], *text = fault->text;
    size_t used = strlen(text);

    if (age_s < 0)
        return -1;
    spotnik_age_print(age_s, age, sizeof(age));
    snprintf(text + used, sizeof(fault->text) - used, "; the prices kept %s ago stay as they are",
             age);
    return -1;
}

/* Whoever sits behind a firewall says it once. */
static int mirror_take(struct spotnik_price_update *update, struct spotnik_fault *fault)
{
    const char *mirror = getenv("SPOTNIK_PRICES_MIRROR");

    if (update->mirror || update->source_count || !mirror || !*mirror)
        return 0;
    update->mirror = mirror;
    return spotnik_source_is_page(mirror)
               ? 0
               : spotnik_fault_set(fault,
                                   "SPOTNIK_PRICES_MIRROR is https://, file:// or http:// of this "
                                   "machine, not '%s'",
                                   mirror);
}

static int update(struct call *call, struct spotnik_fault *fault)
{
    struct spotnik_catalog catalog = { 0 };
    char path[1024];

    if (mirror_take(&call->update, fault))
        return -1;
    if (call->into)
        snprintf(path, sizeof(path), "%s", call->into);
    else if (spotnik_price_cache_path(path, sizeof(path), true, fault))
        return -1;
    int rc = spotnik_price_update(&call->update, path, &catalog, fault);
    if (rc)
        rc = still_there(path, fault);
    if (!rc) {
        spotnik_catalog_complete(&catalog);
        rc = keep(&catalog, path, fault);
    }
    if (!rc) {
        printf("kept in %s\n", path);
        catalog_tell(&catalog, stdout);
        strangers_note(&catalog, stdout);
    }
    spotnik_catalog_free(&catalog);
    return rc;
}

static int show(struct spotnik_fault *fault)
{
    struct spotnik_catalog catalog = { 0 };
    bool there;

    if (spotnik_price_cache_load(&catalog, INFINITY, &there, fault))
        return -1;
    if (!there)
        return spotnik_fault_set(fault, "no prices are kept; `spotnik prices update` gets them");
    printf("prices %s\n", catalog.source);
    catalog_tell(&catalog, stdout);
    spotnik_catalog_free(&catalog);
    return 0;
}

static void rate_print(double tflops)
{
    if (tflops > 0)
        printf("  %8.1f", tflops);
    else
        printf("  %8s", "-");
}

static int accelerators(void)
{
    const struct spotnik_accelerator *a;

    printf("%-16s  %8s  %8s  %8s  %8s  also called\n", "accelerator", "GiB", "fp32", "bf16", "fp8");
    for (size_t i = 0; (a = spotnik_accelerator_at(i)); i++) {
        printf("%-16s  %8.0f", a->name, a->memory_gib);
        rate_print(a->fp32_tflops);
        rate_print(a->bf16_tflops);
        rate_print(a->fp8_tflops);
        printf("  %s\n", a->aliases);
    }
    return 0;
}

/* What the call would pass over in silence; NULL: nothing. */
static const char *passed_over(const struct call *call, bool updates)
{
    const struct spotnik_price_update *update = &call->update;
    bool names = update->source_count || update->cloud_count || update->mirror || call->into
                 || call->timeout_given;

    if (!updates)
        return names ? "--from, --cloud, --mirror, --into and --timeout are of update" : NULL;
    if (update->source_count && update->cloud_count)
        return "--from names the lists, so --cloud chooses none of them: leave one out";
    if (update->source_count && update->mirror)
        return "--from names the lists, so --mirror has none of them: leave one out";
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "from", 1, 0, 'f' },   { "cloud", 1, 0, 'c' },   { "into", 1, 0, 'i' },
        { "mirror", 1, 0, 'm' }, { "timeout", 1, 0, 't' }, { "help", 0, 0, 'h' },
        { 0, 0, 0, 0 }
    };
    struct call call = { .update.patience_s = TIMEOUT_S };
    struct spotnik_fault fault;
    int done = spotnik_cli_options(argc, argv, "h", options, usage, read_option, &call);

    if (done >= 0)
        return done;
    const char *what = optind + 1 == argc ? argv[optind] : "",
               *over = passed_over(&call, !strcmp(what, "update"));
    if (*what && over)
        return spotnik_cli_refuse("prices", SPOTNIK_EXIT_USAGE, "%s", over);
    int rc = !strcmp(what, "update")         ? update(&call, &fault)
             : !strcmp(what, "show")         ? show(&fault)
             : !strcmp(what, "accelerators") ? accelerators()
                                             : 1;
    if (rc > 0)
        fputs(usage, stderr);
    return rc > 0   ? SPOTNIK_EXIT_USAGE
           : rc < 0 ? spotnik_cli_refuse("prices", SPOTNIK_EXIT_FAILED, "%s", fault.text)
                    : SPOTNIK_EXIT_OK;
}
