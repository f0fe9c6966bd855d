/* SPDX-License-Identifier: Apache-2.0 */
/* FOUND and JOIN, the two ways to start, and RESUME, which follows the first where a job goes on
 * that had lost all members. Rules: docs/protocol.md 2. */
#include "base/assert.h"
#include "membership/membership.h"

/* A view of ourselves at the step we hold. */
static void install_alone(struct spotnik_core *core)
{
    struct spotnik_proposal *alone = &core->membership->agreement.accepted;

    alone->epoch = core->view.epoch + 1;
    alone->settled_step = core->step.committed;
    alone->share_count = 1;
    alone->founding = core->view.founding;
    alone->entry_count = 1;
    alone->entry[0] =
        (struct spotnik_entry){ .member = core->self, .flags = SPOTNIK_ENTRY_MEMBER, .share = 0 };
    spotnik_ledger_copy(&alone->ledger, &core->ledger);
    apply_ballot(core, view_install(core, alone));
}

/* The only member of epoch 1. src/discovery sees to it that no other process does the same. */
void on_found(struct spotnik_core *core, const struct spotnik_event_found *found)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_IDLE);
    if (found->ledger)
        spotnik_ledger_copy(&core->ledger, found->ledger);
    spotnik_ledger_deal_set(&core->ledger, 0, NULL); /* for members that are gone */
    if (found->founding)
        core->view.founding = *found->founding;
    install_alone(core);
}

/* To all others it is one more view of a job that has seen no step yet: no joiner can have
 * copied its state before. */
void on_resume(struct spotnik_core *core, const struct spotnik_event_resume *resume)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER && core->view.size == 1);
    SPOTNIK_ASSERT(core->step.committed == 0 && !step_report(core).waiting);
    core->membership->copied_step = resume->committed;
    spotnik_transaction_init(&core->step, resume->committed);
    spotnik_ledger_copy(&core->ledger, resume->ledger);
    install_alone(core);
}

void on_join(struct spotnik_core *core, const struct spotnik_event_join *join)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_IDLE);
    role_set(core, SPOTNIK_ROLE_JOINER);
    core->membership->copied_step = join->committed;
    spotnik_transaction_init(&core->step, join->committed);
}
