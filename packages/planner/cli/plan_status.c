/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime knows steps and members, not what they are rented as: `running` says that. */
#include "plan_status.h"
#include "plan_measured.h"
#include "common/jsonfile.h"
#include "common/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct progress {
    double epochs_done, elapsed_s, spent_usd;
};

/* What one command tells of a job. */
struct job {
    struct spotnik_standing *standing;
    struct spotnik_profile *profile;
    struct spotnik_catalog *catalog;
    struct spotnik_wish *wish;
    struct spotnik_fault *fault;
};

/* Machines of one kind: `there` of `wanted`. None of them is of the fleet when none is wanted; what
 * their place went through is known all the same. */
struct kind {
    const char *instance, *zone;
    bool spot;
    double there, wanted;
};

static struct spotnik_offer *offer_find(const struct job *job, const struct kind *kind)
{
    for (size_t i = 0; i < job->catalog->count; i++) {
        struct spotnik_offer *offer = &job->catalog->offers[i];
        bool placed = !kind->zone || !*kind->zone || !strcmp(offer->zone, kind->zone)
                      || !strcmp(offer->zone_id, kind->zone);
        if (!strcmp(offer->instance, kind->instance) && placed
            && spotnik_profile_device(job->profile, offer->accelerator)
            && !isnan(kind->spot ? offer->spot_usd_per_h : offer->on_demand_usd_per_h))
            return offer;
    }
    return NULL;
}

/* One kind of machines that run; it must be in the catalog to have a price. */
static int keep(const struct job *job, const struct kind *kind)
{
    struct spotnik_standing *standing = job->standing;
    struct spotnik_offer *offer = offer_find(job, kind);

    if (!offer)
        return spotnik_fault_set(
            job->fault,
            "%s: no %s price for %s%s%s in the catalog, or the profile was not measured on "
            "its accelerator",
            standing->path, kind->spot ? "spot" : "on-demand", kind->instance,
            kind->zone && *kind->zone ? " in " : "", kind->zone ? kind->zone : "");
    if (standing->place_count == SPOTNIK_RUNNING_MAX)
        return spotnik_fault_set(job->fault, "%s: more than %d kinds of machines", standing->path,
                                 SPOTNIK_RUNNING_MAX);
    standing->places[standing->place_count++] =
        (struct spotnik_place){ offer, kind->spot, (unsigned)kind->there, (unsigned)kind->wanted };
    if (!job->wish->work.state_region && kind->there >= 1)
        job->wish->work.state_region = offer->region;
    if (kind->wanted >= 1)
        job->wish->kept[job->wish->kept_count++] =
            (struct spotnik_group){ offer, spotnik_profile_device(job->profile, offer->accelerator),
                                    (unsigned)kind->wanted, kind->spot, (unsigned)kind->there };
    return 0;
}

static int handmade_machine(const struct job *job, const json_t *item)
{
    const char *capacity = json_string_value(json_object_get(item, "capacity"));
    struct kind kind = { .instance = json_string_value(json_object_get(item, "instance")),
                         .zone = json_string_value(json_object_get(item, "zone")),
                         .spot = capacity && !strcmp(capacity, "spot") };

    if (!kind.instance || !capacity || (!kind.spot && strcmp(capacity, "on-demand")))
        return spotnik_fault_set(
            job->fault, "%s: machines: 'instance' and 'capacity' (spot or on-demand) are needed",
            job->standing->path);
    if (spotnik_json_number(job->standing->path, item, "count", 1, 1e6, 1, &kind.there, job->fault))
        return -1;
    kind.wanted = kind.there;
    return keep(job, &kind);
}

static int handmade_read(const struct job *job, const json_t *json, struct progress *progress)
{
    const char *path = job->standing->path;
    json_t *item;
    size_t i;

    if (spotnik_json_number(path, json, "epochs_done", 0, 1e12, NAN, &progress->epochs_done,
                            job->fault)
        || spotnik_json_number(path, json, "elapsed_s", 0, 1e10, 0, &progress->elapsed_s,
                               job->fault)
        || spotnik_json_number(path, json, "spent_usd", 0, 1e10, 0, &progress->spent_usd,
                               job->fault))
        return -1;
    json_array_foreach(json_object_get(json, "machines"), i, item)
    {
        if (handmade_machine(job, item))
            return -1;
    }
    return 0;
}

/* "4" or "2/4", two of four; without anything, all that are left over. Of a group that waits for
 * some, those that start are no members yet. */
static bool count_read(char *text, double left, struct kind *kind)
{
    char *wanted = text ? strchr(text, '/') : NULL;

    if (wanted)
        *wanted++ = '\0';
    kind->there = left;
    if (text && !spotnik_number_parse(text, &kind->there))
        return false;
    kind->wanted = kind->there;
    if (wanted && !spotnik_number_parse(wanted, &kind->wanted))
        return false;
    bool right = kind->there >= (text ? 0 : 1) && kind->wanted >= kind->there && kind->wanted <= 1e6
                 && kind->there == floor(kind->there) && kind->wanted == floor(kind->wanted);
    if (wanted)
        kind->there = fmin(kind->there, left);
    return right && kind->there <= left;
}

/* "p3.2xlarge@us-west-2a=spot:4". */
static int running_read(const struct job *job, const char *text, double *left)
{
    char copy[160];

    snprintf(copy, sizeof(copy), "%s", text);
    char *capacity = strchr(copy, '='), *zone = NULL, *count = NULL;
    if (capacity) {
        *capacity++ = '\0';
        zone = strchr(copy, '@');
        count = strchr(capacity, ':');
    }
    if (zone)
        *zone++ = '\0';
    if (count)
        *count++ = '\0';
    struct kind kind = { .instance = copy,
                         .zone = zone,
                         .spot = capacity && !strcmp(capacity, "spot") };
    if (!capacity || (!kind.spot && strcmp(capacity, "on-demand"))
        || !count_read(count, *left, &kind))
        return spotnik_fault_set(
            job->fault,
            "--running '%s' is not TYPE[@ZONE]=spot|on-demand[:N[/WANTED]] with at most the "
            "%.0f members that %s leaves over",
            text, *left, job->standing->path);
    *left -= kind.there;
    return keep(job, &kind);
}

/* Else nobody is left of the job, and the status is the last one. */
static bool anybody(const struct spotnik_standing *standing)
{
    for (size_t i = 0; i < standing->place_count; i++)
        if (standing->places[i].there)
            return true;
    return false;
}

static int running_all(const struct job *job, double members)
{
    const struct spotnik_standing *standing = job->standing;
    double left = members;

    if (!standing->running_count)
        return spotnik_fault_set(
            job->fault,
            "%s: the job has %.0f members, but not what they are rented as; say so with "
            "--running TYPE=spot or --running TYPE=on-demand",
            standing->path, members);
    for (size_t i = 0; i < standing->running_count; i++)
        if (running_read(job, standing->running[i], &left))
            return -1;
    bool any = anybody(standing);
    /* one that has just gone is a member until the others have noticed */
    for (size_t i = 0; any && i < job->wish->kept_count && left > 0; i++) {
        struct spotnik_group *group = &job->wish->kept[i];
        unsigned more = (unsigned)fmin(left, group->machines - group->running);
        group->running += more;
        left -= more;
    }
    if (!any) /* nobody is left, and the status is of before */
        return 0;
    return left > 0 ? spotnik_fault_set(job->fault, "%s: --running leaves %.0f members unnamed",
                                        standing->path, left)
                    : 0;
}

/* Of a machine, by listed prices: of what is there, else of what is wanted; where all is of one
 * kind and its members know their price, that. */
static double machine_usd_per_h(const struct job *job, double told_usd_per_h)
{
    const struct spotnik_standing *standing = job->standing;
    double usd_per_h = 0, machines = 0;
    bool any = anybody(standing);

    for (size_t i = 0; i < standing->place_count; i++) {
        const struct spotnik_place *place = &standing->places[i];
        double *price =
            place->spot ? &place->offer->spot_usd_per_h : &place->offer->on_demand_usd_per_h;
        if (standing->place_count == 1 && told_usd_per_h > 0)
            *price = told_usd_per_h;
        unsigned count = any ? place->there : place->wanted;
        usd_per_h += count * *price;
        machines += count;
    }
    return machines > 0 ? usd_per_h / machines : 0;
}

/* What `spotnik status --json` printed: where the job stands, and what it has measured. */
static int runtime_read(const struct job *job, const json_t *json, struct progress *progress)
{
    struct spotnik_standing *standing = job->standing;
    struct spotnik_job_measured *measured = &standing->measured;
    double members, on_demand = 0;

    if (spotnik_json_number(standing->path, json, "size", 0, 1e6, NAN, &members, job->fault)
        || running_all(job, members))
        return -1;
    for (size_t i = 0; i < standing->place_count; i++)
        on_demand += standing->places[i].spot ? 0 : standing->places[i].there;
    if (spotnik_measured_read(standing->path, json, on_demand, standing->clock, measured,
                              job->fault))
        return -1;
    standing->has_measured = true;
    if (!anybody(standing))
        spotnik_measured_end(standing->path, standing->clock, measured);
    double batch = standing->batch > 0   ? standing->batch
                   : measured->batch > 0 ? measured->batch
                                         : job->profile->reference_batch;
    /* an epoch at this batch is worth less where larger batches need more of them */
    progress->epochs_done = measured->steps * batch / job->profile->samples_per_epoch
                            / spotnik_profile_epochs(job->profile, 1, batch);
    progress->elapsed_s = measured->elapsed_s;
    if (!isnan(standing->elapsed_s))
        progress->elapsed_s = standing->elapsed_s;
    double before_s = anybody(standing) ? progress->elapsed_s - measured->uptime_s : 0;
    double machine_s = measured->machine_s + members * fmax(0, before_s);
    progress->spent_usd = machine_s / 3600 * machine_usd_per_h(job, measured->usd_per_h);
    standing->batch = batch;
    return 0;
}

/* Models of what runs, from what it measured; after what files say of places. */
static void teach(const struct job *job)
{
    struct spotnik_standing *standing = job->standing;

    spotnik_measured_teach_profile(&standing->measured, job->wish, job->profile);
    for (size_t i = 0; i < standing->place_count; i++) {
        const struct spotnik_place *place = &standing->places[i];
        if (place->spot)
            spotnik_measured_teach_place(&standing->measured, &job->wish->work, place->there,
                                         place->wanted, place->offer, &standing->pools[i]);
    }
}

static int subtract(const struct spotnik_standing *standing, const struct progress *progress,
                    struct spotnik_wish *wish, struct spotnik_fault *fault)
{
    const char *path = standing->path;

    if (progress->epochs_done >= wish->work.epochs)
        return spotnik_fault_set(fault,
                                 "%s: %g epochs are done, %g were wanted: nothing is left to plan",
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

int spotnik_standing_apply(struct spotnik_standing *standing, struct spotnik_profile *profile,
                           struct spotnik_catalog *catalog, struct spotnik_wish *wish,
                           struct spotnik_fault *fault)
{
    const struct job job = { standing, profile, catalog, wish, fault };
    struct progress progress;
    json_t *json;

    if (!standing->path && standing->running_count)
        return spotnik_fault_set(
            fault, "--running says what the members of a running job are rented as: give its "
                   "status too, with --from-status (the output of `spotnik status --json`)");
    if (!standing->path)
        return 0;
    if (spotnik_json_load(standing->path, &json, fault))
        return -1;
    bool runtime = json_object_get(json, "step_committed") != NULL;
    int rc = runtime ? runtime_read(&job, json, &progress)
             : standing->running_count || standing->clock != 1
                 ? spotnik_fault_set(
                       fault,
                       "%s: --running and --clock are of what `spotnik status --json` prints; a "
                       "file made by hand says its own, in 'machines' and 'elapsed_s'",
                       standing->path)
                 : handmade_read(&job, json, &progress);
    json_decref(json);
    if (rc)
        return rc;
    wish->kept_batch = standing->batch > 0 ? standing->batch : profile->reference_batch;
    if (standing->has_measured)
        teach(&job);
    if (!isnan(standing->elapsed_s))
        progress.elapsed_s = standing->elapsed_s;
    if (!isnan(standing->spent_usd))
        progress.spent_usd = standing->spent_usd;
    return subtract(standing, &progress, wish, fault);
}

void spotnik_standing_free(struct spotnik_standing *standing)
{
    spotnik_trace_free(&standing->measured.spot);
}
