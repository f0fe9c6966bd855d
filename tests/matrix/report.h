/* SPDX-License-Identifier: Apache-2.0 */
/* What was tried, and what was wrong. Lies in memory that a world's process shares with the one
 * that started it, so nothing is lost with a world that crashes or hangs. */
#ifndef TESTS_MATRIX_REPORT_H
#define TESTS_MATRIX_REPORT_H

#include <stdatomic.h>
#include <stdio.h>

#include "cell.h"
#include "order.h"

#define REPORT_BORDERS (LIMITS_NEAR * 32)

struct report { /* numbers of 64 bits, then of 32, up to `failures` */
    _Atomic uint64_t worlds, steps, buckets, results, elements, losses, joins, progress;
    _Atomic uint32_t members[CELL_PLAYERS_MAX + 1];
    _Atomic uint32_t way_border[ORDER_WAYS][REPORT_BORDERS];
    _Atomic uint32_t way_dtype[ORDER_WAYS][SPOTNIK_Q8 + 1];
    _Atomic uint32_t way_op[ORDER_WAYS][SPOTNIK_PRODUCT + 1];
    _Atomic uint32_t way_call[ORDER_WAYS][CELL_CALLS];
    _Atomic uint32_t way_memory[ORDER_WAYS][CELL_MEMORIES];
    _Atomic uint32_t way_members[ORDER_WAYS][CELL_PLAYERS_MAX + 1];
    _Atomic uint32_t dtype_op[SPOTNIK_Q8 + 1][SPOTNIK_PRODUCT + 1];
    _Atomic uint32_t call_border[CELL_CALLS][REPORT_BORDERS];
    _Atomic uint32_t call_memory[CELL_CALLS][CELL_MEMORIES];
    _Atomic uint32_t inputs[NUMBERS_KINDS];
    _Atomic uint32_t deaths[CELL_DEATHS];
    _Atomic uint32_t world_way[CELL_WAYS][2]; /* undisturbed, with losses or joins */
    _Atomic uint32_t failures;
    char failure[1024]; /* the first of this world; under `failures` going from 0 to 1 */
};

/* One bucket of a step was compared on `members` members. */
void report_bucket(struct report *report, const struct cell_bucket *bucket, enum order_way way,
                   uint32_t members, uint32_t results, uint64_t elements);

/* Something is wrong; only the first word of each world is kept. */
void report_fail(struct report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Counters to a file, and those of a file added to ours. False: it cannot be done. */
bool report_save(const struct report *report, const char *path);
bool report_add(struct report *report, const char *path);

void report_print(const struct report *report, FILE *to);

#endif
