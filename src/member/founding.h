/* SPDX-License-Identifier: Apache-2.0 */
/* What names a founding, and what a process says of its place in one. The rule by which a view is
 * made is lineage.h. Pure. */
#ifndef SPOTNIK_MEMBER_FOUNDING_H
#define SPOTNIK_MEMBER_FOUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "member/view.h"

/* the founder's clock cannot be right */
#define SPOTNIK_BORN_UNKNOWN UINT64_MAX

/* What a process says of its place. */
struct spotnik_presence {
    struct spotnik_founding founding; /* id 0: in none */
    uint64_t step;                    /* its last committed one */
    uint32_t size;                    /* members of its view */
};

/* Both known, and not the same. */
bool spotnik_founding_differs(const struct spotnik_founding *a, const struct spotnik_founding *b);

/* That, and neither goes back to the other: two jobs of one name. */
bool spotnik_founding_is_foreign(const struct spotnik_founding *a,
                                 const struct spotnik_founding *b);

/* The job of `before` was founded again as `next`. */
bool spotnik_founding_follows(const struct spotnik_founding *next,
                              const struct spotnik_founding *before);

#endif
