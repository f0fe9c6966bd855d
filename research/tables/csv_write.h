/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of models, as CSV on standard output. */
#ifndef SPOTNIK_RESEARCH_CSV_WRITE_H
#define SPOTNIK_RESEARCH_CSV_WRITE_H

#include "common/table.h"

#include <stdbool.h>
#include <stddef.h>

/* A field of CSV, quoted when it has to be. */
void spotnik_cli_csv_field(const char *text, bool last);
/* The header of `table`, with a comma after it, and one of its rows likewise. */
void spotnik_cli_csv_header(const struct spotnik_table *table);
void spotnik_cli_csv_row(const struct spotnik_table *table, size_t row);

#endif
