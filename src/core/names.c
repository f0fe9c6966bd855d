/* SPDX-License-Identifier: Apache-2.0 */
/* Names of events and actions, for traces. */
#include "core/core.h"

const char *spotnik_event_name(enum spotnik_event_kind kind)
{
    static const char *const names[] = {
        [SPOTNIK_EVENT_FOUND] = "found",           [SPOTNIK_EVENT_JOIN] = "join",
        [SPOTNIK_EVENT_RESUME] = "resume",
        [SPOTNIK_EVENT_LINK_UP] = "link up",       [SPOTNIK_EVENT_LINK_DOWN] = "link down",
        [SPOTNIK_EVENT_DIAL_FAILED] = "dial failed", [SPOTNIK_EVENT_DEATH] = "death",
        [SPOTNIK_EVENT_PATH_DOWN] = "path down",
        [SPOTNIK_EVENT_KERNEL] = "kernel answers",
        [SPOTNIK_EVENT_MESSAGE] = "message",       [SPOTNIK_EVENT_LANE_DOWN] = "lane down",
        [SPOTNIK_EVENT_TICK] = "tick",             [SPOTNIK_EVENT_STEP_BEGIN] = "step begin",
        [SPOTNIK_EVENT_WEIGHT] = "weight",         [SPOTNIK_EVENT_DECLINE] = "decline",
        [SPOTNIK_EVENT_BUCKET_START] = "bucket start",
        [SPOTNIK_EVENT_STEP_SEAL] = "step seal",   [SPOTNIK_EVENT_LEAVE] = "leave",
        [SPOTNIK_EVENT_ENTER_READY] = "enter ready", [SPOTNIK_EVENT_CHUNK_DONE] = "chunk done",
        [SPOTNIK_EVENT_SHARED] = "shared",         [SPOTNIK_EVENT_FLAT_DONE] = "flat done",
        [SPOTNIK_EVENT_FLAT_FAILED] = "flat failed", [SPOTNIK_EVENT_RESULT] = "result", [SPOTNIK_EVENT_DEAL] = "deal",
        [SPOTNIK_EVENT_WOKEN] = "woken",          [SPOTNIK_EVENT_WITNESS] = "witness",
    };
    return names[kind];
}

const char *spotnik_action_name(enum spotnik_action_kind kind)
{
    static const char *const names[] = {
        [SPOTNIK_ACTION_DIAL] = "dial",           [SPOTNIK_ACTION_HANG_UP] = "hang up",
        [SPOTNIK_ACTION_SEND] = "send",           [SPOTNIK_ACTION_VIEW] = "view",
        [SPOTNIK_ACTION_FROZEN] = "frozen",       [SPOTNIK_ACTION_PARKED] = "parked",
        [SPOTNIK_ACTION_STEP_BEGUN] = "step begun", [SPOTNIK_ACTION_SCALE] = "scale",
        [SPOTNIK_ACTION_COPY_OWN] = "copy own",   [SPOTNIK_ACTION_COMMITTED] = "committed",
        [SPOTNIK_ACTION_LINK_EXPECT] = "link expect", [SPOTNIK_ACTION_EXCLUDED] = "excluded",
        [SPOTNIK_ACTION_WITNESS] = "witness",
        [SPOTNIK_ACTION_LEFT] = "left",           [SPOTNIK_ACTION_FAILED] = "failed",
        [SPOTNIK_ACTION_FLAT_LATE] = "flat late",
        [SPOTNIK_ACTION_FLAT] = "flat",           [SPOTNIK_ACTION_DEAL] = "deal",
        [SPOTNIK_ACTION_OFFER] = "offer",         [SPOTNIK_ACTION_SUM] = "sum",
        [SPOTNIK_ACTION_SPREAD] = "spread",       [SPOTNIK_ACTION_GATHER] = "gather",
    };
    return names[kind];
}
