/* SPDX-License-Identifier: Apache-2.0 */
/* Calibration. For each start in every trace the chance is what `spotnik plan` would print then and
 * there for a spot fleet of this size. The same simulation states it, from the trace until the
 * start (--unknown: not even that) and from regimes learned elsewhere. What came is the same job
 * replayed on the trace itself. */
#include "calibrate.h"
#include "calibration.h"
#include "plan/fleet.h"
#include "cli/plan_args.h"
#include "cli/plan_known.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEP_S 10.0
#define DRAWS 1000
#define TRACES_MAX 64
#define BLOCKS_MAX 4096 /* of one trace */

struct job {
    double work_s, deadline_s;
};

struct study {
    const struct spotnik_calibrate *call;
    struct spotnik_availability availability;
    struct spotnik_forecast *forecasts;
    size_t count, capacity;
    struct job jobs[16];
    size_t job_count;
};

static void jobs_make(struct study *study)
{
    static const double hours[] = { 4, 8, 16, 36 }, shares[] = { 0.25, 0.45, 0.65, 0.85 };

    if (study->call->work_s > 0) {
        study->jobs[study->job_count++] =
            (struct job){ study->call->work_s, study->call->deadline_s };
        return;
    }
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < 4; j++)
            study->jobs[study->job_count++] =
                (struct job){ hours[i] * 3600 * shares[j], hours[i] * 3600 };
}

/* A job whose steps take STEP_S with all machines, and proportionally longer with fewer. */
static void profile_make(const struct spotnik_calibrate *call, struct spotnik_profile *profile)
{
    spotnik_profile_empty(profile);
    snprintf(profile->devices[0].accelerator, sizeof(profile->devices[0].accelerator), "any");
    profile->device_count = 1;
    profile->devices[0].sample_s = STEP_S;
    profile->devices[0].batch_most = 1e9;
    profile->batches[0] = profile->reference_batch = profile->samples_per_epoch = call->machines;
    profile->batch_count = 1;
    profile->critical_batch = INFINITY;
    profile->overlap = 1;
    profile->startup_s = call->startup_s;
    profile->recover_s = profile->join_s = 0;
    profile->checkpoint_every_s = 600;
    profile->error = 0;
    profile->paced_devices = call->machines; /* the chance is about capacity alone */
}

static int forecast_add(struct study *study, struct spotnik_forecast forecast,
                        struct spotnik_fault *fault)
{
    if (study->count == study->capacity) {
        size_t capacity = study->capacity ? 2 * study->capacity : 1024;
        struct spotnik_forecast *grown = realloc(study->forecasts, capacity * sizeof(*grown));
        if (!grown)
            return spotnik_fault_set(fault, "out of memory");
        study->forecasts = grown;
        study->capacity = capacity;
    }
    study->forecasts[study->count++] = forecast;
    return 0;
}

/* All jobs that fit into the trace behind one start. */
static int start_run(struct study *study, const struct spotnik_trace *trace, double at_s,
                     unsigned block, uint64_t seed, struct spotnik_fault *fault)
{
    const struct spotnik_calibrate *call = study->call;
    struct spotnik_profile profile;
    unsigned machines = trace->on_off ? 1 : call->machines;
    struct spotnik_pool pool = { .kind = SPOTNIK_POOL_SEEN, .availability = &study->availability };
    struct spotnik_offer offer = { .instance = "any",
                                   .accelerator = "any",
                                   .accelerators = 1,
                                   .losses_per_h = NAN,
                                   .link_gbps = 10,
                                   .spot_usd_per_h = 1,
                                   .pool = &pool };
    struct spotnik_fleet fleet = { .group_count = 1, .batch = call->machines };

    profile_make(call, &profile);
    pool.belief = call->unknown ? spotnik_belief_unknown(&study->availability)
                                : spotnik_belief_after(&study->availability, trace, machines, at_s);
    fleet.groups[0] =
        (struct spotnik_group){ &offer, &profile.devices[0], call->machines, true, false };
    for (size_t i = 0; i < study->job_count; i++) {
        const struct job *job = &study->jobs[i];
        struct spotnik_work work = { .epochs = job->work_s / STEP_S, .losses_per_h = NAN };
        if (at_s + job->deadline_s > trace->length_s)
            continue;
        struct spotnik_outcome said =
            spotnik_fleet_simulate(&profile, &fleet, &work, job->deadline_s, INFINITY, call->runs,
                                   seed + i);
        work.churn = trace;
        struct spotnik_run came = spotnik_fleet_replay(&profile, &fleet, &work, at_s);
        struct spotnik_forecast forecast = { said.on_time, came.time_s <= job->deadline_s, block,
                                             at_s, job->deadline_s };
        if (forecast_add(study, forecast, fault))
            return -1;
    }
    return 0;
}

static int trace_run(struct study *study, size_t index, struct spotnik_fault *fault)
{
    const struct spotnik_calibrate *call = study->call;
    struct spotnik_trace trace;
    int rc = 0;

    if (spotnik_trace_load_seen(call->traces[index], &trace, fault))
        return -1;
    for (double at_s = call->past_s; !rc && at_s < trace.length_s; at_s += call->stride_s) {
        unsigned block =
            (unsigned)index * BLOCKS_MAX + (unsigned)fmin(at_s / call->block_s, BLOCKS_MAX - 1);
        rc = start_run(study, &trace, at_s, block, (uint64_t)(study->count + 1) * 64, fault);
    }
    spotnik_trace_free(&trace);
    return rc;
}

/* The region by the first of `regions` that is in the name; none: the count. */
static size_t region_of(const struct spotnik_calibrate *call, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t i = 0;

    while (i < call->region_count && !strstr(slash ? slash + 1 : path, call->regions[i]))
        i++;
    return i;
}

/* Places of one region are good and bad together, so what was drawn at one time is drawn at once.
 * Traces of one folder are taken to begin at the same time. */
static bool together(const struct spotnik_calibrate *call, const char *one, const char *other)
{
    const char *slash = strrchr(one, '/');
    size_t region = region_of(call, one), folder = slash ? (size_t)(slash + 1 - one) : 0;

    return region < call->region_count && region == region_of(call, other)
           && !strncmp(one, other, folder) && !strchr(other + folder, '/');
}

/* The trace whose blocks are also those of trace `index`. */
static size_t leader_of(const struct spotnik_calibrate *call, size_t index)
{
    size_t i = 0;

    while (i < index && !together(call, call->traces[index], call->traces[i]))
        i++;
    return i;
}

/* Numbers the blocks in which starts lie from 0 on: those of a trace, or of a region. */
static int blocks_number(const struct study *study, bool regions,
                         struct spotnik_forecast *numbered_out)
{
    unsigned *numbers = calloc(TRACES_MAX * BLOCKS_MAX, sizeof(*numbers)), next = 0;
    size_t leaders[TRACES_MAX];

    for (size_t i = 0; i < study->call->trace_count; i++)
        leaders[i] = regions ? leader_of(study->call, i) : i;
    for (size_t i = 0; numbers && i < study->count; i++) {
        unsigned block = study->forecasts[i].block;
        unsigned *number = &numbers[leaders[block / BLOCKS_MAX] * BLOCKS_MAX + block % BLOCKS_MAX];
        if (!*number)
            *number = ++next;
        numbered_out[i] = study->forecasts[i];
        numbered_out[i].block = *number - 1;
    }
    free(numbers);
    return numbers ? 0 : -1;
}

static int judge(const struct study *study, bool regions, struct spotnik_reliability *r,
                 struct spotnik_fault *fault)
{
    struct spotnik_forecast *numbered = malloc((study->count + 1) * sizeof(*numbered));
    int rc = !numbered || blocks_number(study, regions, numbered)
             || spotnik_calibration_judge(numbered, study->count, DRAWS, 1, r);

    free(numbered);
    return rc ? spotnik_fault_set(fault, "out of memory") : 0;
}

/* What the table can tell. */
static void judgement_print(const struct spotnik_reliability *r)
{
    if (r->judged)
        printf("All deciles together: the worst is off by %.1f of its standard deviations; so far "
               "off is a right forecaster's in %.0f %% of such tables.\n",
               r->worst_deviations, 100 * r->worse_by_chance);
    if (r->wide)
        printf("Intervals of %zu decile%s are wider than 20 points: these traces cannot tell there "
               "what is off by 10. More places or longer traces can.\n",
               r->wide, r->wide == 1 ? "" : "s");
}

static void table_print(const struct study *study, const struct spotnik_reliability *r)
{
    const struct spotnik_calibrate *call = study->call;

    printf(
        "%zu forecasts from %zu traces, %u machines, in %zu blocks of %.0f h of a %s; regimes of "
        "%s; %s\n\n",
        r->starts, call->trace_count, call->machines, r->blocks, call->block_s / 3600,
        call->region_count ? "region" : "place", study->availability.name,
        call->unknown ? "nothing known of the place" : "the place seen until the start");
    printf("| chance stated | starts | stated | came true | 95 %% interval | holds "
           "|\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < SPOTNIK_DECILES; i++) {
        const struct spotnik_decile *d = &r->deciles[i];
        if (d->blocks < SPOTNIK_BLOCKS_LEAST)
            printf("| %zu to %zu %% | %zu | | | | too few to tell |\n", 10 * i, 10 * i + 10,
                   d->starts);
        else
            printf("| %zu to %zu %% | %zu | %.1f %% | %.1f %% | %.1f to %.1f %% | %s |\n", 10 * i,
                   10 * i + 10, d->starts, 100 * d->stated, 100 * d->came_true, 100 * d->low,
                   100 * d->high,
                   !d->holds ? "no"
                   : d->wide ? "yes (wide)"
                             : "yes");
    }
    printf("| all | %zu | %.1f %% | %.1f %% | | %zu of %zu |\n\nBrier score %.4f (a constant "
           "chance: %.4f)\n",
           r->starts, 100 * r->stated, 100 * r->came_true, r->held, r->judged, r->brier,
           r->brier_constant);
    judgement_print(r);
}

static json_t *share_json(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

/* [trace, start in hours, deadline in hours, chance, came true] of each. */
static json_t *forecasts_json(const struct study *study)
{
    json_t *list = json_array();

    for (size_t i = 0; i < study->count; i++) {
        const struct spotnik_forecast *f = &study->forecasts[i];
        json_array_append_new(list, json_pack("[i,f,f,f,b]", (int)(f->block / BLOCKS_MAX),
                                              f->start_s / 3600, f->deadline_s / 3600, f->chance,
                                              (int)f->came_true));
    }
    return list;
}

static int json_print(const struct study *study, const struct spotnik_reliability *r,
                      const struct spotnik_reliability *apart)
{
    json_t *list = json_array();

    for (size_t i = 0; i < SPOTNIK_DECILES; i++) {
        const struct spotnik_decile *d = &r->deciles[i];
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:b, s:b}", "starts",
                                        (json_int_t)d->starts, "blocks", (json_int_t)d->blocks,
                                        "stated", share_json(d->stated), "came_true",
                                        share_json(d->came_true), "low", share_json(d->low), "high",
                                        share_json(d->high), "holds", (int)d->holds, "wide",
                                        (int)d->wide));
    }
    return spotnik_cli_json(json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:f, s:f, s:f, s:f, s:o, s:o}", "starts",
        (json_int_t)r->starts, "judged", (json_int_t)r->judged, "held", (json_int_t)r->held,
        "held_by_trace", (json_int_t)apart->held, "wide", (json_int_t)r->wide, "worst_deviations",
        share_json(r->worst_deviations), "worse_by_chance", share_json(r->worse_by_chance),
        "regimes", study->availability.name, "stated", r->stated, "came_true", r->came_true,
        "brier", r->brier, "brier_constant", r->brier_constant, "deciles", list, "forecasts",
        forecasts_json(study)));
}

#define WIDE 420
#define LEFT 60
#define TOP 40
#define SIDE 320

static int plot(const struct spotnik_reliability *r, const char *path, struct spotnik_fault *fault)
{
    FILE *out = fopen(path, "w");

    if (!out)
        return spotnik_fault_set(fault, "%s: cannot write: %s", path, strerror(errno));
    fprintf(
        out,
        "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' "
        "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n"
        "<text x='%d' y='20' font-size='14'>Chance stated, and what came true</text>\n"
        "<rect x='%d' y='%d' width='%d' height='%d' fill='none' stroke='#999'/>\n"
        "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='#999' stroke-dasharray='5 4'/>\n",
        WIDE, TOP + SIDE + 50, LEFT, LEFT, TOP, SIDE, SIDE, LEFT, TOP + SIDE, LEFT + SIDE, TOP);
    for (int i = 0; i <= 100; i += 20)
        fprintf(out,
                "<text x='%.1f' y='%d' text-anchor='middle'>%d %%</text><text x='%d' y='%.1f' "
                "text-anchor='end'>%d %%</text>\n",
                LEFT + SIDE * i / 100.0, TOP + SIDE + 16, i, LEFT - 6,
                TOP + SIDE * (1 - i / 100.0) + 4, i);
    for (size_t i = 0; i < SPOTNIK_DECILES; i++) {
        const struct spotnik_decile *d = &r->deciles[i];
        if (d->blocks < SPOTNIK_BLOCKS_LEAST)
            continue;
        double x = LEFT + SIDE * d->stated;
        fprintf(out,
                "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#1f5fbf'/>"
                "<circle cx='%.1f' cy='%.1f' r='4' fill='%s'><title>%zu starts</title></circle>\n",
                x, x, TOP + SIDE * (1 - d->low), TOP + SIDE * (1 - d->high), x,
                TOP + SIDE * (1 - d->came_true), d->holds ? "#0a7d32" : "#c33", d->starts);
    }
    fprintf(out,
            "<text x='%d' y='%d'>stated (across), came true (up), with 95 %% "
            "intervals</text>\n</svg>\n",
            LEFT, TOP + SIDE + 38);
    return fclose(out) ? spotnik_fault_set(fault, "%s: cannot write: %s", path, strerror(errno))
                       : 0;
}

int spotnik_calibrate(const struct spotnik_calibrate *call, struct spotnik_fault *fault)
{
    struct study study = { .call = call, .availability = spotnik_availability_accelerators };
    struct spotnik_reliability reliability, apart;
    int rc = 0;

    jobs_make(&study);
    if (call->learn_from_count)
        rc = spotnik_availability_read(call->learn_from, call->learn_from_count, call->regimes,
                                       &study.availability, fault);
    for (size_t i = 0; !rc && i < call->trace_count; i++)
        rc = trace_run(&study, i, fault);
    if (!rc && !study.count)
        rc = spotnik_fault_set(
            fault, "no trace is long enough: %.0f h of past and the deadline must fit in",
            call->past_s / 3600);
    if (!rc)
        rc = judge(&study, true, &reliability, fault);
    if (!rc)
        rc = judge(&study, false, &apart, fault);
    if (!rc && call->plot)
        rc = plot(&reliability, call->plot, fault);
    if (!rc && call->json)
        rc = json_print(&study, &reliability, &apart);
    else if (!rc)
        table_print(&study, &reliability);
    free(study.forecasts);
    return rc;
}
