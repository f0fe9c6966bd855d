/* SPDX-License-Identifier: Apache-2.0 */
/* Planted bugs: which rules to break, so that a test can see the simulator notice. The library that
 * users get has none: they are in a core compiled with SPOTNIK_PLANTED (meson: libcore_planted, or
 * all of it with -Dplanted=true). */
#ifndef SPOTNIK_CORE_PLANTED_H
#define SPOTNIK_CORE_PLANTED_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_core;

enum spotnik_bug {
    SPOTNIK_BUG_COMMIT_AFTER_PROMISE = (1u << 0),
    SPOTNIK_BUG_IGNORE_ACCEPTED = (1u << 1),
    SPOTNIK_BUG_ANY_QUORUM = (1u << 2),
    SPOTNIK_BUG_SKIP_HANDOVER = (1u << 3),
    SPOTNIK_BUG_FORGET_RETURNED = (1u << 4),
    SPOTNIK_BUG_FLAT_UNASKED = (1u << 5),
    SPOTNIK_BUG_SMALL_EARLY = (1u << 6),
    /* of the simulated driver: joiners begin to judge anew */
    SPOTNIK_BUG_POLICY_NOT_COPIED = (1u << 7),
    SPOTNIK_BUG_POLICY_ALONE = (1u << 8), /* and members judge by their own numbers */
    /* the sum of a host goes on with the weight of its holder */
    SPOTNIK_BUG_HOLDER_ALONE = (1u << 9),
    /* what overtakes on another connection counts as a different program */
    SPOTNIK_BUG_JUDGE_ANY_CHANNEL = (1u << 10),
    /* a host's sum goes on before all of what is sent is there */
    SPOTNIK_BUG_SUM_EARLY = (1u << 11),
    /* a sum goes up the tree when something has come from below, not all */
    SPOTNIK_BUG_TREE_EARLY = (1u << 12),
    SPOTNIK_BUG_NO_PAUSE_CHECK = (1u << 13), /* a stopped member continues without a pause check */
    /* of the simulated driver: a host is shown a chunk of the result before it is there */
    SPOTNIK_BUG_SHOW_EARLY = (1u << 14),
    SPOTNIK_BUG_WITNESS_KEPT = (1u << 16), /* the witness names for ever the member it named once */
    /* of the simulated folder: every member that asks for the witness gets one */
    SPOTNIK_BUG_WITNESS_COPIED = (1u << 17),
    SPOTNIK_BUG_END_IS_GONE = (1u << 15), /* the end of a connection proves a death by itself */
};

/* Break these rules (a set of SPOTNIK_BUG_*) from here on. False, and nothing is broken: this core
 * has been compiled without. */
bool spotnik_core_plant(struct spotnik_core *core, uint32_t bugs);

#ifdef SPOTNIK_PLANTED
#define SPOTNIK_IS_PLANTED(core, rule) (((core)->bugs & SPOTNIK_BUG_##rule) != 0)
#else
#define SPOTNIK_IS_PLANTED(core, rule) ((void)(core), false)
#endif

#endif
