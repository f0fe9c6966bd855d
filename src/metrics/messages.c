/* SPDX-License-Identifier: Apache-2.0 */
/* The table of messages. An id is never given to another message; docs/reference/messages.md
 * explains each. */
#include "metrics/messages.h"

static const struct spotnik_said_info table[SPOTNIK_SAID_KINDS] = {
    [SPOTNIK_SAID_STARTED] = { "S100", "started", SPOTNIK_INFO },
    [SPOTNIK_SAID_ENDED] = { "S101", "ended", SPOTNIK_INFO },
    [SPOTNIK_SAID_RESUMED] = { "S102", "resumed", SPOTNIK_INFO },
    [SPOTNIK_SAID_JOINED] = { "S110", "joined", SPOTNIK_INFO },
    [SPOTNIK_SAID_LEFT] = { "S111", "left", SPOTNIK_INFO },
    [SPOTNIK_SAID_LOST] = { "S112", "lost", SPOTNIK_WARNING },
    [SPOTNIK_SAID_PARKED] = { "S120", "parked", SPOTNIK_WARNING },
    [SPOTNIK_SAID_HEALED] = { "S121", "healed", SPOTNIK_INFO },
    [SPOTNIK_SAID_EXCLUDED] = { "S122", "excluded", SPOTNIK_WARNING },
    [SPOTNIK_SAID_LINEAGE] = { "S123", "lineage", SPOTNIK_WARNING },
    [SPOTNIK_SAID_STALLED] = { "S124", "stalled", SPOTNIK_WARNING },
    [SPOTNIK_SAID_WAITING] = { "S125", "waiting", SPOTNIK_WARNING },
    [SPOTNIK_SAID_ENOUGH] = { "S126", "enough", SPOTNIK_INFO },
    [SPOTNIK_SAID_NOTICE] = { "S130", "notice", SPOTNIK_WARNING },
    [SPOTNIK_SAID_STRATEGY] = { "S140", "strategy", SPOTNIK_INFO },
    [SPOTNIK_SAID_CHECKPOINT] = { "S150", "checkpoint", SPOTNIK_INFO },
    [SPOTNIK_SAID_CHECKPOINT_TROUBLE] = { "S151", "checkpoint_trouble", SPOTNIK_WARNING },
    [SPOTNIK_SAID_UNSAVED] = { "S152", "unsaved", SPOTNIK_WARNING },
    [SPOTNIK_SAID_REFUSED] = { "S160", "refused", SPOTNIK_WARNING },
    [SPOTNIK_SAID_PEERS] = { "S161", "peers_trouble", SPOTNIK_WARNING },
    [SPOTNIK_SAID_PATH] = { "S162", "path", SPOTNIK_WARNING },
    [SPOTNIK_SAID_ALTERED] = { "S163", "altered", SPOTNIK_WARNING },
    [SPOTNIK_SAID_EVENTS_TROUBLE] = { "S170", "events_trouble", SPOTNIK_WARNING },
    [SPOTNIK_SAID_SAMPLE] = { "S180", "sample", SPOTNIK_INFO },
};

const struct spotnik_said_info *spotnik_said_info(enum spotnik_said kind)
{
    return &table[kind];
}

bool spotnik_said_pass(struct spotnik_said_rate *rate, enum spotnik_said kind, uint64_t now_ns,
                       uint64_t *ret_held_back)
{
    uint64_t last_ns = rate->kind[kind].last_ns;

    *ret_held_back = 0;
    if (last_ns && now_ns - last_ns < SPOTNIK_SAID_EVERY_NS) {
        rate->kind[kind].held_back++;
        return false;
    }
    *ret_held_back = rate->kind[kind].held_back;
    rate->kind[kind].held_back = 0;
    rate->kind[kind].last_ns = now_ns;
    return true;
}
