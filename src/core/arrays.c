/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays of a core: carved out of one piece of memory, and which of them the view uses. */
#include "core/state.h"

void *carve(struct carver *carver, size_t bytes)
{
    size_t at = (carver->used + 15) & ~(size_t)15;
    carver->used = at + bytes;
    return carver->base ? carver->base + at : NULL;
}

/* The view is that of the chosen proposal, which mostly holds no other entry. Among many members a
 * second list of them would be most of our memory. */
void view_settle(struct spotnik_core *core)
{
    bool all = spotnik_proposal_size(&core->chosen) == core->chosen.entry_count;

    core->view.entry = all ? core->chosen.entry : core->view_entry;
    spotnik_view_from_proposal(&core->view, &core->chosen);
}
