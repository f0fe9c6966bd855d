/* SPDX-License-Identifier: Apache-2.0 */
/* FOUND and JOIN: the two ways to start. */
#include "base/assert.h"
#include "core/state.h"

/* The only member of epoch 1. That nobody else does the same is src/peers' business. */
void on_found(struct spotnik_core *core, const struct spotnik_event *event)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_IDLE);
    if (event->ledger)
        spotnik_ledger_copy(&core->ledger, event->ledger);
    struct spotnik_proposal *first = &core->accepted;
    first->epoch = 1;
    first->settled_step = 0;
    first->share_count = 1;
    first->entry_count = 1;
    first->entry[0] = (struct spotnik_entry){.member = core->self, .flags = SPOTNIK_ENTRY_MEMBER, .share = 0};
    spotnik_ledger_copy(&first->ledger, &core->ledger);
    view_install(core, first);
}

void on_join(struct spotnik_core *core, const struct spotnik_event *event)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_IDLE);
    core->role = SPOTNIK_ROLE_JOINER;
    core->copied_step = event->committed;
    spotnik_transaction_init(&core->step, event->committed);
    step_try_begin(core);
}
