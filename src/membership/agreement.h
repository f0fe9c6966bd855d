/* SPDX-License-Identifier: Apache-2.0 */
/* The agreement: what may this ballot decide (decision.c), what has the witness said of a tie
 * (tie_break.c), and by which tree do its passes go (tree_layout.c)? None knows the core. Rules:
 * docs/protocol.md 5 and 6. */
#ifndef SPOTNIK_MEMBERSHIP_AGREEMENT_H
#define SPOTNIK_MEMBERSHIP_AGREEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "member/lineage.h"
#include "member/message.h"
#include "member/proposal.h"

/* The shape of a tree of members: see tree_layout.c. */
#define TREE_CHILDREN_MAX 4
struct tree_layout {
    uint32_t count, block;
    bool forked; /* heads of blocks are a tree, too; else a chain */
};

/* What the initiator may do with a PREPARE that holds every promise there is. */
enum decision {
    DECISION_PARK,     /* these are too few, or lack what only others can serve */
    DECISION_TIED,     /* they are half of the view: ask the witness */
    DECISION_EXCLUDED, /* no member is left that could serve us: join again */
    DECISION_AGAIN,    /* the only one that signed the ledger has ended: gather again */
    DECISION_PROPOSE,
};

struct decision_input {
    const struct spotnik_view *view;
    const struct spotnik_prepare *prepare;
    bool named;      /* the witness names one of these for this epoch */
    bool any_quorum; /* a planted bug: see core/planted.h */
};

struct tie_break {
    uint64_t asked_epoch; /* a tie of this epoch was put to the witness; 0: none was */
    uint64_t named_epoch; /* it names us for this one; 0: for none */
};

/* decision.c */
enum decision decision_of(const struct decision_input *in);
bool decision_is_near(const struct spotnik_enter *joiner, uint64_t settled);
bool decision_awaits_joiner(const struct spotnik_prepare *prepare);

/* tie_break.c */
bool tie_break_ask(struct tie_break *tie, uint64_t epoch);
void tie_break_name(struct tie_break *tie, uint64_t epoch);
bool tie_break_is_ours(const struct tie_break *tie, uint64_t epoch);
bool tie_break_is_open(const struct tie_break *tie, uint64_t epoch);

/* tree_layout.c */
uint32_t tree_layout_below(const struct tree_layout *tree_layout, uint32_t place,
                           uint32_t below[TREE_CHILDREN_MAX]);
uint32_t tree_layout_above(const struct tree_layout *tree_layout, uint32_t place);

#endif
