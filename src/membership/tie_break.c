/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ties: half of the view is all that promised, and the witness says which half goes on. One
 * member at most can have the witness for an epoch (docs/design/0014-ties.md). The initiator asks
 * for it and decides by its own word alone: others of its half need not know. What it was told
 * once in an epoch stays true in it. Rules: docs/protocol.md 6. */
#include "base/assert.h"
#include "membership/agreement.h"

/* Every ballot that ends in a tie asks again: an answer may be lost. True: it is the first of this
 * epoch, and waits before it parks. */
bool tie_break_ask(struct tie_break *tie, uint64_t epoch)
{
    SPOTNIK_ASSERT(epoch > 0 && tie->asked_epoch <= epoch);
    bool first = tie->asked_epoch != epoch;
    tie->asked_epoch = epoch;
    return first;
}

/* The witness names us. Whether that is enough is for a ballot of ours to say, once all have signed
 * it. */
void tie_break_name(struct tie_break *tie, uint64_t epoch)
{
    SPOTNIK_ASSERT(tie->named_epoch <= epoch);
    tie->named_epoch = epoch;
}

bool tie_break_is_ours(const struct tie_break *tie, uint64_t epoch)
{
    SPOTNIK_ASSERT(tie->named_epoch <= epoch);
    return epoch != 0 && tie->named_epoch == epoch;
}

/* We have asked, and no answer names us. */
bool tie_break_is_open(const struct tie_break *tie, uint64_t epoch)
{
    return tie->asked_epoch == epoch && tie->named_epoch != epoch;
}
