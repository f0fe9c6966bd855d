/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model speed|noise|remaining|startup`: which columns a model reads, and its
 * predictions as CSV. Lifetimes are in model_lives.c. */
#include "cmd_model.h"
#include "model_overhead.h"
#include "model_speed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES_MAX 512
#define POINTS_MAX 4096

static const struct spotnik_table *predicted_table(const struct spotnik_model_call *call)
{
    return call->predict ? call->predict : call->fit;
}

/* An observed value above zero, or NAN where the column or the field is not there. */
static int observed_of(const struct spotnik_table *table, size_t row, int column, double *value_out,
                       struct spotnik_fault *fault)
{
    *value_out = NAN;
    if (column < 0 || spotnik_table_empty(table, row, column))
        return 0;
    return spotnik_table_number(table, row, column, 1e-12, 1e15, value_out, fault);
}

/* The key of a series: its model, GPU and number of servers, as far as there are such columns. */
static void series_key(const struct spotnik_table *table, size_t row, char key[192])
{
    static const char *const parts[] = { "model", "gpu", "num_ps" };

    key[0] = '\0';
    for (size_t i = 0; i < 3; i++) {
        int column = spotnik_table_find(table, parts[i]);
        if (column >= 0)
            snprintf(key + strlen(key), 192 - strlen(key), "%s%s", *key ? " " : "",
                     spotnik_table_text(table, row, column));
    }
}

struct series {
    char key[192];
    size_t count;
    double x[64], y[64];
    struct spotnik_speed speed;
};

struct series_list {
    struct series list[SERIES_MAX];
    size_t count;
};

static struct series *series_find(struct series_list *all, const char *key, bool make)
{
    for (size_t i = 0; i < all->count; i++)
        if (!strcmp(all->list[i].key, key))
            return &all->list[i];
    if (!make || all->count == SERIES_MAX)
        return NULL;
    struct series *series = &all->list[all->count++];
    snprintf(series->key, sizeof(series->key), "%s", key);
    series->count = 0;
    return series;
}

static int series_read(const struct spotnik_table *table, struct series_list *all,
                       struct spotnik_fault *fault)
{
    int workers = spotnik_table_need(table, "workers", fault);
    int speed = workers < 0 ? -1 : spotnik_table_need(table, "speed_steps_per_s", fault);
    char key[192];

    if (speed < 0)
        return -1;
    all->count = 0;
    for (size_t row = 0; row < spotnik_table_rows(table); row++) {
        series_key(table, row, key);
        struct series *series = series_find(all, key, true);
        if (!series || series->count == 64)
            return spotnik_fault_set(fault, "%s:%zu: too many series or sizes",
                                     spotnik_table_name(table), spotnik_table_line(table, row));
        if (spotnik_table_number(table, row, workers, 1, 1e6, &series->x[series->count], fault)
            || spotnik_table_number(table, row, speed, 1e-9, 1e9, &series->y[series->count], fault))
            return -1;
        series->count++;
    }
    return 0;
}

static void series_fit(struct series_list *all, double sharpness)
{
    for (size_t i = 0; i < all->count; i++)
        all->list[i].speed =
            spotnik_speed_fit(all->list[i].x, all->list[i].y, all->list[i].count, sharpness);
}

/* Mean absolute log error of the other series' rows in `table` at one sharpness. */
static double others_error(const struct series_list *fit, struct series_list *test,
                           const char *left_out, double p)
{
    double sum = 0, count = 0;

    for (size_t i = 0; i < test->count; i++) {
        const struct series *seen =
            series_find((struct series_list *)fit, test->list[i].key, false);
        if (!seen || !strcmp(seen->key, left_out))
            continue;
        struct spotnik_speed speed = spotnik_speed_fit(seen->x, seen->y, seen->count, p);
        for (size_t j = 0; j < test->list[i].count; j++, count++)
            sum +=
                fabs(log(spotnik_speed_predict(&speed, test->list[i].x[j]) / test->list[i].y[j]));
    }
    return count ? sum / count : INFINITY;
}

/* For each series the sharpness that suits all the others best. */
static void fit_leaving_one_out(struct series_list *fit, struct series_list *test)
{
    for (size_t i = 0; i < fit->count; i++) {
        struct series *series = &fit->list[i];
        double best = INFINITY, best_p = SPOTNIK_SPEED_SHARPNESS;
        for (double p = 1; p <= 16; p += 0.5) {
            double error = others_error(fit, test, series->key, p);
            if (error < best - 1e-9) {
                best = error;
                best_p = p;
            }
        }
        series->speed = spotnik_speed_fit(series->x, series->y, series->count, best_p);
        fprintf(stderr, "%s: sharpness %.1f from the other series\n", series->key, best_p);
    }
}

static double series_most(const struct series *series)
{
    double most = 0;

    for (size_t i = 0; i < series->count; i++)
        most = fmax(most, series->x[i]);
    return most;
}

static int speed_predict(const struct spotnik_table *table, struct series_list *fit,
                         struct spotnik_fault *fault)
{
    struct spotnik_model_errors *errors = calloc(1, sizeof(*errors));
    int workers = spotnik_table_need(table, "workers", fault);
    int speed = spotnik_table_find(table, "speed_steps_per_s"),
        rc = workers < 0 || !errors ? -1 : 0;
    double n, observed, low, high, beyond = 0, inside = 0, known = 0;
    char key[192];

    if (!rc) {
        spotnik_cli_csv_header(table);
        puts("low_steps_per_s,high_steps_per_s,predicted_speed_steps_per_s,error_pct");
    }
    for (size_t row = 0; !rc && row < spotnik_table_rows(table); row++) {
        series_key(table, row, key);
        const struct series *series = series_find(fit, key, false);
        if (!series)
            rc = spotnik_fault_set(
                fault, "%s:%zu: '%s' is not in the fitted file (a profile from another model?)",
                spotnik_table_name(table), spotnik_table_line(table, row), key);
        else if (!(rc = spotnik_table_number(table, row, workers, 1, 1e6, &n, fault))
                 && !(rc = observed_of(table, row, speed, &observed, fault))) {
            spotnik_cli_csv_row(table, row);
            spotnik_speed_interval(series->x, series->y, series->count, n, SPOTNIK_SPEED_SCATTER,
                                   &low, &high);
            printf("%.6g,%.6g,", low, high);
            spotnik_model_print(errors, spotnik_speed_predict(&series->speed, n), observed);
            inside += observed >= low && observed <= high;
            known += !isnan(observed);
            beyond += n > 1.5 * series_most(series);
        }
    }
    if (!rc)
        spotnik_model_report("speed", errors);
    if (!rc && known > 0)
        fprintf(stderr, "  90 %% intervals hold %.0f of %.0f rows\n", inside, known);
    if (!rc && beyond > 0)
        fprintf(stderr,
                "speed: %.0f rows are beyond half as many workers again as were measured. Their "
                "intervals are wide: measure a larger cluster\n",
                beyond);
    free(errors);
    return rc;
}

int spotnik_model_speed(const struct spotnik_model_call *call, struct spotnik_fault *fault)
{
    double sharpness = call->sharpness > 0 ? call->sharpness : SPOTNIK_SPEED_SHARPNESS;
    struct series_list *fit = calloc(1, sizeof(*fit)), *test = calloc(1, sizeof(*test));
    int rc = fit && test ? series_read(call->fit, fit, fault)
                         : spotnik_fault_set(fault, "out of memory");

    if (!rc)
        series_fit(fit, sharpness);
    if (!rc && call->leave_one_out && !(rc = series_read(predicted_table(call), test, fault)))
        fit_leaving_one_out(fit, test);
    for (size_t i = 0; !rc && i < fit->count; i++)
        fprintf(stderr,
                "%s: %.4g steps/s a worker, cap %.4g steps/s, sharpness %.1f, from %zu sizes\n",
                fit->list[i].key, fit->list[i].speed.worker_steps_per_s,
                fit->list[i].speed.cap_steps_per_s, fit->list[i].speed.sharpness,
                fit->list[i].count);
    if (!rc)
        rc = speed_predict(predicted_table(call), fit, fault);
    free(fit);
    free(test);
    return rc;
}

/* One straight line for one pair of columns, with its predictions. */
static int line_columns(const struct spotnik_table *table, const char *x_name, const char *y_name,
                        int *x_out, int *y_out, bool need_y, struct spotnik_fault *fault)
{
    *x_out = spotnik_table_need(table, x_name, fault);
    if (*x_out < 0)
        return -1;
    *y_out = need_y ? spotnik_table_need(table, y_name, fault) : spotnik_table_find(table, y_name);
    return need_y && *y_out < 0 ? -1 : 0;
}

static int points_read(const struct spotnik_table *table, int x_column, int y_column, double *x,
                       double *y, size_t *count_out, struct spotnik_fault *fault)
{
    size_t count = 0;

    for (size_t row = 0; row < spotnik_table_rows(table); row++, count++) {
        if (count == POINTS_MAX)
            return spotnik_fault_set(fault, "%s: more than %d rows", spotnik_table_name(table),
                                     POINTS_MAX);
        if (spotnik_table_number(table, row, x_column, 0, 1e12, &x[count], fault)
            || spotnik_table_number(table, row, y_column, 1e-9, 1e12, &y[count], fault))
            return -1;
    }
    *count_out = count;
    return 0;
}

/* Prints predictions of f(x) for every row. */
static int curve_predict(const struct spotnik_table *table, int x_column, int y_column,
                         const char *header, double (*f)(const void *, double), const void *model,
                         const char *what, struct spotnik_fault *fault)
{
    struct spotnik_model_errors *errors = calloc(1, sizeof(*errors));
    int rc = errors ? 0 : spotnik_fault_set(fault, "out of memory");
    double x, observed;

    if (!rc) {
        spotnik_cli_csv_header(table);
        printf("%s,error_pct\n", header);
    }
    for (size_t row = 0; !rc && row < spotnik_table_rows(table); row++) {
        rc = spotnik_table_number(table, row, x_column, 0, 1e12, &x, fault);
        if (rc || (rc = observed_of(table, row, y_column, &observed, fault)))
            break;
        spotnik_cli_csv_row(table, row);
        spotnik_model_print(errors, f(model, x), observed);
    }
    if (!rc)
        spotnik_model_report(what, errors);
    free(errors);
    return rc;
}

static double remaining_at(const void *model, double step)
{
    return spotnik_remaining_s(model, step);
}

int spotnik_model_remaining(const struct spotnik_model_call *call, struct spotnik_fault *fault)
{
    static double x[POINTS_MAX], y[POINTS_MAX];
    const char *target = call->target ? call->target : "actual_remaining_s";
    struct spotnik_remaining model;
    int x_column, y_column;
    size_t count = 0;

    if (line_columns(call->fit, "revocation_step", target, &x_column, &y_column, true, fault)
        || points_read(call->fit, x_column, y_column, x, y, &count, fault))
        return -1;
    if (spotnik_remaining_fit(x, y, count, &model))
        return spotnik_fault_set(
            fault, "%s: remaining time must fall with the step, over two rows or more",
            spotnik_table_name(call->fit));
    fprintf(stderr, "remaining: %.3f steps/s, %.1f s at step 0, from %zu rows\n", model.steps_per_s,
            model.end_s, count);
    if (line_columns(predicted_table(call), "revocation_step", target, &x_column, &y_column, false,
                     fault))
        return -1;
    return curve_predict(predicted_table(call), x_column, y_column, "predicted_remaining_s",
                         remaining_at, &model, "remaining", fault);
}

int spotnik_model_startup(const struct spotnik_model_call *call, struct spotnik_fault *fault)
{
    static const char *const stages[] = { "Provisioning", "Staging", "Booting" };
    size_t rows = spotnik_table_rows(call->fit);
    double total = 0, value;

    puts("stage,mean_s,sd_s,n");
    for (size_t i = 0; i < 3; i++) {
        int column = spotnik_table_need(call->fit, stages[i], fault);
        double sum = 0, squares = 0;
        if (column < 0)
            return -1;
        for (size_t row = 0; row < rows; row++) {
            if (spotnik_table_number(call->fit, row, column, 0, 1e6, &value, fault))
                return -1;
            sum += value;
            squares += value * value;
        }
        double n = (double)rows, mean = sum / n,
               variance = n > 1 ? fmax(0, squares - n * mean * mean) / (n - 1) : 0;
        printf("%s,%.3f,%.3f,%zu\n", stages[i], mean, sqrt(variance), rows);
        total += mean;
    }
    printf("total,%.3f,,%zu\n", total, rows);
    return 0;
}
