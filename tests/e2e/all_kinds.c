/* SPDX-License-Identifier: Apache-2.0 */
/* Every kind of collective in one step; see all_kinds.h. */
#include "all_kinds.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64, ROW = 150, ROOT = 0 };

struct all_kinds {
    spotnik_job *job;
    float *w, *g;
    uint64_t count;
    float *told, *parts; /* broadcast and reduce-scatter: `count` */
    float row[ROW], table[SLOTS * ROW];
    spotnik_range part;
};

struct all_kinds *all_kinds_new(spotnik_job *job, float *w, float *g, uint64_t count)
{
    struct all_kinds *all = calloc(1, sizeof *all);

    if (!all)
        return NULL;
    all->job = job;
    all->w = w;
    all->g = g;
    all->count = count;
    all->told = calloc(count, sizeof *all->told);
    all->parts = calloc(count, sizeof *all->parts);
    if (all->told && all->parts)
        return all;
    all_kinds_free(all);
    return NULL;
}

void all_kinds_free(struct all_kinds *all)
{
    if (!all)
        return;
    free(all->told);
    free(all->parts);
    free(all);
}

/* The root tells of the weights, with its gradient in it, which nobody else knows; rows and parts
 * are everybody's own. */
static void fill(struct all_kinds *all)
{
    for (uint64_t i = 0; i < all->count; i++) {
        all->told[i] = all->w[i] * 0.5f + all->g[i];
        all->parts[i] = all->g[i] * 0.25f + (float)(i % 7);
    }
    for (uint64_t i = 0; i < ROW; i++)
        all->row[i] = all->g[i % all->count];
}

int all_kinds_start(struct all_kinds *all, const spotnik_step *step)
{
    int rc;

    (void)step;
    fill(all);
    rc = spotnik_broadcast(all->job, 3, all->told, all->count, SPOTNIK_F32, ROOT);
    if (!rc)
        rc = spotnik_allgather(all->job, 4, all->row, ROW, SPOTNIK_F32, all->table, SLOTS);
    if (!rc)
        rc = spotnik_reduce_scatter(all->job, 5, all->parts, all->count, SPOTNIK_F32, SPOTNIK_SUM,
                                    &all->part);
    if (!rc)
        rc =
            spotnik_allreduce_compressed(all->job, 0, all->g, all->count, SPOTNIK_Q8, SPOTNIK_MEAN);
    return rc;
}

int all_kinds_finish(struct all_kinds *all, int rc)
{
    const float *whole = rc == 0 || rc == SPOTNIK_ERR_ROOT ? spotnik_result(all->job, 5) : NULL;
    uint32_t rows = whole ? spotnik_contributors(all->job, NULL, 0) : 0;

    if (!whole)
        return rc ? rc : SPOTNIK_ERR_STATE;
    if (all->part.end > all->part.begin
        && memcmp(all->parts + all->part.begin, whole + all->part.begin,
                  (all->part.end - all->part.begin) * sizeof *whole))
        return SPOTNIK_ERR_STATE;
    for (uint64_t i = 0; i < all->count; i++)
        all->w[i] += 0.001f * whole[i] + (rc == 0 ? 0.01f * all->told[i] : 0.002f);
    for (uint64_t i = 0; i < (uint64_t)rows * ROW; i++)
        all->w[i % all->count] += 0.01f * all->table[i];
    return 0;
}
