/* SPDX-License-Identifier: Apache-2.0 */
/* The exact search for spotDNN's problem. For n workers let U = sum 1/T_i, V = sum b_i/T_i, P = sum of
 * prices. Time is (D - e V/U)/U with D, e > 0 fixed by n, so a plan is cheaper than the best known, B,
 * only if P < B' U phi(V/U),  phi(b) = 1/(D - e b) convex:  below its chord on [b_low, b_high], which is
 * linear in U and V; and the deadline needs U >= (D - e b_high)/T_obj. Both together, with a multiplier
 * for the second, give every machine a reduced price: a partial plan whose cheapest completion in reduced
 * prices is not below the bound cannot win. The range of b is cut into pieces so that the chords lie
 * close. */
#include "plan/model_spotdnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECES 12
#define NODES_MAX 40000000ull

struct kind {
    size_t type;
    double updates, images, price, reduced; /* 1/T, b/T, USD/h */
    unsigned quota;
};

struct exact {
    const struct spotnik_spotdnn_model *model;
    const struct spotnik_spotdnn_type *types;
    const struct spotnik_spotdnn_goal *goal;
    struct spotnik_spotdnn_search *search;
    struct kind *kinds;
    unsigned *count, *trial;
    size_t type_count, kind_count;
    double batch_low, batch_high, threshold;
    double phi_base, phi_slope, multiplier, updates_least;
    unsigned long long nodes;
    unsigned workers;
};

static void try_plan(struct exact *x)
{
    struct spotnik_spotdnn_result result =
        spotnik_spotdnn_evaluate(x->model, x->types, x->trial, x->type_count, x->goal);

    x->search->candidates++;
    if (result.time_s > x->goal->deadline_s
        || (x->search->found && result.cost_usd >= x->search->result.cost_usd))
        return;
    x->search->found = true;
    x->search->result = result;
    memcpy(x->count, x->trial, x->type_count * sizeof(*x->count));
}

/* Cheapest completion in reduced prices: kinds are sorted by them, so it is the next ones that are left. */
static double completion(const struct exact *x, size_t kind, unsigned left)
{
    double sum = 0;

    for (; left && kind < x->kind_count; kind++) {
        unsigned take = left < x->kinds[kind].quota ? left : x->kinds[kind].quota;
        sum += take * x->kinds[kind].reduced;
        left -= take;
    }
    return left ? INFINITY : sum;
}

/* A cheaper plan changes the reduced prices; it only ever tightens them, so the old ones stay valid
 * bounds. */
static void descend(struct exact *x, size_t kind, unsigned left, double reduced)
{
    if (++x->nodes > NODES_MAX)
        return;
    if (!left) {
        try_plan(x);
        return;
    }
    if (kind == x->kind_count || reduced + completion(x, kind, left) >= x->threshold)
        return;
    unsigned most = left < x->kinds[kind].quota ? left : x->kinds[kind].quota;
    for (unsigned take = most + 1; take-- > 0;) {
        x->trial[x->kinds[kind].type] = take;
        descend(x, kind + 1, left - take, reduced + take * x->kinds[kind].reduced);
    }
    x->trial[x->kinds[kind].type] = 0;
}

static int by_reduced(const void *left, const void *right)
{
    const struct kind *a = left, *b = right;

    return (a->reduced > b->reduced) - (a->reduced < b->reduced);
}

/* Sets reduced prices for a multiplier and returns the root's margin: not below zero means that nothing
 * can win. */
static double reduce(struct exact *x, double multiplier, double best)
{
    for (size_t i = 0; i < x->kind_count; i++) {
        struct kind *kind = &x->kinds[i];
        kind->reduced = kind->price - best * (x->phi_base * kind->updates + x->phi_slope * kind->images)
                        - multiplier * kind->updates;
    }
    qsort(x->kinds, x->kind_count, sizeof(*x->kinds), by_reduced);
    x->multiplier = multiplier;
    x->threshold = -multiplier * x->updates_least;
    return completion(x, 0, x->workers) - x->threshold;
}

/* The multiplier with the largest root margin, by golden section on a concave function. */
static double reduce_best(struct exact *x, double best)
{
    double low = 0, high = 0;

    for (size_t i = 0; i < x->kind_count; i++)
        high = fmax(high, x->kinds[i].price / x->kinds[i].updates);
    for (int i = 0; i < 40; i++) {
        double a = low + 0.382 * (high - low), b = low + 0.618 * (high - low);
        if (reduce(x, a, best) >= reduce(x, b, best))
            high = b;
        else
            low = a;
    }
    return reduce(x, low, best);
}

/* The terms of time for n workers; the smallest possible R (none) is put in, so that bounds hold. */
static void search_piece(struct exact *x, double batch_low, double batch_high)
{
    const struct spotnik_spotdnn_model *m = x->model;
    double spread = m->gamma4 < 0 ? 1 : m->gamma4;
    double scale = sqrt(spread * x->workers) / (x->goal->loss - m->gamma5);
    double rest = scale * m->gamma3 - m->gamma1, slope = -scale * m->gamma2;
    double at_low = rest - slope * batch_low, at_high = rest - slope * batch_high;
    double best = x->search->found ? x->search->result.cost_usd * 3600 : 1e12;

    if (at_high < 1) /* there is no less than one update: phi stops growing, its end bounds the piece */
        at_low = at_high = 1;
    x->phi_slope = batch_high > batch_low ? (1 / at_high - 1 / at_low) / (batch_high - batch_low) : 0;
    x->phi_base = 1 / at_low - x->phi_slope * batch_low;
    x->updates_least = at_high / fmax(1, x->goal->deadline_s - x->goal->takeover_s);
    if (reduce_best(x, best) >= 0)
        return;
    descend(x, 0, x->workers, 0);
}

/* Swaps one machine for another as long as that is cheaper: a good start makes short work of the bounding. */
static void improve(struct exact *x)
{
    bool better = x->search->found;

    while (better) {
        double cost = x->search->result.cost_usd;
        memcpy(x->trial, x->count, x->type_count * sizeof(*x->trial));
        for (size_t i = 0; i < x->type_count; i++) {
            if (!x->trial[i])
                continue;
            x->trial[i]--;
            for (size_t j = 0; j < x->type_count; j++) {
                if (x->trial[j] >= x->types[j].quota)
                    continue;
                x->trial[j]++;
                try_plan(x);
                x->trial[j]--;
            }
            try_plan(x);
            x->trial[i]++;
        }
        better = x->search->result.cost_usd < cost * (1 - 1e-9);
    }
}

static void search_size(struct exact *x, unsigned workers)
{
    x->workers = workers;
    x->kind_count = 0;
    x->batch_low = INFINITY;
    x->batch_high = 0;
    memset(x->trial, 0, x->type_count * sizeof(*x->trial));
    for (size_t i = 0; i < x->type_count; i++) {
        double each_s = spotnik_spotdnn_iteration_s(x->model, &x->types[i], workers);
        if (!x->types[i].quota)
            continue;
        x->kinds[x->kind_count++] =
            (struct kind){ i, 1 / each_s,       x->types[i].batch / each_s, x->types[i].usd_per_h,
                           0, x->types[i].quota };
        x->batch_low = fmin(x->batch_low, x->types[i].batch);
        x->batch_high = fmax(x->batch_high, x->types[i].batch);
    }
    double ratio = pow(x->batch_high / x->batch_low, 1.0 / PIECES);
    if (ratio < 1 + 1e-9) {
        search_piece(x, x->batch_low, x->batch_high);
        return;
    }
    for (int piece = 0; piece < PIECES; piece++) {
        double low = x->batch_low * pow(ratio, piece);
        search_piece(x, low, piece == PIECES - 1 ? x->batch_high : low * ratio);
    }
}

int spotnik_spotdnn_exact(const struct spotnik_spotdnn_model *model, const struct spotnik_spotdnn_type *types,
                          size_t type_count, const struct spotnik_spotdnn_goal *goal, unsigned *count,
                          struct spotnik_spotdnn_search *search_out, struct spotnik_fault *fault)
{
    struct exact x = { .model = model,
                       .types = types,
                       .goal = goal,
                       .search = search_out,
                       .count = count,
                       .type_count = type_count };

    if (spotnik_spotdnn_window(model, types, type_count, goal, count, search_out, fault))
        return -1;
    x.trial = calloc(type_count, sizeof(*x.trial));
    x.kinds = calloc(type_count, sizeof(*x.kinds));
    if (!x.trial || !x.kinds) {
        free(x.trial);
        free(x.kinds);
        return spotnik_fault_set(fault, "out of memory");
    }
    improve(&x);
    for (unsigned n = 1; n <= spotnik_spotdnn_upper(model); n++)
        search_size(&x, n);
    search_out->proved = x.nodes <= NODES_MAX;
    free(x.trial);
    free(x.kinds);
    return 0;
}
