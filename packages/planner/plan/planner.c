/* SPDX-License-Identifier: Apache-2.0 */
/* The search. It keeps candidates by three closed-form scores: cost, time, and cost among those
 * that are in time. So the simulation sees cheap, fast and balanced ones. It does so by each score
 * for fleets of spot only, of both, and of on-demand only. The closed form does not see that the
 * dearer ones are lost less often. */
#include "plan/planner.h"
#include "plan/pareto.h"
#include "common/table.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define YEARS_MOST 10
/* a rescue costs at most this much of what the cheapest machines on demand cost */
#define RESCUE_DEARER 1.25
#define PAIRED 24 /* options that are tried in pairs */
#define KINDS 3   /* spot only, both, on-demand only */
#define BINS 46   /* time bins of the first pass, per kind; the cheapest fleet of each is kept */

struct option {
    const struct spotnik_offer *offer;
    const struct spotnik_device *device;
    bool spot;
    double usd_per_sample;
};

/* The best of one kind. */
struct kept {
    struct spotnik_candidate bins[BINS];
    bool filled[BINS];
    /* fitting: cheapest in time with a margin */
    struct spotnik_candidate cheapest, fastest, fitting;
    bool any, any_fitting;
};

struct search {
    const struct spotnik_profile *profile;
    const struct spotnik_wish *wish;
    struct option *options;
    size_t option_count, looked_at;
    struct kept kinds[KINDS];
    struct spotnik_catalog left, alike; /* for their notes only */
};

void spotnik_fleet_describe(const struct spotnik_fleet *fleet, char *text, size_t size)
{
    size_t used = 0;

    *text = '\0';
    for (size_t i = 0; i < fleet->group_count && used < size; i++) {
        const struct spotnik_group *g = &fleet->groups[i];
        const char *place = *g->offer->zone && g->spot      ? g->offer->zone
                            : *g->offer->zone_id && g->spot ? g->offer->zone_id
                                                            : g->offer->region;
        used += (size_t)snprintf(text + used, size - used, "%s%u x %s %s%s%s%s", i ? " + " : "",
                                 g->machines, g->offer->instance, g->spot ? "spot" : "on-demand",
                                 *place ? " " : "", place, g->running ? " (kept)" : "");
    }
}

/* Bins are logarithmic in time, from one second to about 40 days. */
static size_t bin_of(double time_s)
{
    double share = log(fmax(time_s, 1)) / log(3.6e6);

    return (size_t)fmin(BINS - 1, fmax(0, share * BINS));
}

static size_t kind_of(const struct spotnik_fleet *fleet)
{
    bool spot = false, on_demand = false;

    for (size_t i = 0; i < fleet->group_count; i++)
        *(fleet->groups[i].spot ? &spot : &on_demand) = true;
    return spot && on_demand ? 1 : on_demand ? 2 : 0;
}

static void keep(struct kept *kept, const struct spotnik_candidate *c, double deadline_s)
{
    size_t bin = bin_of(c->estimate.time_s);

    if (!kept->filled[bin] || c->estimate.cost_usd < kept->bins[bin].estimate.cost_usd)
        kept->bins[bin] = *c;
    kept->filled[bin] = true;
    if (!kept->any || c->estimate.cost_usd < kept->cheapest.estimate.cost_usd)
        kept->cheapest = *c;
    if (!kept->any || c->estimate.time_s < kept->fastest.estimate.time_s)
        kept->fastest = *c;
    kept->any = true;
    bool fits = c->estimate.time_s <= 0.9 * deadline_s;
    if (fits && (!kept->any_fitting || c->estimate.cost_usd < kept->fitting.estimate.cost_usd)) {
        kept->fitting = *c;
        kept->any_fitting = true;
    }
}

static void consider(struct search *s, const struct spotnik_fleet *fleet)
{
    struct spotnik_candidate c = { .fleet = *fleet };

    c.estimate = spotnik_fleet_estimate(s->profile, fleet, &s->wish->work);
    s->looked_at++;
    if (isfinite(c.estimate.time_s) && !isnan(c.estimate.cost_usd))
        keep(&s->kinds[kind_of(fleet)], &c, s->wish->deadline_s);
}

/* The quota of machines of the types that it names, all groups together. */
static bool within_quotas(const struct spotnik_wish *wish, const struct spotnik_fleet *fleet)
{
    for (size_t q = 0; q < wish->quota_count; q++) {
        unsigned machines = 0;
        for (size_t i = 0; i < fleet->group_count; i++)
            machines += fnmatch(wish->quotas[q].type, fleet->groups[i].offer->instance, 0)
                            ? 0
                            : fleet->groups[i].machines;
        if (machines > wish->quotas[q].machines)
            return false;
    }
    return true;
}

/* All batches for a fleet; what runs comes with it, unless it may be given back. */
static void consider_batches(struct search *s, const struct spotnik_group *groups, size_t count)
{
    size_t stay = s->wish->release ? 0 : s->wish->kept_count;
    struct spotnik_fleet fleet = { .group_count = stay };

    if (stay + count > SPOTNIK_FLEET_GROUPS)
        return;
    memcpy(fleet.groups, s->wish->kept, sizeof(*fleet.groups) * stay);
    for (size_t i = 0; i < count; i++)
        if (groups[i].machines)
            fleet.groups[fleet.group_count++] = groups[i];
    unsigned machines = spotnik_fleet_machines(&fleet);
    if (!machines || machines > s->wish->machines_most || !within_quotas(s->wish, &fleet))
        return;
    for (size_t i = 0; i < s->profile->batch_count; i++) {
        fleet.batch = s->profile->batches[i];
        consider(s, &fleet);
    }
}

/* Where what runs need not stay, a group of the same machines goes on with those that are there. */
static struct spotnik_group group_of(const struct search *s, const struct option *option,
                                     unsigned machines)
{
    struct spotnik_group group = { option->offer, option->device, machines, option->spot, 0 };

    for (size_t i = 0; s->wish->release && i < s->wish->kept_count; i++) {
        const struct spotnik_group *kept = &s->wish->kept[i];
        /* on demand, one zone of a region stands for all */
        bool same = kept->offer == option->offer
                    || (!option->spot && !strcmp(kept->offer->instance, option->offer->instance)
                        && !strcasecmp(kept->offer->region, option->offer->region));
        if (same && kept->spot == option->spot)
            group.running = kept->running < machines ? kept->running : machines;
    }
    return group;
}

/* 1, 2, 3, 4, 6, 8, 12, 16, 24, ... */
static unsigned next_size(unsigned n)
{
    if (n < 4)
        return n + 1;
    unsigned power = 1;
    while (power * 2 <= n)
        power *= 2;
    return n == power ? n + n / 2 : power * 2;
}

static void search_single(struct search *s)
{
    if (s->wish->kept_count && !s->wish->release)
        consider_batches(s, NULL, 0);
    for (size_t i = 0; i < s->option_count; i++) {
        for (unsigned n = 1; n <= s->wish->machines_most; n = next_size(n)) {
            struct spotnik_group group = group_of(s, &s->options[i], n);
            consider_batches(s, &group, 1);
        }
    }
}

/* Pairs of the cheapest options per sample. Two spot types help against losses that come together;
 * a few on-demand machines keep the job alive under a spot fleet. */
static void search_pairs(struct search *s)
{
    size_t most = s->option_count < PAIRED ? s->option_count : PAIRED;

    for (size_t i = 0; i < most; i++) {
        for (size_t j = 0; j < most; j++) {
            if (i == j || strcasecmp(s->options[i].offer->region, s->options[j].offer->region))
                continue; /* a ring across regions pays for its traffic and waits for its links */
            for (unsigned n = 1; n <= s->wish->machines_most; n = next_size(n)) {
                for (unsigned m = 1; m <= n && n + m <= s->wish->machines_most; m = next_size(m)) {
                    struct spotnik_group groups[2] = { group_of(s, &s->options[i], n),
                                                       group_of(s, &s->options[j], m) };
                    consider_batches(s, groups, 2);
                }
            }
        }
    }
}

static int by_price(const void *left, const void *right)
{
    const struct option *a = left, *b = right;

    if (a->usd_per_sample != b->usd_per_sample)
        return a->usd_per_sample < b->usd_per_sample ? -1 : 1;
    return strcmp(a->offer->instance, b->offer->instance);
}

static void option_add(struct search *s, const struct spotnik_offer *offer,
                       const struct spotnik_device *device, bool spot)
{
    double usd = spot ? offer->spot_usd_per_h : offer->on_demand_usd_per_h;
    double devices = offer->accelerators > 0 ? offer->accelerators : fmax(1, offer->vcpus);

    if (isnan(usd) || (spot ? !s->wish->spot : !s->wish->on_demand))
        return;
    s->options[s->option_count++] =
        (struct option){ offer, device, spot, usd * device->sample_s / devices };
}

/* On-demand machines of one type and region together, the cheapest first; spot behind them. */
static int by_place(const void *left, const void *right)
{
    const struct option *a = left, *b = right;
    int order = (int)a->spot - (int)b->spot;

    order = order ? order : strcmp(a->offer->instance, b->offer->instance);
    order = order ? order : strcasecmp(a->offer->region, b->offer->region);
    return order ? order : by_price(left, right);
}

/* On-demand costs the same in every zone of a region: one is enough. */
static void options_thin(struct search *s)
{
    size_t kept = 0;

    qsort(s->options, s->option_count, sizeof(*s->options), by_place);
    for (size_t i = 0; i < s->option_count; i++) {
        const struct option *before = kept ? &s->options[kept - 1] : NULL, *own = &s->options[i];
        bool again = before && !own->spot && !before->spot
                     && !strcmp(before->offer->instance, own->offer->instance)
                     && !strcasecmp(before->offer->region, own->offer->region);
        if (!again)
            s->options[kept++] = *own;
    }
    s->option_count = kept;
}

/* Hardware that the profile was not measured on has no predictable speed: that is said, by
 * accelerator. */
static void option_drop(struct search *s, const struct spotnik_offer *offer)
{
    char why[96];

    if (*offer->accelerator)
        snprintf(why, sizeof(why), "offers with %s, which the profile was not measured on",
                 offer->accelerator);
    else if (offer->vcpus > 0)
        snprintf(why, sizeof(why),
                 "offers without accelerator; the profile was not measured on 'cpu'");
    else
        snprintf(why, sizeof(why),
                 "offers of types of which neither accelerators nor vCPUs are known");
    spotnik_catalog_drop(&s->left, offer->instance, why);
}

/* Another name of the same chip: not left out, but said all the same. */
static void alike_note(struct search *s, const struct spotnik_offer *offer,
                       const struct spotnik_device *device)
{
    char why[128];

    snprintf(why, sizeof(why), "offers with %.27s count as fast as the %.27s of the profile",
             offer->accelerator, device->accelerator);
    spotnik_catalog_drop(&s->alike, offer->instance, why);
}

static int options_make(struct search *s, const struct spotnik_catalog *catalog,
                        struct spotnik_fault *fault)
{
    bool known = false;

    s->options = calloc(2 * catalog->count + 1, sizeof(*s->options));
    if (!s->options)
        return spotnik_fault_set(fault, "out of memory");
    for (size_t i = 0; i < catalog->count; i++) {
        const struct spotnik_offer *offer = &catalog->offers[i];
        const struct spotnik_device *device =
            spotnik_profile_device(s->profile, offer->accelerator);
        if (!device || (!(offer->accelerators > 0) && !(offer->vcpus > 0))) {
            option_drop(s, offer);
            continue;
        }
        if (*offer->accelerator && strcmp(device->accelerator, offer->accelerator))
            alike_note(s, offer, device);
        known = true;
        option_add(s, offer, device, true);
        option_add(s, offer, device, false);
    }
    options_thin(s);
    qsort(s->options, s->option_count, sizeof(*s->options), by_price);
    if (s->option_count)
        return 0;
    if (known)
        return spotnik_fault_set(
            fault,
            "the catalog (%s) has machines that the profile '%s' was measured on, but no %s "
            "price of theirs%s",
            catalog->source, s->profile->name,
            !s->wish->spot       ? "on-demand"
            : s->wish->on_demand ? "spot or on-demand"
                                 : "spot",
            s->wish->spot && s->wish->on_demand ? "" : "; leave --only out");
    return spotnik_fault_set(
        fault,
        "no machine of the catalog (%s) has an accelerator that the profile '%s' was "
        "measured on",
        catalog->source, s->profile->name);
}

/* The bins of every kind, and its three best by one score each, without doubles. */
static void shortlist(const struct search *s, struct spotnik_plan *plan)
{
    plan->count = 0;
    for (size_t kind = 0; kind < KINDS; kind++) {
        const struct kept *kept = &s->kinds[kind];
        const struct spotnik_candidate *extra[3] = { &kept->fitting, &kept->cheapest,
                                                     &kept->fastest };
        for (size_t i = 0; i < BINS; i++)
            if (kept->filled[i] && kept->bins[i].estimate.time_s <= 20 * s->wish->deadline_s)
                plan->candidates[plan->count++] = kept->bins[i];
        for (size_t i = kept->any_fitting ? 0 : 1; kept->any && i < 3; i++) {
            bool there = false;
            for (size_t j = 0; j < plan->count; j++)
                there = there
                        || !memcmp(&plan->candidates[j].fleet, &extra[i]->fleet,
                                   sizeof(extra[i]->fleet));
            if (!there)
                plan->candidates[plan->count++] = *extra[i];
        }
    }
}

/* Cheaper is better; without a budget or deadline to meet, the knee of the front is chosen
 * later. */
static int better(const struct spotnik_candidate *a, const struct spotnik_candidate *b)
{
    if (a->feasible != b->feasible)
        return a->feasible ? -1 : 1;
    if (!a->feasible && a->outcome.both != b->outcome.both)
        return a->outcome.both > b->outcome.both ? -1 : 1;
    return (a->outcome.cost_mean_usd > b->outcome.cost_mean_usd)
           - (a->outcome.cost_mean_usd < b->outcome.cost_mean_usd);
}

static int by_worth(const void *left, const void *right)
{
    return better(left, right);
}

static int by_time(const void *left, const void *right)
{
    const struct spotnik_candidate *a = left, *b = right;

    if (a->feasible != b->feasible)
        return a->feasible ? -1 : 1;
    return (a->outcome.time_mean_s > b->outcome.time_mean_s)
           - (a->outcome.time_mean_s < b->outcome.time_mean_s);
}

static void explain(const struct spotnik_wish *wish, const struct spotnik_candidate *winner,
                    struct spotnik_candidate *c)
{
    double wanted = 100 * wish->confidence;
    char apart[32];

    spotnik_duration_print(fabs(c->outcome.time_mean_s - winner->outcome.time_mean_s), apart,
                           sizeof(apart));
    if (c->outcome.on_time < wish->confidence && c->outcome.in_budget < wish->confidence)
        snprintf(c->reason, sizeof(c->reason), "late in %.0f %% and over budget in %.0f %% of runs",
                 100 * (1 - c->outcome.on_time), 100 * (1 - c->outcome.in_budget));
    else if (c->outcome.on_time < wish->confidence)
        snprintf(c->reason, sizeof(c->reason),
                 "meets the deadline in %.0f %% of runs, %.0f %% wanted", 100 * c->outcome.on_time,
                 wanted);
    else if (c->outcome.in_budget < wish->confidence)
        snprintf(c->reason, sizeof(c->reason),
                 "within the budget in %.0f %% of runs, %.0f %% wanted", 100 * c->outcome.in_budget,
                 wanted);
    else if (!c->feasible)
        snprintf(c->reason, sizeof(c->reason), "both together in %.0f %% of runs, %.0f %% wanted",
                 100 * c->outcome.both, wanted);
    else if (c->outcome.cost_mean_usd > winner->outcome.cost_mean_usd)
        snprintf(c->reason, sizeof(c->reason), "feasible, but $%.2f dearer (%s %s)",
                 c->outcome.cost_mean_usd - winner->outcome.cost_mean_usd, apart,
                 c->outcome.time_mean_s < winner->outcome.time_mean_s ? "faster" : "slower");
    else
        snprintf(c->reason, sizeof(c->reason), "cheaper by $%.2f, but %s slower",
                 winner->outcome.cost_mean_usd - c->outcome.cost_mean_usd, apart);
}

/* Times and costs of all candidates, and those on the front, in `ret_index`; returns their
 * number. */
static size_t front_of(const struct spotnik_plan *plan,
                       struct spotnik_tradeoff ret_points[SPOTNIK_PLAN_CANDIDATES],
                       size_t ret_index[SPOTNIK_PLAN_CANDIDATES])
{
    for (size_t i = 0; i < plan->count; i++) {
        ret_points[i] = (struct spotnik_tradeoff){ plan->candidates[i].outcome.time_mean_s,
                                                   plan->candidates[i].outcome.cost_mean_usd };
        ret_index[i] = i;
    }
    return spotnik_pareto(ret_points, ret_index, plan->count);
}

static void mark_front(struct spotnik_plan *plan)
{
    struct spotnik_tradeoff points[SPOTNIK_PLAN_CANDIDATES];
    size_t index[SPOTNIK_PLAN_CANDIDATES];
    size_t kept = front_of(plan, points, index);

    for (size_t i = 0; i < kept; i++)
        plan->candidates[index[i]].on_front = true;
}

/* Neither deadline nor budget: the knee of the front goes first. */
static void knee_first(struct spotnik_plan *plan)
{
    struct spotnik_tradeoff points[SPOTNIK_PLAN_CANDIDATES];
    size_t index[SPOTNIK_PLAN_CANDIDATES];
    size_t kept = front_of(plan, points, index);
    size_t knee = index[spotnik_knee(points, kept)];
    struct spotnik_candidate first = plan->candidates[knee];
    memmove(&plan->candidates[1], &plan->candidates[0], knee * sizeof(first));
    plan->candidates[0] = first;
}

/* What would be feasible: quantiles of the fastest, and of the cheapest that is in time. */
static void tell_binding(const struct spotnik_wish *wish, struct spotnik_plan *plan)
{
    const struct spotnik_candidate *fastest = NULL, *cheapest_in_time = NULL,
                                   *fastest_in_budget = NULL;

    for (size_t i = 0; i < plan->count; i++) {
        const struct spotnik_candidate *c = &plan->candidates[i];
        const struct spotnik_outcome *o = &c->outcome;
        if (!fastest || o->time_high_s < fastest->outcome.time_high_s)
            fastest = c;
        if (o->on_time >= wish->confidence
            && (!cheapest_in_time || o->cost_high_usd < cheapest_in_time->outcome.cost_high_usd))
            cheapest_in_time = c;
        if (o->in_budget >= wish->confidence
            && (!fastest_in_budget || o->time_high_s < fastest_in_budget->outcome.time_high_s))
            fastest_in_budget = c;
    }
    if (!fastest)
        return;
    const struct spotnik_outcome *best = &fastest->outcome,
                                 *cheap = cheapest_in_time ? &cheapest_in_time->outcome : NULL;
    if (!cheap && isinf(best->time_high_s))
        snprintf(plan->binding, sizeof(plan->binding),
                 "no fleet of at most %u machines ends in 95 %% of its runs, whatever the "
                 "deadline; allow machines on demand, or others",
                 wish->machines_most);
    else if (!cheap)
        snprintf(plan->binding, sizeof(plan->binding),
                 "the deadline binds: the fastest fleet of at most %u machines needs %.2f h; "
                 "nearest feasible: --deadline %.2fh with --budget %.2f",
                 wish->machines_most, best->time_high_s / 3600, ceil(best->time_high_s / 36) / 100,
                 ceil(best->cost_high_usd * 100) / 100);
    else if (!fastest_in_budget)
        snprintf(plan->binding, sizeof(plan->binding),
                 "the budget binds: in time, the cheapest fleet costs up to $%.2f; "
                 "nearest feasible: --budget %.2f",
                 cheap->cost_high_usd, ceil(cheap->cost_high_usd * 100) / 100);
    else
        snprintf(plan->binding, sizeof(plan->binding),
                 "deadline and budget bind together: nearest feasible: --budget "
                 "%.2f with this deadline, or --deadline %.2fh with this budget",
                 ceil(cheap->cost_high_usd * 100) / 100,
                 ceil(fastest_in_budget->outcome.time_high_s / 36) / 100);
}

/* The fastest of the fleets on demand that are not much dearer than the cheapest: it may begin
 * last, and until then spot machines may come back. */
static bool rescue_find(const struct search *s, struct spotnik_rescue *ret)
{
    const struct kept *kept = &s->kinds[KINDS - 1];
    const struct spotnik_candidate *best = kept->any ? &kept->cheapest : NULL;

    for (size_t i = 0; best && i < BINS; i++)
        if (kept->filled[i] && kept->bins[i].estimate.time_s < best->estimate.time_s
            && kept->bins[i].estimate.cost_usd <= RESCUE_DEARER * kept->cheapest.estimate.cost_usd)
            best = &kept->bins[i];
    if (best)
        *ret = (struct spotnik_rescue){ best->fleet, s->wish->follow_s, s->wish->deadline_s };
    return best != NULL;
}

static void simulate_all(struct search *s, struct spotnik_plan *plan)
{
    const struct spotnik_wish *wish = s->wish;
    struct spotnik_work work = wish->work;

    if (wish->follow_s > 0 && isfinite(wish->deadline_s) && rescue_find(s, &plan->rescue))
        work.rescue = &plan->rescue;
    for (size_t i = 0; i < plan->count; i++) {
        struct spotnik_candidate *c = &plan->candidates[i];
        c->outcome = spotnik_fleet_simulate(s->profile, &c->fleet, &work, wish->deadline_s,
                                            wish->budget_usd, wish->runs, wish->seed);
        c->feasible = c->outcome.both >= wish->confidence;
    }
    bool time_only = !isfinite(wish->deadline_s) && isfinite(wish->budget_usd);
    qsort(plan->candidates, plan->count, sizeof(*plan->candidates), time_only ? by_time : by_worth);
    mark_front(plan);
    if (!isfinite(wish->deadline_s) && !isfinite(wish->budget_usd))
        knee_first(plan);
    plan->found = plan->count && (plan->candidates[0].feasible || wish->best);
    for (size_t i = plan->found; i < plan->count; i++)
        explain(wish, &plan->candidates[0], &plan->candidates[i]);
    if (!plan->count || !plan->candidates[0].feasible)
        tell_binding(wish, plan);
}

/* What comes of the fleet of now when nothing is changed. */
static void simulate_running(struct search *s, struct spotnik_plan *plan)
{
    const struct spotnik_wish *wish = s->wish;
    struct spotnik_candidate *c = &plan->as_it_runs;

    c->fleet = (struct spotnik_fleet){ .group_count = wish->kept_count, .batch = wish->kept_batch };
    memcpy(c->fleet.groups, wish->kept, sizeof(*c->fleet.groups) * wish->kept_count);
    c->estimate = spotnik_fleet_estimate(s->profile, &c->fleet, &wish->work);
    c->outcome = spotnik_fleet_simulate(s->profile, &c->fleet, &wish->work, wish->deadline_s,
                                        wish->budget_usd, wish->runs, wish->seed);
    c->feasible = c->outcome.both >= wish->confidence;
}

/* Without losses. */
static double fastest_s(const struct search *s)
{
    double least = INFINITY;

    for (size_t kind = 0; kind < KINDS; kind++)
        if (s->kinds[kind].any)
            least = fmin(least, s->kinds[kind].fastest.estimate.time_s);
    return least;
}

int spotnik_plan_make(const struct spotnik_catalog *catalog, const struct spotnik_profile *profile,
                      const struct spotnik_wish *wish, struct spotnik_plan *plan_out,
                      struct spotnik_fault *fault)
{
    struct search *s = calloc(1, sizeof(*s));

    if (!s)
        return spotnik_fault_set(fault, "out of memory");
    s->profile = profile;
    s->wish = wish;
    if (options_make(s, catalog, fault)) {
        free(s->options);
        free(s);
        return -1;
    }
    search_single(s);
    search_pairs(s);
    *plan_out = (struct spotnik_plan){ .looked_at = s->looked_at, .offers = s->option_count };
    memcpy(plan_out->left, s->left.drops, sizeof(plan_out->left));
    memcpy(plan_out->alike, s->alike.drops, sizeof(plan_out->alike));
    plan_out->left_count = s->left.drop_count;
    plan_out->alike_count = s->alike.drop_count;
    bool any = s->kinds[0].any || s->kinds[1].any || s->kinds[2].any;
    int rc =
        any ? 0
            : spotnik_fault_set(fault, "no fleet of at most %u machines%s can run the job",
                                wish->machines_most, wish->quota_count ? " within --quota" : "");
    double years = fastest_s(s) / (365.25 * 86400);
    if (!rc && years > YEARS_MOST)
        rc = spotnik_fault_set(fault,
                               "the fastest fleet of at most %u machines needs %.3g years for this "
                               "target; is --target what you mean?",
                               wish->machines_most, years);
    if (!rc) {
        shortlist(s, plan_out);
        simulate_all(s, plan_out);
        if (wish->kept_count)
            simulate_running(s, plan_out);
    }
    free(s->options);
    free(s);
    return rc;
}
