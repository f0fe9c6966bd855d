/* SPDX-License-Identifier: Apache-2.0 */
/* member_id: 128 random bits drawn at process start, never reused. Ordered, because ties of the
 * lineage rule and of ballots are broken by it. */
#ifndef SPOTNIK_BASE_ID_H
#define SPOTNIK_BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_id {
    uint64_t high, low;
};

static inline int spotnik_id_compare(struct spotnik_id a, struct spotnik_id b)
{
    if (a.high != b.high)
        return a.high < b.high ? -1 : 1;
    return a.low < b.low ? -1 : a.low > b.low;
}

static inline bool spotnik_id_equal(struct spotnik_id a, struct spotnik_id b)
{
    return a.high == b.high && a.low == b.low;
}

static inline bool spotnik_id_is_none(struct spotnik_id a)
{
    return a.high == 0 && a.low == 0;
}

#endif
