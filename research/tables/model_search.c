/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model spotdnn`, `interval` and `coefficient`: the models that answer with a plan instead
 * of a column. */
#include "cmd_model.h"
#include "spotdnn_fit.h"
#include "common/jsonfile.h"
#include "common/model_interval.h"
#include "intervals.h"
#include "life_fits.h"
#include "common/model_lifetime.h"
#include "model_spotdnn.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define COUNT_MOST 1e6 /* machines of a kind */

struct constants {
    struct spotnik_spotdnn_model model;
    struct spotnik_spotdnn_type *types;
    size_t count;
};

/* A column under any of its names. */
static int either(const struct spotnik_table *table, const char *name, const char *other)
{
    int column = spotnik_table_find(table, name);

    return column >= 0 ? column : spotnik_table_find(table, other);
}

static int type_read(const struct spotnik_table *table, size_t row,
                     struct spotnik_spotdnn_type *type, struct spotnik_fault *fault)
{
    int name = spotnik_table_find(table, "instance"),
        speed = spotnik_table_find(table, "speed_img_per_s");
    int gpus = spotnik_table_find(table, "gpus"),
        batch = spotnik_table_find(table, "batch_per_gpu");
    int quota = spotnik_table_find(table, "quota"),
        price = spotnik_table_find(table, "spot_usd_per_h");
    double quota_value = 1e6, per_gpu;

    type->usd_per_h = NAN;
    snprintf(type->name, sizeof(type->name), "%s", spotnik_table_text(table, row, name));
    if (spotnik_table_number(table, row, gpus, 1, 64, &type->gpus, fault)
        || spotnik_table_number(table, row, speed, 1e-6, 1e9, &type->images_per_s, fault)
        || spotnik_table_number(table, row, batch, 1, 1e9, &per_gpu, fault)
        || (quota >= 0 && spotnik_table_number(table, row, quota, 0, 1e6, &quota_value, fault))
        || (price >= 0 && !spotnik_table_empty(table, row, price)
            && spotnik_table_number(table, row, price, 1e-6, 1e5, &type->usd_per_h, fault)))
        return -1;
    type->batch = per_gpu * type->gpus;
    type->quota = (unsigned)quota_value;
    return 0;
}

static int constants_csv(const char *path, struct constants *constants, struct spotnik_fault *fault)
{
    struct spotnik_table *table;
    int rc = 0;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    static const char *const needed[] = { "instance", "gpus", "speed_img_per_s", "batch_per_gpu" };
    for (size_t i = 0; !rc && i < 4; i++)
        rc = spotnik_table_need(table, needed[i], fault) < 0 ? -1 : 0;
    size_t rows = spotnik_table_rows(table);
    if (!rc && rows > SPOTNIK_SPOTDNN_TYPES_MAX)
        rc = spotnik_fault_set(fault, "%s: more than %d instance types", path,
                               SPOTNIK_SPOTDNN_TYPES_MAX);
    constants->types = calloc(rows, sizeof(*constants->types));
    for (size_t row = 0; !rc && row < rows; row++)
        rc = type_read(table, row, &constants->types[row], fault);
    constants->count = rows;
    spotnik_table_free(table);
    return rc;
}

static int model_json(const char *path, const json_t *json, struct spotnik_spotdnn_model *m,
                      struct spotnik_fault *fault)
{
    const struct {
        const char *key;
        double *value, least;
    } fields[] = {
        { "alpha1", &m->alpha1, -1e6 },
        { "beta1", &m->beta1, -1e6 },
        { "gamma1", &m->gamma1, -1e12 },
        { "gamma2", &m->gamma2, -1e12 },
        { "gamma3", &m->gamma3, 0 },
        { "gamma4", &m->gamma4, -1 },
        { "gamma5", &m->gamma5, -1e12 },
        { "parameters_mb", &m->parameters_mb, 0 },
        { "request_mb_per_s", &m->request_mb_per_s, 1e-6 },
        { "server_mb_per_s", &m->server_mb_per_s, 1e-6 },
        { "pcie_mb_per_s", &m->pcie_mb_per_s, 1e-6 },
    };

    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
        if (spotnik_json_number(path, json, fields[i].key, fields[i].least, 1e12, *fields[i].value,
                                fields[i].value, fault))
            return -1;
    if (m->gamma2 > 0)
        return spotnik_json_fault(
            fault, path, json, "gamma2", 0,
            "gamma2 must not be above zero (a larger batch needs fewer updates)");
    return 0;
}

static int constants_json(const char *path, struct constants *constants,
                          struct spotnik_fault *fault)
{
    json_t *json, *item;
    size_t i;

    if (spotnik_json_load(path, &json, fault))
        return -1;
    int rc = model_json(path, json_object_get(json, "model"), &constants->model, fault);
    const json_t *list = json_object_get(json, "instances");
    constants->count = json_array_size(list);
    constants->types = calloc(constants->count + 1, sizeof(*constants->types));
    if (!rc && (!constants->count || constants->count > SPOTNIK_SPOTDNN_TYPES_MAX))
        rc = spotnik_json_fault(fault, path, json, "instances", 0,
                                "'instances' is not a list of 1 to %d types",
                                SPOTNIK_SPOTDNN_TYPES_MAX);
    json_array_foreach(list, i, item)
    {
        struct spotnik_spotdnn_type *type = &constants->types[i];
        const char *name = json_string_value(json_object_get(item, "instance"));
        double quota = 0, per_gpu = 0;
        if (rc)
            break;
        snprintf(type->name, sizeof(type->name), "%s", name ? name : "");
        if (!name)
            rc = spotnik_json_fault(fault, path, list, NULL, i, "instance %zu has no name", i + 1);
        else if (spotnik_json_number(path, item, "gpus", 1, 64, 1, &type->gpus, fault)
                 || spotnik_json_number(path, item, "speed_img_per_s", 1e-6, 1e9, NAN,
                                        &type->images_per_s, fault)
                 || spotnik_json_number(path, item, "batch_per_gpu", 1, 1e9, NAN, &per_gpu, fault)
                 || spotnik_json_number(path, item, "quota", 0, 1e6, 1e6, &quota, fault)
                 || spotnik_json_number(path, item, "spot_usd_per_h", 1e-6, 1e5, -1,
                                        &type->usd_per_h, fault))
            rc = -1;
        if (type->usd_per_h < 0)
            type->usd_per_h = NAN;
        type->batch = per_gpu * type->gpus;
        type->quota = (unsigned)quota;
    }
    json_decref(json);
    return rc;
}

/* Prices by name; a type without one keeps its own, or is left out when it has none. */
static int prices_apply(const char *path, struct constants *constants, struct spotnik_fault *fault)
{
    struct spotnik_table *table;
    double price;
    int rc = 0;

    if (!path)
        return 0;
    if (spotnik_table_load(path, &table, fault))
        return -1;
    int name = either(table, "instance", "instance_type"),
        spot = either(table, "spot_usd_per_h", "SpotPrice");
    if (name < 0)
        name = spotnik_table_find(table, "InstanceType");
    if (name < 0 || spot < 0)
        rc = spotnik_fault_set(fault, "%s:1: columns 'instance' and 'spot_usd_per_h' are needed",
                               path);
    for (size_t row = 0; !rc && row < spotnik_table_rows(table); row++) {
        const char *text = spotnik_table_text(table, row, name);
        if (spotnik_table_empty(table, row, spot))
            continue;
        rc = spotnik_table_number(table, row, spot, 1e-6, 1e5, &price, fault);
        for (size_t i = 0; !rc && i < constants->count; i++)
            if (!strcasecmp(constants->types[i].name, text))
                constants->types[i].usd_per_h = price;
    }
    spotnik_table_free(table);
    return rc;
}

static void quota_apply(struct constants *constants, double quota)
{
    for (size_t i = 0; i < constants->count; i++) {
        struct spotnik_spotdnn_type *type = &constants->types[i];
        if (quota >= 0 && quota < type->quota)
            type->quota = (unsigned)quota;
        if (isnan(type->usd_per_h)) {
            fprintf(stderr, "spotnik model spotdnn: %s has no spot price and is left out\n",
                    type->name);
            type->quota = 0;
            type->usd_per_h = 0;
        }
    }
}

static json_t *search_json(const struct constants *constants,
                           const struct spotnik_spotdnn_goal *goal, const char *search,
                           const unsigned *count, const struct spotnik_spotdnn_search *found)
{
    const struct spotnik_spotdnn_result *r = &found->result;
    json_t *plan = json_array(), *order = json_array(), *machines = json_object();

    for (size_t i = 0; i < constants->count; i++) {
        json_array_append_new(plan, json_integer(count[i]));
        json_array_append_new(order, json_string(constants->types[i].name));
        if (count[i])
            json_object_set_new(machines, constants->types[i].name, json_integer(count[i]));
    }
    return json_pack("{s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:s, s:b, s:I, s:i, s:f, s:f, s:f, s:f, "
                     "s:f, s:{s:f, s:f}}",
                     "plan", plan, "order", order, "machines", machines, "time", r->time_s, "cost",
                     r->cost_usd, "time_s", r->time_s, "cost_usd", r->cost_usd, "search", search,
                     "proved_optimal", (int)found->proved, "candidates",
                     (json_int_t)found->candidates, "workers", (int)r->workers, "usd_per_h",
                     r->usd_per_h, "iterations", r->iterations, "iteration_s", r->iteration_s,
                     "weighted_batch", r->batch, "convergence_coefficient", r->coefficient,
                     "objective", "loss", goal->loss, "deadline_s", goal->deadline_s);
}

static int spotdnn_run(struct constants *constants, const struct spotnik_spotdnn_goal *goal,
                       const char *search)
{
    bool exact = !strcmp(search, "exact");
    struct spotnik_spotdnn_search found;
    struct spotnik_fault fault;
    unsigned *count = calloc(constants->count, sizeof(*count));
    int rc = !count  ? spotnik_fault_set(&fault, "out of memory")
             : exact ? spotnik_spotdnn_exact(&constants->model, constants->types, constants->count,
                                             goal, count, &found, &fault)
                     : spotnik_spotdnn_window(&constants->model, constants->types, constants->count,
                                              goal, count, &found, &fault);

    if (!rc && !found.found)
        rc = spotnik_spotdnn_explain(&constants->model, constants->types, constants->count, goal,
                                     &fault);
    if (!rc)
        rc = spotnik_cli_json(search_json(constants, goal, search, count, &found));
    else
        rc = spotnik_cli_refuse("model spotdnn", SPOTNIK_EXIT_FAILED, "%s", fault.text);
    free(count);
    return rc;
}

/* As --constants reads it, once it has `instances`. */
static json_t *fitted_json(const struct spotnik_spotdnn_model *m, double error_pct, size_t rows)
{
    json_t *model =
        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "alpha1", m->alpha1,
                  "beta1", m->beta1, "gamma1", m->gamma1, "gamma2", m->gamma2, "gamma3", m->gamma3,
                  "gamma4", m->gamma4, "gamma5", m->gamma5, "parameters_mb", m->parameters_mb,
                  "request_mb_per_s", m->request_mb_per_s, "server_mb_per_s", m->server_mb_per_s,
                  "pcie_mb_per_s", m->pcie_mb_per_s);

    return json_pack("{s:o, s:I, s:f}", "model", model, "rows", (json_int_t)rows, "mape_pct",
                     error_pct);
}

/* Several files one after the other: losses, then times. */
static int fit_run(const char *const *paths, size_t count, struct spotnik_spotdnn_model *model)
{
    struct spotnik_fault fault;
    double error_pct = 0;
    size_t rows = 0;

    for (size_t i = 0; i < count; i++)
        if (spotnik_spotdnn_fit(paths[i], model, &error_pct, &rows, &fault))
            return spotnik_cli_refuse("model spotdnn", SPOTNIK_EXIT_FAILED, "%s", fault.text);
    return spotnik_cli_json(fitted_json(model, error_pct, rows));
}

int spotnik_model_spotdnn(int argc, char **argv)
{
    static const struct option options[] = {
        { "constants", 1, 0, 'c' },     { "prices", 1, 0, 'p' },
        { "quota", 1, 0, 'q' },         { "loss", 1, 0, 'l' },
        { "deadline", 1, 0, 'd' },      { "search", 1, 0, 's' },
        { "takeover", 1, 0, 't' },      { "fit", 1, 0, 'f' },
        { "parameters-mb", 1, 0, 'm' }, { 0, 0, 0, 0 }
    };
    const char *constants_path = NULL, *prices_path = NULL, *search = "window",
               *name = "model spotdnn";
    struct constants constants = { .model = spotnik_spotdnn_resnet110 };
    struct spotnik_spotdnn_goal goal = { .loss = NAN, .deadline_s = NAN };
    struct spotnik_fault fault;
    const char *fits[4];
    size_t fit_count = 0;
    double quota = -1;
    int option;
    bool good = true;

    optind = 1;
    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'c')
            constants_path = optarg;
        else if (option == 'p')
            prices_path = optarg;
        else if (option == 's')
            search = optarg;
        else if (option == 'f')
            good = spotnik_cli_append(name, optarg, fits, &fit_count, 4);
        else if (option == 'm')
            good = spotnik_cli_number(name, "--parameters-mb", optarg, 1e-9, 1e9,
                                      &constants.model.parameters_mb);
        else if (option == 'q')
            good =
                spotnik_cli_number(name, "--quota", optarg, 0, 1e6, &quota)
                && (quota == floor(quota)
                    || spotnik_cli_refuse(name, 0, "--quota '%s' is not a whole number", optarg));
        else if (option == 'l')
            good = spotnik_cli_number(name, "--loss", optarg, -1e9, 1e9, &goal.loss);
        else if (option == 'd')
            good = spotnik_cli_duration(name, "--deadline", optarg, true, &goal.deadline_s);
        else if (option == 't')
            good = spotnik_cli_duration(name, "--takeover", optarg, true, &goal.takeover_s);
        else
            good = false;
    }
    if (optind < argc)
        spotnik_cli_refuse(name, 0, "'%s' is one word too many", argv[optind]);
    if (!good || optind < argc)
        return spotnik_cli_refuse("model", SPOTNIK_EXIT_USAGE, "--help tells all options");
    if (fit_count && !constants_path)
        return fit_run(fits, fit_count, &constants.model);
    if (!constants_path || isnan(goal.loss) || isnan(goal.deadline_s))
        return spotnik_cli_refuse(name, SPOTNIK_EXIT_USAGE,
                                  "--constants, --loss and --deadline are needed");
    if (strcmp(search, "window") && strcmp(search, "exact"))
        return spotnik_cli_refuse(name, SPOTNIK_EXIT_USAGE, "--search is window or exact, not '%s'",
                                  search);
    int rc = spotnik_json_looks_like(constants_path)
                 ? constants_json(constants_path, &constants, &fault)
                 : constants_csv(constants_path, &constants, &fault);
    if (!rc)
        rc = prices_apply(prices_path, &constants, &fault);
    if (!rc && goal.loss <= constants.model.gamma5)
        rc = spotnik_fault_set(
            &fault,
            "the loss binds: the model's floor is %g, a loss of %g is never reached; nearest "
            "feasible: --loss %g or more",
            constants.model.gamma5, goal.loss, constants.model.gamma5 + 0.01);
    if (rc) {
        rc = spotnik_cli_refuse(name, SPOTNIK_EXIT_FAILED, "%s", fault.text);
    } else {
        quota_apply(&constants, quota);
        rc = spotdnn_run(&constants, &goal, search);
    }
    free(constants.types);
    return rc;
}

/* False where a count is not a whole number, or none is above zero. */
static bool counts_whole(const double *counts, size_t count, unsigned *whole)
{
    double total = 0;

    for (size_t i = 0; i < count; i++) {
        if (counts[i] != floor(counts[i]) || counts[i] > COUNT_MOST)
            return false;
        whole[i] = (unsigned)counts[i];
        total += counts[i];
    }
    return total > 0;
}

int spotnik_model_coefficient(int argc, char **argv)
{
    static const struct option options[] = { { "speeds", 1, 0, 's' },
                                             { "counts", 1, 0, 'c' },
                                             { 0, 0, 0, 0 } };
    double speeds[64], counts[64];
    unsigned whole[64];
    size_t speed_count = 0, count_count = 0;
    int option;
    bool good = true;

    optind = 1;
    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
        good = option == 's'   ? spotnik_cli_list(optarg, 1e-9, speeds, 64, &speed_count)
               : option == 'c' ? spotnik_cli_list(optarg, 0, counts, 64, &count_count)
                               : false;
    if (!good || optind < argc || speed_count != count_count
        || !counts_whole(counts, count_count, whole))
        return spotnik_cli_refuse("model coefficient", SPOTNIK_EXIT_USAGE,
                                  "--speeds and --counts are lists of the same length, such as 3,1 "
                                  "and 7,3; counts are whole numbers, at least one above zero");
    printf("%.4f\n", spotnik_convergence_coefficient(speeds, whole, speed_count));
    return SPOTNIK_EXIT_OK;
}

static double bathtub_lost(const void *context, double age_s)
{
    return spotnik_bathtub_lost(context, age_s);
}

static double exponential_lost(const void *context, double age_s)
{
    return 1 - exp(-age_s / *(const double *)context);
}

struct interval_call {
    struct spotnik_interval_terms terms;
    struct spotnik_bathtub bathtub;
    double mttf_s; /* NAN: the bathtub says it */
    bool bathtub_given;
};

static bool interval_option(struct interval_call *call, int option, const char *name)
{
    double values[4];
    size_t count;

    switch (option) {
    case 'j':
        return spotnik_cli_duration(name, "--job", optarg, false, &call->terms.job_s);
    case 'w':
        return spotnik_cli_duration(name, "--write", optarg, false, &call->terms.write_s);
    case 'r':
        return spotnik_cli_duration(name, "--restart", optarg, false, &call->terms.restart_s);
    case 'm':
        return spotnik_cli_duration(name, "--mttf", optarg, false, &call->mttf_s);
    case 'g':
        return spotnik_cli_duration(name, "--age", optarg, false, &call->terms.start_age_s);
    case 't':
        return spotnik_cli_duration(name, "--tick", optarg, false, &call->terms.tick_s);
    case 'a':
        call->terms.conditional = call->terms.exact_loss = false;
        return true;
    case 'b':
        if (!spotnik_cli_list(optarg, 1e-9, values, 4, &count) || count != 4)
            return spotnik_cli_refuse(name, 0, "--bathtub is A,tau1,tau2,cap with times in hours"),
                   false;
        call->bathtub_given = true;
        call->bathtub = (struct spotnik_bathtub){ values[0], values[1] * 3600, values[2] * 3600,
                                                  values[3] * 3600 };
        return true;
    default:
        return false;
    }
}

int spotnik_model_interval(int argc, char **argv)
{
    static const struct option options[] = {
        { "job", 1, 0, 'j' },     { "write", 1, 0, 'w' },   { "restart", 1, 0, 'r' },
        { "mttf", 1, 0, 'm' },    { "age", 1, 0, 'g' },     { "tick", 1, 0, 't' },
        { "bathtub", 1, 0, 'b' }, { "authors", 0, 0, 'a' }, { 0, 0, 0, 0 }
    };
    struct interval_call call = {
        .terms = { .write_s = 60, .tick_s = 60, .conditional = true, .exact_loss = true },
        .bathtub = spotnik_bathtub_published,
        .mttf_s = NAN,
    };
    struct spotnik_interval_plan *plan = calloc(1, sizeof(*plan));
    struct spotnik_fault fault;
    int option;
    bool good = plan != NULL;

    optind = 1;
    while (good && (option = getopt_long(argc, argv, "", options, NULL)) != -1)
        good = interval_option(&call, option, "model interval");
    const char *wrong =
        !good                                      ? "--help tells all options"
        : optind < argc                            ? "there is a word too many; see --help"
        : !(call.terms.job_s > 0)                  ? "--job 5h is needed, above zero"
        : !(call.terms.write_s > 0)                ? "--write is not above zero"
        : !(call.terms.tick_s > 0)                 ? "--tick is not above zero"
        : !(call.mttf_s > 0 || isnan(call.mttf_s)) ? "--mttf is not above zero"
        : !isnan(call.mttf_s) && call.bathtub_given
            ? "--mttf and --bathtub both say how machines are lost: give one of them"
            : NULL;
    if (wrong) {
        free(plan);
        return spotnik_cli_refuse("model interval", SPOTNIK_EXIT_USAGE, "%s", wrong);
    }
    call.terms.lost_by = call.mttf_s > 0 ? exponential_lost : bathtub_lost;
    call.terms.context = call.mttf_s > 0 ? (const void *)&call.mttf_s : &call.bathtub;
    if (spotnik_interval_programme(&call.terms, plan, &fault)) {
        free(plan);
        return spotnik_cli_refuse("model interval", SPOTNIK_EXIT_FAILED, "%s", fault.text);
    }
    double mttf_s = call.mttf_s > 0 ? call.mttf_s : spotnik_bathtub_mean_s(&call.bathtub);
    json_t *list = json_array();
    for (size_t i = 0; i < plan->count; i++)
        json_array_append_new(list, json_real(plan->interval_s[i] / 60));
    json_t *json =
        json_pack("{s:o, s:f, s:f, s:f, s:f, s:f, s:f}", "intervals_min", list, "expected_min",
                  plan->expected_s / 60, "overhead_pct",
                  100 * (plan->expected_s / call.terms.job_s - 1), "young_min",
                  spotnik_interval_young_s(call.terms.write_s, mttf_s) / 60, "daly_min",
                  spotnik_interval_daly_s(call.terms.write_s, mttf_s) / 60, "available_min",
                  spotnik_interval_available_s(call.terms.write_s, mttf_s, call.terms.restart_s)
                      / 60,
                  "mttf_h", mttf_s / 3600);
    free(plan);
    return spotnik_cli_json(json);
}
