/* SPDX-License-Identifier: Apache-2.0 */
/* Counting, and saying in few lines what was covered: of each pair of dimensions, how many of all
 * that can be. */
#include "report.h"

#include <stdarg.h>
#include <string.h>

void report_bucket(struct report *report, const struct cell_bucket *bucket, enum order_way way,
                   uint32_t members, uint32_t results, uint64_t elements)
{
    uint32_t at = bucket->border * LIMITS_NEAR + bucket->near;
    report->buckets++;
    report->results += results;
    report->elements += elements;
    report->way_border[way][at]++;
    report->way_members[way][members]++;
    report->way_memory[way][bucket->memory]++;
    report->way_call[way][bucket->call]++;
    report->call_border[bucket->call][at]++;
    report->call_memory[bucket->call][bucket->memory]++;
    if (bucket->call == CALL_BROADCAST || bucket->call == CALL_ALLGATHER)
        return; /* bytes, that nobody adds */
    report->way_dtype[way][bucket->numbers.dtype]++;
    report->way_op[way][bucket->numbers.op]++;
    report->dtype_op[bucket->numbers.dtype][bucket->numbers.op]++;
    report->inputs[bucket->numbers.kind]++;
}

void report_fail(struct report *report, const char *format, ...)
{
    va_list list;
    if (atomic_fetch_add(&report->failures, 1) > 0)
        return;
    va_start(list, format);
    vsnprintf(report->failure, sizeof report->failure, format, list);
    va_end(list);
}

/* ---- files ---- */

bool report_save(const struct report *report, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool all = fwrite(report, sizeof *report, 1, file) == 1;
    return fclose(file) == 0 && all;
}

bool report_add(struct report *report, const char *path)
{
    static struct report one;
    FILE *file = fopen(path, "rb");
    bool all = file != NULL && fread(&one, sizeof one, 1, file) == 1;
    if (file != NULL)
        fclose(file);
    _Atomic uint64_t *large = &report->worlds;
    const _Atomic uint64_t *large_of_it = &one.worlds;
    for (size_t i = 0; all && i < offsetof(struct report, members) / sizeof *large; i++)
        large[i] += large_of_it[i];
    _Atomic uint32_t *small = report->members;
    const _Atomic uint32_t *small_of_it = one.members;
    for (size_t i = 0; all
                       && i < (offsetof(struct report, failures) - offsetof(struct report, members))
                                  / sizeof *small;
         i++)
        small[i] += small_of_it[i];
    return all;
}

/* ---- print ---- */

static uint32_t met(const _Atomic uint32_t *table, uint32_t size)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < size; i++)
        count += table[i] > 0;
    return count;
}

/* Rows [first, rows) of a table with `width` columns, of which [from, to) can be. */
static void pair_print(FILE *to, const char *name, const _Atomic uint32_t *table, uint32_t first,
                       uint32_t rows, uint32_t width, uint32_t from, uint32_t until)
{
    uint32_t count = 0, all = 0;
    for (uint32_t row = first; row < rows; row++) {
        count += met(table + row * width + from, until - from);
        all += until - from;
    }
    fprintf(to, "  %-22s %4u of %4u\n", name, count, all);
}

static void one_print(FILE *to, const char *name, uint64_t count)
{
    fprintf(to, " %s %llu", name, (unsigned long long)count);
}

static void ways_print(const struct report *report, FILE *to)
{
    fprintf(to, "buckets by the way they went:");
    for (uint32_t way = 0; way < ORDER_WAYS; way++) {
        uint64_t count = 0;
        for (uint32_t i = 0; i < CELL_CALLS; i++)
            count += report->way_call[way][i];
        one_print(to, way == ORDER_ANY ? "changing" : order_name((enum order_way)way), count);
    }
    fprintf(to, "\nby call:");
    for (uint32_t call = 0; call < CELL_CALLS; call++) {
        uint64_t count = 0;
        for (uint32_t i = 0; i < CELL_MEMORIES; i++)
            count += report->call_memory[call][i];
        one_print(to, cell_call_name((enum cell_call)call), count);
    }
    fprintf(to, "\nworlds, undisturbed and not:");
    for (uint32_t way = 0; way < CELL_WAYS; way++)
        fprintf(to, " %s %u+%u", cell_way_name((enum cell_way)way), report->world_way[way][0],
                report->world_way[way][1]);
    fprintf(to, "\n");
}

static void pairs_print(const struct report *report, FILE *to)
{
    uint32_t borders = LIMITS_NEAR * limits_count();
    fprintf(to, "pairs met at least once:\n");
    pair_print(to, "way x border", &report->way_border[0][0], 0, ORDER_WAYS, REPORT_BORDERS, 0,
               borders);
    pair_print(to, "way x type", &report->way_dtype[0][0], 0, ORDER_WAYS, SPOTNIK_Q8 + 1, 1,
               SPOTNIK_Q8 + 1);
    pair_print(to, "way x operation", &report->way_op[0][0], 0, ORDER_WAYS, SPOTNIK_PRODUCT + 1, 1,
               SPOTNIK_PRODUCT + 1);
    pair_print(to, "way x call", &report->way_call[0][0], 0, ORDER_WAYS, CELL_CALLS, 0, CELL_CALLS);
    pair_print(to, "way x memory", &report->way_memory[0][0], 0, ORDER_WAYS, CELL_MEMORIES, 0,
               CELL_MEMORIES);
    pair_print(to, "way x members", &report->way_members[0][0], 0, ORDER_WAYS, CELL_PLAYERS_MAX + 1,
               1, 41);
    pair_print(to, "type x operation", &report->dtype_op[0][0], 1, SPOTNIK_Q8 + 1,
               SPOTNIK_PRODUCT + 1, 1, SPOTNIK_PRODUCT + 1);
    pair_print(to, "call x border", &report->call_border[0][0], 0, CELL_CALLS, REPORT_BORDERS, 0,
               borders);
    pair_print(to, "call x memory", &report->call_memory[0][0], 0, CELL_CALLS, CELL_MEMORIES, 0,
               CELL_MEMORIES);
}

void report_print(const struct report *report, FILE *to)
{
    fprintf(to,
            "%llu worlds, %llu steps, %llu buckets, %llu results compared, %llu elements; %llu "
            "members lost, "
            "%llu joined\n",
            (unsigned long long)report->worlds, (unsigned long long)report->steps,
            (unsigned long long)report->buckets, (unsigned long long)report->results,
            (unsigned long long)report->elements, (unsigned long long)report->losses,
            (unsigned long long)report->joins);
    fprintf(to,
            "members of a world: %u of 40 numbers; inputs exact %u, rounding %u, equal %u, special "
            "%u;\ndeaths begun %u, starting %u, started %u, committing %u\n",
            met(report->members + 1, 40), report->inputs[NUMBERS_EXACT],
            report->inputs[NUMBERS_ROUNDING], report->inputs[NUMBERS_EQUAL],
            report->inputs[NUMBERS_SPECIAL], report->deaths[DEATH_BEGUN],
            report->deaths[DEATH_STARTING], report->deaths[DEATH_STARTED],
            report->deaths[DEATH_COMMITTING]);
    ways_print(report, to);
    pairs_print(report, to);
}
