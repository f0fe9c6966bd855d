/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the members in the log of spotnik run. Members of one host tell of the same thing:
 * decides which of their messages are told, once. */
#include <string.h>

#include "base/time.h"
#include "link/slots.h"
#include "run_state.h"

#define AGAIN_NS (5 * SPOTNIK_S) /* the same words are told again after this time */

/* The agent itself tells of starts, ends, notices and strategies. */
static bool is_for_the_log(uint32_t kind)
{
    switch (kind) {
    case SPOTNIK_SAID_STARTED:
    case SPOTNIK_SAID_ENDED:
    case SPOTNIK_SAID_NOTICE:
    case SPOTNIK_SAID_STRATEGY:
    case SPOTNIK_SAID_CHECKPOINT:
    case SPOTNIK_SAID_SAMPLE:
        return false;
    default:
        return kind < SPOTNIK_SAID_KINDS;
    }
}

static bool is_of_the_view(uint32_t kind)
{
    return kind == SPOTNIK_SAID_LOST || kind == SPOTNIK_SAID_JOINED || kind == SPOTNIK_SAID_LEFT;
}

static bool is_news(const struct run_message *told, const struct spotnik_slot_line *line,
                    uint64_t now_ns)
{
    if (is_of_the_view(line->kind))
        return line->epoch > told->epoch;
    return strcmp(line->text, told->text) || now_ns - told->ns >= AGAIN_NS;
}

static void take(struct run *run, const struct spotnik_slot_line *line, uint64_t now_ns)
{
    struct run_message *told = is_for_the_log(line->kind) ? &run->told.message[line->kind] : NULL;

    if (!told || !is_news(told, line, now_ns))
        return;
    told->epoch = line->epoch;
    told->ns = now_ns;
    memcpy(told->text, line->text, sizeof(told->text));
    run_tell(run, (enum spotnik_said)line->kind, "%s", line->text);
}

void run_told_look(struct run *run, uint64_t now_ns)
{
    struct spotnik_slot_line line;

    for (uint32_t i = 0; i < run->agent.places; i++)
        while (spotnik_slots_line(run->agent.slots, i, &run->agent.worker[i].next_line, &line))
            take(run, &line, now_ns);
}
