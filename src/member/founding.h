/* SPDX-License-Identifier: Apache-2.0 */
/* What names a lineage, how its views are chained, and which of two that meet stands
 * (docs/design/0028-lineages.md). The rule by which a view is made is lineage.h. Pure. */
#ifndef SPOTNIK_MEMBER_FOUNDING_H
#define SPOTNIK_MEMBER_FOUNDING_H

#include <stdbool.h>
#include <stdint.h>

#include "member/view.h"

/* the founder's clock cannot be right: younger than all others */
#define SPOTNIK_BORN_UNKNOWN UINT64_MAX
#define SPOTNIK_CHAINS_KEPT 64

/* What a process says of its place. */
struct spotnik_presence {
    /* id 0: in no lineage */
    struct spotnik_founding founding;
    uint64_t epoch, chain; /* of its view; chain 0: not known */
    uint64_t step;         /* its last committed one */
    bool parked;
};

/* The chains of our own views, by epoch. */
struct spotnik_chains {
    uint64_t epoch[SPOTNIK_CHAINS_KEPT], chain[SPOTNIK_CHAINS_KEPT];
};

enum spotnik_meeting {
    SPOTNIK_MEETING_NOTHING, /* one lineage, or not to be known */
    SPOTNIK_MEETING_STAND,   /* another lineage, and it yields */
    SPOTNIK_MEETING_YIELD,   /* another lineage, and ours yields */
    SPOTNIK_MEETING_REFUSE,  /* another lineage, and neither yields: a person decides */
};

/* The chain of the view that `proposal` installs after one of chain `before`. Never 0. */
uint64_t spotnik_chain_link(uint64_t before, const struct spotnik_proposal *proposal);

void spotnik_chains_note(struct spotnik_chains *chains, uint64_t epoch, uint64_t chain);
/* 0: not known (any more). */
uint64_t spotnik_chains_at(const struct spotnik_chains *chains, uint64_t epoch);

/* `a` and `b` are two foundings: does `a` stand? */
bool spotnik_founding_outranks(const struct spotnik_founding *a, const struct spotnik_founding *b);

/* Both known, and not the same. */
bool spotnik_founding_differs(const struct spotnik_founding *a, const struct spotnik_founding *b);

/* Both sides of one connection come to the same end, each from its own. But of a fork only the one
 * with the higher epoch knows. */
enum spotnik_meeting spotnik_founding_meet(const struct spotnik_presence *ours,
                                           const struct spotnik_presence *theirs,
                                           const struct spotnik_chains *chains);

#endif
