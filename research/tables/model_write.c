/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model checkpoint-time`: seconds to write a checkpoint by what is in it. Which columns
 * count is chosen by leaving one series of models out at a time; the errors that are left give the
 * interval of a prediction. */
#include "cmd_model.h"
#include "model_forms.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 5

/* Ours, then CM-DARE's. A file needs the first; the others are used where they are. */
static const char *const names[COLUMNS][2] = { { "size_mb", "Checkpoint Size (MB)" },
                                               { "meta_mb", "Meta File Size" },
                                               { "weights_mb", "Weight File Size" },
                                               { "index_kb", "Index File Size" },
                                               { "graph_mb", "Graph File Size" } };
/* Size alone; graph description and weights (a constant and a rate each); and with the graph's own
 * file. The simplest first. */
static const unsigned sets[] = { 1, 2 | 4, 4 | 16, 4 | 8, 2 | 4 | 16 };

struct rows {
    double *x, *y;
    unsigned *group;
    size_t count;
};

static void columns_find(const struct spotnik_table *table, int columns[COLUMNS])
{
    for (size_t i = 0; i < COLUMNS; i++) {
        columns[i] = spotnik_table_find(table, names[i][0]);
        if (columns[i] < 0)
            columns[i] = spotnik_table_find(table, names[i][1]);
    }
}

static int row_read(const struct spotnik_table *table, size_t row, const int columns[COLUMNS],
                    double x[COLUMNS], struct spotnik_fault *fault)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        x[i] = 0;
        if (columns[i] >= 0 && spotnik_table_number(table, row, columns[i], 0, 1e12, &x[i], fault))
            return -1;
    }
    return 0;
}

/* The models "Shake 16" and "Shake 80" are of one series. */
static size_t series_length(const char *name, bool is_model)
{
    return is_model ? strcspn(name, " -_0123456789") : strlen(name);
}

/* Without a column that names it, every row is a series. */
static unsigned group_of(const struct spotnik_table *table, int column, bool is_model, size_t row,
                         const unsigned *group)
{
    unsigned next = 0;

    if (column < 0)
        return (unsigned)row;
    const char *own = spotnik_table_text(table, row, column);
    size_t length = series_length(own, is_model);
    for (size_t i = 0; i < row; i++) {
        const char *other = spotnik_table_text(table, i, column);
        if (series_length(other, is_model) == length && !strncmp(own, other, length))
            return group[i];
        next = group[i] + 1 > next ? group[i] + 1 : next;
    }
    return next;
}

static int rows_read(const struct spotnik_table *table, const int columns[COLUMNS], int target,
                     struct rows *rows, struct spotnik_fault *fault)
{
    size_t count = spotnik_table_rows(table);
    int series = spotnik_table_find(table, "series"), model = spotnik_table_find(table, "model");

    rows->count = count;
    rows->x = calloc(count * COLUMNS + 1, sizeof(double));
    rows->y = calloc(count + 1, sizeof(double));
    rows->group = calloc(count + 1, sizeof(unsigned));
    if (!rows->x || !rows->y || !rows->group)
        return spotnik_fault_set(fault, "out of memory");
    for (size_t row = 0; row < count; row++) {
        if (row_read(table, row, columns, rows->x + row * COLUMNS, fault)
            || spotnik_table_number(table, row, target, 1e-9, 1e12, &rows->y[row], fault))
            return -1;
        rows->group[row] =
            group_of(table, series < 0 ? model : series, series < 0, row, rows->group);
    }
    return 0;
}

static void form_tell(const struct spotnik_form *form, size_t rows)
{
    fprintf(stderr, "checkpoint-time: %.4f s", form->constant);
    for (size_t i = 0; i < COLUMNS; i++)
        if (form->use & 1u << i)
            fprintf(stderr, " + %.6f %s", form->weight[i], names[i][0]);
    fprintf(stderr, ", from %zu rows of %zu series\n", rows, form->groups);
    if (isnan(form->interval))
        fprintf(stderr, "  too few series to know how far it is off: there is no interval\n");
    else
        fprintf(
            stderr,
            "  a series that is left out: off by %.2f %%; %.0f %% intervals of -%.0f to +%.0f %% "
            "hold %.0f %% of what was left out\n",
            100 * form->error, 100 * SPOTNIK_INTERVAL, 100 * (1 - exp(-form->interval)),
            100 * (exp(form->interval) - 1), 100 * form->coverage);
}

static int predict(const struct spotnik_model_call *call, const struct spotnik_form *form,
                   const char *target, struct spotnik_fault *fault)
{
    const struct spotnik_table *table = call->predict ? call->predict : call->fit;
    struct spotnik_model_errors *errors = calloc(1, sizeof(*errors));
    int columns[COLUMNS], observed_column = spotnik_table_find(table, target);
    int rc = errors ? 0 : spotnik_fault_set(fault, "out of memory");

    columns_find(table, columns);
    for (size_t i = 0; !rc && i < COLUMNS; i++)
        if ((form->use & 1u << i) && columns[i] < 0)
            rc = spotnik_table_need(table, names[i][0], fault) < 0 ? -1 : 0;
    if (!rc) {
        spotnik_cli_csv_header(table);
        fputs("low_s,high_s,predicted_s,error_pct\n", stdout);
    }
    for (size_t row = 0; !rc && row < spotnik_table_rows(table); row++) {
        double x[COLUMNS], observed = NAN;
        rc = row_read(table, row, columns, x, fault);
        if (!rc && observed_column >= 0 && !spotnik_table_empty(table, row, observed_column))
            rc = spotnik_table_number(table, row, observed_column, 1e-9, 1e12, &observed, fault);
        if (rc)
            break;
        double seconds = spotnik_form_at(form, x);
        spotnik_cli_csv_row(table, row);
        if (isnan(form->interval))
            fputs(",,", stdout);
        else
            printf("%.6g,%.6g,", seconds * exp(-form->interval), seconds * exp(form->interval));
        spotnik_model_print(errors, seconds, observed);
    }
    if (!rc)
        spotnik_model_report("checkpoint-time", errors);
    free(errors);
    return rc;
}

int spotnik_model_checkpoint_time(const struct spotnik_model_call *call,
                                  struct spotnik_fault *fault)
{
    bool theirs = spotnik_table_find(call->fit, "seconds") < 0
                  && spotnik_table_find(call->fit, "Duration") >= 0;
    const char *target = call->target ? call->target : theirs ? "Duration" : "seconds";
    unsigned usable[sizeof(sets) / sizeof(*sets)];
    int columns[COLUMNS], wanted = spotnik_table_need(call->fit, target, fault);
    struct rows rows = { 0 };
    struct spotnik_form form;
    int also[COLUMNS];
    size_t count = 0;

    columns_find(call->fit, columns);
    columns_find(call->predict ? call->predict : call->fit, also);
    if (wanted < 0 || (columns[0] < 0 && spotnik_table_need(call->fit, names[0][0], fault) < 0))
        return -1;
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        bool there = true;
        for (size_t j = 0; j < COLUMNS; j++)
            there = there && (!(sets[i] & 1u << j) || (columns[j] >= 0 && also[j] >= 0));
        if (there)
            usable[count++] = sets[i];
    }
    int rc = rows_read(call->fit, columns, wanted, &rows, fault);
    const struct spotnik_samples samples = { rows.count, COLUMNS, rows.x, rows.y, rows.group };
    if (!rc)
        rc = spotnik_form_choose(&samples, usable, count, &form, fault);
    if (!rc) {
        form_tell(&form, rows.count);
        rc = predict(call, &form, target, fault);
    }
    free(rows.x);
    free(rows.y);
    free(rows.group);
    return rc;
}
