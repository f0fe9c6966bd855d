/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes of machines in a table: `lifetime_s`, `lifetime_min` or `lifetime_h`, with `end_kind`
 * (preempted or stopped) or `revoked_before_24h` (1 or 0). */
#ifndef SPOTNIK_COMMON_LIVES_H
#define SPOTNIK_COMMON_LIVES_H

#include "common/model_lifetime.h"
#include "common/table.h"

struct spotnik_life_columns {
    int age, kind, flag; /* kind: end_kind, or -1; flag: revoked_before_24h, or -1 */
    double unit_s;
};

int spotnik_life_columns_find(const struct spotnik_table *table,
                              struct spotnik_life_columns *columns_out,
                              struct spotnik_fault *fault);
int spotnik_life_read(const struct spotnik_table *table, size_t row,
                      const struct spotnik_life_columns *columns, struct spotnik_life *life_out,
                      struct spotnik_fault *fault);

/* Kaplan-Meier of a file of lifetimes. */
int spotnik_survival_load(const char *path, struct spotnik_survival *survival_out,
                          struct spotnik_fault *fault);

#endif
