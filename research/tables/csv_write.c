/* SPDX-License-Identifier: Apache-2.0 */
#include "csv_write.h"

#include <stdio.h>
#include <string.h>

void spotnik_cli_csv_field(const char *text, bool last)
{
    if (strpbrk(text, ",\"\n\r")) {
        putchar('"');
        for (; *text; text++) {
            if (*text == '"')
                putchar('"');
            putchar(*text);
        }
        putchar('"');
    } else {
        fputs(text, stdout);
    }
    putchar(last ? '\n' : ',');
}

void spotnik_cli_csv_header(const struct spotnik_table *table)
{
    for (size_t i = 0; i < spotnik_table_columns(table); i++)
        spotnik_cli_csv_field(spotnik_table_column_name(table, i), false);
}

void spotnik_cli_csv_row(const struct spotnik_table *table, size_t row)
{
    for (size_t i = 0; i < spotnik_table_columns(table); i++)
        spotnik_cli_csv_field(spotnik_table_text(table, row, (int)i), false);
}
