/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model`: every model of the planner by itself, on CSV, for checks by users. Options are
 * read here; what a model makes of its columns is in model_csv.c and its neighbours. */
#include "cmd_model.h"
#include "model_noise.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: spotnik model speed|noise|lifetime|checkpoint-time|remaining|startup --fit FILE "
    "[--predict "
    "FILE]\n"
    "       spotnik model spotdnn --constants FILE [--prices FILE] [--quota N] --loss L --deadline "
    "S\n"
    "                             [--search window|exact]\n"
    "       spotnik model spotdnn --fit LOSSES [--fit TIMES] [--parameters-mb X]   (its constants, "
    "as JSON)\n"
    "       spotnik model interval --job 5h --write 1m [--mttf 1h | --bathtub "
    "A,tau1_h,tau2_h,cap_h] "
    "[--authors]\n"
    "       spotnik model coefficient --speeds 3,1 --counts 7,3\n"
    "\n"
    "Predictions are CSV on stdout: the columns of the file, the prediction, and the error when "
    "the observed "
    "column\n"
    "is there. A summary goes to stderr. Files may be gzip.\n"
    "  --sharpness P      speed, noise: how sharp saturation sets in (6 and 4 unless told)\n"
    "  --leave-one-out    speed: choose the sharpness for each series from the other series\n"
    "  --usd-per-h X      noise: price of one machine (0.13402, e2-standard-4)\n"
    "  --target COLUMN    checkpoint-time: the observed column (Duration)\n"
    "  --by COLUMN        lifetime: one estimate for each value of a column\n"
    "  --cap 24h          lifetime: the provider's cap; --at 1,3,6,12,24 the hours to print\n";

/* What one model takes. */
static const struct {
    const char *name, *help;
} helps[] = {
    { "speed", "speed --fit FILE [--predict FILE] [--sharpness P] [--leave-one-out]\n\n"
               "Steps per second by the number of workers. Columns: workers, speed_steps_per_s "
               "(model, gpu, num_ps:\n"
               "rows that differ in one of them are fitted apart).\n" },
    { "noise", "noise --fit FILE [--predict FILE] [--sharpness P] [--usd-per-h X]\n\n"
               "Time and cost by batch and workers, or epochs by noise (Scavenger). Columns: "
               "global_batch_B, workers_K,\n"
               "time_h_observed (model); or global_batch_B, epochs_to_target, "
               "normalized_noise_gamma_over_K.\n" },
    { "lifetime", "lifetime --fit FILE [--by COLUMN] [--cap 24h] [--at 1,3,6,12,24]\n\n"
                  "Share of machines lost by an age. Columns: lifetime_s, lifetime_min or "
                  "lifetime_h, with end_kind\n"
                  "(preempted or stopped) or revoked_before_24h (1 or 0).\n" },
    { "checkpoint-time",
      "checkpoint-time --fit FILE [--predict FILE] [--target COLUMN]\n\n"
      "Seconds to write a checkpoint by its size. Columns: size_mb, seconds (meta_mb, weights_mb, "
      "model).\n" },
    { "remaining",
      "remaining --fit FILE [--predict FILE]\n\nSeconds left after a revocation, by the step. "
      "Columns: revocation_step, actual_remaining_s.\n" },
    { "startup", "startup --fit FILE\n\nSeconds to start a machine, by its stage. Columns: "
                 "Provisioning, Staging, Booting.\n" },
    { "spotdnn",
      "spotdnn --constants FILE [--prices FILE] [--quota N] --loss L --deadline S [--search "
      "window|exact]\n"
      "       spotnik model spotdnn --fit LOSSES [--fit TIMES] [--parameters-mb X]\n\n"
      "--fit prints constants. Columns: workers, batch, iterations, loss (coefficient); or "
      "workers, alone_s, "
      "iteration_s.\n" },
    { "interval",
      "interval --job 5h --write 1m [--mttf 1h | --bathtub A,tau1_h,tau2_h,cap_h] [--authors]\n" },
    { "coefficient", "coefficient --speeds 3,1 --counts 7,3\n" },
};

static bool help_one(const char *name)
{
    for (size_t i = 0; i < sizeof(helps) / sizeof(*helps); i++)
        if (!strcmp(helps[i].name, name)) {
            printf("usage: spotnik model %s", helps[i].help);
            return true;
        }
    return false;
}

static int compare_double(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

void spotnik_model_print(struct spotnik_model_errors *errors, double predicted, double observed)
{
    if (isnan(observed)) {
        printf("%.6g,\n", predicted);
        return;
    }
    double error = 100 * (predicted / observed - 1);
    printf("%.6g,%.3f\n", predicted, error);
    errors->sum += fabs(error);
    errors->worst = fmax(errors->worst, fabs(error));
    if (errors->count < sizeof(errors->values) / sizeof(*errors->values))
        errors->values[errors->count] = fabs(error);
    errors->count++;
}

void spotnik_model_report(const char *what, struct spotnik_model_errors *errors)
{
    size_t kept = errors->count;

    if (!kept)
        return;
    if (kept > sizeof(errors->values) / sizeof(*errors->values))
        kept = sizeof(errors->values) / sizeof(*errors->values);
    qsort(errors->values, kept, sizeof(double), compare_double);
    double median = kept % 2 ? errors->values[kept / 2]
                             : (errors->values[kept / 2 - 1] + errors->values[kept / 2]) / 2;
    fprintf(stderr, "%s: MAPE %.2f %%, median %.2f %%, worst %.2f %%, over %zu rows\n", what,
            errors->sum / (double)errors->count, median, errors->worst, errors->count);
}

static bool read_option(struct spotnik_model_call *call, int option, const char *name,
                        const char **fit, const char **predict)
{
    switch (option) {
    case 'f':
        *fit = optarg;
        return true;
    case 'p':
        *predict = optarg;
        return true;
    case 't':
        call->target = optarg;
        return true;
    case 'b':
        call->by = optarg;
        return true;
    case 'l':
        call->leave_one_out = true;
        return true;
    case 's':
        return spotnik_cli_number(name, "--sharpness", optarg, 0.1, 100, &call->sharpness);
    case 'u':
        return spotnik_cli_number(name, "--usd-per-h", optarg, 0, 1e6, &call->usd_per_h);
    case 'c':
        return spotnik_cli_duration(name, "--cap", optarg, false, &call->cap_s)
               && (call->cap_s > 0 || spotnik_cli_refuse(name, 0, "--cap is not above zero"));
    case 'a':
        if (spotnik_cli_list(optarg, 0, call->at_h, 64, &call->at_count))
            return true;
        spotnik_cli_refuse(name, 0, "--at '%s' is not a list of hours such as 1,3,6,12,24", optarg);
        return false;
    default:
        return false;
    }
}

/* `takes`: the letters of the options that this model heeds. */
static int read_options(struct spotnik_model_call *call, const char *takes, int argc, char **argv,
                        const char **fit, const char **predict)
{
    static const struct option options[] = {
        { "fit", 1, 0, 'f' }, { "predict", 1, 0, 'p' },   { "target", 1, 0, 't' },
        { "by", 1, 0, 'b' },  { "sharpness", 1, 0, 's' }, { "usd-per-h", 1, 0, 'u' },
        { "cap", 1, 0, 'c' }, { "at", 1, 0, 'a' },        { "leave-one-out", 0, 0, 'l' },
        { 0, 0, 0, 0 }
    };
    int option, which = -1;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", options, &which)) != -1) {
        if (option != '?' && !strchr(takes, option))
            return spotnik_cli_refuse(argv[0], -1, "--%s is of another model: leave it out",
                                      options[which].name);
        if (!read_option(call, option, argv[0], fit, predict))
            return -1;
    }
    if (optind < argc)
        return spotnik_cli_refuse(argv[0], -1, "'%s' is one word too many", argv[optind]);
    if (!*fit)
        return spotnik_cli_refuse(argv[0], -1, "--fit FILE is needed");
    return 0;
}

static int run_csv(int (*model)(const struct spotnik_model_call *, struct spotnik_fault *),
                   const char *takes, int argc, char **argv)
{
    struct spotnik_model_call call = { .usd_per_h = SPOTNIK_SCAVENGER_E2_STANDARD_4_USD_PER_H,
                                       .cap_s = 86400,
                                       .at_h = { 1, 3, 6, 12, 24 },
                                       .at_count = 5 };
    struct spotnik_fault fault;
    const char *fit = NULL, *predict = NULL;

    if (read_options(&call, takes, argc, argv, &fit, &predict))
        return spotnik_cli_refuse("model", SPOTNIK_EXIT_USAGE, "--help tells all options");
    int rc = spotnik_table_load(fit, &call.fit, &fault);
    if (!rc && predict)
        rc = spotnik_table_load(predict, &call.predict, &fault);
    if (!rc)
        rc = model(&call, &fault);
    spotnik_table_free(call.fit);
    spotnik_table_free(call.predict);
    return rc ? spotnik_cli_refuse("model", SPOTNIK_EXIT_FAILED, "%s", fault.text)
              : SPOTNIK_EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*csv)(const struct spotnik_model_call *, struct spotnik_fault *);
        const char *takes; /* of the options above */
        int (*own)(int, char **);
    } models[] = {
        { "speed", spotnik_model_speed, "fpsl", NULL },
        { "noise", spotnik_model_noise, "fpsu", NULL },
        { "lifetime", spotnik_model_lifetime, "fpbca", NULL },
        { "checkpoint-time", spotnik_model_checkpoint_time, "fpt", NULL },
        { "remaining", spotnik_model_remaining, "fpt", NULL },
        { "startup", spotnik_model_startup, "f", NULL },
        { "spotdnn", NULL, "", spotnik_model_spotdnn },
        { "interval", NULL, "", spotnik_model_interval },
        { "coefficient", NULL, "", spotnik_model_coefficient },
    };

    for (int i = 1; i < argc; i++)
        if (!*argv[i])
            return spotnik_cli_refuse("model", SPOTNIK_EXIT_USAGE,
                                      "%s has no value: what stands behind it is empty",
                                      argv[i - 1]);
    const char *last = argv[argc - 1]; /* "model --help" and "model speed --help" */
    bool help = argc > 1 && argc < 4 && (!strcmp(last, "--help") || !strcmp(last, "-h"));
    if (help && argc == 3 && help_one(argv[1]))
        return SPOTNIK_EXIT_OK;
    for (size_t i = 0; argc > 1 && !help && i < sizeof(models) / sizeof(*models); i++)
        if (!strcmp(argv[1], models[i].name))
            return models[i].csv ? run_csv(models[i].csv, models[i].takes, argc - 1, argv + 1)
                                 : models[i].own(argc - 1, argv + 1);
    fputs(usage, help ? stdout : stderr);
    return help ? SPOTNIK_EXIT_OK : SPOTNIK_EXIT_USAGE;
}
