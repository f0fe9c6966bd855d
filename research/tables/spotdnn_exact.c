/* SPDX-License-Identifier: Apache-2.0 */
/* The exact search for spotDNN's problem. For n workers let U = sum 1/T_i, V = sum b_i/T_i, P = sum
 * of prices. Time is (D - e V/U)/U with D, e > 0 fixed by n. So a plan is cheaper than the best
 * known, B, only if
 *
 *     P < B' U phi(V/U),  phi(b) = 1/(D - e b) convex: below its chord on [b_low, b_high],
 *
 * which is linear in U and V. And the deadline needs U >= (D - e b_high)/T_obj. Both together, with
 * a multiplier for the second, give every machine a reduced price. A partial plan whose cheapest
 * completion in reduced prices is not below the bound cannot win. The range of b is cut into pieces
 * so that the chords lie close. */
#include "model_spotdnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECES 12
#define NODES_SCOUT 20000ull
#define NODES_MAX 8000000ull

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
    bool *survives;
    size_t type_count, kind_count;
    double batch_low, batch_high, threshold;
    double phi_base, phi_slope, updates_least, piece_low, piece_high;
    unsigned long long nodes, limit;
    bool scouting, cut_short;
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

/* Cheapest completion in reduced prices: kinds are sorted by them, so it is the next ones that are
 * left. */
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
    if (++x->nodes > x->limit) {
        x->cut_short = true;
        return;
    }
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

/* Sets reduced prices for the multipliers of the deadline and of the range of b (above zero: its
 * upper end, below: its lower end) and returns the root's margin: not below zero means that nothing
 * can win. */
static double reduce(struct exact *x, double deadline, double range, double best)
{
    double edge = range > 0 ? x->piece_high : x->piece_low;

    for (size_t i = 0; i < x->kind_count; i++) {
        struct kind *kind = &x->kinds[i];
        kind->reduced = kind->price
                        - best * (x->phi_base * kind->updates + x->phi_slope * kind->images)
                        - deadline * kind->updates + range * (kind->images - edge * kind->updates);
    }
    qsort(x->kinds, x->kind_count, sizeof(*x->kinds), by_reduced);
    x->threshold = -deadline * x->updates_least;
    return completion(x, 0, x->workers) - x->threshold;
}

/* Golden section over one multiplier with the other held; the margin is concave in each. */
static double ascend(struct exact *x, double low, double high, bool over_deadline, double held,
                     double best)
{
    for (int i = 0; i < 24; i++) {
        double a = low + 0.382 * (high - low), b = low + 0.618 * (high - low);
        double at_a = over_deadline ? reduce(x, a, held, best) : reduce(x, held, a, best);
        double at_b = over_deadline ? reduce(x, b, held, best) : reduce(x, held, b, best);
        if (at_a >= at_b)
            high = b;
        else
            low = a;
    }
    return (low + high) / 2;
}

/* Multipliers with a large root margin. */
static double reduce_best(struct exact *x, double best)
{
    double per_update = 0, per_image = 0, deadline = 0, range = 0;

    for (size_t i = 0; i < x->kind_count; i++) {
        per_update = fmax(per_update, x->kinds[i].price / x->kinds[i].updates);
        per_image = fmax(per_image, x->kinds[i].price / x->kinds[i].images);
    }
    for (int round = 0; round < 3; round++) {
        deadline = ascend(x, 0, per_update, true, range, best);
        if (reduce(x, deadline, range, best) >= 0)
            return 0;
        range = ascend(x, -per_image, per_image, false, deadline, best);
        if (reduce(x, deadline, range, best) >= 0)
            return 0;
    }
    return reduce(x, deadline, range, best);
}

/* The terms of time for n workers; the smallest possible R (none) is put in, so that bounds
 * hold. */
static void search_piece(struct exact *x, double batch_low, double batch_high)
{
    const struct spotnik_spotdnn_model *m = x->model;
    double spread = m->gamma4 < 0 ? 1 : m->gamma4;
    double scale = sqrt(spread * x->workers) / (x->goal->loss - m->gamma5);
    double rest = scale * m->gamma3 - m->gamma1, slope = -scale * m->gamma2;
    double at_low = rest - slope * batch_low, at_high = rest - slope * batch_high;
    double best = x->search->found ? x->search->result.cost_usd * 3600 : 1e12;

    /* there is no less than one update: phi stops growing, its end bounds the piece */
    if (at_high < 1)
        at_low = at_high = 1;
    x->phi_slope =
        batch_high > batch_low ? (1 / at_high - 1 / at_low) / (batch_high - batch_low) : 0;
    x->phi_base = 1 / at_low - x->phi_slope * batch_low;
    x->piece_low = batch_low;
    x->piece_high = batch_high;
    x->updates_least = at_high / fmax(1, x->goal->deadline_s - x->goal->takeover_s);
    if (reduce_best(x, best) >= 0)
        return;
    if (x->scouting)
        x->limit = x->nodes + NODES_SCOUT;
    descend(x, 0, x->workers, 0);
}

/* Swaps one machine for another as long as that is cheaper: a good start makes short work of the
 * bounding. */
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

/* A machine that n others beat in price, updates and images is in no best plan of n machines: one
 * of the n is free to take its place. This needs that more updates never cost time, which holds
 * while D > 2 e b for every batch. */
static void drop_dominated(struct exact *x)
{
    const struct spotnik_spotdnn_model *m = x->model;
    double spread = m->gamma4 < 0 ? 1 : m->gamma4;
    double scale = sqrt(spread * x->workers) / (x->goal->loss - m->gamma5);
    size_t kept = 0;

    if (m->gamma4 >= 0 || scale * m->gamma3 - m->gamma1 <= 2 * -scale * m->gamma2 * x->batch_high)
        return;
    for (size_t i = 0; i < x->kind_count; i++) {
        const struct kind *a = &x->kinds[i];
        unsigned better = 0;
        for (size_t j = 0; j < x->kind_count && better < x->workers; j++) {
            const struct kind *b = &x->kinds[j];
            bool beats = b->price <= a->price && b->updates >= a->updates && b->images >= a->images;
            bool equal = b->price == a->price && b->updates == a->updates && b->images == a->images;
            if (beats && (!equal || b->type < a->type))
                better += b->quota < x->workers ? b->quota : x->workers;
        }
        x->survives[i] = better < x->workers;
    }
    for (size_t i = 0; i < x->kind_count; i++)
        if (x->survives[i])
            x->kinds[kept++] = x->kinds[i];
    x->kind_count = kept;
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
    drop_dominated(x);
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

int spotnik_spotdnn_exact(const struct spotnik_spotdnn_model *model,
                          const struct spotnik_spotdnn_type *types, size_t type_count,
                          const struct spotnik_spotdnn_goal *goal, unsigned *count,
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
    x.survives = calloc(type_count, sizeof(*x.survives));
    if (!x.trial || !x.kinds || !x.survives) {
        free(x.survives);
        free(x.trial);
        free(x.kinds);
        return spotnik_fault_set(fault, "out of memory");
    }
    improve(&x);
    /* a quick look at every size first: a good plan found late would have cut most of the search */
    for (int pass = 0; pass < 2 && (!pass || x.cut_short); pass++) {
        x.scouting = pass == 0;
        x.cut_short = false;
        x.limit = x.nodes + NODES_MAX;
        for (unsigned n = 1; n <= spotnik_spotdnn_upper(model); n++)
            search_size(&x, n);
        improve(&x);
    }
    search_out->proved = !x.cut_short;
    free(x.survives);
    free(x.trial);
    free(x.kinds);
    return 0;
}
