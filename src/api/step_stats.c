/* SPDX-License-Identifier: Apache-2.0 */
/* The bucket of step_stats.h: a table with a row per share, all zeros but ours, summed up as
 * integers, which is a gather. There are as many rows as the job may have members: a joiner that
 * repeats a step does not know how many took part in it. */
#include "api/step_stats.h"

#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "base/hash.h"

#define ROW_WORDS (sizeof(struct spotnik_step_stats_row) / sizeof(uint64_t))

_Static_assert(sizeof(struct spotnik_step_stats_row) == 40, "a row is five words, without holes");

struct spotnik_step_stats_table {
    struct spotnik_step_stats agreed;
    struct spotnik_step_stats_row *mine;  /* the runtime's: what we contribute */
    struct spotnik_step_stats_row *all;   /* of the step committed last */
    uint32_t filled;                      /* the row of `mine` that is not zero */
    bool started;                         /* our row is in the begun step */
    uint64_t part_ns[SPOTNIK_PACE_PARTS]; /* of the pace, as the last row told it */
    const void *decisions;
    size_t decisions_size;
    double noise;
    uint32_t before;
    uint32_t samples; /* of our share of the step committed last; UINT32_MAX: not known */
    uint64_t loads;   /* of the job, when `before` was looked at last */
};

int spotnik_step_stats_on(struct spotnik_job *job)
{
    uint32_t slots = job->config.members_max;

    if (job->agreed)
        return 0;
    if (job->sealed)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "agreed numbers begin with the first step");
    struct spotnik_step_stats_table *table = calloc(1, sizeof *table);

    if (table) {
        table->mine = spotnik_runtime_alloc(job->runtime, slots * sizeof *table->mine);
        table->all = calloc(slots, sizeof *table->all);
    }
    if (!table || !table->mine || !table->all) {
        if (table)
            free(table->all);
        free(table);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the numbers of %u members",
                                    slots);
    }
    table->agreed = (struct spotnik_step_stats){ .slots = slots, .row = table->all };
    table->samples = UINT32_MAX;
    job->agreed = table;
    return 0;
}

void spotnik_step_stats_free(struct spotnik_job *job)
{
    if (job->agreed)
        free(job->agreed->all); /* `mine` ends with the runtime */
    free(job->agreed);
    job->agreed = NULL;
}

const struct spotnik_step_stats *spotnik_step_stats_get(const struct spotnik_job *job)
{
    return job->agreed ? &job->agreed->agreed : NULL;
}

void spotnik_step_stats_noise_set(struct spotnik_job *job, double noise)
{
    if (job->agreed)
        job->agreed->noise = noise;
}

void spotnik_step_stats_check_watch(struct spotnik_job *job, const void *decisions, size_t size)
{
    if (!job->agreed)
        return;
    job->agreed->decisions = decisions;
    job->agreed->decisions_size = size;
}

static bool is_given(const struct spotnik_step_stats_row *row)
{
    return row->compute_us != 0;
}

bool spotnik_step_stats_differs(const struct spotnik_step_stats *agreed)
{
    const struct spotnik_step_stats_row *first = NULL;

    for (uint32_t i = 0; i < agreed->slots; i++) {
        if (!is_given(&agreed->row[i]))
            continue;
        if (!first)
            first = &agreed->row[i];
        if (agreed->row[i].check != first->check)
            return true;
    }
    return false;
}

static uint32_t microseconds(uint64_t ns)
{
    return ns / 1000 < UINT32_MAX ? (uint32_t)(ns / 1000) : UINT32_MAX;
}

/* How long a part of the steps took since the last row. */
static uint64_t spent_ns(struct spotnik_step_stats_table *table, const struct spotnik_pace *pace,
                         enum spotnik_pace_part part)
{
    uint64_t ns = pace->part_ns[part] - table->part_ns[part];

    table->part_ns[part] = pace->part_ns[part];
    return ns;
}

static uint32_t check_of(const struct spotnik_step_stats_table *table)
{
    return table->decisions ? (uint32_t)spotnik_hash_bytes(table->decisions, table->decisions_size)
                            : 0;
}

static uint32_t samples_of(const struct spotnik_job *job)
{
    return job->samples < UINT32_MAX ? (uint32_t)job->samples : UINT32_MAX;
}

static void row_fill(struct spotnik_job *job, struct spotnik_step_stats_table *table,
                     struct spotnik_step_stats_row *row)
{
    struct spotnik_pace pace;

    spotnik_pace_read(&job->pace, &pace);
    uint64_t wait_ns =
        spent_ns(table, &pace, SPOTNIK_PACE_BEGIN) + spent_ns(table, &pace, SPOTNIK_PACE_COMMIT);

    *row = (struct spotnik_step_stats_row){
        .compute_us = microseconds(pace.computed_ns),
        .apply_us = microseconds(spent_ns(table, &pace, SPOTNIK_PACE_APPLY)),
        .wait_us = microseconds(wait_ns),
        .samples = samples_of(job),
        .check = check_of(table),
        .before = table->before,
        .noise = table->noise,
        .timed = job->pace.part == SPOTNIK_PACE_COMPUTE ? table->samples : 0,
    };
    row->compute_us += row->compute_us == 0;
    table->noise = 0;
}

void spotnik_step_stats_begin(struct spotnik_job *job)
{
    struct spotnik_step_stats_table *table = job->agreed;

    if (!table)
        return;
    table->started = false;
    if (table->loads != job->state_loads) { /* perhaps we are a new member, without a past row */
        table->before = 0;
        table->samples = UINT32_MAX;
    }
    table->loads = job->state_loads;
}

int spotnik_step_stats_start(struct spotnik_job *job)
{
    struct spotnik_step_stats_table *table = job->agreed;

    if (!table || table->started)
        return 0;
    memset(&table->mine[table->filled], 0, sizeof *table->mine);
    table->filled = job->share < table->agreed.slots ? job->share : 0;
    row_fill(job, table, &table->mine[table->filled]);
    if (job->share >= job->shares) /* we have none; what was measured is gone all the same */
        memset(&table->mine[table->filled], 0, sizeof *table->mine);
    int rc =
        spotnik_runtime_allreduce_from(job->runtime, SPOTNIK_BUCKET_AGREED, table->mine,
                                       table->agreed.slots * ROW_WORDS, SPOTNIK_U64, SPOTNIK_SUM);

    table->started = rc == 0;
    return rc;
}

void spotnik_step_stats_deliver(struct spotnik_job *job, uint64_t step, uint32_t bucket_count,
                                const struct spotnik_bucket_result *result)
{
    struct spotnik_step_stats_table *table = job->agreed;

    if (!table || bucket_count <= SPOTNIK_BUCKET_AGREED || !result[SPOTNIK_BUCKET_AGREED].data)
        return;
    table->before = job->share < job->shares ? 1 + job->share : 0;
    table->samples = job->samples && table->before ? samples_of(job) : UINT32_MAX;
    memcpy(table->all, result[SPOTNIK_BUCKET_AGREED].data,
           table->agreed.slots * sizeof *table->all);
    table->agreed.step = step;
}

int spotnik_step_stats_outcome(const struct spotnik_job *job)
{
    if (!job->agreed || job->agreed->agreed.step != job->committed
        || !spotnik_step_stats_differs(&job->agreed->agreed))
        return 0;
    return spotnik_error_return(
        SPOTNIK_ERR_MISMATCH,
        "step %llu: members have decided differently from the same numbers; give every member the "
        "same program, and policies that depend on agreed numbers alone",
        (unsigned long long)job->committed);
}
