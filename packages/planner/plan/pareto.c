/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/pareto.h"

size_t spotnik_knee(const struct spotnik_tradeoff *front, size_t count)
{
    size_t best = 0;
    double furthest = -1;

    if (count < 3)
        return 0;
    double wide = front[count - 1].time - front[0].time,
           high = front[0].cost - front[count - 1].cost;
    for (size_t i = 0; i < count; i++) {
        double x = (front[i].time - front[0].time) / wide,
               y = (front[0].cost - front[i].cost) / high;
        if (y - x > furthest) {
            furthest = y - x;
            best = i;
        }
    }
    return best;
}

static int before(const struct spotnik_tradeoff *a, const struct spotnik_tradeoff *b)
{
    return a->time < b->time || (a->time == b->time && a->cost < b->cost);
}

static void swap_points(struct spotnik_tradeoff *points, size_t *index, size_t i, size_t j)
{
    struct spotnik_tradeoff point = points[i];

    points[i] = points[j];
    points[j] = point;
    if (index) {
        size_t number = index[i];
        index[i] = index[j];
        index[j] = number;
    }
}

/* Heap order by time, then cost. */
static void sift(struct spotnik_tradeoff *points, size_t *index, size_t root, size_t count)
{
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && before(&points[child], &points[child + 1]))
            child++;
        if (!before(&points[root], &points[child]))
            return;
        swap_points(points, index, root, child);
    }
}

size_t spotnik_pareto(struct spotnik_tradeoff *points, size_t *index, size_t count)
{
    size_t kept = 0;

    for (size_t i = count / 2; i-- > 0;)
        sift(points, index, i, count);
    for (size_t end = count; end-- > 1;) {
        swap_points(points, index, 0, end);
        sift(points, index, 0, end);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept && points[i].cost >= points[kept - 1].cost)
            continue;
        swap_points(points, index, kept, i);
        kept++;
    }
    return kept;
}
