/* SPDX-License-Identifier: Apache-2.0 */
/* See demo_log.h. Reading is incremental, so that the same code serves the live line and the table
 * at the end. */
#include "demo_log.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void *grown(void *array, size_t *room, size_t wanted, size_t bytes)
{
    size_t more = *room ? *room : 64;

    while (more < wanted)
        more *= 2;
    if (more == *room)
        return array;
    char *memory = realloc(array, more * bytes);

    if (!memory) {
        fputs("demo_report: out of memory\n", stderr);
        exit(1);
    }
    memset(memory + *room * bytes, 0, (more - *room) * bytes);
    *room = more;
    return memory;
}

static uint64_t integer(const json_t *object, const char *name)
{
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return !a || (b && b < a) ? b : a;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct demo_member *member_of(struct demo_log *log, const json_t *object)
{
    const char *id = json_string_value(json_object_get(object, "member"));

    if (!id)
        return NULL;
    for (size_t i = log->member_count; i-- > 0;)
        if (strncmp(log->members[i].id, id, sizeof log->members[i].id - 1) == 0)
            return &log->members[i];
    log->members =
        grown(log->members, &log->member_room, log->member_count + 1, sizeof *log->members);
    struct demo_member *m = &log->members[log->member_count++];

    snprintf(m->id, sizeof m->id, "%s", id);
    m->pid = integer(object, "pid");
    return m;
}

static struct demo_step *step_row(struct demo_log *log, uint64_t step)
{
    log->steps = grown(log->steps, &log->step_room, (size_t)step, sizeof *log->steps);
    if (step > log->step_count)
        log->step_count = (size_t)step;
    return &log->steps[step - 1];
}

/* Samples that a stable step consumed must not have been consumed before in this pass over the
 * data. */
static void use_samples(struct demo_log *log, uint64_t begin, uint64_t end)
{
    size_t room = (size_t)log->used_room;

    log->used = grown(log->used, &room, (size_t)(end / 8 + 1), 1);
    log->used_room = room;
    for (uint64_t i = begin; i < end; i++) {
        log->samples_twice += log->used[i / 8] >> i % 8 & 1;
        log->used[i / 8] |= (uint8_t)(1u << i % 8);
    }
    log->samples_used += end - begin;
}

/* The member's last line is stable: what it says must agree with what all others say of that
 * step. */
static void settle(struct demo_log *log, struct demo_member *m)
{
    struct demo_line *last = &m->last;

    if (!last->step)
        return;
    struct demo_step *row = step_row(log, last->step);

    if (last->has_digest && row->has_digest) {
        log->digests_compared++;
        log->digests_differing += row->digest != last->digest;
    } else if (last->has_digest) {
        row->has_digest = true;
        row->digest = last->digest;
    }
    if (last->range_count && last->data_epoch > log->used_epoch) {
        /* A straggler's line of the pass before would be missed here; passes are long and
         * stragglers rare. */
        memset(log->used, 0, (size_t)log->used_room);
        log->used_epoch = last->data_epoch;
    }
    for (size_t r = 0; r < last->range_count && last->data_epoch == log->used_epoch; r++)
        use_samples(log, last->range[r].begin, last->range[r].end);
    last->step = 0;
}

static void take_ranges(struct demo_line *line, const json_t *ranges)
{
    size_t count = json_array_size(ranges);

    for (size_t r = 0; r < count && r < DEMO_RANGES_MAX; r++) {
        const json_t *range = json_array_get(ranges, r);

        line->range[r].begin = (uint64_t)json_integer_value(json_array_get(range, 0));
        line->range[r].end = (uint64_t)json_integer_value(json_array_get(range, 1));
    }
    line->range_count = count < DEMO_RANGES_MAX ? count : DEMO_RANGES_MAX;
}

static void take_step(struct demo_log *log, struct demo_member *m, const json_t *object)
{
    uint64_t step = integer(object, "step");
    const char *digest = json_string_value(json_object_get(object, "digest"));
    struct demo_line *last = &m->last;

    if (!step || step > 1u << 30) {
        log->lines_bad++;
        return;
    }
    if (last->step && step != last->step + 1)
        log->steps_out_of_order++;
    settle(log, m);
    last->step = step;
    last->has_digest = digest != NULL;
    last->digest = digest ? strtoull(digest, NULL, 16) : 0;
    last->data_epoch = integer(object, "data_epoch");
    take_ranges(last, json_object_get(object, "samples"));

    struct demo_step *row = step_row(log, step);

    if (integer(object, "replay") || row->t_ns)
        return;
    row->t_ns = integer(object, "t_ns");
    row->count = integer(object, "count");
    row->view = integer(object, "view");
    row->size = (uint32_t)integer(object, "size");
    row->loss = json_number_value(json_object_get(object, "loss"));
}

/* Every member logs a recovery as it saw it; together they tell when it began and when the last one
 * was through. */
static void take_recovery(struct demo_log *log, const json_t *object)
{
    uint64_t view = integer(object, "view");
    size_t i = 0;

    while (i < log->view_count && log->views[i].view < view)
        i++;
    if (i == log->view_count || log->views[i].view != view) {
        log->views = grown(log->views, &log->view_room, log->view_count + 1, sizeof *log->views);
        memmove(&log->views[i + 1], &log->views[i], (log->view_count++ - i) * sizeof *log->views);
        log->views[i] = (struct demo_view){ .view = view };
    }
    struct demo_view *row = &log->views[i];

    row->lost = (uint32_t)most(row->lost, integer(object, "lost"));
    row->joined = (uint32_t)most(row->joined, integer(object, "joined"));
    row->left = (uint32_t)most(row->left, integer(object, "left"));
    row->detected_ns = least(row->detected_ns, integer(object, "detected_ns"));
    row->restarted_ns = most(row->restarted_ns, integer(object, "restarted_ns"));
    row->committed_ns = most(row->committed_ns, integer(object, "committed_ns"));
}

static void take_line(struct demo_log *log, const char *text, size_t length)
{
    json_t *object = json_loadb(text, length, 0, NULL);
    const char *kind = json_string_value(json_object_get(object, "kind"));
    struct demo_member *m = kind ? member_of(log, object) : NULL;

    if (!m)
        log->lines_bad++;
    else if (strcmp(kind, "step") == 0)
        take_step(log, m, object);
    else if (strcmp(kind, "recovery") == 0)
        take_recovery(log, object);
    else if (strcmp(kind, "end") == 0)
        m->ended = true;
    json_decref(object);
}

int demo_log_open(struct demo_log *log, const char *path)
{
    *log = (struct demo_log){ .file = fopen(path, "r") };
    return log->file ? 0 : -1;
}

void demo_log_read(struct demo_log *log)
{
    int c;

    clearerr(log->file);
    while ((c = getc(log->file)) != EOF) {
        if (c == '\n') {
            take_line(log, log->line, log->line_used);
            log->line_used = 0;
            continue;
        }
        log->line = grown(log->line, &log->line_size, log->line_used + 1, 1);
        log->line[log->line_used++] = (char)c;
    }
}

void demo_log_finish(struct demo_log *log)
{
    for (size_t i = 0; i < log->member_count; i++)
        if (log->members[i].ended)
            settle(log, &log->members[i]);
}

void demo_log_close(struct demo_log *log)
{
    fclose(log->file);
    free(log->line);
    free(log->steps);
    free(log->views);
    free(log->members);
    free(log->used);
}

uint64_t demo_log_steps_lost(const struct demo_log *log)
{
    uint64_t lost = 0;

    for (size_t s = 0; s < log->step_count; s++)
        lost += !log->steps[s].t_ns;
    return lost;
}

uint64_t demo_log_rejoined(const struct demo_log *log)
{
    uint64_t count = 0;

    for (size_t i = 0; i < log->member_count; i++)
        for (size_t j = 0; j < i; j++)
            if (log->members[j].pid == log->members[i].pid) {
                count++;
                break;
            }
    return count;
}

double demo_log_loss(const struct demo_log *log, size_t count)
{
    size_t first = log->step_count > count ? log->step_count - count : 0;
    double sum = 0;

    for (size_t s = first; s < log->step_count; s++)
        sum += log->steps[s].loss;
    return log->step_count > first ? sum / (double)(log->step_count - first) : 0;
}

double demo_log_rate(const struct demo_log *log, double seconds)
{
    size_t last = log->step_count;
    double samples = 0;

    while (last > 1 && !log->steps[last - 1].t_ns)
        last--;
    if (last < 2)
        return 0;
    uint64_t end = log->steps[last - 1].t_ns, begin = end;

    for (size_t s = last; s-- > 1;) {
        samples += (double)log->steps[s].count;
        begin = least(begin, log->steps[s - 1].t_ns);
        if (seconds > 0 && (double)(end - begin) > seconds * 1e9)
            break;
    }
    return end > begin ? samples * 1e9 / (double)(end - begin) : 0;
}

uint64_t demo_log_first_loss(const struct demo_log *log)
{
    for (size_t i = 0; i < log->view_count; i++)
        if (log->views[i].lost)
            return log->views[i].view;
    return UINT64_MAX;
}
