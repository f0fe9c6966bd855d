/* SPDX-License-Identifier: Apache-2.0 */
/* A new view: the running step goes on in it. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

/* The view is ours from here on, and nothing has been said of it yet. */
void step_view(struct spotnik_core *core)
{
    flat_install(core);
    core->allreduce->handed_buckets = 0;
}

/* To the ring successor; to the next host, where we hold the stream of ours; and in a small view to
 * all the others, for small buckets. */
static void expect_channels(struct spotnik_core *core)
{
    bool direct = spotnik_choice_members(core->limits.choice, 0) >= core->view.size;
    uint32_t size = core->view.size, last = direct ? size - 1 : 1;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t ahead = 1; ahead < size; ahead++) {
        uint32_t rank = (core->rank + ahead) % size;
        if (ahead <= last || flat_streams_to(core, rank))
            queue_peer(core, SPOTNIK_ACTION_LINK_EXPECT, &core->view.entry[rank].member);
    }
    flat_channels_again(core);
}

/* The members of the view have been told of it. */
void step_go_on(struct spotnik_core *core)
{
    expect_channels(core);
    flat_take_late(core);
    step_restart(core);
    step_try_begin(core);
}
