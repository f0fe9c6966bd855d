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

/* Student's t at 95 %, by degrees of freedom. */
static double t_of(size_t freedom)
{
    static const double known[] = { 6.314, 2.920, 2.353, 2.132, 2.015,
                                    1.943, 1.895, 1.860, 1.833, 1.812 };

    return freedom <= sizeof(known) / sizeof(*known) ? known[freedom - 1]
                                                     : 1.645 + 1.5 / (double)freedom;
}

/* Mean of `errors` to the power of `power` over the rows of one series. */
static double series_mean(const struct spotnik_samples *s, const double *errors, unsigned series,
                          double power)
{
    double sum = 0, count = 0;

    for (size_t row = 0; row < s->count; row++)
        if (s->group[row] == series) {
            sum += pow(fabs(errors[row]), power);
            count++;
        }
    return sum / count;
}

/* Half of the interval that holds SPOTNIK_INTERVAL of a series that was not seen. Each series
 * counts once, since the rows of one err together. */
static double width(const struct spotnik_samples *s, const double *errors, size_t groups,
                    unsigned without)
{
    double squares = 0, n = (double)groups - (without < groups);

    for (unsigned series = 0; series < groups; series++)
        squares += series == without ? 0 : series_mean(s, errors, series, 2) / n;
    return t_of((size_t)n - 1) * sqrt((1 + 1 / n) * squares);
}

/* The logarithm of every prediction over its row, under the form that was fitted without its
 * series; false when some series cannot be left out. */
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
                    log(fmax(1e-3, spotnik_form_at(&form, s->x + row * s->features) / s->y[row]));
    }
    return true;
}

static void study(const struct spotnik_samples *s, struct spotnik_form *form, const double *errors)
{
    double squares = 0, n = (double)form->groups;
    size_t held = 0;

    form->error = 0;
    for (unsigned series = 0; series < form->groups; series++)
        form->error += series_mean(s, errors, series, 1) / n;
    for (unsigned series = 0; series < form->groups; series++)
        squares += pow(series_mean(s, errors, series, 1) - form->error, 2);
    form->error_deviation = n > 1 ? sqrt(squares / (n - 1) / n) : 0;
    if (form->groups < 3)
        return;
    form->interval = width(s, errors, form->groups, NOBODY);
    for (size_t row = 0; row < s->count; row++)
        held += fabs(errors[row]) <= width(s, errors, form->groups, s->group[row]);
    form->coverage = (double)held / (double)s->count;
}

/* The first of the forms that predicts left-out series as well as the best one, but for chance. */
static size_t simplest(const struct spotnik_form *forms, size_t count)
{
    size_t best = 0, first = 0;

    for (size_t i = 1; i < count; i++)
        if (forms[i].error < forms[best].error || isnan(forms[best].error))
            best = i;
    while (first < best && !(forms[first].error <= forms[best].error + forms[best].error_deviation))
        first++;
    return first;
}

int spotnik_form_choose(const struct spotnik_samples *s, const unsigned *sets, size_t set_count,
                        struct spotnik_form *form_out, struct spotnik_fault *fault)
{
    double *errors = malloc((s->count + 1) * sizeof(*errors));
    struct spotnik_form forms[SPOTNIK_FORMS_MAX];
    size_t groups = 0, found = 0;

    for (size_t row = 0; row < s->count; row++)
        groups = s->group[row] + 1 > groups ? s->group[row] + 1 : groups;
    for (size_t i = 0; errors && i < set_count && i < SPOTNIK_FORMS_MAX; i++) {
        struct spotnik_form *form = &forms[found];
        if (!fit(s, sets[i], NOBODY, form))
            continue;
        form->groups = groups;
        form->error = form->interval = form->coverage = NAN;
        if (groups > 1 && errors_make(s, sets[i], groups, errors))
            study(s, form, errors);
        found++;
    }
    bool memory = errors != NULL;
    free(errors);
    if (!memory)
        return spotnik_fault_set(fault, "out of memory");
    if (!found)
        return spotnik_fault_set(fault, "%zu rows are too few, or too alike, for any form",
                                 s->count);
    *form_out = forms[simplest(forms, found)];
    return 0;
}
