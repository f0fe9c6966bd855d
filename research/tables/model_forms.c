/* SPDX-License-Identifier: Apache-2.0 */
/* Weighted least squares by the normal equations (at most seven unknowns), and the study of what is
 * left out. */
#include "model_forms.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define UNKNOWNS_MAX (SPOTNIK_FEATURES_MAX + 1)
#define NOBODY ((unsigned)-1)

double spotnik_form_at(const struct spotnik_form *form, const double *x)
{
    double y = form->constant;

    for (size_t i = 0; i < SPOTNIK_FEATURES_MAX; i++)
        if (form->use & 1u << i)
            y += form->weight[i] * x[i];
    return y;
}

/* Solves a b = right in place, with pivots; false when a is singular. */
static bool solve(double a[UNKNOWNS_MAX][UNKNOWNS_MAX + 1], size_t n)
{
    for (size_t column = 0; column < n; column++) {
        size_t pivot = column;
        for (size_t row = column + 1; row < n; row++)
            pivot = fabs(a[row][column]) > fabs(a[pivot][column]) ? row : pivot;
        if (!(fabs(a[pivot][column]) > 1e-10))
            return false;
        for (size_t k = 0; k <= n; k++) {
            double swap = a[column][k];
            a[column][k] = a[pivot][k];
            a[pivot][k] = swap;
        }
        for (size_t row = 0; row < n; row++) {
            double factor = row == column ? 0 : a[row][column] / a[column][column];
            for (size_t k = column; k <= n; k++)
                a[row][k] -= factor * a[column][k];
        }
    }
    for (size_t row = 0; row < n; row++)
        a[row][n] /= a[row][row];
    return true;
}

/* Features are scaled by their largest value, so that singular means what it says. */
static bool fit(const struct spotnik_samples *s, unsigned use, unsigned without,
                struct spotnik_form *form)
{
    double a[UNKNOWNS_MAX][UNKNOWNS_MAX + 1] = { { 0 } }, scale[UNKNOWNS_MAX] = { 1 };
    size_t of[UNKNOWNS_MAX] = { 0 }, n = 1, rows = 0;

    for (size_t i = 0; i < s->features; i++) {
        if (!(use & 1u << i))
            continue;
        of[n] = i;
        for (size_t row = 0; row < s->count; row++)
            scale[n] = fmax(scale[n], fabs(s->x[row * s->features + i]));
        n++;
    }
    for (size_t row = 0; row < s->count; row++) {
        double term[UNKNOWNS_MAX];
        if (s->group[row] == without)
            continue;
        rows++;
        for (size_t i = 0; i < n; i++)
            term[i] = (i ? s->x[row * s->features + of[i]] / scale[i] : 1) / s->y[row];
        for (size_t i = 0; i < n; i++) {
            for (size_t j = 0; j < n; j++)
                a[i][j] += term[i] * term[j];
            a[i][n] += term[i];
        }
    }
    if (rows < n || !solve(a, n))
        return false;
    *form = (struct spotnik_form){ .use = use, .constant = a[0][n] };
    for (size_t i = 1; i < n; i++)
        form->weight[of[i]] = a[i][n] / scale[i];
    return true;
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The error below which SPOTNIK_INTERVAL of the rows lie, of those outside a group; with one row
 * more than there are. */
static double quantile(const struct spotnik_samples *s, const double *errors, unsigned without,
                       double *room)
{
    size_t count = 0;

    for (size_t row = 0; row < s->count; row++)
        if (s->group[row] != without)
            room[count++] = errors[row];
    qsort(room, count, sizeof(*room), by_value);
    size_t at = (size_t)ceil(SPOTNIK_INTERVAL * (double)(count + 1)) - 1;
    return room[at < count ? at : count - 1];
}

/* Errors of every row under the form that was fitted without its group; false when some group
 * cannot be left out. */
static bool errors_make(const struct spotnik_samples *s, unsigned use, size_t groups,
                        double *errors)
{
    for (unsigned group = 0; group < groups; group++) {
        struct spotnik_form form;
        if (!fit(s, use, group, &form))
            return false;
        for (size_t row = 0; row < s->count; row++)
            if (s->group[row] == group)
                errors[row] =
                    fabs(spotnik_form_at(&form, s->x + row * s->features) / s->y[row] - 1);
    }
    return true;
}

static void study(const struct spotnik_samples *s, struct spotnik_form *form, const double *errors,
                  double *room)
{
    size_t held = 0;

    form->error = 0;
    for (size_t row = 0; row < s->count; row++)
        form->error += errors[row] / (double)s->count;
    form->interval = form->coverage = NAN;
    if (form->groups < 3)
        return;
    form->interval = quantile(s, errors, NOBODY, room);
    for (unsigned group = 0; group < form->groups; group++) {
        double wide = quantile(s, errors, group, room);
        for (size_t row = 0; row < s->count; row++)
            held += s->group[row] == group && errors[row] <= wide;
    }
    form->coverage = (double)held / (double)s->count;
}

int spotnik_form_choose(const struct spotnik_samples *s, const unsigned *sets, size_t set_count,
                        struct spotnik_form *form_out, struct spotnik_fault *fault)
{
    double *errors = malloc((s->count + 1) * sizeof(*errors)),
           *room = malloc((s->count + 1) * sizeof(*room));
    struct spotnik_form best = { .error = INFINITY };
    size_t groups = 0;
    bool found = false;

    for (size_t row = 0; row < s->count; row++)
        groups = s->group[row] + 1 > groups ? s->group[row] + 1 : groups;
    for (size_t i = 0; errors && room && i < set_count; i++) {
        struct spotnik_form form;
        if (!fit(s, sets[i], NOBODY, &form))
            continue;
        form.groups = groups;
        form.error = form.interval = form.coverage = NAN;
        bool tried = groups > 1 && errors_make(s, sets[i], groups, errors);
        if (tried)
            study(s, &form, errors, room);
        if (!found || form.error < best.error)
            best = form;
        found = true;
    }
    bool memory = errors && room;
    free(errors);
    free(room);
    if (!memory)
        return spotnik_fault_set(fault, "out of memory");
    if (!found)
        return spotnik_fault_set(fault, "%zu rows are too few, or too alike, for any form",
                                 s->count);
    *form_out = best;
    return 0;
}
