/* SPDX-License-Identifier: Apache-2.0 */
/* Plans for people: the table, the explanation, JSON. */
#include "plan_output.h"
#include "plan_args.h"

#include <math.h>
#include <string.h>

spotnik_plan_printer spotnik_plan_printer_find(const char *format)
{
    static const struct {
        const char *name;
        spotnik_plan_printer print;
    } formats[] = {
        { "table", spotnik_plan_print_table },
        { "json", spotnik_plan_print_json },
        { "skypilot", spotnik_plan_print_skypilot },
        { "ec2-fleet", spotnik_plan_print_ec2_fleet },
        { "kubernetes", spotnik_plan_print_kubernetes },
        { "slurm", spotnik_plan_print_slurm },
    };

    for (size_t i = 0; i < sizeof(formats) / sizeof(*formats); i++)
        if (!strcmp(format, formats[i].name))
            return formats[i].print;
    return NULL;
}

#define TABLE_ROWS 12
#define Z_90 1.645

/* The widest name of the fleets that are shown. */
static int fleets_width(const struct spotnik_plan *plan, size_t rows)
{
    size_t widest = strlen("fleet");
    char fleet[192];

    for (size_t i = 0; i < rows; i++) {
        spotnik_fleet_describe(&plan->candidates[i].fleet, fleet, sizeof(fleet));
        widest = strlen(fleet) > widest ? strlen(fleet) : widest;
    }
    return (int)widest;
}

static void print_row(const struct spotnik_candidate *c, const char *mark, int width, FILE *out)
{
    const struct spotnik_outcome *o = &c->outcome;
    char fleet[192];

    spotnik_fleet_describe(&c->fleet, fleet, sizeof(fleet));
    fprintf(out, "%s%-*s %6.0f  %6.2f [%6.2f, %6.2f]  %8.2f [%8.2f, %8.2f]  %4.0f %%  %s\n", mark,
            width, fleet, c->fleet.batch, o->time_mean_s / 3600, o->time_low_s / 3600,
            o->time_high_s / 3600, o->cost_mean_usd, o->cost_low_usd, o->cost_high_usd,
            100 * o->both, c->reason);
}

static void print_drops(const char *what, const struct spotnik_drop *drops, size_t count, FILE *out)
{
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s: %zu %s (the first: %s)\n", what, drops[i].rows, drops[i].why,
                drops[i].example);
}

/* What a running job has measured, beside what was thought of it. */
static void print_measured(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_job_measured *m = &x->standing->measured;

    if (!x->standing->has_measured)
        return;
    fprintf(out, "measured in the job: ");
    if (m->step_s > 0)
        fprintf(out, "a step takes %.3f s (%.3f predicted), ", m->step_s, m->predicted_s);
    else
        fputs("no step time yet for the members of now, ", out);
    fprintf(out, "%.0f single losses in %.1f h of spot machines", m->losses,
            m->spot_machine_s / 3600);
    if (m->recoveries)
        fprintf(out, ", %u recoveries of %.2f s", m->recoveries, m->recover_s);
    if (m->usd_per_h > 0)
        fprintf(out, ", $%.4f an hour for a machine", m->usd_per_h);
    fputc('\n', out);
}

static void print_wish(const struct spotnik_plan_context *x, FILE *out)
{
    fprintf(out, "job %s, %g epochs", x->profile->name, x->wish->work.epochs);
    if (x->profile->samples_per_epoch <= x->profile->reference_batch) /* nobody said how long */
        fprintf(out, " (each one step of %g samples)", x->profile->samples_per_epoch);
    if (isfinite(x->wish->deadline_s))
        fprintf(out, ", deadline %.2f h", x->wish->deadline_s / 3600);
    if (isfinite(x->wish->budget_usd))
        fprintf(out, ", budget $%.2f", x->wish->budget_usd);
    fprintf(out,
            ", wanted with %.0f %% confidence\nprices: %s; %zu ways to rent, %zu fleets looked at, "
            "%u runs "
            "of each "
            "below\n",
            100 * x->wish->confidence, x->catalog->source, x->plan->offers, x->plan->looked_at,
            x->plan->count ? x->plan->candidates[0].outcome.runs : 0);
    print_drops("left out", x->catalog->drops, x->catalog->drop_count, out);
    print_drops("left out", x->plan->left, x->plan->left_count, out);
    print_drops("note", x->plan->alike, x->plan->alike_count, out);
    print_measured(x, out);
    if (x->profile->example)
        fputs(
            "the profile is the built-in example, not your job: measure yours and give --profile\n",
            out);
}

static void print_as_it_runs(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_candidate *c = &x->plan->as_it_runs;
    char fleet[192];

    if (!c->fleet.group_count)
        return;
    spotnik_fleet_describe(&c->fleet, fleet, sizeof(fleet));
    fprintf(out, "\nas it runs now, %s: %.2f h more, $%.2f more, chance %.0f %%\n", fleet,
            c->outcome.time_mean_s / 3600, c->outcome.cost_mean_usd, 100 * c->outcome.both);
}

/* A chance that counts on new plans is not one of a fleet that is left alone. */
static void print_rescue(const struct spotnik_plan_context *x, FILE *out)
{
    char fleet[192], every[32];

    if (!x->plan->rescue.fleet.group_count)
        return;
    spotnik_fleet_describe(&x->plan->rescue.fleet, fleet, sizeof(fleet));
    spotnik_duration_print(x->plan->rescue.every_s, every, sizeof(every));
    fprintf(out,
            "\nchances count on a new plan every %s: where spot machines will be late, they give "
            "way to %s\n",
            every, fleet);
}

static const struct spotnik_candidate *first_with_spot(const struct spotnik_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        for (size_t j = 0; j < plan->candidates[i].fleet.group_count; j++)
            if (plan->candidates[i].fleet.groups[j].spot)
                return &plan->candidates[i];
    return NULL;
}

/* Of places whose past is known the chances differ still. False: no such place is in the fleet. */
static bool chance_range(const struct spotnik_plan_context *x, const struct spotnik_candidate *c,
                         double *low_out, double *high_out)
{
    double unsure = 0.5 / c->outcome.runs; /* what no run of all shows may still be */
    struct spotnik_pool pool;

    for (size_t i = 0; i < c->fleet.group_count; i++) {
        spotnik_group_pool(&c->fleet.groups[i], &x->wish->work, &pool);
        if (!c->fleet.groups[i].spot || pool.kind != SPOTNIK_POOL_SEEN)
            continue;
        spotnik_belief_range(fmax(unsure, fmin(1 - unsure, c->outcome.both)), x->wish->deadline_s,
                             low_out, high_out);
        return true;
    }
    return false;
}

/* A chance of spot machines is about a place; where nothing is known of the place, that is said,
 * and what follows. */
static void print_doubt(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_candidate *c = first_with_spot(x->plan);
    struct spotnik_pool pool;
    char fleet[192];
    double low, high;
    size_t i = 0;

    while (c && !c->fleet.groups[i].spot)
        i++;
    if (!c)
        return;
    spotnik_group_pool(&c->fleet.groups[i], &x->wish->work, &pool);
    spotnik_fleet_describe(&c->fleet, fleet, sizeof(fleet));
    fprintf(out, "\nwhat the chance of %s rests on:\n", fleet);
    const struct spotnik_offer *offer = c->fleet.groups[i].offer;
    const char *place = *offer->zone      ? offer->zone
                        : *offer->zone_id ? offer->zone_id
                                          : offer->region;
    if (pool.kind == SPOTNIK_POOL_UNKNOWN || pool.kind == SPOTNIK_POOL_BAND)
        fprintf(out,
                "  nothing was seen of spot capacity for %s%s%s: it is drawn from %s;\n"
                "  give --availability %s%s%s=TRACE (docs/reference/traces.md) for a chance of "
                "your own\n",
                offer->instance, *place ? " in " : "", place, pool.availability->name,
                offer->instance, *place ? "@" : "", place);
    if (chance_range(x, c, &low, &high))
        fprintf(out,
                "  the past of this place, and regimes of many places: of ten places with such a "
                "past\n  nine have a chance of %.0f to %.0f %%, the others less or more\n",
                100 * low, 100 * high);
    if (c->outcome.third_short[2] - c->outcome.third_short[0] < 1e-9) {
        fputs("  capacity is never short in any run\n", out);
        return;
    }
    for (int third = 0; third < 3; third++)
        fprintf(out,
                "  %s third of the runs, machines missing up to %3.0f %% of the time: %3.0f %%\n",
                third == 0   ? "best"
                : third == 1 ? "next"
                             : "last",
                100 * c->outcome.third_short[third], 100 * c->outcome.third_both[third]);
}

/* Steps of more devices than were ever measured are extrapolated. */
static void print_beyond(const struct spotnik_plan_context *x, FILE *out)
{
    const struct spotnik_candidate *c = &x->plan->candidates[0];
    double doublings = x->plan->count ? spotnik_fleet_doublings(x->profile, &c->fleet) : 0;

    if (doublings > 0)
        fprintf(
            out,
            "\nsteps of the first fleet are extrapolated: it has %.3g times the devices of what "
            "was measured.\nFor that its hours may be off by %.0f %% (in nine of ten such jobs "
            "by less); measure more workers\n",
            exp2(doublings), 100 * (exp(Z_90 * spotnik_fleet_error(x->profile, &c->fleet)) - 1));
}

int spotnik_plan_print_table(const struct spotnik_plan_context *x, FILE *out)
{
    size_t rows = x->plan->count < TABLE_ROWS ? x->plan->count : TABLE_ROWS;
    int width = fleets_width(x->plan, rows);

    if (*x->plan->binding)
        fprintf(out, "%s: %s\n\n",
                x->plan->found ? "the best there is, and not sure enough" : "no plan",
                x->plan->binding);
    fprintf(out, "  %-*s %6s  %-23s  %-29s  %6s  %s\n", width, "fleet", "batch",
            "hours [5 %, 95 %]", "USD [5 %, 95 %]", "chance", "why not");
    for (size_t i = 0; i < rows; i++)
        print_row(&x->plan->candidates[i], i == 0 && x->plan->found ? "> " : "  ", width, out);
    print_as_it_runs(x, out);
    print_rescue(x, out);
    print_beyond(x, out);
    print_doubt(x, out);
    fputc('\n', out);
    print_wish(x, out);
    return 0;
}

/* What the simulation knows of a group's capacity. */
static void explain_pool(const struct spotnik_plan_context *x, const struct spotnik_group *group,
                         FILE *out)
{
    struct spotnik_pool pool;

    spotnik_group_pool(group, &x->wish->work, &pool);
    switch (pool.kind) {
    case SPOTNIK_POOL_REPLAY:
        fputs(", capacity as in the trace", out);
        break;
    case SPOTNIK_POOL_SEEN:
        fprintf(out, ", capacity as seen so far (now %s), going on as in %s",
                pool.belief.up ? "there" : "none", pool.availability->name);
        break;
    case SPOTNIK_POOL_RATE:
        fprintf(out, ", %.5f losses per machine and hour, back when there is capacity",
                pool.high_per_h);
        break;
    case SPOTNIK_POOL_BAND:
        fprintf(out,
                ", %.5f to %.5f losses per machine and hour (the Advisor's band; wrong in %.0f %% "
                "of runs)",
                pool.low_per_h, pool.high_per_h, 100 * pool.doubt);
        break;
    case SPOTNIK_POOL_UNKNOWN:
        fprintf(out, ", capacity unknown: any place of %s", pool.availability->name);
    }
    if (pool.lives)
        fputs(", single machines live as in --lifetimes", out);
}

static void explain_one(const struct spotnik_plan_context *x, const struct spotnik_candidate *c,
                        FILE *out)
{
    unsigned alive[SPOTNIK_FLEET_GROUPS] = { 0 };
    char fleet[192];

    spotnik_fleet_describe(&c->fleet, fleet, sizeof(fleet));
    fprintf(out, "\n%s, batch %.0f\n", fleet, c->fleet.batch);
    fprintf(out,
            "  %.1f epochs at this batch (%.1f at %.0f) = %.0f steps of %.3f s, start-up %.0f s: "
            "%.2f h without "
            "losses\n",
            spotnik_profile_epochs(x->profile, x->wish->work.epochs, c->fleet.batch),
            x->wish->work.epochs, x->profile->reference_batch, c->estimate.steps,
            c->estimate.step_s, c->estimate.time_s - c->estimate.steps * c->estimate.step_s,
            c->estimate.time_s / 3600);
    for (size_t i = 0; i < c->fleet.group_count; i++) {
        const struct spotnik_group *g = &c->fleet.groups[i];
        alive[i] = g->machines - 1;
        double one_less_s = spotnik_fleet_step_s(x->profile, &c->fleet, alive);
        alive[i] = g->machines;
        fprintf(out, "  %s at $%.4f/h%s", g->offer->instance,
                g->spot ? g->offer->spot_usd_per_h : g->offer->on_demand_usd_per_h,
                g->spot ? " spot" : " on demand");
        if (g->spot)
            explain_pool(x, g, out);
        if (isfinite(one_less_s) && c->fleet.group_count == 1)
            fprintf(out, "; with one less a step takes %.3f s", one_less_s);
        fputc('\n', out);
    }
    double extra_usd =
        spotnik_fleet_extra_usd(x->profile, &c->fleet, &x->wish->work, c->outcome.time_mean_s);
    if (extra_usd > 0)
        fprintf(out, "  data moved and checkpoints kept: $%.2f\n", extra_usd);
    fprintf(out,
            "  simulated: %.1f losses, %.2f h, $%.2f; on time in %.0f %%, in budget in %.0f %% of "
            "runs\n  %s\n",
            c->outcome.losses, c->outcome.time_mean_s / 3600, c->outcome.cost_mean_usd,
            100 * c->outcome.on_time, 100 * c->outcome.in_budget,
            *c->reason ? c->reason : "chosen: the cheapest that is sure enough");
}

int spotnik_plan_print_explain(const struct spotnik_plan_context *x, FILE *out)
{
    if (!x->plan->found)
        fprintf(out, "no plan: %s\n", x->plan->binding);
    for (size_t i = 0; i < x->plan->count && i < TABLE_ROWS; i++)
        explain_one(x, &x->plan->candidates[i], out);
    print_beyond(x, out);
    fputc('\n', out);
    print_wish(x, out);
    return 0;
}

static json_t *limit_json(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *machines_json(const struct spotnik_fleet *fleet)
{
    json_t *machines = json_array();

    for (size_t i = 0; i < fleet->group_count; i++) {
        const struct spotnik_group *g = &fleet->groups[i];
        json_array_append_new(machines,
                              json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:f, s:b}", "instance",
                                        g->offer->instance, "region", g->offer->region, "zone",
                                        g->offer->zone, "accelerator", g->offer->accelerator,
                                        "count", (int)g->machines, "capacity",
                                        g->spot ? "spot" : "on-demand", "usd_per_h",
                                        g->spot ? g->offer->spot_usd_per_h
                                                : g->offer->on_demand_usd_per_h,
                                        "kept", g->running > 0));
    }
    return machines;
}

static json_t *range_json(const struct spotnik_plan_context *x, const struct spotnik_candidate *c)
{
    double low, high;

    return chance_range(x, c, &low, &high) ? json_pack("[f,f]", low, high) : json_null();
}

static json_t *candidate_json(const struct spotnik_plan_context *x,
                              const struct spotnik_candidate *c)
{
    const struct spotnik_outcome *o = &c->outcome;

    return json_pack("{s:o, s:f, s:o, s:[o,o], s:o, s:[o,o], s:[f,f,f], s:f, s:o, s:f, s:f, s:f, "
                     "s:f, s:f, s:f, s:f, s:b, s:b, s:s}",
                     "machines", machines_json(&c->fleet), "batch", c->fleet.batch, "time_h",
                     limit_json(o->time_mean_s / 3600), "time_h_range",
                     limit_json(o->time_low_s / 3600), limit_json(o->time_high_s / 3600),
                     "cost_usd", limit_json(o->cost_mean_usd), "cost_usd_range",
                     limit_json(o->cost_low_usd), limit_json(o->cost_high_usd), "chance_by_thirds",
                     o->third_both[0], o->third_both[1], o->third_both[2], "chance", o->both,
                     "chance_of_places", range_json(x, c), "chance_on_time", o->on_time,
                     "chance_in_budget", o->in_budget, "losses", o->losses, "step_s",
                     c->estimate.step_s, "step_error", spotnik_fleet_error(x->profile, &c->fleet),
                     "doublings_beyond_measured", spotnik_fleet_doublings(x->profile, &c->fleet),
                     "steps", c->estimate.steps, "feasible", (int)c->feasible, "pareto",
                     (int)c->on_front, "why_not", c->reason);
}

static json_t *measured_json(const struct spotnik_standing *standing)
{
    const struct spotnik_job_measured *m = &standing->measured;

    if (!standing->has_measured)
        return NULL;
    return json_pack("{s:f, s:o, s:o, s:f, s:f, s:i, s:f, s:f}", "elapsed_s", m->elapsed_s,
                     "step_s", m->step_s > 0 ? json_real(m->step_s) : json_null(),
                     "predicted_step_s", limit_json(m->predicted_s), "losses", m->losses,
                     "spot_machine_h", m->spot_machine_s / 3600, "recoveries", (int)m->recoveries,
                     "recover_s", m->recover_s, "usd_per_h", m->usd_per_h);
}

int spotnik_plan_print_json(const struct spotnik_plan_context *x, FILE *out)
{
    json_t *list = json_array();

    for (size_t i = 0; i < x->plan->count; i++)
        json_array_append_new(list, candidate_json(x, &x->plan->candidates[i]));
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:o, s:o, s:f, s:f, s:b, s:s, s:I, s:o*, s:o*, s:o*, s:o*, s:o}",
                  "profile", x->profile->name, "prices", x->catalog->source, "example_profile",
                  (int)x->profile->example, "deadline_s", limit_json(x->wish->deadline_s),
                  "budget_usd", limit_json(x->wish->budget_usd), "confidence", x->wish->confidence,
                  "epochs", x->wish->work.epochs, "found", (int)x->plan->found, "binding",
                  x->plan->binding, "looked_at", (json_int_t)x->plan->looked_at, "plan",
                  x->plan->found ? candidate_json(x, &x->plan->candidates[0]) : NULL, "as_it_runs",
                  x->plan->as_it_runs.fleet.group_count ? candidate_json(x, &x->plan->as_it_runs)
                                                        : NULL,
                  "rescue",
                  x->plan->rescue.fleet.group_count ? machines_json(&x->plan->rescue.fleet) : NULL,
                  "measured", measured_json(x->standing), "candidates", list);
    int rc =
        json ? json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(8) | JSON_PRESERVE_ORDER)
             : -1;
    fputc('\n', out);
    json_decref(json);
    return rc;
}
