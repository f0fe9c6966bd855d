/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV file in memory, read strictly: a header line, then rows with the same number of fields.
 * Plain or gzip. Every value that is refused is refused with its line and column. Numbers have a
 * decimal point whatever the locale is. Nothing here knows what a column means. */
#ifndef SPOTNIK_COMMON_TABLE_H
#define SPOTNIK_COMMON_TABLE_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_TABLE_BYTES_MAX (256u << 20)
#define SPOTNIK_TABLE_COLUMNS_MAX 64

struct spotnik_table;

/* Reads a whole file, plain or gzip, without a byte-order mark, with a NUL after it. The caller
 * frees *bytes_out. */
int spotnik_file_read(const char *path, char **bytes_out, size_t *size_out,
                      struct spotnik_fault *fault);

/* Some programs put a byte-order mark before a text; no reader should have to know. Returns the new
 * size, and puts a NUL behind the text. */
size_t spotnik_text_mark_drop(char *bytes, size_t size);

/* Reads a CSV file. An empty file, an empty row set, a ragged row and a stray quote are faults. */
int spotnik_table_load(const char *path, struct spotnik_table **table_out,
                       struct spotnik_fault *fault);
/* The same on bytes that the caller has; `name` is what faults call the file. */
int spotnik_table_parse(const char *name, const char *bytes, size_t size,
                        struct spotnik_table **table_out, struct spotnik_fault *fault);
void spotnik_table_free(struct spotnik_table *table);

size_t spotnik_table_rows(const struct spotnik_table *table);
size_t spotnik_table_columns(const struct spotnik_table *table);
const char *spotnik_table_column_name(const struct spotnik_table *table, size_t column);
const char *spotnik_table_name(const struct spotnik_table *table);
/* The line of the file on which a row starts (the header is line 1). */
size_t spotnik_table_line(const struct spotnik_table *table, size_t row);

/* The column called `name` (letter case does not matter), or -1. */
int spotnik_table_find(const struct spotnik_table *table, const char *name);
/* The same, but a missing column is a fault that lists the columns there are. */
int spotnik_table_need(const struct spotnik_table *table, const char *name,
                       struct spotnik_fault *fault);

/* The text of one field; never null. */
const char *spotnik_table_text(const struct spotnik_table *table, size_t row, int column);
/* A finite number in [least, most]. An empty field is a fault. */
int spotnik_table_number(const struct spotnik_table *table, size_t row, int column, double least,
                         double most, double *value_out, struct spotnik_fault *fault);
/* True when the field is empty. */
bool spotnik_table_empty(const struct spotnik_table *table, size_t row, int column);

/* A number with a decimal point in any locale; false when `text` is anything else (also nan, inf
 * and hex). */
bool spotnik_number_parse(const char *text, double *value_out);
/* "6h", "90m", "1.5d", "12s"; a bare number is not a duration. */
bool spotnik_duration_parse(const char *text, double *seconds_out);
/* "45 min", "3.2 h", "12 days". */
void spotnik_duration_print(double seconds, char *text, size_t size);
/* RFC 3339 with a zone ("Z" or "+01:00"); a time without a zone is refused, since it means nothing
 * elsewhere. */
bool spotnik_timestamp_parse(const char *text, double *unix_s_out);

#endif
