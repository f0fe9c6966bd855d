/* SPDX-License-Identifier: Apache-2.0 */
/* The trace by itself: what is marked is in the file or counted there as lost, in the order of the marks, and a step takes few bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/tracer.h"

enum { PART, LOST = 6, STEPS = 40000 }; /* kinds as src/net/tracer.c has them in the file; more parts than a ring holds */

struct mark {
    uint64_t from_ns, to_ns, step, more, peer;
    uint32_t kind, arg;
};

static char dir[64];
static const struct spotnik_member self = { .id = { 7, 9 }, .host = 1 };

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/spotnik-tracer-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static FILE *file_open(char *ret_path, size_t size)
{
    DIR *folder = opendir(dir);
    struct dirent *entry;

    assert_non_null(folder);
    do
        entry = readdir(folder);
    while (entry != NULL && entry->d_name[0] == '.');
    assert_non_null(entry);
    snprintf(ret_path, size, "%.63s/%.250s", dir, entry->d_name);
    closedir(folder);
    return fopen(ret_path, "r");
}

static int tear_down(void **state)
{
    char path[512];
    FILE *file = file_open(path, sizeof path);

    (void)state;
    fclose(file);
    unlink(path);
    return rmdir(dir);
}

/* A step's four parts, each of which ends where the next one begins. */
static void step_mark(struct spotnik_tracer *trace, uint64_t step)
{
    for (int part = 0; part < SPOTNIK_TRACER_PARTS; part++)
        spotnik_tracer_turn(trace, (enum spotnik_tracer_part)((part + 1) % SPOTNIK_TRACER_PARTS), step, 1000 * step + (uint64_t)part + 1);
}

static void test_nothing_is_dropped_unsaid(void **state)
{
    struct spotnik_tracer *trace;
    struct mark mark;
    uint64_t parts = 0, lost = 0, last = 0;
    char path[512], head[2048];

    (void)state;
    assert_int_equal(spotnik_tracer_new(dir, &self, 0, &trace), 0);
    for (uint64_t step = 1; step <= STEPS; step++)
        step_mark(trace, step);
    spotnik_tracer_free(trace);

    FILE *file = file_open(path, sizeof path);
    assert_non_null(fgets(head, sizeof head, file));
    assert_non_null(strstr(head, "{\"spotnik_trace\":1,"));
    assert_non_null(strstr(head, "\"member\":\"0000000000000007\""));
    while (fread(&mark, sizeof mark, 1, file) == 1) {
        assert_true(mark.kind == PART || mark.kind == LOST);
        if (mark.kind == LOST) {
            lost += mark.more;
            continue;
        }
        parts++;
        assert_true(mark.from_ns >= last && mark.to_ns > mark.from_ns);
        last = mark.to_ns;
    }
    fclose(file);
    assert_int_equal(parts + lost, 4 * STEPS - 1); /* the first turn only begins a part */
    assert_true(parts >= 32768);
}

static void test_a_step_is_short(void **state)
{
    struct spotnik_tracer *trace;
    char path[512];

    (void)state;
    assert_int_equal(spotnik_tracer_new(dir, &self, 0, &trace), 0);
    for (uint64_t step = 1; step <= 1000; step++)
        step_mark(trace, step);
    spotnik_tracer_free(trace);
    FILE *file = file_open(path, sizeof path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_in_range(ftell(file), 1000 * 4 * 40, 1000 * 4 * 48 + 2048);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_dropped_unsaid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_step_is_short, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
