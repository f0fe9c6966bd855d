/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik model lifetime`: share of machines lost by an age, Kaplan-Meier first and the fits
 * beside it. */
#include "cmd_model.h"
#include "life_fits.h"
#include "common/lives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX 256

struct lives {
    struct spotnik_life *list;
    size_t count;
    struct spotnik_survival survival, naive;
    struct spotnik_bathtub bathtub, naive_bathtub;
    struct spotnik_weibull weibull;
    double *ended_s; /* when machines were lost, where the file says so */
    size_t ended_count;
    double exponential_per_s, bathtub_r2, naive_r2;
    bool bathtub_fitted, naive_fitted, weibull_fitted;
};

/* Whether a row of `table` belongs to the group; an empty name takes all. */
static bool in_group(const struct spotnik_table *table, size_t row, int column, const char *name)
{
    return column < 0 || !strcmp(spotnik_table_text(table, row, column), name);
}

static int lives_read(const struct spotnik_table *table, int group, const char *name,
                      struct lives *lives, struct spotnik_fault *fault)
{
    struct spotnik_life_columns columns;

    if (spotnik_life_columns_find(table, &columns, fault))
        return -1;
    int ended = spotnik_table_find(table, "end_time");
    lives->list = calloc(spotnik_table_rows(table), sizeof(*lives->list));
    lives->ended_s = calloc(spotnik_table_rows(table), sizeof(*lives->ended_s));
    lives->count = 0;
    if (!lives->list || !lives->ended_s)
        return spotnik_fault_set(fault, "out of memory");
    for (size_t row = 0; row < spotnik_table_rows(table); row++) {
        if (!in_group(table, row, group, name))
            continue;
        if (spotnik_life_read(table, row, &columns, &lives->list[lives->count], fault))
            return -1;
        if (ended >= 0 && lives->list[lives->count].lost
            && spotnik_timestamp_parse(spotnik_table_text(table, row, ended),
                                       &lives->ended_s[lives->ended_count]))
            lives->ended_count++;
        lives->count++;
    }
    return 0;
}

static int lives_fit(struct lives *lives, double cap_s, struct spotnik_fault *fault)
{
    if (spotnik_survival_estimate(lives->list, lives->count, true, &lives->survival, fault)
        || spotnik_survival_estimate(lives->list, lives->count, false, &lives->naive, fault))
        return -1;
    lives->bathtub_fitted =
        !spotnik_bathtub_fit(&lives->survival, cap_s, &lives->bathtub, &lives->bathtub_r2);
    lives->naive_fitted =
        !spotnik_bathtub_fit(&lives->naive, cap_s, &lives->naive_bathtub, &lives->naive_r2);
    lives->weibull_fitted = !spotnik_weibull_fit(lives->list, lives->count, cap_s, &lives->weibull);
    lives->exponential_per_s = spotnik_exponential_fit(lives->list, lives->count, cap_s);
    return 0;
}

static void lives_free(struct lives *lives)
{
    spotnik_survival_free(&lives->survival);
    spotnik_survival_free(&lives->naive);
    free(lives->list);
    free(lives->ended_s);
}

static void lives_tell(const struct lives *lives, const char *name, double cap_s)
{
    size_t lost = 0, capped = 0;

    for (size_t i = 0; i < lives->count; i++) {
        lost += lives->list[i].lost;
        capped += lives->list[i].lost && lives->list[i].age_s >= cap_s;
    }
    fprintf(stderr, "%s%s%zu machines: %zu lost (%zu of them at the cap of %.4g h), %zu censored\n",
            name, *name ? ": " : "", lives->count, lost, capped, cap_s / 3600, lives->count - lost);
    if (lives->bathtub_fitted)
        fprintf(stderr, "  bathtub, censoring counted: A %.3f tau1 %.2f h tau2 %.2f h, R^2 %.3f\n",
                lives->bathtub.scale, lives->bathtub.early_s / 3600, lives->bathtub.late_s / 3600,
                lives->bathtub_r2);
    if (lives->naive_fitted)
        fprintf(stderr, "  bathtub, censored left out: A %.3f tau1 %.2f h tau2 %.2f h, R^2 %.3f\n",
                lives->naive_bathtub.scale, lives->naive_bathtub.early_s / 3600,
                lives->naive_bathtub.late_s / 3600, lives->naive_r2);
    fprintf(stderr, "  exponential: MTTF %.1f h", 1 / lives->exponential_per_s / 3600);
    if (lives->weibull_fitted)
        fprintf(stderr, "; Weibull: shape %.3f, scale %.1f h", lives->weibull.shape,
                lives->weibull.scale_s / 3600);
    fputc('\n', stderr);
    if (lives->ended_count > 1)
        fprintf(stderr,
                "  losses come together: %.1f within a minute of each loss, itself included\n",
                spotnik_loss_cluster(lives->ended_s, lives->ended_count, 60));
}

static void number_or_nothing(bool there, double value)
{
    if (there)
        printf("%.4f", value);
    putchar(',');
}

/* One line: the estimate and the fits at one age; the caller ends it. */
static void print_age(const struct lives *lives, double age_s)
{
    double error, lost = spotnik_survival_lost(&lives->survival, age_s, &error);

    printf("%.4f,%.4f,%.4f,%.4f,", lost, fmax(0, lost - 1.96 * error), fmin(1, lost + 1.96 * error),
           spotnik_survival_lost(&lives->naive, age_s, NULL));
    number_or_nothing(lives->bathtub_fitted, spotnik_bathtub_lost(&lives->bathtub, age_s));
    number_or_nothing(lives->naive_fitted, spotnik_bathtub_lost(&lives->naive_bathtub, age_s));
    number_or_nothing(true, 1 - exp(-lives->exponential_per_s * age_s));
    number_or_nothing(lives->weibull_fitted, spotnik_weibull_lost(&lives->weibull, age_s));
}

static const char header[] =
    "kaplan_meier,low95,high95,censored_left_out,bathtub,bathtub_censored_left_out,"
    "exponential,weibull,";

/* Predicts at the hours of a table with an `hours` column. */
static int predict_hours(const struct lives *lives, const struct spotnik_table *table,
                         struct spotnik_fault *fault)
{
    int hours = spotnik_table_find(table, "hours"), seen = spotnik_table_find(table, "observed");
    double hour, observed;

    spotnik_cli_csv_header(table);
    printf("%serror\n", header);
    for (size_t row = 0; row < spotnik_table_rows(table); row++) {
        if (spotnik_table_number(table, row, hours, 0, 1e6, &hour, fault))
            return -1;
        spotnik_cli_csv_row(table, row);
        print_age(lives, hour * 3600);
        if (seen >= 0 && !spotnik_table_empty(table, row, seen)) {
            if (spotnik_table_number(table, row, seen, 0, 1, &observed, fault))
                return -1;
            printf("%.4f", spotnik_survival_lost(&lives->survival, hour * 3600, NULL) - observed);
        }
        putchar('\n');
    }
    return 0;
}

/* Prints one group at the hours of the call; `other` holds lifetimes that were kept aside, or is
 * null. */
static void print_group(const struct spotnik_model_call *call, const struct lives *lives,
                        const struct lives *other, const char *name)
{
    for (size_t i = 0; i < call->at_count; i++) {
        double age_s = call->at_h[i] * 3600,
               lost = spotnik_survival_lost(&lives->survival, age_s, NULL);
        if (call->by)
            spotnik_cli_csv_field(name, false);
        printf("%g,", call->at_h[i]);
        print_age(lives, age_s);
        if (other) {
            double observed = spotnik_survival_lost(&other->survival, age_s, NULL);
            printf("%.4f,%.4f", observed, lost - observed);
        } else {
            putchar(',');
        }
        putchar('\n');
    }
}

static int run_group(const struct spotnik_model_call *call, int column, const char *name,
                     struct spotnik_fault *fault)
{
    struct lives lives = { 0 }, other = { 0 };
    int aside = call->predict && call->by ? spotnik_table_find(call->predict, call->by) : -1;
    int rc = lives_read(call->fit, column, name, &lives, fault);

    if (!rc)
        rc = lives_fit(&lives, call->cap_s, fault);
    if (!rc)
        lives_tell(&lives, name, call->cap_s);
    if (!rc && call->predict && spotnik_table_find(call->predict, "hours") >= 0) {
        rc = predict_hours(&lives, call->predict, fault);
    } else if (!rc) {
        if (call->predict)
            rc = lives_read(call->predict, aside, name, &other, fault)
                     ? -1
                     : lives_fit(&other, call->cap_s, fault);
        if (!rc)
            print_group(call, &lives, call->predict ? &other : NULL, name);
    }
    lives_free(&lives);
    lives_free(&other);
    return rc;
}

int spotnik_model_lifetime(const struct spotnik_model_call *call, struct spotnik_fault *fault)
{
    const char *names[GROUPS_MAX];
    size_t count = 0;
    int column = call->by ? spotnik_table_need(call->fit, call->by, fault) : -1;

    if (call->by && column < 0)
        return -1;
    for (size_t row = 0; call->by && row < spotnik_table_rows(call->fit); row++) {
        const char *name = spotnik_table_text(call->fit, row, column);
        size_t i = 0;
        while (i < count && strcmp(names[i], name))
            i++;
        if (i == GROUPS_MAX)
            return spotnik_fault_set(fault, "--by %s: more than %d values", call->by, GROUPS_MAX);
        if (i == count)
            names[count++] = name;
    }
    if (!call->predict || spotnik_table_find(call->predict, "hours") < 0)
        printf("%shours,%sobserved,error\n", call->by ? "group," : "", header);
    if (!call->by)
        return run_group(call, -1, "", fault);
    for (size_t i = 0; i < count; i++)
        if (run_group(call, column, names[i], fault))
            return -1;
    return 0;
}
