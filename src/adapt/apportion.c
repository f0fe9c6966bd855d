/* SPDX-License-Identifier: Apache-2.0 */
/* Exact proportional division. First the bounds: a member that would exceed one is fixed at it, and
 * the rest is divided among the others, until none exceeds. Each round fixes at least one, on the
 * side that errs more, so it ends. Then the remainders. Decides nothing beyond apportion.h. */
#include "adapt/apportion.h"

#include "base/assert.h"
#include "adapt/same_bits.h"

struct division {
    uint64_t total;
    uint32_t count;
    const double *weight;
    const uint64_t *least, *most;
    double quota[SPOTNIK_BATCH_MEMBERS_MAX]; /* exact amounts, within bounds */
    bool fixed[SPOTNIK_BATCH_MEMBERS_MAX];
};

static bool is_possible(const struct division *d)
{
    uint64_t least = 0, most = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        SPOTNIK_ASSERT(d->weight[i] > 0 && d->weight[i] < 1e300);
        if (d->least[i] > d->most[i] || d->least[i] > d->total - least)
            return false;
        least += d->least[i];
        most = d->most[i] < d->total - most ? most + d->most[i] : d->total;
    }
    return most == d->total;
}

/* Divide what the fixed ones leave among the others. */
static void divide(struct division *d)
{
    double left = (double)d->total, weights = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        if (d->fixed[i])
            left -= d->quota[i];
        else
            weights += d->weight[i];
    }
    for (uint32_t i = 0; i < d->count; i++)
        if (!d->fixed[i])
            d->quota[i] = left * d->weight[i] / weights;
}

static double clipped(const struct division *d, uint32_t i)
{
    if (d->quota[i] < (double)d->least[i])
        return (double)d->least[i];
    return d->quota[i] > (double)d->most[i] ? (double)d->most[i] : d->quota[i];
}

/* Fix those out of bounds: all below, or all above, whichever is the larger amount. Returns whether
 * there were any. */
static bool fix(struct division *d)
{
    double below = 0, above = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        double moved = d->fixed[i] ? 0 : clipped(d, i) - d->quota[i];
        below += moved > 0 ? moved : 0;
        above -= moved < 0 ? moved : 0;
    }
    for (uint32_t i = 0; i < d->count; i++) {
        double moved = d->fixed[i] ? 0 : clipped(d, i) - d->quota[i];
        if ((moved > 0 && below >= above) || (moved < 0 && above >= below)) {
            d->quota[i] += moved;
            d->quota[i] = clipped(d, i);
            d->fixed[i] = true;
        }
    }
    return below > 0 || above > 0;
}

/* The member furthest below its quota that has room. Ties: the lower index. */
static uint32_t neediest(const struct division *d, const uint64_t *given)
{
    uint32_t best = UINT32_MAX;
    double best_short = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        double missing = d->quota[i] - (double)given[i];
        if (given[i] < d->most[i] && (best == UINT32_MAX || missing > best_short)) {
            best = i;
            best_short = missing;
        }
    }
    SPOTNIK_ASSERT(best != UINT32_MAX);
    return best;
}

/* The member furthest above its quota that may give: wanted only where rounding made a quota one
 * too many. */
static uint32_t richest(const struct division *d, const uint64_t *given)
{
    uint32_t best = UINT32_MAX;
    double best_over = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        double over = (double)given[i] - d->quota[i];
        if (given[i] > d->least[i] && (best == UINT32_MAX || over > best_over)) {
            best = i;
            best_over = over;
        }
    }
    SPOTNIK_ASSERT(best != UINT32_MAX);
    return best;
}

static void round_to_whole(const struct division *d, uint64_t *ret)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < d->count; i++) {
        ret[i] = (uint64_t)clipped(d, i);
        sum += ret[i];
    }
    for (; sum < d->total; sum++)
        ret[neediest(d, ret)]++;
    for (; sum > d->total; sum--)
        ret[richest(d, ret)]--;
}

bool spotnik_batch_apportion(uint64_t total, uint32_t count, const double *weight,
                             const uint64_t *least, const uint64_t *most, uint64_t *ret)
{
    struct division d = {
        .total = total, .count = count, .weight = weight, .least = least, .most = most
    };

    SPOTNIK_ASSERT(count >= 1 && count <= SPOTNIK_BATCH_MEMBERS_MAX
                   && total <= SPOTNIK_BATCH_TOTAL_MAX);
    if (!is_possible(&d))
        return false;
    do
        divide(&d);
    while (fix(&d));
    round_to_whole(&d, ret);
    return true;
}
