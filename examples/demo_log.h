/* SPDX-License-Identifier: Apache-2.0 */
/* What the lines of training_log.c add up to: one row per step, per view and per member, and the
 * promises that the lines of all members can prove or break. Decides what counts as broken;
 * demo_report.c only shows it.
 *
 * A line counts as proof once its member has logged the next step too, or has ended in order: then
 * the step is known to be stable. The last line of a member that was killed may be a commit that
 * nobody else saw; the others were free to commit that step without it (docs/design/0001-core.md,
 * "Steps and commit"). */
#ifndef DEMO_LOG_H
#define DEMO_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { DEMO_RANGES_MAX = 64 };

struct demo_step {
    uint64_t t_ns;  /* first commit of it that was logged; 0: none was */
    uint64_t count; /* samples of all members together */
    uint64_t view;
    uint32_t size;
    double loss;
    bool has_digest; /* from a line that counts as proof */
    uint64_t digest;
};

struct demo_view {
    uint64_t view;
    uint32_t lost, joined, left;
    uint64_t detected_ns;  /* by the first to notice */
    uint64_t restarted_ns; /* by the last to install it */
    uint64_t committed_ns; /* by the last to commit a step in it; 0: nobody did */
    bool shown;            /* for the reader's own use */
};

/* The latest line of a member, until it is known to be stable. */
struct demo_line {
    uint64_t step, digest, data_epoch;
    bool has_digest;
    size_t range_count;
    struct {
        uint64_t begin, end;
    } range[DEMO_RANGES_MAX];
};

struct demo_member {
    char id[33];
    uint64_t pid;
    bool ended;
    struct demo_line last;
};

struct demo_log {
    FILE *file;
    char *line;
    size_t line_size, line_used;
    struct demo_step *steps; /* steps[s - 1] is step s */
    size_t step_count, step_room;
    struct demo_view *views;
    size_t view_count, view_room;
    struct demo_member *members;
    size_t member_count, member_room;
    /* a bit per sample that a stable step consumed, for the pass `used_epoch` over the data */
    uint8_t *used;
    uint64_t used_room, used_epoch;
    /* what was found */
    uint64_t digests_compared, digests_differing;
    uint64_t samples_used, samples_twice;
    uint64_t steps_out_of_order; /* a member's step did not follow its step before */
    uint64_t lines_bad;
};

/* 0, or -1 with errno. */
int demo_log_open(struct demo_log *log, const char *path);

/* Read what was written since the last call. Half a line at the end is kept for the next call. */
void demo_log_read(struct demo_log *log);

/* After the job: count the last lines of members that ended in order. */
void demo_log_finish(struct demo_log *log);

void demo_log_close(struct demo_log *log);

/* Steps up to the last one that nobody logged as committed. */
uint64_t demo_log_steps_lost(const struct demo_log *log);

/* Members that were taken for lost while they were only stopped or starved: their process joined
 * again. */
uint64_t demo_log_rejoined(const struct demo_log *log);

/* Mean loss of the `count` last steps. */
double demo_log_loss(const struct demo_log *log, size_t count);

/* Samples a second over the last `seconds`, or over everything when that is 0. */
double demo_log_rate(const struct demo_log *log, double seconds);

/* The view in which somebody was lost first; UINT64_MAX: nobody was. Joins before it are the job
 * coming together. */
uint64_t demo_log_first_loss(const struct demo_log *log);

#endif
