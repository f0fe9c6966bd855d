/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: what is marked is in the file, in the order of the marks, or counted there as lost. Each
 * mark is one event of Chrome's format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "record/tracer.h"
#include "record/tracer_text.h"

enum { STEPS = 40000 }; /* more parts than a ring holds */

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
        spotnik_tracer_turn(trace, (enum spotnik_tracer_part)((part + 1) % SPOTNIK_TRACER_PARTS),
                            step, 1000 * step + (uint64_t)part + 1);
}

static uint64_t lost_read(const char *line)
{
    const char *name = strstr(line, " marks lost");

    while (name != NULL && name[-1] != '"')
        name--;
    return name == NULL ? 0 : strtoull(name, NULL, 10);
}

static void test_nothing_is_dropped_unsaid(void **state)
{
    struct spotnik_tracer *trace;
    uint64_t parts = 0, lost = 0;
    double last = 0, begin, length;
    char path[512], line[1024];

    (void)state;
    assert_int_equal(spotnik_tracer_new(dir, &self, 0, &trace), 0);
    for (uint64_t step = 1; step <= STEPS; step++)
        step_mark(trace, step);
    spotnik_tracer_free(trace);

    FILE *file = file_open(path, sizeof path);
    while (fgets(line, sizeof line, file) != NULL) {
        lost += lost_read(line);
        if (strstr(line, "\"ph\":\"X\"") == NULL)
            continue;
        assert_int_equal(sscanf(strstr(line, "\"ts\":"), "\"ts\":%lf,\"dur\":%lf", &begin, &length),
                         2);
        assert_true(begin >= last && length > 0);
        last = begin + length - 1e-4;
        parts++;
    }
    fclose(file);
    assert_int_equal(parts + lost, 4 * STEPS - 1); /* the first turn only begins a part */
    assert_true(parts >= 32768);
}

/* What every kind of mark looks like to Chrome, to the letter. */
static void test_texts(void **state)
{
    static const struct {
        struct spotnik_trace_mark mark;
        const char *text;
    } cases[] = {
        { { .kind = SPOTNIK_TRACE_PART,
            .arg = SPOTNIK_TRACER_COMPUTE,
            .from_ns = 1234567,
            .to_ns = 2000007,
            .step = 18 },
          "{\"ph\":\"X\",\"pid\":5,\"tid\":1,\"ts\":1234.567,\"dur\":765.440,\"name\":\"compute\","
          "\"cat\":\"step\",\"args\":{\"step\":18}},\n" },
        { { .kind = SPOTNIK_TRACE_BUCKET,
            .arg = 3,
            .from_ns = 1000,
            .to_ns = 3001,
            .step = 18,
            .more = 4096,
            .peer = 2 },
          "{\"ph\":\"b\",\"pid\":5,\"tid\":1,\"ts\":1.000,\"id\":\"18.3\",\"name\":\"bucket "
          "3\",\"cat\":\"bucket\",\"args\":{\"step\":18,\"epoch\":2,"
          "\"bytes\":4096}},\n"
          "{\"ph\":\"e\",\"pid\":5,\"tid\":1,\"ts\":3.001,\"id\":\"18.3\",\"name\":\"bucket "
          "3\",\"cat\":\"bucket\",\"args\":{\"step\":18,\"epoch\":2,"
          "\"bytes\":4096}},\n" },
        { { .kind = SPOTNIK_TRACE_PHASE,
            .arg = 2,
            .from_ns = 0,
            .to_ns = UINT64_MAX,
            .step = UINT64_MAX,
            .more = 3ull << 32 | 2 << 16 | 1 },
          "{\"ph\":\"X\",\"pid\":5,\"tid\":2,\"ts\":0.000,\"dur\":18446744073709551.615,\"name\":"
          "\"restart\",\"cat\":\"view\",\"args\":{\"epoch\":"
          "18446744073709551615,\"lost\":3,\"joined\":2,\"left\":1}},\n" },
        { { .kind = SPOTNIK_TRACE_PEER, .arg = SPOTNIK_EVENT_DEATH, .from_ns = 10, .peer = 0xabc },
          "{\"ph\":\"i\",\"s\":\"p\",\"pid\":5,\"tid\":2,\"ts\":0.010,\"cat\":\"event\",\"name\":"
          "\"death\",\"args\":{\"peer\":\"0000000000000abc\"}},\n" },
        { { .kind = SPOTNIK_TRACE_SELF, .arg = SPOTNIK_ACTION_PARKED, .from_ns = 10 },
          "{\"ph\":\"i\",\"s\":\"p\",\"pid\":5,\"tid\":2,\"ts\":0.010,\"cat\":\"event\",\"name\":"
          "\"parked\",\"args\":{}},\n" },
        { { .kind = SPOTNIK_TRACE_LOST, .from_ns = 10, .more = 77 },
          "{\"ph\":\"i\",\"s\":\"p\",\"pid\":5,\"tid\":1,\"ts\":0.010,\"cat\":\"event\",\"name\":"
          "\"77 marks lost\",\"args\":{}},\n" },
        { { .kind = SPOTNIK_TRACE_NAME, .peer = 0x123456789abcdef0 },
          "{\"ph\":\"M\",\"pid\":5,\"name\":\"process_name\",\"args\":{\"name\":\"member "
          "12345678\",\"member\":\"123456789abcdef0\"}},\n" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[SPOTNIK_TRACE_TEXT_MAX + 1];
        char *end = spotnik_trace_text(text, 5, &cases[i].mark);
        *end = '\0';
        assert_string_equal(text, cases[i].text);
    }
}

/* The longest numbers fit. */
static void number_check(uint64_t number)
{
    char text[SPOTNIK_TRACE_TEXT_MAX + 1], wanted[64];
    struct spotnik_trace_mark mark = { .kind = SPOTNIK_TRACE_LOST,
                                       .from_ns = number,
                                       .more = number };

    *spotnik_trace_text(text, 1, &mark) = '\0';
    snprintf(wanted, sizeof wanted, "\"name\":\"%" PRIu64 " marks lost\"", number);
    assert_non_null(strstr(text, wanted));
    snprintf(wanted, sizeof wanted, "\"ts\":%" PRIu64 ".%03u,", number / 1000,
             (unsigned)(number % 1000));
    assert_non_null(strstr(text, wanted));
}

/* Where the number of digits changes, and between. */
static void test_numbers_are_those_of_printf(void **state)
{
    (void)state;
    for (uint64_t power = 1; power != 0; power = power > UINT64_MAX / 10 ? 0 : 10 * power)
        for (uint64_t part = 1; part <= 9 && part <= UINT64_MAX / power; part++)
            for (uint64_t near = 0; near < 3; near++)
                number_check(part * power - 1 + near);
    number_check(UINT64_MAX);
}

static void test_no_text_is_longer_than_said(void **state)
{
    char text[4 * SPOTNIK_TRACE_TEXT_MAX];

    (void)state;
    for (uint32_t kind = SPOTNIK_TRACE_PART; kind <= SPOTNIK_TRACE_LOST; kind++) {
        struct spotnik_trace_mark mark = { .kind = kind,
                                           .from_ns = UINT64_MAX,
                                           .step = UINT64_MAX,
                                           .more = UINT64_MAX,
                                           .peer = UINT64_MAX };
        mark.arg = kind == SPOTNIK_TRACE_BUCKET ? UINT32_MAX : kind == SPOTNIK_TRACE_PHASE ? 3 : 0;
        assert_in_range(spotnik_trace_text(text, UINT32_MAX, &mark) - text, 1,
                        SPOTNIK_TRACE_TEXT_MAX);
    }
    struct spotnik_member longest = { .id = { UINT64_MAX, UINT64_MAX }, .host = UINT64_MAX };
    assert_in_range(spotnik_trace_text_head(text, UINT32_MAX, &longest, UINT64_MAX / 2, UINT64_MAX)
                        - text,
                    1, 2 * SPOTNIK_TRACE_TEXT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_is_dropped_unsaid, set_up, tear_down),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_numbers_are_those_of_printf),
        cmocka_unit_test(test_no_text_is_longer_than_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
