/* SPDX-License-Identifier: Apache-2.0 */
/* Strict CSV. Fields may be quoted; a quote inside a quoted field is doubled. The text is cut in
 * place, so a table is one copy of the file and one array of pointers. */
#include "common/table.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

struct spotnik_table {
    char *name;
    char *bytes;
    const char **fields; /* header first, then rows */
    size_t *lines;       /* one per row, header included */
    size_t columns, rows, capacity;
};

size_t spotnik_text_mark_drop(char *bytes, size_t size)
{
    if (size >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3))
        memmove(bytes, bytes + 3, size -= 3);
    bytes[size] = '\0';
    return size;
}

int spotnik_file_read(const char *path, char **bytes_out, size_t *size_out,
                      struct spotnik_fault *fault)
{
    gzFile file = gzopen(path, "rb");
    char *bytes = NULL;
    size_t size = 0, room = 0;
    int got = 0;

    if (!file)
        return spotnik_fault_set(fault, "%s: cannot open: %s", path, strerror(errno));
    do {
        size += (size_t)got;
        if (room - size < 65536) {
            room = room ? room * 2 : 131072;
            char *grown = room <= SPOTNIK_TABLE_BYTES_MAX ? realloc(bytes, room) : NULL;
            if (!grown) {
                gzclose(file);
                free(bytes);
                return spotnik_fault_set(fault, "%s: larger than %u MiB; split the file", path,
                                         SPOTNIK_TABLE_BYTES_MAX >> 20);
            }
            bytes = grown;
        }
        got = gzread(file, bytes + size, 65535);
    } while (got > 0);
    if (gzclose(file) != Z_OK || got < 0) {
        free(bytes);
        return spotnik_fault_set(
            fault, "%s: cannot read to the end (a directory, or a damaged gzip file?)", path);
    }
    *size_out = spotnik_text_mark_drop(bytes, size);
    *bytes_out = bytes;
    return 0;
}

/* Cuts one field out of the text at *at. Returns what ended it: ',' '\n' or '\0'; 0x7f when a quote
 * is not closed. */
static int field_cut(char **at, const char **field_out)
{
    char *read = *at, *write = read;
    int end;

    *field_out = write;
    if (*read == '"') {
        for (read++; *read; read++) {
            if (*read == '"' && *++read != '"')
                break;
            *write++ = *read;
        }
        if (!*read && read[-1] != '"')
            return 0x7f;
        if (*read == '\r')
            read++;
        if (*read && *read != ',' && *read != '\n')
            return 0x7f;
    } else {
        read += strcspn(read, ",\n");
        write = read > *field_out && read[-1] == '\r' && *read != ',' ? read - 1 : read;
    }
    end = *read;
    *write = '\0';
    *at = end ? read + 1 : read;
    return end;
}

static int table_grow(struct spotnik_table *table)
{
    size_t capacity = table->capacity ? table->capacity * 2 : 64;
    const char **fields = realloc(table->fields, capacity * table->columns * sizeof(*fields));

    if (fields)
        table->fields = fields;
    size_t *lines = realloc(table->lines, capacity * sizeof(*lines));
    if (lines)
        table->lines = lines;
    if (!fields || !lines)
        return -1;
    table->capacity = capacity;
    return 0;
}

static size_t newlines_in(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* One row into `row` (room for COLUMNS_MAX); its number of fields comes back in *count_out. */
static int row_cut(struct spotnik_table *table, char **at, size_t *line, const char **row,
                   size_t *count_out, struct spotnik_fault *fault)
{
    size_t count = 0, start = *line;
    int end;

    do {
        if (count == SPOTNIK_TABLE_COLUMNS_MAX)
            return spotnik_fault_set(fault, "%s:%zu: more than %d fields", table->name, start,
                                     SPOTNIK_TABLE_COLUMNS_MAX);
        end = field_cut(at, &row[count]);
        if (end == 0x7f)
            return spotnik_fault_set(
                fault, "%s:%zu: field %zu: a quote is opened and not closed, or text follows it",
                table->name, start, count + 1);
        *line += newlines_in(row[count]);
        count++;
    } while (end == ',');
    (*line)++;
    *count_out = count;
    return 0;
}

static int table_fill(struct spotnik_table *table, struct spotnik_fault *fault)
{
    const char *row[SPOTNIK_TABLE_COLUMNS_MAX];
    char *at = table->bytes;
    size_t line = 1, count = 0;

    if (!memcmp(at, "\xef\xbb\xbf", 3))
        at += 3;
    while (*at) {
        size_t start = line;
        if (row_cut(table, &at, &line, row, &count, fault))
            return -1;
        if (count == 1 && !*row[0])
            continue;
        if (!table->columns)
            table->columns = count;
        if (count != table->columns)
            return spotnik_fault_set(fault, "%s:%zu: %zu fields where the header has %zu%s",
                                     table->name, start, count, table->columns,
                                     count > table->columns
                                         ? " (a decimal comma? write 1.5, not 1,5)"
                                         : "");
        if (table->rows == table->capacity && table_grow(table))
            return spotnik_fault_set(fault, "%s: out of memory", table->name);
        memcpy(&table->fields[table->rows * count], row, count * sizeof(*row));
        table->lines[table->rows++] = start;
    }
    if (table->rows == 0)
        return spotnik_fault_set(fault, "%s: empty file; a header line is needed", table->name);
    if (table->rows == 1)
        return spotnik_fault_set(fault, "%s: a header and no rows", table->name);
    return 0;
}

int spotnik_table_parse(const char *name, const char *bytes, size_t size,
                        struct spotnik_table **table_out, struct spotnik_fault *fault)
{
    struct spotnik_table *table = calloc(1, sizeof(*table));

    if (!table)
        return spotnik_fault_set(fault, "%s: out of memory", name);
    table->name = strdup(name);
    table->bytes = calloc(1, size + 4);
    if (!table->name || !table->bytes) {
        spotnik_table_free(table);
        return spotnik_fault_set(fault, "%s: out of memory", name);
    }
    memcpy(table->bytes, bytes, size);
    if (memchr(bytes, 0, size)) {
        spotnik_table_free(table);
        return spotnik_fault_set(fault, "%s: holds NUL bytes; not a CSV file", name);
    }
    if (table_fill(table, fault)) {
        spotnik_table_free(table);
        return -1;
    }
    *table_out = table;
    return 0;
}

int spotnik_table_load(const char *path, struct spotnik_table **table_out,
                       struct spotnik_fault *fault)
{
    char *bytes;
    size_t size;

    if (spotnik_file_read(path, &bytes, &size, fault))
        return -1;
    int rc = spotnik_table_parse(path, bytes, size, table_out, fault);
    free(bytes);
    return rc;
}

void spotnik_table_free(struct spotnik_table *table)
{
    if (!table)
        return;
    free(table->name);
    free(table->bytes);
    free(table->fields);
    free(table->lines);
    free(table);
}

size_t spotnik_table_rows(const struct spotnik_table *table)
{
    return table->rows - 1;
}

size_t spotnik_table_columns(const struct spotnik_table *table)
{
    return table->columns;
}

const char *spotnik_table_column_name(const struct spotnik_table *table, size_t column)
{
    return table->fields[column];
}

const char *spotnik_table_name(const struct spotnik_table *table)
{
    return table->name;
}

size_t spotnik_table_line(const struct spotnik_table *table, size_t row)
{
    return table->lines[row + 1];
}

int spotnik_table_find(const struct spotnik_table *table, const char *name)
{
    for (size_t i = 0; i < table->columns; i++)
        if (!strcasecmp(table->fields[i], name))
            return (int)i;
    return -1;
}

int spotnik_table_need(const struct spotnik_table *table, const char *name,
                       struct spotnik_fault *fault)
{
    char list[512] = "";
    int column = spotnik_table_find(table, name);

    if (column >= 0)
        return column;
    for (size_t i = 0; i < table->columns; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof(list) - used, "%s%s", i ? ", " : "", table->fields[i]);
    }
    return spotnik_fault_set(fault, "%s:1: no column '%s'; the header has: %s", table->name, name,
                             list);
}

const char *spotnik_table_text(const struct spotnik_table *table, size_t row, int column)
{
    return table->fields[(row + 1) * table->columns + (size_t)column];
}

bool spotnik_table_empty(const struct spotnik_table *table, size_t row, int column)
{
    return !*spotnik_table_text(table, row, column);
}

int spotnik_table_number(const struct spotnik_table *table, size_t row, int column, double least,
                         double most, double *value_out, struct spotnik_fault *fault)
{
    const char *text = spotnik_table_text(table, row, column);
    size_t line = spotnik_table_line(table, row);
    const char *name = table->fields[column];
    double value;

    if (!*text)
        return spotnik_fault_set(fault, "%s:%zu: column %d (%s): empty; a number is needed",
                                 table->name, line, column + 1, name);
    if (!spotnik_number_parse(text, &value))
        return spotnik_fault_set(fault, "%s:%zu: column %d (%s): '%.40s' is not a number%s",
                                 table->name, line, column + 1, name, text,
                                 strchr(text, ',') ? " (decimals are written with a point)" : "");
    if (value < least || value > most)
        return spotnik_fault_set(fault, "%s:%zu: column %d (%s): %s is outside [%g, %g]",
                                 table->name, line, column + 1, name, text, least, most);
    *value_out = value;
    return 0;
}
