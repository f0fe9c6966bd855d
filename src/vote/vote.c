/* SPDX-License-Identifier: Apache-2.0 */
/* The vote as src/core sees it: its memory, its timers, and one switch from event to its file. No
 * rule of the protocol is here. */
#include "vote/vote.h"

#include "base/time.h"

/* When only sizes are wanted, pointers go to `scratch` and are thrown away. */
struct vote *vote_lay_out(struct carver *carver, uint32_t members, uint32_t entries)
{
    struct vote scratch, *real = carve(carver, sizeof(*real)), *vote = real ? real : &scratch;

    vote->peer_max = entries;
    vote->accepted.entry_max = vote->token.accepted.entry_max = entries;
    vote->accepted.entry = carve(carver, entries * sizeof(*vote->accepted.entry));
    vote->token.accepted.entry = carve(carver, entries * sizeof(*vote->accepted.entry));
    vote->token.report = carve(carver, members * sizeof(*vote->token.report));
    vote->book = carve(carver, members * sizeof(*vote->book));
    vote->doubt.answer = carve(carver, members * sizeof(*vote->doubt.answer));
    vote->covered = carve(carver, members * sizeof(*vote->covered));
    vote->rumoured = carve(carver, members * sizeof(*vote->rumoured));
    vote->quiet_until_ns = carve(carver, members * sizeof(*vote->quiet_until_ns));
    vote->quiet_by = carve(carver, members * sizeof(*vote->quiet_by));
    vote->gather.sent = carve(carver, (members + 63) / 64 * sizeof(*vote->gather.sent));
    vote->gather.heard = carve(carver, (members + 63) / 64 * sizeof(*vote->gather.heard));
    vote->fenced = carve(carver, members * sizeof(*vote->fenced));
    vote->peer = carve(carver, vote->peer_max * sizeof(*vote->peer));
    return real;
}

void vote_init(struct spotnik_core *core)
{
    struct vote *vote = core->vote;

    vote->initiate_ns = vote->retry_ns = vote->enter_until_ns = vote->enter_limit_ns =
        SPOTNIK_NEVER;
    vote->leave_ns = vote->enter_ns = vote->heartbeat_ns = SPOTNIK_NEVER;
    vote->doubt.until_ns = SPOTNIK_NEVER;
}

uint64_t vote_deadline(const struct spotnik_core *core)
{
    const struct vote *vote = core->vote;
    uint64_t due = spotnik_time_min(vote->initiate_ns, vote->retry_ns);

    due = spotnik_time_min(due, spotnik_time_min(vote->enter_until_ns, vote->leave_ns));
    due = spotnik_time_min(due, vote->doubt.until_ns);
    return spotnik_time_min(due, spotnik_time_min(vote->enter_ns, vote->heartbeat_ns));
}

bool vote_is_parked(const struct spotnik_core *core)
{
    return core->vote->parked;
}

void vote_before(struct spotnik_core *core)
{
    if (core->now_ns > core->vote->heartbeat_ns)
        doubt_if_late(core);
}

bool vote_take(struct spotnik_core *core, const struct spotnik_event *event)
{
    switch (event->kind) {
    case SPOTNIK_EVENT_FOUND:
        on_found(core, &event->found);
        return true;
    case SPOTNIK_EVENT_RESUME:
        on_resume(core, &event->resume);
        return true;
    case SPOTNIK_EVENT_JOIN:
        on_join(core, &event->join);
        return true;
    case SPOTNIK_EVENT_LINK_UP:
        on_link_up(core, &event->peer);
        return true;
    case SPOTNIK_EVENT_LINK_DOWN:
        on_link_down(core, &event->ended);
        return true;
    case SPOTNIK_EVENT_DIAL_FAILED:
        on_dial_failed(core, &event->ended);
        return true;
    case SPOTNIK_EVENT_DEATH:
        on_death(core, &event->death);
        return true;
    case SPOTNIK_EVENT_LANE_DOWN:
        on_lane_down(core, &event->peer);
        return true;
    case SPOTNIK_EVENT_PATH_DOWN:
        on_path_down(core, &event->peer);
        return true;
    case SPOTNIK_EVENT_KERNEL:
        on_kernel(core, &event->peer);
        return true;
    case SPOTNIK_EVENT_MESSAGE:
        on_message(core, &event->message);
        return true;
    case SPOTNIK_EVENT_TICK:
        on_tick(core);
        return true;
    case SPOTNIK_EVENT_WITNESS:
        on_witness(core, &event->witness);
        return true;
    case SPOTNIK_EVENT_WOKEN:
        doubt_begin(core);
        return true;
    case SPOTNIK_EVENT_LEAVE:
        on_leave(core);
        return true;
    case SPOTNIK_EVENT_ENTER_READY:
        on_enter_ready(core, &event->peer);
        return true;
    case SPOTNIK_EVENT_RESULT:
        on_result(core, &event->result);
        return true;
    default:
        return false;
    }
}

static bool may_change_who_is_in(enum spotnik_event_kind kind)
{
    return kind < SPOTNIK_EVENT_STEP_BEGIN || kind == SPOTNIK_EVENT_LEAVE;
}

void vote_after(struct spotnik_core *core, enum spotnik_event_kind kind)
{
    if (core->vote->doubt.ask_due)
        doubt_ask_all(core);
    if (may_change_who_is_in(kind))
        invariants_check(core);
}
