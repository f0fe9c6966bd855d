/* SPDX-License-Identifier: Apache-2.0 */
/* The reader behind `make demo`: lines of two members that agree are accepted, each kind of lie is
 * found. */
#include "demo_log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"

static char path[] = "/tmp/test_demo_log.XXXXXX";
static FILE *out;

static int set_up(void **state)
{
    char name[] = "/tmp/test_demo_log.XXXXXX";
    int fd = mkstemp(name);

    (void)state;
    memcpy(path, name, sizeof path);
    out = fd < 0 ? NULL : fdopen(fd, "w");
    return out ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    fclose(out);
    return unlink(path);
}

static void step(const char *member, unsigned number, unsigned digest, unsigned begin, unsigned end)
{
    fprintf(out,
            "{\"kind\":\"step\",\"member\":\"%s\",\"t_ns\":%u,\"step\":%u,\"count\":8,\"loss\":2.5,"
            "\"view\":4,",
            member, number * 1000, number);
    fprintf(
        out,
        "\"size\":2,\"replay\":0,\"data_epoch\":0,\"samples\":[[%u,%u]],\"digest\":\"%016x\"}\n",
        begin, end, digest);
}

static void end(const char *member)
{
    fprintf(out, "{\"kind\":\"end\",\"member\":\"%s\",\"exit_status\":0}\n", member);
}

static void read_all(struct demo_log *log)
{
    fflush(out);
    assert_int_equal(demo_log_open(log, path), 0);
    demo_log_read(log);
    demo_log_finish(log);
}

/* Claim: lines that agree are all compared and nothing is found. */
TEST_WITH(agreement_is_accepted, set_up, tear_down)
{
    struct demo_log log;

    for (unsigned s = 1; s <= 3; s++) {
        step("a", s, 100 + s, 8 * s, 8 * s + 4);
        step("b", s, 100 + s, 8 * s + 4, 8 * s + 8);
    }
    end("a");
    end("b");
    read_all(&log);
    assert_int_equal(log.digests_compared, 3);
    assert_int_equal(log.digests_differing, 0);
    assert_int_equal(log.samples_used, 24);
    assert_int_equal(log.samples_twice, 0);
    assert_int_equal(log.steps_out_of_order, 0);
    assert_int_equal(log.lines_bad, 0);
    assert_int_equal(demo_log_steps_lost(&log), 0);
    assert_float_equal(demo_log_loss(&log, 2), 2.5, 1e-9);
    demo_log_close(&log);
}

/* Claim: one differing digest of a stable step is found. */
TEST_WITH(drift_is_found, set_up, tear_down)
{
    struct demo_log log;

    step("a", 1, 7, 0, 4);
    step("b", 1, 8, 4, 8);
    step("a", 2, 9, 8, 12);
    step("b", 2, 9, 12, 16);
    read_all(&log);
    assert_int_equal(log.digests_differing, 1);
    demo_log_close(&log);
}

/* Claim: the last commit of a killed member, which nobody else may have seen, is neither proof nor
 * a lie; that of a member that ended in order counts. */
TEST_WITH(last_line_counts_only_after_an_end, set_up, tear_down)
{
    struct demo_log log;

    step("a", 1, 7, 0, 4);
    step("b", 1, 7, 4, 8);
    step("b", 2, 66, 8, 12); /* killed here; the others then commit step 2 without it */
    step("a", 2, 9, 12, 16);
    step("a", 3, 10, 8, 12);
    end("a");
    read_all(&log);
    assert_int_equal(log.digests_compared, 1);
    assert_int_equal(log.digests_differing, 0);
    assert_int_equal(log.samples_twice, 0);
    demo_log_close(&log);
}

/* Claim: samples used twice, steps skipped, steps that nobody committed and bad lines are
 * counted. */
TEST_WITH(every_lie_is_counted, set_up, tear_down)
{
    struct demo_log log;

    step("a", 1, 7, 0, 4);
    step("a", 3, 9, 2, 6);
    fputs("{\"kind\":\"st\n", out);
    end("a");
    read_all(&log);
    assert_int_equal(log.samples_twice, 2);
    assert_int_equal(log.steps_out_of_order, 1);
    assert_int_equal(demo_log_steps_lost(&log), 1);
    assert_int_equal(log.lines_bad, 1);
    demo_log_close(&log);
}

/* Claim: a recovery is as long as it was for the slowest member, and views come out in order. */
TEST_WITH(recoveries_are_merged, set_up, tear_down)
{
    static const char *const line =
        "{\"kind\":\"recovery\",\"member\":\"%s\",\"view\":%u,\"lost\":1,\"joined\":0,"
        "\"left\":0,\"detected_ns\":%u,\"restarted_ns\":%u,\"committed_ns\":%u}\n";
    struct demo_log log;

    fprintf(out, line, "a", 6, 90, 95, 99);
    fprintf(out, line, "a", 5, 20, 25, 40);
    fprintf(out, line, "b", 5, 10, 30, 35);
    read_all(&log);
    assert_int_equal(log.view_count, 2);
    assert_int_equal(log.views[0].view, 5);
    assert_int_equal(log.views[0].detected_ns, 10);
    assert_int_equal(log.views[0].restarted_ns, 30);
    assert_int_equal(log.views[0].committed_ns, 40);
    assert_int_equal(log.views[1].view, 6);
    demo_log_close(&log);
}

/* Claim: a process that joined again under a new member id is told apart from a new process. */
TEST_WITH(a_second_life_is_counted, set_up, tear_down)
{
    struct demo_log log;

    fputs("{\"kind\":\"end\",\"member\":\"a\",\"pid\":7}\n{\"kind\":\"end\",\"member\":\"b\","
          "\"pid\":8}\n",
          out);
    fputs("{\"kind\":\"end\",\"member\":\"c\",\"pid\":7}\n", out);
    read_all(&log);
    assert_int_equal(log.member_count, 3);
    assert_int_equal(demo_log_rejoined(&log), 1);
    demo_log_close(&log);
}

/* Claim: half a line is kept until its other half is written. */
TEST_WITH(half_a_line_waits, set_up, tear_down)
{
    struct demo_log log;

    step("a", 1, 7, 0, 4);
    fputs("{\"kind\":\"end\",\"memb", out);
    read_all(&log);
    assert_false(log.members[0].ended);
    fputs("er\":\"a\"}\n", out);
    fflush(out);
    demo_log_read(&log);
    assert_true(log.members[0].ended);
    assert_int_equal(log.lines_bad, 0);
    demo_log_close(&log);
}
