/* SPDX-License-Identifier: Apache-2.0 */
/* Names of events and actions, and what is in them whatever their kind: for traces, records and
 * checkers. */
#include "core/action.h"
#include "core/event.h"

const char *spotnik_event_name(enum spotnik_event_kind kind)
{
    static const char *const names[] = {
        [SPOTNIK_EVENT_FOUND] = "found",
        [SPOTNIK_EVENT_JOIN] = "join",
        [SPOTNIK_EVENT_RESUME] = "resume",
        [SPOTNIK_EVENT_LINK_UP] = "link up",
        [SPOTNIK_EVENT_LINK_DOWN] = "link down",
        [SPOTNIK_EVENT_DIAL_FAILED] = "dial failed",
        [SPOTNIK_EVENT_DEATH] = "death",
        [SPOTNIK_EVENT_PATH_DOWN] = "path down",
        [SPOTNIK_EVENT_KERNEL] = "kernel answers",
        [SPOTNIK_EVENT_MESSAGE] = "message",
        [SPOTNIK_EVENT_CHANNEL_DOWN] = "channel down",
        [SPOTNIK_EVENT_TICK] = "tick",
        [SPOTNIK_EVENT_STEP_BEGIN] = "step begin",
        [SPOTNIK_EVENT_WEIGHT] = "weight",
        [SPOTNIK_EVENT_DECLINE] = "decline",
        [SPOTNIK_EVENT_BUCKET_START] = "bucket start",
        [SPOTNIK_EVENT_STEP_SEAL] = "step seal",
        [SPOTNIK_EVENT_LEAVE] = "leave",
        [SPOTNIK_EVENT_ENTER_READY] = "enter ready",
        [SPOTNIK_EVENT_CHUNK_DONE] = "chunk done",
        [SPOTNIK_EVENT_SHARED] = "shared",
        [SPOTNIK_EVENT_FLAT_DONE] = "flat done",
        [SPOTNIK_EVENT_FLAT_FAILED] = "flat failed",
        [SPOTNIK_EVENT_RESULT] = "result",
        [SPOTNIK_EVENT_DEAL] = "deal",
        [SPOTNIK_EVENT_WOKEN] = "woken",
        [SPOTNIK_EVENT_WITNESS] = "witness",
    };
    return names[kind];
}

const char *spotnik_action_name(enum spotnik_action_kind kind)
{
    static const char *const names[] = {
        [SPOTNIK_ACTION_DIAL] = "dial",
        [SPOTNIK_ACTION_HANG_UP] = "hang up",
        [SPOTNIK_ACTION_SEND] = "send",
        [SPOTNIK_ACTION_VIEW] = "view",
        [SPOTNIK_ACTION_FROZEN] = "frozen",
        [SPOTNIK_ACTION_PARKED] = "parked",
        [SPOTNIK_ACTION_STEP_BEGUN] = "step begun",
        [SPOTNIK_ACTION_SCALE] = "scale",
        [SPOTNIK_ACTION_COPY_OWN] = "copy own",
        [SPOTNIK_ACTION_COMMITTED] = "committed",
        [SPOTNIK_ACTION_LINK_EXPECT] = "link expect",
        [SPOTNIK_ACTION_EXCLUDED] = "excluded",
        [SPOTNIK_ACTION_WITNESS] = "witness",
        [SPOTNIK_ACTION_LEFT] = "left",
        [SPOTNIK_ACTION_FAILED] = "failed",
        [SPOTNIK_ACTION_FLAT_LATE] = "flat late",
        [SPOTNIK_ACTION_FLAT] = "flat",
        [SPOTNIK_ACTION_DEAL] = "deal",
        [SPOTNIK_ACTION_OFFER] = "offer",
        [SPOTNIK_ACTION_SUM] = "sum",
        [SPOTNIK_ACTION_SPREAD] = "spread",
        [SPOTNIK_ACTION_GATHER] = "gather",
    };
    return names[kind];
}

/* ---- arms ---- */

#define ARM(arm) sizeof(((struct spotnik_event *)NULL)->arm)

static const uint16_t arm_bytes[SPOTNIK_EVENT_KINDS] = {
    [SPOTNIK_EVENT_FOUND] = ARM(found),        [SPOTNIK_EVENT_RESUME] = ARM(resume),
    [SPOTNIK_EVENT_JOIN] = ARM(join),          [SPOTNIK_EVENT_LINK_UP] = ARM(peer),
    [SPOTNIK_EVENT_LINK_DOWN] = ARM(ended),    [SPOTNIK_EVENT_DIAL_FAILED] = ARM(ended),
    [SPOTNIK_EVENT_DEATH] = ARM(death),        [SPOTNIK_EVENT_MESSAGE] = ARM(message),
    [SPOTNIK_EVENT_CHANNEL_DOWN] = ARM(peer),  [SPOTNIK_EVENT_PATH_DOWN] = ARM(peer),
    [SPOTNIK_EVENT_KERNEL] = ARM(peer),        [SPOTNIK_EVENT_WITNESS] = ARM(witness),
    [SPOTNIK_EVENT_SHARED] = ARM(shared),      [SPOTNIK_EVENT_WEIGHT] = ARM(weight),
    [SPOTNIK_EVENT_BUCKET_START] = ARM(start), [SPOTNIK_EVENT_DEAL] = ARM(deal),
    [SPOTNIK_EVENT_ENTER_READY] = ARM(peer),   [SPOTNIK_EVENT_CHUNK_DONE] = ARM(chunk),
    [SPOTNIK_EVENT_FLAT_DONE] = ARM(flat),     [SPOTNIK_EVENT_FLAT_FAILED] = ARM(failure),
    [SPOTNIK_EVENT_RESULT] = ARM(result),
};

size_t spotnik_event_arm_bytes(enum spotnik_event_kind kind)
{
    return arm_bytes[kind];
}

_Static_assert(offsetof(struct spotnik_event_ended, peer) == 0
                   && offsetof(struct spotnik_event_death, peer) == 0
                   && offsetof(struct spotnik_event_message, from) == 0
                   && offsetof(struct spotnik_event_shared, peer) == 0
                   && offsetof(struct spotnik_event_chunk, from) == 0,
               "an arm that names a peer begins with it");

const struct spotnik_member *spotnik_event_peer(const struct spotnik_event *event)
{
    switch (event->kind) {
    case SPOTNIK_EVENT_LINK_UP:
    case SPOTNIK_EVENT_LINK_DOWN:
    case SPOTNIK_EVENT_DIAL_FAILED:
    case SPOTNIK_EVENT_DEATH:
    case SPOTNIK_EVENT_MESSAGE:
    case SPOTNIK_EVENT_CHANNEL_DOWN:
    case SPOTNIK_EVENT_PATH_DOWN:
    case SPOTNIK_EVENT_KERNEL:
    case SPOTNIK_EVENT_SHARED:
    case SPOTNIK_EVENT_ENTER_READY:
    case SPOTNIK_EVENT_CHUNK_DONE:
        return &event->peer;
    default:
        return NULL;
    }
}

const struct spotnik_member *spotnik_action_peer(const struct spotnik_action *action)
{
    switch (action->kind) {
    case SPOTNIK_ACTION_DIAL:
    case SPOTNIK_ACTION_HANG_UP:
    case SPOTNIK_ACTION_LINK_EXPECT:
        return &action->peer;
    case SPOTNIK_ACTION_SEND:
        return &action->send.to;
    default:
        return NULL;
    }
}

static bool is_work(enum spotnik_action_kind kind)
{
    return kind >= SPOTNIK_ACTION_SCALE && kind <= SPOTNIK_ACTION_FLAT_LATE;
}

uint64_t spotnik_action_number(const struct spotnik_action *action)
{
    switch (action->kind) {
    case SPOTNIK_ACTION_VIEW:
    case SPOTNIK_ACTION_WITNESS:
        return action->epoch;
    case SPOTNIK_ACTION_STEP_BEGUN:
        return action->begun.step;
    case SPOTNIK_ACTION_DEAL:
    case SPOTNIK_ACTION_COMMITTED:
        return action->step;
    default:
        return is_work(action->kind) ? action->work.step : 0;
    }
}

uint32_t spotnik_action_bucket(const struct spotnik_action *action)
{
    return is_work(action->kind) ? action->work.bucket : 0;
}
