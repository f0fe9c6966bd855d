/* SPDX-License-Identifier: Apache-2.0 */
#include "common/lives.h"

#include <stdlib.h>
#include <string.h>

int spotnik_life_columns_find(const struct spotnik_table *table,
                              struct spotnik_life_columns *columns, struct spotnik_fault *fault)
{
    static const struct {
        const char *name;
        double s;
    } units[] = { { "lifetime_h", 3600 }, { "lifetime_min", 60 }, { "lifetime_s", 1 } };

    *columns =
        (struct spotnik_life_columns){ .age = -1,
                                       .kind = spotnik_table_find(table, "end_kind"),
                                       .flag = spotnik_table_find(table, "revoked_before_24h") };
    for (size_t i = 0; i < 3 && columns->age < 0; i++) {
        columns->age = spotnik_table_find(table, units[i].name);
        columns->unit_s = units[i].s;
    }
    if (columns->age < 0)
        return spotnik_table_need(table, "lifetime_s", fault);
    return columns->kind < 0 && columns->flag < 0 ? spotnik_table_need(table, "end_kind", fault)
                                                  : 0;
}

int spotnik_life_read(const struct spotnik_table *table, size_t row,
                      const struct spotnik_life_columns *columns, struct spotnik_life *life,
                      struct spotnik_fault *fault)
{
    double revoked;

    if (spotnik_table_number(table, row, columns->age, 0, 1e10, &life->age_s, fault))
        return -1;
    life->age_s *= columns->unit_s;
    if (columns->flag >= 0) {
        if (spotnik_table_number(table, row, columns->flag, 0, 1, &revoked, fault))
            return -1;
        life->lost = revoked > 0.5;
        return 0;
    }
    const char *text = spotnik_table_text(table, row, columns->kind);
    life->lost = !strcmp(text, "preempted");
    if (!life->lost && strcmp(text, "stopped"))
        return spotnik_fault_set(
            fault, "%s:%zu: column %d: end_kind is '%s'; preempted or stopped (by the user)",
            spotnik_table_name(table), spotnik_table_line(table, row), columns->kind + 1, text);
    return 0;
}

int spotnik_survival_load(const char *path, struct spotnik_survival *survival,
                          struct spotnik_fault *fault)
{
    struct spotnik_life_columns columns;
    struct spotnik_table *table;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    size_t count = spotnik_table_rows(table);
    struct spotnik_life *lives = calloc(count + 1, sizeof(*lives));
    int rc = lives ? spotnik_life_columns_find(table, &columns, fault)
                   : spotnik_fault_set(fault, "out of memory");
    for (size_t row = 0; !rc && row < count; row++)
        rc = spotnik_life_read(table, row, &columns, &lives[row], fault);
    if (!rc)
        rc = spotnik_survival_estimate(lives, count, true, survival, fault);
    free(lives);
    spotnik_table_free(table);
    return rc;
}
