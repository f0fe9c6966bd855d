/* SPDX-License-Identifier: Apache-2.0 */
/* The measured table, and the look into it; what the rows mean is in choice.h. */
#include "ring/choice.h"

#include <stddef.h>

#include "ring/tree.h"

/* On one host a message costs the processors more than its bytes do, and HUB has the fewest. With 4
 * and 8 members there, it was the fastest way for up to 256 KiB (a chunk, the most there can be).
 * Between hosts N - 1 whole inputs on one link cost more than they save from about latency times
 * bandwidth on. With two members DIRECT moves what the ring moves, in half the hops. In larger
 * views a TREE has as few messages as HUB, and hops that hardly grow with the view. */
const struct spotnik_choice spotnik_choice_measured[] = {
    { 2, 256 * 1024, SPOTNIK_SCHEDULE_DIRECT, false },
    { 8, 256 * 1024, SPOTNIK_SCHEDULE_HUB, true },
    { 8, 16 * 1024, SPOTNIK_SCHEDULE_DIRECT, false },
    { SPOTNIK_CHOICE_ALL, 256 * 1024, SPOTNIK_SCHEDULE_TREE, true },
    { SPOTNIK_CHOICE_ALL, 16 * 1024, SPOTNIK_SCHEDULE_TREE, false },
    { 0, 0, SPOTNIK_SCHEDULE_RING, false },
};

enum spotnik_schedule spotnik_choice_take(const struct spotnik_choice *table, uint32_t members,
                                          bool near, uint64_t bytes)
{
    for (const struct spotnik_choice *row = table; row != NULL && row->members_max != 0; row++)
        if (members <= row->members_max && bytes <= row->bytes_max && (near || !row->near))
            return row->schedule;
    return SPOTNIK_SCHEDULE_RING;
}

static bool is_hop(enum spotnik_schedule schedule)
{
    return schedule == SPOTNIK_SCHEDULE_DIRECT || schedule == SPOTNIK_SCHEDULE_HUB;
}

uint32_t spotnik_choice_members(const struct spotnik_choice *table, uint64_t bytes)
{
    uint32_t members = 0;

    for (const struct spotnik_choice *row = table; row != NULL && row->members_max != 0; row++)
        if (bytes <= row->bytes_max && is_hop(row->schedule) && row->members_max > members)
            members = row->members_max;
    return members;
}

uint32_t spotnik_choice_places(const struct spotnik_choice *table, uint64_t bytes)
{
    uint32_t places = spotnik_choice_members(table, bytes);

    for (const struct spotnik_choice *row = table; row != NULL && row->members_max != 0; row++)
        if (bytes <= row->bytes_max && row->schedule == SPOTNIK_SCHEDULE_TREE
            && places < SPOTNIK_TREE_FAN_MAX + 1)
            places = SPOTNIK_TREE_FAN_MAX + 1; /* by slots */
    return places;
}

const char *spotnik_schedule_name(enum spotnik_schedule schedule)
{
    static const char *const name[] = { "ring", "direct", "hub", "tree" };
    return name[schedule];
}
