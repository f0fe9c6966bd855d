/* SPDX-License-Identifier: Apache-2.0 */
/* Relative errors are made least: losses and times span decades. Without two batches gamma2 cannot
 * be told from gamma3 and is nought; without a column of coefficients the loss has none (gamma4 is
 * -1). */
#include "spotdnn_fit.h"
#include "curve.h"
#include "plan/curvefit.h"
#include "common/table.h"

#include <math.h>
#include <stdlib.h>

#define PARAMETERS_MOST 5

struct row {
    double workers, batch, iterations, coefficient; /* of a loss */
    double alone_s;                                 /* of a time */
    double seen;
};

struct rows {
    struct row *list;
    size_t count;
    struct spotnik_spotdnn_model model;
    bool loss, has_coefficient, one_batch;
};

static double loss_of(const struct spotnik_spotdnn_model *m, const struct row *row)
{
    double spread = m->gamma4 < 0 ? 1 : row->coefficient + m->gamma4;

    return (m->gamma2 * row->batch + m->gamma3) * sqrt(fmax(0, spread) * row->workers)
               / (row->iterations + m->gamma1)
           + m->gamma5;
}

static double time_of(const struct spotnik_spotdnn_model *m, const struct row *row)
{
    /* a type that computes `alone_s` by itself */
    const struct spotnik_spotdnn_type type = { .batch = row->alone_s, .images_per_s = 1 };

    return spotnik_spotdnn_iteration_s(m, &type, row->workers);
}

static double predicted(const struct rows *rows, const struct spotnik_spotdnn_model *m,
                        const struct row *row)
{
    return rows->loss ? loss_of(m, row) : time_of(m, row);
}

/* Parameters in the order in which they are fitted; gammas that must not be below nought are
 * squares. */
static size_t model_unpack(const struct rows *rows, const double *p,
                           struct spotnik_spotdnn_model *m)
{
    size_t used = 0;

    *m = rows->model;
    if (!rows->loss) {
        m->alpha1 = fabs(p[0]);
        m->beta1 = p[1];
        m->server_mb_per_s = fmax(1e-6, fabs(p[2]));
        m->request_mb_per_s = fmax(1e-6, fabs(p[3]));
        return 4;
    }
    m->gamma1 = p[used] * p[used];
    m->gamma3 = p[used + 1] * p[used + 1];
    m->gamma5 = p[used + 2];
    used += 3;
    m->gamma2 = rows->one_batch ? 0 : -p[used] * p[used];
    used += !rows->one_batch;
    m->gamma4 = rows->has_coefficient ? p[used] * p[used] : -1;
    return used + rows->has_coefficient;
}

static size_t model_pack(const struct rows *rows, double *p)
{
    const struct spotnik_spotdnn_model *m = &rows->model;
    double least = INFINITY, most = 0;
    size_t used = 3;

    if (!rows->loss) {
        p[0] = m->alpha1, p[1] = m->beta1, p[2] = m->server_mb_per_s, p[3] = m->request_mb_per_s;
        return 4;
    }
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->list[i];
        least = fmin(least, row->seen);
        most = fmax(most, row->seen * row->iterations / sqrt(row->workers));
    }
    p[0] = sqrt(fmax(1, rows->list[0].iterations));
    p[1] = sqrt(most);
    p[2] = least / 2;
    if (!rows->one_batch)
        p[used++] = 0.1;
    if (rows->has_coefficient)
        p[used++] = 0.3;
    return used;
}

static void residuals(void *context, const double *parameters, double *out)
{
    const struct rows *rows = context;
    struct spotnik_spotdnn_model m;

    model_unpack(rows, parameters, &m);
    for (size_t i = 0; i < rows->count; i++)
        out[i] = predicted(rows, &m, &rows->list[i]) / rows->list[i].seen - 1;
}

static int cell(const struct spotnik_table *table, size_t row, const char *name, double least,
                double *value, struct spotnik_fault *fault)
{
    int column = spotnik_table_find(table, name);

    return column < 0 ? 0 : spotnik_table_number(table, row, column, least, 1e12, value, fault);
}

static int rows_read(const struct spotnik_table *table, struct rows *rows,
                     struct spotnik_fault *fault)
{
    static const char *const of_loss[] = { "workers", "batch", "iterations", "loss" },
                             *const of_time[] = { "workers", "alone_s", "iteration_s", "workers" };

    rows->loss = spotnik_table_find(table, "loss") >= 0;
    rows->has_coefficient = rows->loss && spotnik_table_find(table, "coefficient") >= 0;
    for (size_t i = 0; i < 4; i++)
        if (spotnik_table_need(table, rows->loss ? of_loss[i] : of_time[i], fault) < 0)
            return -1;
    rows->count = spotnik_table_rows(table);
    rows->list = calloc(rows->count + 1, sizeof(*rows->list));
    if (!rows->list)
        return spotnik_fault_set(fault, "out of memory");
    rows->one_batch = true;
    for (size_t i = 0; i < rows->count; i++) {
        struct row *row = &rows->list[i];
        if (cell(table, i, "workers", 1, &row->workers, fault)
            || cell(table, i, "batch", 1, &row->batch, fault)
            || cell(table, i, "iterations", 0, &row->iterations, fault)
            || cell(table, i, "coefficient", 0, &row->coefficient, fault)
            || cell(table, i, "alone_s", 1e-9, &row->alone_s, fault)
            || cell(table, i, rows->loss ? "loss" : "iteration_s", 1e-12, &row->seen, fault))
            return -1;
        rows->one_batch = rows->one_batch && row->batch == rows->list[0].batch;
    }
    return 0;
}

static int rows_fit(const char *path, struct rows *rows, double *error_pct_out,
                    struct spotnik_fault *fault)
{
    double p[PARAMETERS_MOST], sum = 0;
    size_t count = model_pack(rows, p);
    struct spotnik_spotdnn_model fitted;

    if (rows->count < count)
        return spotnik_fault_set(fault, "%s: %zu rows; %zu constants need as many at least", path,
                                 rows->count, count);
    if (spotnik_curve_fit(residuals, rows, p, count, rows->count))
        return spotnik_fault_set(
            fault,
            "%s: no constants fit these rows; are there rows of several numbers of workers, and "
            "losses that fall?",
            path);
    model_unpack(rows, p, &fitted);
    rows->model = fitted;
    for (size_t i = 0; i < rows->count; i++)
        sum += fabs(predicted(rows, &fitted, &rows->list[i]) / rows->list[i].seen - 1);
    *error_pct_out = 100 * sum / (double)rows->count;
    return 0;
}

int spotnik_spotdnn_fit(const char *path, struct spotnik_spotdnn_model *model,
                        double *error_pct_out, size_t *rows_out, struct spotnik_fault *fault)
{
    struct rows rows = { .model = *model };
    struct spotnik_table *table;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    int rc = rows_read(table, &rows, fault);
    spotnik_table_free(table);
    if (!rc)
        rc = rows_fit(path, &rows, error_pct_out, fault);
    if (!rc)
        *model = rows.model;
    *rows_out = rows.count;
    free(rows.list);
    return rc;
}
