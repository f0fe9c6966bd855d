/* SPDX-License-Identifier: Apache-2.0 */
/* The measured table, and the look into it; what the rows mean is in choice.h. */
#include "ring/choice.h"

#include <stddef.h>

const struct spotnik_choice spotnik_choice_measured[] = {
    { 2, 256 * 1024, SPOTNIK_SCHEDULE_DIRECT },
    { 4, 16 * 1024, SPOTNIK_SCHEDULE_DIRECT },
    { 8, 16 * 1024, SPOTNIK_SCHEDULE_HUB },
    { 0, 0, SPOTNIK_SCHEDULE_RING },
};

enum spotnik_schedule spotnik_choice_take(const struct spotnik_choice *table, uint32_t members, uint64_t bytes)
{
    for (const struct spotnik_choice *row = table; row != NULL && row->members_max != 0; row++)
        if (members <= row->members_max && bytes <= row->bytes_max)
            return row->schedule;
    return SPOTNIK_SCHEDULE_RING;
}

uint32_t spotnik_choice_members(const struct spotnik_choice *table, uint64_t bytes)
{
    uint32_t members = 0;

    for (const struct spotnik_choice *row = table; row != NULL && row->members_max != 0; row++)
        if (bytes <= row->bytes_max && row->schedule != SPOTNIK_SCHEDULE_RING && row->members_max > members)
            members = row->members_max;
    return members;
}

const char *spotnik_schedule_name(enum spotnik_schedule schedule)
{
    static const char *const name[] = { "ring", "direct", "hub" };
    return name[schedule];
}
