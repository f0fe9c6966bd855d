/* SPDX-License-Identifier: Apache-2.0 */
/* spotDNN's formulas and its window search. The exact search is in spotdnn_exact.c. */
#include "model_spotdnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct spotnik_spotdnn_model spotnik_spotdnn_resnet110 = {
    .alpha1 = 0.8,
    .beta1 = -1.92,
    .gamma1 = 876.5,
    .gamma2 = -0.2,
    .gamma3 = 2507.6,
    .gamma4 = -1,
    .gamma5 = 0.5,
    .parameters_mb = 11.54,
    .request_mb_per_s = 142,
    .server_mb_per_s = 1200,
    .pcie_mb_per_s = 10000,
};

static double worker_mb_per_s(const struct spotnik_spotdnn_model *model, double workers)
{
    double share = model->server_mb_per_s / workers;
    double contended = fmin(fmax(model->alpha1 * sqrt(workers) + model->beta1, 0), 1);

    if (model->request_mb_per_s <= share)
        return model->request_mb_per_s;
    return contended * share + (1 - contended) * model->request_mb_per_s;
}

double spotnik_spotdnn_iteration_s(const struct spotnik_spotdnn_model *model,
                                   const struct spotnik_spotdnn_type *type, double workers)
{
    double alone_s = type->batch / type->images_per_s, moved_mb = 2 * model->parameters_mb;

    return alone_s + moved_mb / worker_mb_per_s(model, workers)
           - moved_mb / model->request_mb_per_s;
}

double spotnik_convergence_coefficient(const double *speed, const unsigned *count, size_t types)
{
    double total = 0, fastest = 0, squares = 0;

    for (size_t i = 0; i < types; i++) {
        total += speed[i] * count[i];
        if (count[i])
            fastest = fmax(fastest, speed[i]);
    }
    if (!(total > 0))
        return 0;
    for (size_t i = 0; i < types; i++)
        squares += count[i] * (speed[i] / total) * (speed[i] / total);
    double first = fastest / total;
    return sqrt(fmax(0, squares - first * first + (1 - first) * (1 - first)));
}

/* loss = goal solved for the number of updates. */
static double iterations_for(const struct spotnik_spotdnn_model *model,
                             const struct spotnik_spotdnn_result *result, double loss)
{
    double spread = model->gamma4 < 0 ? 1 : result->coefficient + model->gamma4;
    double above = (model->gamma2 * result->batch + model->gamma3) * sqrt(spread * result->workers);

    return fmax(1, above / (loss - model->gamma5) - model->gamma1);
}

struct spotnik_spotdnn_result spotnik_spotdnn_evaluate(const struct spotnik_spotdnn_model *model,
                                                       const struct spotnik_spotdnn_type *types,
                                                       const unsigned *count, size_t type_count,
                                                       const struct spotnik_spotdnn_goal *goal)
{
    struct spotnik_spotdnn_result result = { 0 };
    double updates_per_s = 0, images_per_s = 0, fastest = 0, squares = 0;

    for (size_t i = 0; i < type_count; i++)
        result.workers += count[i];
    for (size_t i = 0; i < type_count; i++) {
        if (!count[i])
            continue;
        double each_s = spotnik_spotdnn_iteration_s(model, &types[i], result.workers),
               speed = types[i].batch / each_s;
        updates_per_s += count[i] / each_s;
        images_per_s += count[i] * speed;
        squares += count[i] * speed * speed;
        fastest = fmax(fastest, speed);
        result.usd_per_h += count[i] * types[i].usd_per_h;
    }
    double first = fastest / images_per_s;
    result.coefficient = sqrt(fmax(0, squares / images_per_s / images_per_s - first * first
                                          + (1 - first) * (1 - first)));
    result.iteration_s = 1 / updates_per_s;
    result.batch = images_per_s * result.iteration_s;
    result.iterations = iterations_for(model, &result, goal->loss);
    result.time_s = result.iterations * result.iteration_s + goal->takeover_s;
    result.cost_usd = result.time_s * result.usd_per_h / 3600;
    return result;
}

unsigned spotnik_spotdnn_upper(const struct spotnik_spotdnn_model *model)
{
    double root = (1 - model->beta1) / model->alpha1, upper = floor(root * root + 1e-9);

    return model->alpha1 <= 0 || upper > SPOTNIK_SPOTDNN_WORKERS_MAX ? SPOTNIK_SPOTDNN_WORKERS_MAX
           : upper < 1                                               ? 1
                                                                     : (unsigned)upper;
}

unsigned spotnik_spotdnn_lower(const struct spotnik_spotdnn_model *model,
                               const struct spotnik_spotdnn_type *types, size_t type_count,
                               const struct spotnik_spotdnn_goal *goal)
{
    double least_batch = INFINITY, most_speed = 0;

    for (size_t i = 0; i < type_count; i++) {
        if (!types[i].quota)
            continue;
        least_batch = fmin(least_batch, types[i].batch);
        most_speed = fmax(most_speed, types[i].images_per_s);
    }
    if (model->gamma4 < 0 || !isfinite(least_batch))
        return 1; /* the bound is derived from the loss with R; without R it does not hold */
    double updates = (model->gamma2 * least_batch + model->gamma3) * sqrt(model->gamma4)
                         / (goal->loss - model->gamma5)
                     - model->gamma1;
    double lower = ceil(least_batch * updates / (most_speed * goal->deadline_s));
    return lower < 1 ? 1 : (unsigned)fmin(lower, SPOTNIK_SPOTDNN_WORKERS_MAX);
}

struct entry {
    double iteration_s;
    size_t type;
};

static int by_iteration(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    if (a->iteration_s != b->iteration_s)
        return a->iteration_s < b->iteration_s ? -1 : 1;
    return (a->type > b->type) - (a->type < b->type);
}

/* The quota written out, one entry per machine, sorted by iteration time. */
static size_t entries_list(const struct spotnik_spotdnn_type *types, size_t type_count,
                           unsigned upper, struct entry **list_out)
{
    size_t size = 0, total = 0;

    for (size_t i = 0; i < type_count; i++)
        total += types[i].quota < upper ? types[i].quota : upper;
    struct entry *list = malloc(sizeof(*list) * (total + 1));
    for (size_t i = 0; list && i < type_count; i++)
        for (unsigned j = 0; j < types[i].quota && j < upper; j++)
            list[size++] = (struct entry){ types[i].batch / types[i].images_per_s, i };
    if (list)
        qsort(list, size, sizeof(*list), by_iteration);
    *list_out = list;
    return size;
}

/* All windows of n entries; they wrap around the end of the list, as in the released code. */
static void windows_of(const struct spotnik_spotdnn_model *model,
                       const struct spotnik_spotdnn_type *types, size_t type_count,
                       const struct spotnik_spotdnn_goal *goal, const struct entry *list,
                       size_t size, size_t n, unsigned *trial, unsigned *count,
                       struct spotnik_spotdnn_search *search)
{
    memset(trial, 0, type_count * sizeof(*trial));
    for (size_t i = 0; i < n; i++)
        trial[list[i].type]++;
    for (size_t at = 0; at < size; at++) {
        struct spotnik_spotdnn_result result =
            spotnik_spotdnn_evaluate(model, types, trial, type_count, goal);
        search->candidates++;
        if (result.time_s <= goal->deadline_s
            && (!search->found || result.cost_usd < search->result.cost_usd)) {
            search->found = true;
            search->result = result;
            memcpy(count, trial, type_count * sizeof(*count));
        }
        do { /* on to the next window that differs */
            trial[list[at].type]--;
            trial[list[(at + n) % size].type]++;
        } while (list[at].type == list[(at + n) % size].type && ++at < size);
    }
}

int spotnik_spotdnn_window(const struct spotnik_spotdnn_model *model,
                           const struct spotnik_spotdnn_type *types, size_t type_count,
                           const struct spotnik_spotdnn_goal *goal, unsigned *count,
                           struct spotnik_spotdnn_search *search_out, struct spotnik_fault *fault)
{
    unsigned upper = spotnik_spotdnn_upper(model),
             lower = spotnik_spotdnn_lower(model, types, type_count, goal);
    unsigned *trial = calloc(type_count, sizeof(*trial));
    struct entry *list;
    size_t size = entries_list(types, type_count, upper, &list);

    *search_out = (struct spotnik_spotdnn_search){ 0 };
    memset(count, 0, type_count * sizeof(*count));
    if (!trial || !list) {
        free(trial);
        free(list);
        return spotnik_fault_set(fault, "out of memory");
    }
    for (unsigned n = lower; n <= upper && n <= size; n++)
        windows_of(model, types, type_count, goal, list, size, n, trial, count, search_out);
    free(trial);
    free(list);
    return 0;
}

int spotnik_spotdnn_explain(const struct spotnik_spotdnn_model *model,
                            const struct spotnik_spotdnn_type *types, size_t type_count,
                            const struct spotnik_spotdnn_goal *goal, struct spotnik_fault *fault)
{
    unsigned *count = calloc(type_count, sizeof(*count));
    struct spotnik_spotdnn_goal free_goal = { goal->loss, INFINITY, goal->takeover_s };
    double fastest_s = INFINITY;
    unsigned total = 0;

    if (!count)
        return spotnik_fault_set(fault, "out of memory");
    /* machine by machine, always the one that shortens the run most */
    for (unsigned n = 0; n < spotnik_spotdnn_upper(model); n++) {
        size_t best = type_count;
        double best_s = INFINITY;
        for (size_t i = 0; i < type_count; i++) {
            if (count[i] >= types[i].quota)
                continue;
            count[i]++;
            double time_s =
                spotnik_spotdnn_evaluate(model, types, count, type_count, &free_goal).time_s;
            count[i]--;
            if (time_s < best_s) {
                best_s = time_s;
                best = i;
            }
        }
        if (best == type_count)
            break;
        count[best]++;
        total++;
        fastest_s = fmin(fastest_s, best_s);
    }
    free(count);
    if (!total)
        return spotnik_fault_set(fault,
                                 "the quota binds: it allows no machine at all; raise --quota");
    return spotnik_fault_set(
        fault,
        "the deadline binds: loss %g in %.0f s is out of reach; the fastest cluster that "
        "the quota and the server's bandwidth allow takes about %.0f s; nearest feasible: "
        "--deadline %.0f",
        goal->loss, goal->deadline_s, fastest_s, ceil(fastest_s));
}
