/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: every format of a trace is read as docs/reference/traces.md says, by content alone; and
 * what is wrong is refused with its place. The samples are those of the page. */
#include "common/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests.h"

static struct spotnik_trace good(const char *text, const char *options)
{
    struct spotnik_trace trace;
    struct spotnik_fault fault;

    if (spotnik_trace_parse("t", text, strlen(text), options, &trace, &fault))
        fail_msg("refused: %s", fault.text);
    return trace;
}

static void expect(const char *text, const char *options, const double *at_s,
                   const unsigned *machines, size_t count)
{
    struct spotnik_trace trace = good(text, options);
    double stays_s;

    for (size_t i = 0; i < count; i++)
        if (spotnik_trace_at(&trace, at_s[i], &stays_s) != machines[i])
            fail_msg("%.20s: at %g s there are %u, not %u", text, at_s[i],
                     spotnik_trace_at(&trace, at_s[i], &stays_s), machines[i]);
    spotnik_trace_free(&trace);
}

TEST(formats)
{
    const double at[] = { 0, 1800, 3600, 7199, 7200, 10799, 10800, 12600 };
    const unsigned counts[] = { 2, 2, 3, 3, 1, 1, 2, 2 }; /* 3 h long, then from the beginning */
    const unsigned there[] = { 1, 1, 0, 0, 1, 1, 1, 1 };
    char windows[128];

    expect("0,add,a\n0,add,b\n3600000,add,c\n7200000,remove,a\n7200000,remove,b\n10800000,add,x\n",
           NULL, at, counts, 8);
    expect("hours,machines\n0,2\n1,3\n2,1\n3,1\n", NULL, at, counts, 8);
    expect("0.0,2\n1.0,3\n2.0,1\n3.0,1\n", NULL, at, counts, 8);
    expect("0,2\n3600,3\n7200,1\n10800,1\n", NULL, at, counts, 8);
    expect("0,2\n60,3\n120,1\n180,1\n", "unit=m", at, counts, 8);
    expect("{\"metadata\":{\"gap_seconds\":3600},\"data\":[2,3,1]}", NULL, at, counts, 8);
    snprintf(windows, sizeof(windows),
             "{\"metadata_of_last\":{\"gap_seconds\":3600},\"traces_1_means_UNAVAILABLE\":[\"111\","
             "\"010\"]}");
    expect(windows, "window=2", at, there, 8);
    expect("timestamp_utc,spot_usd_per_h\n2015-03-11T00:00:00Z,1\n2015-03-11T01:00:00Z,3\n2015-03-"
           "11T02:00:"
           "00Z,2\n"
           "2015-03-11T03:00:00Z,9\n",
           "bid=2", at, there, 8);
}

TEST(options)
{
    struct spotnik_trace trace = good("seconds,n\n0,2\n100,4\n200,0\n300,0\n", "nodes=8");
    double stays_s;

    assert_int_equal(spotnik_trace_at(&trace, 0, &stays_s), 4);
    assert_int_equal(spotnik_trace_at(&trace, 150, &stays_s), 8);
    assert_true(stays_s == 50 && trace.highest == 8);
    spotnik_trace_free(&trace);
    trace = good("seconds,n\n0,2\n100,4\n200,0\n300,0\n", "start=150s");
    assert_true(trace.start_given && trace.start_s == 150);
    assert_int_equal(spotnik_trace_events_make(&trace, 1, NULL), 0);
    /* four machines at once, none from 50 s on, two (with names of their own) from 150 s, four from
     * 250 s */
    assert_int_equal(trace.name_count, 4 + 4);
    assert_int_equal(trace.event_count, 4 + 4 + 2 + 2);
    assert_int_equal(trace.events[4].at_ms, 50000);
    assert_false(trace.events[4].add);
    assert_int_equal(trace.events[8].at_ms, 150000);
    spotnik_trace_free(&trace);
    trace = good("seconds,n\n0,2\n100,4\n200,0\n300,0\n", "start=random:7");
    assert_true(trace.start_s > 0 && trace.start_s < 300);
    spotnik_trace_free(&trace);
}

TEST(refused)
{
    static const struct {
        const char *text, *options, *part;
    } cases[] = {
        { "", NULL, "the trace holds no event" },
        { "0,add,a\n0,add,a\n", NULL, "line 2: this node was added already" },
        { "0,remove,a\n", NULL, "line 1: this node is not there to be removed" },
        { "5,add,a\n1,add,b\n", NULL, "line 2: time runs backwards" },
        { "seconds,n\n5,1\n1,2\n", NULL, "line 3: time runs backwards" },
        { "seconds,n\n0,-1\n", NULL, "column 2" },
        { "seconds,n\n0,0\n5,0\n", NULL, "the trace never has a machine" },
        { "a,b,c\n1,2,3\n", NULL, "not a trace" },
        { "timestamp_utc,spot_usd_per_h\n2015-03-11T00:00:00Z,1\n", NULL, "bid=USD" },
        { "{\"data\":[1]}", NULL, "gap_seconds" },
        { "{\"metadata\":{\"gap_seconds\":1},\"data\":[1]}", "window=2",
          "window=2, but the file has 1" },
        { "0,add,a\n", "nods=4", "'nods=4' is none of" },
        { "0,add,a\n", "nodes=0", "'nodes=0' is none of" },
        { "0,add,a\n", "start", "has no value" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct spotnik_trace trace;
        struct spotnik_fault fault;
        assert_int_equal(spotnik_trace_parse("t", cases[i].text, strlen(cases[i].text),
                                             cases[i].options, &trace, &fault),
                         -1);
        if (!strstr(fault.text, cases[i].part))
            fail_msg("'%s' does not say '%s'", fault.text, cases[i].part);
    }
}
