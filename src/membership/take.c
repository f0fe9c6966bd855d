/* SPDX-License-Identifier: Apache-2.0 */
/* Membership as src/core sees it: its memory, its timers, and one switch from event to its file. No
 * rule of the protocol is here. */
#include "membership/membership.h"

#include "base/time.h"

static void agreement_lay_out(struct agreement *agreement, struct carver *carver, uint32_t members,
                              uint32_t entries)
{
    struct spotnik_prepare *prepare = &agreement->prepare;
    struct spotnik_tree_prepare *tree = &agreement->tree;

    agreement->accepted.entry_max = prepare->accepted.entry_max = entries;
    agreement->accepted.entry = carve(carver, entries * sizeof(*agreement->accepted.entry));
    prepare->accepted.entry = carve(carver, entries * sizeof(*prepare->accepted.entry));
    prepare->report = carve(carver, members * sizeof(*prepare->report));
    tree->words = (members + 63) / 64;
    tree->sent = carve(carver, tree->words * sizeof(*tree->sent));
    tree->heard = carve(carver, tree->words * sizeof(*tree->heard));
    agreement->fenced = carve(carver, members * sizeof(*agreement->fenced));
}

static void evidence_lay_out(struct evidence_table *table, struct carver *carver, uint32_t members)
{
    table->known = carve(carver, members * sizeof(*table->known));
    table->covered = carve(carver, members * sizeof(*table->covered));
    table->suspected_by_peer = carve(carver, members * sizeof(*table->suspected_by_peer));
    table->quiet_until_ns = carve(carver, members * sizeof(*table->quiet_until_ns));
    table->quiet_by = carve(carver, members * sizeof(*table->quiet_by));
}

/* When only sizes are wanted, pointers go to `scratch` and are thrown away. */
struct membership *membership_lay_out(struct carver *carver, uint32_t members, uint32_t entries)
{
    struct membership scratch, *real = carve(carver, sizeof(*real)),
                               *membership = real ? real : &scratch;

    agreement_lay_out(&membership->agreement, carver, members, entries);
    evidence_lay_out(&membership->evidence_table, carver, members);
    membership->pause.answer = carve(carver, members * sizeof(*membership->pause.answer));
    membership->peer_max = entries;
    membership->peer = carve(carver, entries * sizeof(*membership->peer));
    return real;
}

void membership_init(struct spotnik_core *core)
{
    struct membership *membership = core->membership;

    membership->heartbeat_ns = SPOTNIK_NEVER;
    evidence_table_init(&membership->evidence_table);
    ballot_init(&membership->agreement);
    joiners_init(&membership->joiners);
    enter_init(&membership->entering);
    leave_init(&membership->leaving);
    pause_check_init(&membership->pause);
}

uint64_t membership_deadline(const struct spotnik_core *core)
{
    const struct membership *membership = core->membership;
    uint64_t due =
        spotnik_time_min(membership->evidence_table.initiate_ns, membership->agreement.retry_ns);

    due = spotnik_time_min(due, spotnik_time_min(membership->agreement.enter_until_ns,
                                                 membership->leaving.at_ns));
    due = spotnik_time_min(due, membership->pause.until_ns);
    return spotnik_time_min(due,
                            spotnik_time_min(membership->entering.at_ns, membership->heartbeat_ns));
}

bool membership_is_parked(const struct spotnik_core *core)
{
    return core->membership->agreement.parked;
}

void membership_before(struct spotnik_core *core)
{
    if (core->now_ns > core->membership->heartbeat_ns)
        audit_late(core);
}

bool membership_take(struct spotnik_core *core, const struct spotnik_event *event)
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
    case SPOTNIK_EVENT_CHANNEL_DOWN:
        on_channel_down(core, &event->peer);
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
        on_woken(core);
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

void membership_hear(struct spotnik_core *core)
{
    struct step_news news = core->news;

    core->news = (struct step_news){ .committed = false };
    if (news.committed)
        core->membership->settles = 0;
    if (news.committed && core->role == SPOTNIK_ROLE_JOINER)
        enter_send(core);
    else if (news.committed)
        apply_ballot(core, sponsor_start(core));
    if (news.failed)
        apply_ballot(core, BALLOT_START);
}

static bool may_change_who_is_in(enum spotnik_event_kind kind)
{
    return kind < SPOTNIK_EVENT_STEP_BEGIN || kind == SPOTNIK_EVENT_LEAVE;
}

void membership_after(struct spotnik_core *core, enum spotnik_event_kind kind)
{
    if (core->membership->pause.ask_due)
        audit_ask(core);
    membership_hear(core);
    if (may_change_who_is_in(kind))
        invariants_check(core);
}
