/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for people and for the systems that rent machines. */
#ifndef SPOTNIK_PLANNER_PLAN_OUTPUT_H
#define SPOTNIK_PLANNER_PLAN_OUTPUT_H

#include "plan/planner.h"
#include "plan_status.h"

#include <stdio.h>

struct spotnik_plan_context {
    const struct spotnik_plan *plan;
    const struct spotnik_profile *profile;
    const struct spotnik_wish *wish;
    const struct spotnik_catalog *catalog;
    /* of a job that runs; its path is NULL when none does */
    const struct spotnik_standing *standing;
    char command[4096]; /* what the machines run after "spotnik run ... --" */
};

/* "table", "json", "skypilot", "ec2-fleet", "kubernetes", "slurm"; null when there is no such
 * format. */
typedef int (*spotnik_plan_printer)(const struct spotnik_plan_context *context, FILE *out);
spotnik_plan_printer spotnik_plan_printer_find(const char *format);

int spotnik_plan_print_explain(const struct spotnik_plan_context *context, FILE *out);
int spotnik_plan_print_table(const struct spotnik_plan_context *context, FILE *out);
int spotnik_plan_print_json(const struct spotnik_plan_context *context, FILE *out);
int spotnik_plan_print_skypilot(const struct spotnik_plan_context *context, FILE *out);
int spotnik_plan_print_ec2_fleet(const struct spotnik_plan_context *context, FILE *out);
int spotnik_plan_print_kubernetes(const struct spotnik_plan_context *context, FILE *out);
int spotnik_plan_print_slurm(const struct spotnik_plan_context *context, FILE *out);

#endif
