/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: histograms are cumulative and their counts agree; metrics are text that Prometheus reads,
 * whatever the strings in them are; a text that does not fit is refused whole; messages are held
 * back and counted; names of observed numbers are checked. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/messages.h"
#include "metrics/watched.h"
#include "tests.h"

#define ROOM (64u * 1024)

static struct spotnik_watched *sample(void)
{
    struct spotnik_watched *of = calloc(1, sizeof *of);

    snprintf(of->job, sizeof of->job, "a \"job\" with \\ and\nnewline");
    of->now_ns = 20000000000;
    of->born_ns = 10000000000;
    of->dollars_per_hour = 360;
    of->status.size = 3;
    of->sums.losses = 2;
    of->pace.part_ns[SPOTNIK_PACE_COMPUTE] = 7000000000;
    of->pace.part_ns[SPOTNIK_PACE_BEGIN] = 2000000000;
    of->sums.recovering_ns = 500000000;
    of->observed_count = 1;
    snprintf(of->observed[0].name, sizeof of->observed[0].name, "loss");
    of->observed[0].value = 0.25;
    spotnik_counters_commit(&of->counters, 1000);
    spotnik_counters_step(&of->counters, 10, 4000, 0, 3000000);
    spotnik_counters_commit(&of->counters, 4000000);
    spotnik_counters_step(&of->counters, 10, 4000, 0, 5000000);
    spotnik_counters_step(&of->counters, 10, 4000, 1, 6000000); /* a replay is no step of ours */
    return of;
}

/* The value of the line that begins with `name` and a blank. */
static double value_of(const char *text, const char *name)
{
    char line[200];

    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    return strtod(at + strlen(line), NULL);
}

TEST(values)
{
    struct spotnik_watched *of = sample();
    char *text = malloc(ROOM);

    assert_int_not_equal(spotnik_exposition_text(of, text, ROOM), 0);
    assert_float_equal(value_of(text, "spotnik_members"), 3, 0);
    assert_float_equal(value_of(text, "spotnik_steps_total"), 2, 0);
    assert_float_equal(value_of(text, "spotnik_steps_replayed_total"), 1, 0);
    assert_float_equal(value_of(text, "spotnik_samples_total"), 20, 0);
    assert_float_equal(value_of(text, "spotnik_reduced_bytes_total"), 8000, 0);
    assert_float_equal(value_of(text, "spotnik_goodput_ratio"), 0.65,
                       1e-9); /* 7 s of 10, less half a second lost */
    assert_float_equal(value_of(text, "spotnik_cost_dollars_total"), 1, 1e-9);
    assert_float_equal(value_of(text, "spotnik_observed{name=\"loss\"}"), 0.25, 0);
    assert_float_equal(value_of(text, "spotnik_step_duration_seconds_count"), 1,
                       0); /* from the first commit to the second */
    assert_float_equal(value_of(text, "spotnik_step_duration_seconds_sum"), 0.002, 1e-12);
    assert_float_equal(value_of(text, "spotnik_allreduce_exposed_seconds_count"), 2, 0);
    free(text);
    free(of);
}

/* Every bucket holds what the ones before it hold, and the last one everything. */
TEST(histogram)
{
    struct spotnik_watched *of = sample();
    char *text = malloc(ROOM), name[100];
    double before = 0;

    memset(&of->counters.step, 0, sizeof of->counters.step);
    spotnik_histogram_add(&of->counters.step, 10000); /* a bound belongs to its bucket */
    spotnik_histogram_add(&of->counters.step, 10001);
    spotnik_histogram_add(&of->counters.step, UINT64_C(200000000000)); /* beyond the last bound */
    assert_int_not_equal(spotnik_exposition_text(of, text, ROOM), 0);
    for (unsigned i = 0; i < SPOTNIK_HISTOGRAM_BUCKETS; i++) {
        snprintf(name, sizeof name, "spotnik_step_duration_seconds_bucket{le=\"%g\"}",
                 spotnik_histogram_bound(i));
        double value = value_of(text, name);
        assert_true(value >= before);
        assert_float_equal(value, i == 0 ? 1 : 2, 0);
        before = value;
    }
    assert_float_equal(value_of(text, "spotnik_step_duration_seconds_bucket{le=\"+Inf\"}"), 3, 0);
    assert_float_equal(value_of(text, "spotnik_step_duration_seconds_count"), 3, 0);
    free(text);
    free(of);
}

/* A line is a comment, or a name, perhaps labels, and one number. */
TEST(lines)
{
    struct spotnik_watched *of = sample();
    char *text = malloc(ROOM), *rest = NULL;
    size_t size = spotnik_exposition_text(of, text, ROOM), lines = 0;

    assert_int_equal(text[size - 1], '\n');
    for (char *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest), lines++) {
        char *blank = strrchr(line, ' '), *end;

        assert_int_equal(strncmp(line, *line == '#' ? "# " : "spotnik_", *line == '#' ? 2 : 8), 0);
        if (*line == '#')
            continue;
        assert_non_null(blank);
        strtod(blank + 1, &end);
        assert_true(end > blank + 1 && !*end);
    }
    assert_true(lines > 100);
    free(text);
    free(of);
}

TEST(no_room)
{
    struct spotnik_watched *of = sample();
    char *text = malloc(ROOM);
    size_t whole = spotnik_exposition_text(of, text, ROOM);

    for (size_t size = 1; size <= whole; size += 37) {
        char *tight = malloc(size); /* what writes too far is seen by the sanitizer */
        assert_int_equal(spotnik_exposition_text(of, tight, size), 0);
        free(tight);
    }
    assert_int_equal(spotnik_exposition_text(of, text, whole + 1), whole);
    free(text);
    free(of);
}

/* The phases add up to the whole, also where a member was told of two passes at once. */
TEST(phases)
{
    spotnik_recovery recovery = { .detected_ns = 100,
                                  .reconciled_ns = 130,
                                  .accepted_ns = 150,
                                  .restarted_ns = 155,
                                  .committed_ns = 200 };
    uint64_t ns[SPOTNIK_PHASES];

    spotnik_watched_phases(&recovery, ns);
    assert_true(ns[0] == 30 && ns[1] == 20 && ns[2] == 5 && ns[3] == 45 && ns[4] == 100);
    recovery.reconciled_ns = recovery.accepted_ns = 0;
    spotnik_watched_phases(&recovery, ns);
    assert_true(ns[0] == 0 && ns[1] == 0 && ns[2] == 55 && ns[3] == 45 && ns[4] == 100);
    recovery.committed_ns = 0;
    spotnik_watched_phases(&recovery, ns);
    assert_true(ns[2] == 55 && ns[3] == 0 && ns[4] == 0);
}

TEST(rate)
{
    struct spotnik_said_rate rate = { 0 };
    uint64_t held_back;

    assert_true(spotnik_said_pass(&rate, SPOTNIK_SAID_LOST, 1000, &held_back));
    assert_false(spotnik_said_pass(&rate, SPOTNIK_SAID_LOST, 2000, &held_back));
    assert_false(spotnik_said_pass(&rate, SPOTNIK_SAID_LOST, 3000, &held_back));
    /* each kind by itself */
    assert_true(spotnik_said_pass(&rate, SPOTNIK_SAID_JOINED, 3000, &held_back));
    assert_int_equal(held_back, 0);
    assert_true(spotnik_said_pass(&rate, SPOTNIK_SAID_LOST, 1000 + SPOTNIK_SAID_EVERY_NS,
                                  &held_back));
    assert_int_equal(held_back, 2);
}

/* No two messages share an id, and none lacks one. */
TEST(ids)
{
    for (int i = 0; i < SPOTNIK_SAID_KINDS; i++) {
        assert_non_null(spotnik_said_info((enum spotnik_said)i)->id);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(spotnik_said_info((enum spotnik_said)i)->id,
                                    spotnik_said_info((enum spotnik_said)j)->id);
    }
}

TEST(observed)
{
    struct spotnik_observed observed = { 0 };
    struct spotnik_observed_value read[SPOTNIK_OBSERVED_MAX];
    char name[40];

    assert_int_equal(spotnik_observed_put(&observed, "loss", 1), 0);
    assert_int_equal(spotnik_observed_put(&observed, "loss", 2), 0);
    assert_int_equal(spotnik_observed_read(&observed, read), 1);
    assert_float_equal(read[0].value, 2, 0);
    assert_int_equal(spotnik_observed_put(&observed, "", 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_observed_put(&observed, NULL, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_observed_put(&observed, "with \"quote", 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_observed_put(&observed, "a_name_of_thirty_two_characters_", 1),
                     SPOTNIK_ERR_ARGUMENT);
    for (int i = 1; i < SPOTNIK_OBSERVED_MAX; i++) {
        snprintf(name, sizeof name, "number_%d", i);
        assert_int_equal(spotnik_observed_put(&observed, name, i), 0);
    }
    assert_int_equal(spotnik_observed_put(&observed, "one_more", 1), SPOTNIK_ERR_LIMIT);
    assert_int_equal(spotnik_observed_put(&observed, "loss", 3), 0);
}
