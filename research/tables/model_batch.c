/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model noise`: Scavenger's two relations. A file with `time_h_observed` gives time and
 * cost from (B, K); one with `epochs_to_target` gives epochs from noise, and noise from B. */
#include "cmd_model.h"
#include "model_noise.h"
#include "plan/curvefit.h"
#include "plan/pareto.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 64
#define ROWS_MAX 1024

struct kind {
    char name[64];
    size_t count;
    struct spotnik_batch_row rows[ROWS_MAX];
    double noise[ROWS_MAX];
    struct spotnik_batch_time time;
    struct spotnik_line noise_line, epoch_line; /* gamma on B^-1/2; epochs on gamma */
};

struct columns {
    int model, batch, workers, time, epochs, noise;
};

static int columns_find(const struct spotnik_table *table, bool time, bool fit, struct columns *c,
                        struct spotnik_fault *fault)
{
    const char *target = time ? "time_h_observed" : "epochs_to_target";

    *c = (struct columns){ .model = spotnik_table_find(table, "model"),
                           .batch = spotnik_table_need(table, "global_batch_B", fault),
                           .workers = spotnik_table_find(table, "workers_K"),
                           .time = spotnik_table_find(table, "time_h_observed"),
                           .epochs = spotnik_table_find(table, "epochs_to_target"),
                           .noise = spotnik_table_find(table, "normalized_noise_gamma_over_K") };
    if (c->batch < 0)
        return -1;
    if (time && c->workers < 0)
        return spotnik_table_need(table, "workers_K", fault);
    if (fit && spotnik_table_need(table, target, fault) < 0)
        return -1;
    if (fit && !time && c->noise < 0)
        return spotnik_table_need(table, "normalized_noise_gamma_over_K", fault);
    return 0;
}

static struct kind *kind_of(struct kind *kinds, size_t *count, const char *name, bool make)
{
    for (size_t i = 0; i < *count; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    if (!make || *count == KINDS_MAX)
        return NULL;
    snprintf(kinds[*count].name, sizeof(kinds->name), "%s", name);
    return &kinds[(*count)++];
}

static const char *model_name(const struct spotnik_table *table, size_t row,
                              const struct columns *c)
{
    return c->model < 0 ? "" : spotnik_table_text(table, row, c->model);
}

static int row_read(const struct spotnik_table *table, size_t row, const struct columns *c,
                    int target, struct spotnik_batch_row *out, double *noise_out,
                    struct spotnik_fault *fault)
{
    *out = (struct spotnik_batch_row){ .workers = 1, .time_h = NAN };
    *noise_out = NAN;
    if (spotnik_table_number(table, row, c->batch, 1, 1e9, &out->batch, fault))
        return -1;
    if (c->workers >= 0
        && spotnik_table_number(table, row, c->workers, 1, 1e6, &out->workers, fault))
        return -1;
    if (target >= 0 && !spotnik_table_empty(table, row, target)
        && spotnik_table_number(table, row, target, 1e-9, 1e9, &out->time_h, fault))
        return -1;
    if (c->noise >= 0 && !spotnik_table_empty(table, row, c->noise))
        return spotnik_table_number(table, row, c->noise, 0, 1e9, noise_out, fault);
    return 0;
}

static int kinds_read(const struct spotnik_table *table, const struct columns *c, int target,
                      struct kind *kinds, size_t *count, struct spotnik_fault *fault)
{
    for (size_t row = 0; row < spotnik_table_rows(table); row++) {
        struct kind *kind = kind_of(kinds, count, model_name(table, row, c), true);
        if (!kind || kind->count == ROWS_MAX)
            return spotnik_fault_set(fault, "%s:%zu: too many models or rows",
                                     spotnik_table_name(table), spotnik_table_line(table, row));
        if (row_read(table, row, c, target, &kind->rows[kind->count], &kind->noise[kind->count],
                     fault))
            return -1;
        if (isnan(kind->rows[kind->count].time_h))
            return spotnik_fault_set(fault, "%s:%zu: the observed value is empty",
                                     spotnik_table_name(table), spotnik_table_line(table, row));
        kind->count++;
    }
    return 0;
}

static int kind_fit_epochs(struct kind *kind, const char *file, struct spotnik_fault *fault)
{
    double root[ROWS_MAX], epochs[ROWS_MAX];

    for (size_t i = 0; i < kind->count; i++) {
        if (isnan(kind->noise[i]))
            return spotnik_fault_set(fault, "%s: a row of '%s' has no noise", file, kind->name);
        root[i] = pow(kind->rows[i].batch, -0.5);
        epochs[i] = kind->rows[i].time_h;
    }
    kind->noise_line = spotnik_line_fit(root, kind->noise, NULL, kind->count);
    kind->epoch_line = spotnik_line_fit(kind->noise, epochs, NULL, kind->count);
    fprintf(stderr,
            "%s: noise = %.4f + %.3f B^-1/2 (R^2 %.3f); epochs = %.2f + %.2f noise (R^2 %.3f)\n",
            kind->name, kind->noise_line.intercept, kind->noise_line.slope,
            kind->noise_line.r_squared, kind->epoch_line.intercept, kind->epoch_line.slope,
            kind->epoch_line.r_squared);
    return 0;
}

static int kind_fit(struct kind *kind, bool time, double sharpness, const char *file,
                    struct spotnik_fault *fault)
{
    if (!time)
        return kind_fit_epochs(kind, file, fault);
    if (spotnik_batch_time_fit(kind->rows, kind->count, sharpness, &kind->time))
        return spotnik_fault_set(
            fault, "%s: '%s' needs at least two batches and two worker counts (four rows)", file,
            kind->name);
    return 0;
}

/* How often the intervals held, where there is a time to compare with. */
struct held {
    size_t inside, known;
};

static void interval_print(const struct kind *kind, const struct spotnik_batch_row *row,
                           struct held *held)
{
    double low_h, high_h;

    if (spotnik_batch_time_interval(kind->rows, kind->count, row->batch, row->workers, &low_h,
                                    &high_h))
        low_h = high_h = NAN; /* the fit has been refused already */
    printf("%.4f,%.4f,", low_h, high_h);
    held->known += !isnan(row->time_h);
    held->inside += row->time_h >= low_h && row->time_h <= high_h;
}

/* One prediction; the cost follows from the time. */
static void predict_row(const struct kind *kind, bool time, const struct spotnik_batch_row *row,
                        double noise, double usd_per_h, struct held *held,
                        struct spotnik_model_errors *errors)
{
    if (!time) {
        double gamma = isnan(noise) ? kind->noise_line.intercept
                                          + kind->noise_line.slope * pow(row->batch, -0.5)
                                    : noise;
        printf("%.5g,", gamma);
        spotnik_model_print(errors, kind->epoch_line.intercept + kind->epoch_line.slope * gamma,
                            row->time_h);
        return;
    }
    double hours = spotnik_batch_time_h(&kind->time, row->batch, row->workers);
    interval_print(kind, row, held);
    printf("%.4f,", spotnik_cluster_cost_usd(hours, row->workers, usd_per_h));
    spotnik_model_print(errors, hours, row->time_h);
}

static int predict(const struct spotnik_model_call *call, const struct spotnik_table *table,
                   bool time, struct kind *kinds, size_t count, struct spotnik_fault *fault)
{
    struct spotnik_model_errors *errors = calloc(1, sizeof(*errors));
    struct spotnik_batch_row row;
    struct held held = { 0, 0 };
    struct columns c;
    double noise;
    int rc = errors ? columns_find(table, time, false, &c, fault) : -1;

    if (!rc) {
        spotnik_cli_csv_header(table);
        puts(time ? "low_h,high_h,predicted_cost_usd,predicted_time_h,error_pct"
                  : "noise_used,predicted_epochs,error_pct");
    }
    for (size_t i = 0; !rc && i < spotnik_table_rows(table); i++) {
        const struct kind *kind = kind_of(kinds, &count, model_name(table, i, &c), false);
        rc = kind ? row_read(table, i, &c, time ? c.time : c.epochs, &row, &noise, fault)
                  : spotnik_fault_set(
                        fault,
                        "%s:%zu: '%s' is not in the fitted file (a profile from another model?)",
                        spotnik_table_name(table), spotnik_table_line(table, i),
                        model_name(table, i, &c));
        if (rc)
            break;
        spotnik_cli_csv_row(table, i);
        predict_row(kind, time, &row, noise, call->usd_per_h, &held, errors);
    }
    if (!rc)
        spotnik_model_report(time ? "time" : "epochs", errors);
    if (!rc && held.known)
        fprintf(stderr, "  90 %% intervals hold %zu of %zu rows\n", held.inside, held.known);
    free(errors);
    return rc;
}

int spotnik_model_noise(const struct spotnik_model_call *call, struct spotnik_fault *fault)
{
    bool time = spotnik_table_find(call->fit, "time_h_observed") >= 0;
    double sharpness = call->sharpness > 0 ? call->sharpness : SPOTNIK_NOISE_SHARPNESS;
    struct kind *kinds = calloc(KINDS_MAX, sizeof(*kinds));
    struct columns c;
    size_t count = 0;
    int rc = kinds ? columns_find(call->fit, time, true, &c, fault)
                   : spotnik_fault_set(fault, "out of memory");

    if (!rc)
        rc = kinds_read(call->fit, &c, time ? c.time : c.epochs, kinds, &count, fault);
    for (size_t i = 0; !rc && i < count; i++)
        rc = kind_fit(&kinds[i], time, sharpness, spotnik_table_name(call->fit), fault);
    if (!rc)
        rc = predict(call, call->predict ? call->predict : call->fit, time, kinds, count, fault);
    free(kinds);
    return rc;
}
