/* SPDX-License-Identifier: Apache-2.0 */
#include "learned.h"
#include "windows_cut.h"

#include <stdio.h>
#include <string.h>

static void numbers_print(const double *numbers, size_t count, int digits)
{
    putchar('{');
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : " ", stdout);
        printf("%.*f", digits, numbers[i]);
    }
    fputs(" }", stdout);
}

void spotnik_availability_print(const struct spotnik_availability *w)
{
    printf("    .name = \"%s\",\n    .regimes = %zu,\n    .share = ", w->name, w->regimes);
    numbers_print(w->share, w->regimes, 4);
    fputs(",\n    .up = ", stdout);
    numbers_print(w->up, w->regimes, 4);
    fputs(",\n    .end = {\n", stdout);
    for (size_t r = 0; r < w->regimes; r++) {
        fputs("        { ", stdout);
        numbers_print(w->end[r][0], SPOTNIK_AGES, 4);
        fputs(",\n          ", stdout);
        numbers_print(w->end[r][1], SPOTNIK_AGES, 4);
        fputs(" },\n", stdout);
    }
    fputs("    },\n    .go = {\n", stdout);
    for (size_t r = 0; r < w->regimes; r++) {
        fputs("        ", stdout);
        numbers_print(w->go[r], w->regimes, 6);
        fputs(",\n", stdout);
    }
    fputs("    },\n", stdout);
}

int spotnik_hazard_tables_load(const char *const *paths, size_t count,
                               struct spotnik_hazard_table *tables, struct spotnik_fault *fault)
{
    for (size_t i = 0; i < count; i++) {
        struct spotnik_windows windows;
        if (spotnik_windows_load(paths[i], &windows, fault))
            return -1;
        const char *slash = strrchr(paths[i], '/');
        snprintf(tables[i].name, sizeof(tables[i].name), "%.47s", slash ? slash + 1 : paths[i]);
        spotnik_hazard_table_learn(&windows, &tables[i]);
        spotnik_windows_free(&windows);
    }
    return 0;
}

void spotnik_hazard_table_print(const struct spotnik_hazard_table *hazards)
{
    printf("    {\"%s\",\n     {", hazards->name);
    for (int up = 0; up < 2; up++)
        for (size_t b = 0; b < SPOTNIK_HAZARD_BUCKETS; b++)
            printf("%s%.3f%s",
                   b    ? ", "
                   : up ? "\n      {"
                        : "{",
                   hazards->end_per_h[up][b],
                   b < SPOTNIK_HAZARD_BUCKETS - 1 ? ""
                   : up                           ? "}}},\n"
                                                  : "},");
}
