/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime knows steps and members, not what they are rented as: `running` says that. */
#include "plan_status.h"
#include "plan/jsonfile.h"
#include "plan/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct progress {
    double epochs_done, elapsed_s, spent_usd;
};

/* One group of machines that runs; it must be in the catalog to have a price. */
static int keep(const char *path, const char *instance, const char *zone, const char *capacity,
                double machines, const struct spotnik_profile *profile, const struct spotnik_catalog *catalog,
                struct spotnik_wish *wish, struct spotnik_fault *fault)
{
    bool spot = capacity && !strcmp(capacity, "spot");

    if (!instance || !capacity || (!spot && strcmp(capacity, "on-demand")))
        return spotnik_fault_set(
            fault, "%s: machines: 'instance' and 'capacity' (spot or on-demand) are needed", path);
    if (wish->kept_count == SPOTNIK_RUNNING_MAX)
        return spotnik_fault_set(fault, "%s: more than %d kinds of machines", path, SPOTNIK_RUNNING_MAX);
    for (size_t i = 0; i < catalog->count; i++) {
        const struct spotnik_offer *offer = &catalog->offers[i];
        const struct spotnik_device *device = spotnik_profile_device(profile, offer->accelerator);
        if (strcmp(offer->instance, instance) || (zone && *zone && strcmp(offer->zone, zone)) || !device
            || isnan(spot ? offer->spot_usd_per_h : offer->on_demand_usd_per_h))
            continue;
        wish->kept[wish->kept_count++] =
            (struct spotnik_group){ offer, device, (unsigned)machines, spot, true };
        return 0;
    }
    return spotnik_fault_set(
        fault,
        "%s: no %s price for %s%s%s in the catalog, or the profile was not measured on its "
        "accelerator",
        path, capacity, instance, zone && *zone ? " in " : "", zone ? zone : "");
}

static int handmade_read(const struct spotnik_standing *standing, const json_t *json,
                         const struct spotnik_profile *profile, const struct spotnik_catalog *catalog,
                         struct spotnik_wish *wish, struct progress *progress, struct spotnik_fault *fault)
{
    const char *path = standing->path;
    json_t *item;
    double machines;
    size_t i;

    if (spotnik_json_number(path, json, "epochs_done", 0, 1e12, NAN, &progress->epochs_done, fault)
        || spotnik_json_number(path, json, "elapsed_s", 0, 1e10, 0, &progress->elapsed_s, fault)
        || spotnik_json_number(path, json, "spent_usd", 0, 1e10, 0, &progress->spent_usd, fault))
        return -1;
    json_array_foreach(json_object_get(json, "machines"), i, item)
    {
        if (spotnik_json_number(path, item, "count", 1, 1e6, 1, &machines, fault)
            || keep(path, json_string_value(json_object_get(item, "instance")),
                    json_string_value(json_object_get(item, "zone")),
                    json_string_value(json_object_get(item, "capacity")), machines, profile, catalog, wish,
                    fault))
            return -1;
    }
    return 0;
}

/* "p3.2xlarge@us-west-2a=spot:4"; without a count, all members that no other group has. */
static int running_read(const struct spotnik_standing *standing, const char *text, double *left,
                        const struct spotnik_profile *profile, const struct spotnik_catalog *catalog,
                        struct spotnik_wish *wish, struct spotnik_fault *fault)
{
    char copy[160];

    snprintf(copy, sizeof(copy), "%s", text);
    char *capacity = strchr(copy, '='), *zone = NULL, *count = NULL;
    double machines = *left;
    if (capacity) {
        *capacity++ = '\0';
        zone = strchr(copy, '@');
        count = strchr(capacity, ':');
    }
    if (zone)
        *zone++ = '\0';
    if (count)
        *count++ = '\0';
    if (!capacity || (count && !spotnik_number_parse(count, &machines)) || !(machines >= 1)
        || machines > *left)
        return spotnik_fault_set(fault,
                                 "--running '%s' is not TYPE[@ZONE]=spot|on-demand[:N] with at most the %.0f "
                                 "members that %s leaves over",
                                 text, *left, standing->path);
    *left -= floor(machines);
    return keep(standing->path, copy, zone, capacity, floor(machines), profile, catalog, wish, fault);
}

/* What `spotnik status --json` printed. */
static int runtime_read(const struct spotnik_standing *standing, const json_t *json,
                        const struct spotnik_profile *profile, const struct spotnik_catalog *catalog,
                        struct spotnik_wish *wish, struct progress *progress, struct spotnik_fault *fault)
{
    double steps, members, uptime_ns,
        batch = standing->batch > 0 ? standing->batch : profile->reference_batch;
    double usd_per_h = 0;

    if (spotnik_json_number(standing->path, json, "step_committed", 0, 1e18, NAN, &steps, fault)
        || spotnik_json_number(standing->path, json, "size", 0, 1e6, NAN, &members, fault)
        || spotnik_json_number(standing->path, json, "uptime_ns", 0, 1e20, 0, &uptime_ns, fault))
        return -1;
    if (!standing->running_count)
        return spotnik_fault_set(fault,
                                 "%s: the job has %.0f members, but not what they are rented as; say so with "
                                 "--running TYPE=spot or --running TYPE=on-demand",
                                 standing->path, members);
    for (size_t i = 0; i < standing->running_count; i++)
        if (running_read(standing, standing->running[i], &members, profile, catalog, wish, fault))
            return -1;
    if (members > 0)
        return spotnik_fault_set(fault, "%s: --running leaves %.0f members unnamed", standing->path, members);
    /* an epoch at this batch is worth less where larger batches need more of them */
    progress->epochs_done =
        steps * batch / profile->samples_per_epoch / spotnik_profile_epochs(profile, 1, batch);
    progress->elapsed_s = uptime_ns / 1e9;
    for (size_t i = 0; i < wish->kept_count; i++) {
        const struct spotnik_group *group = &wish->kept[i];
        usd_per_h += group->machines
                     * (group->spot ? group->offer->spot_usd_per_h : group->offer->on_demand_usd_per_h);
    }
    if (!isnan(standing->elapsed_s))
        progress->elapsed_s = standing->elapsed_s;
    progress->spent_usd = progress->elapsed_s / 3600 * usd_per_h;
    return 0;
}

static int subtract(const struct spotnik_standing *standing, const struct progress *progress,
                    struct spotnik_wish *wish, struct spotnik_fault *fault)
{
    const char *path = standing->path;

    if (progress->epochs_done >= wish->work.epochs)
        return spotnik_fault_set(fault, "%s: %g epochs are done, %g were wanted: nothing is left to plan",
                                 path, progress->epochs_done, wish->work.epochs);
    if (progress->elapsed_s >= wish->deadline_s)
        return spotnik_fault_set(fault, "%s: the deadline binds: it passed %.0f s ago", path,
                                 progress->elapsed_s - wish->deadline_s);
    if (progress->spent_usd >= wish->budget_usd)
        return spotnik_fault_set(fault, "%s: the budget binds: $%.2f of $%.2f are spent", path,
                                 progress->spent_usd, wish->budget_usd);
    wish->work.epochs -= progress->epochs_done;
    wish->deadline_s -= progress->elapsed_s;
    wish->budget_usd -= progress->spent_usd;
    return 0;
}

int spotnik_standing_apply(const struct spotnik_standing *standing, const struct spotnik_profile *profile,
                           const struct spotnik_catalog *catalog, struct spotnik_wish *wish,
                           struct spotnik_fault *fault)
{
    struct progress progress;
    json_t *json;

    if (!standing->path && standing->running_count)
        return spotnik_fault_set(fault, "--running says what the members of a running job are rented as: give its "
                                        "status too, with --from-status (the output of `spotnik status --json`)");
    if (!standing->path)
        return 0;
    if (spotnik_json_load(standing->path, &json, fault))
        return -1;
    int rc = json_object_get(json, "step_committed")
                 ? runtime_read(standing, json, profile, catalog, wish, &progress, fault)
                 : handmade_read(standing, json, profile, catalog, wish, &progress, fault);
    json_decref(json);
    if (rc)
        return rc;
    if (!isnan(standing->elapsed_s))
        progress.elapsed_s = standing->elapsed_s;
    if (!isnan(standing->spent_usd))
        progress.spent_usd = standing->spent_usd;
    return subtract(standing, &progress, wish, fault);
}
