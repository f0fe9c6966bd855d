/* SPDX-License-Identifier: Apache-2.0 */
/* Which lineage our views are of, and whether the next one is built on ours
 * (docs/design/0028-lineages.md). */
#include "base/assert.h"
#include "vote/vote.h"

static bool follows(const struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    return core->role == SPOTNIK_ROLE_MEMBER && proposal->epoch == core->view.epoch + 1;
}

/* Of another founding, or of ours, but on another history. */
bool ancestry_breaks(const struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    const struct spotnik_view *view = &core->view;

    if (core->role != SPOTNIK_ROLE_MEMBER)
        return false;
    if (spotnik_founding_differs(&view->founding, &proposal->founding))
        return true;
    return follows(core, proposal) && view->chain && proposal->chain
           && !core->limits.minority_continues
           && spotnik_chain_link(view->chain, proposal) != proposal->chain;
}

/* The view before was of this founding and chain; `next`: the chosen one follows it. */
void ancestry_install(struct spotnik_core *core, const struct spotnik_founding *founding,
                      uint64_t chain, bool next)
{
    struct spotnik_proposal *chosen = &core->chosen;

    SPOTNIK_ASSERT(core->view.epoch > 0 && core->chosen.epoch == core->view.epoch);
    if (!chosen->founding.id && next)
        chosen->founding = *founding;
    if (!chosen->chain && next && chain)
        chosen->chain = spotnik_chain_link(chain, chosen);
    core->view.founding = chosen->founding;
    core->view.chain = chosen->chain;
    spotnik_chains_note(&core->vote->chains, core->view.epoch, core->view.chain);
}

void spotnik_core_presence(const struct spotnik_core *core, struct spotnik_presence *ret)
{
    SPOTNIK_ASSERT(core->role != SPOTNIK_ROLE_MEMBER || core->view.epoch > 0);
    *ret = (struct spotnik_presence){ .step = core->step.committed };
    if (core->role != SPOTNIK_ROLE_MEMBER)
        return;
    ret->founding = core->view.founding;
    ret->epoch = core->view.epoch;
    ret->chain = core->view.chain;
    ret->parked = core->vote->parked;
}

const struct spotnik_chains *spotnik_core_chains(const struct spotnik_core *core)
{
    return &core->vote->chains;
}
