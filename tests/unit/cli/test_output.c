/* SPDX-License-Identifier: Apache-2.0 */
/* A traceback that all members end with appears once, whichever lines are shown; none is torn. */
#include "output.h"
#include "run_line.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST "Traceback (most recent call last):"

void run_line_hide(void)
{
}

void run_line_show(void)
{
}

static struct output output;
static struct output_tail tail[3];
static FILE *file;
static int kept;

/* Standard error goes to a file from here on. */
static void begin(enum output_whose whose)
{
    output = (struct output){ .whose = whose };
    memset(tail, 0, sizeof(tail));
    file = tmpfile();
    fflush(stderr);
    kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
}

static void expect(const char *text)
{
    char seen[2 * OUTPUT_TAIL] = { 0 };

    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    assert_true(fread(seen, 1, sizeof(seen) - 1, file) > 0);
    fclose(file);
    assert_string_equal(seen, text);
}

static void pass(uint32_t worker, const char *text)
{
    const struct output_line line = { .worker = worker,
                                      .error = true,
                                      .kept = true,
                                      .senior = worker == 0,
                                      .text = text,
                                      .length = strlen(text) };

    output_pass(&output, &line, &tail[worker]);
}

static void traceback(uint32_t worker, const char *error)
{
    pass(worker, FIRST);
    pass(worker, "  File \"train.py\", line 3");
    pass(worker, error);
}

#define WHOLE(w, error) w FIRST "\n" w "  File \"train.py\", line 3\n" w error "\n"

TEST(where_all_are_shown_a_traceback_appears_once)
{
    begin(OUTPUT_ALL);
    pass(0, "a warning");
    traceback(0, "ValueError: 1");
    pass(2, "a warning");
    traceback(1, "ValueError: 1");
    traceback(2, "ValueError: 2");
    expect("[w0] a warning\n" WHOLE("[w0] ",
                                    "ValueError: 1") "[w2] a warning\n"
                                                     "[w1] ValueError: 1\n" WHOLE("[w2] ",
                                                                                  "ValueError: 2"));
}

TEST(where_one_is_shown_the_others_end_with_their_last_line)
{
    begin(OUTPUT_SENIOR);
    traceback(1, "ValueError: 1");
    traceback(2, "KeyError: 2");
    traceback(0, "ValueError: 1");
    output_tail_show(&output, 1, &tail[1]);
    output_tail_show(&output, 2, &tail[2]);
    expect(WHOLE("[w0] ", "ValueError: 1") "[w1] ValueError: 1\n" WHOLE("[w2] ", "KeyError: 2"));
}

TEST(a_traceback_that_is_broken_off_is_shown_in_the_end)
{
    begin(OUTPUT_ALL);
    pass(0, FIRST);
    pass(0, "  File \"train.py\", line 3");
    assert_true(tail[0].holds);
    output_tail_show(&output, 0, &tail[0]);
    assert_false(tail[0].holds);
    expect("[w0] " FIRST "\n[w0]   File \"train.py\", line 3\n");
}

TEST(a_traceback_longer_than_what_is_kept_loses_no_line)
{
    enum { LINES = OUTPUT_TAIL / 10 + 1 };
    char wanted[2 * OUTPUT_TAIL] = "[w0] " FIRST "\n";

    begin(OUTPUT_ALL);
    pass(0, FIRST);
    for (int i = 0; i < LINES; i++) {
        pass(0, "  line 678");
        strcat(wanted, "[w0]   line 678\n");
    }
    pass(0, "ValueError: 1");
    strcat(wanted, "[w0] ValueError: 1\n");
    expect(wanted);
}
