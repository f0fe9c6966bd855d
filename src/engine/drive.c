/* SPDX-License-Identifier: Apache-2.0 */
/* From an event to the core and from the core's actions to sockets, memory and the waiting caller.
 * The one place that calls the core; its callers hold the lock. */
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/time.h"
#include "engine/inside.h"
#include "engine/mismatch.h"
#include "engine/probe.h"
#include "record/recorder.h"

spotnik_net_probe_function *spotnik_net_probe;

void spotnik_engine_changed(struct spotnik_engine *engine)
{
    pthread_cond_broadcast(&engine->changed);
    spotnik_attend_changed(engine);
    spotnik_carriage_changed(engine->carriage);
}

/* ---- what the caller waits for ---- */

static void recovery_begin(struct spotnik_engine *engine, const struct spotnik_core_status *status)
{
    if (status->epoch <= 1 || status->detected_ns == 0)
        return;
    if (engine->recovery_count == SPOTNIK_RECOVERIES_KEPT) {
        memmove(engine->recovery, engine->recovery + 1,
                (SPOTNIK_RECOVERIES_KEPT - 1) * sizeof *engine->recovery);
        engine->recovery_count--;
    }
    engine->recovery[engine->recovery_count++] = (spotnik_recovery){
        .epoch = status->epoch,
        .lost = status->last_lost,
        .joined = status->last_joined,
        .left = status->last_left,
        .detected_ns = status->detected_ns,
        .reconciled_ns = status->reconciled_ns,
        .accepted_ns = status->accepted_ns,
        .restarted_ns = status->restarted_ns,
    };
}

static void losses_count(struct spotnik_engine *engine, const struct spotnik_core_status *status)
{
    if (status->epoch == engine->counted_epoch)
        return; /* a member alone may go on to a later view before the first was told */
    engine->counted_epoch = status->epoch;
    engine->troubles.lost_ended += status->last_ended;
    engine->troubles.lost_silent += status->last_silent;
    engine->troubles.lost_told += status->last_lost - status->last_ended - status->last_silent;
}

static void recovery_commit(struct spotnik_engine *engine)
{
    spotnik_recovery *last =
        engine->recovery_count > 0 ? &engine->recovery[engine->recovery_count - 1] : NULL;
    if (last != NULL && last->committed_ns == 0)
        last->committed_ns = spotnik_clock_ns();
}

/* Whose certificates matter: the next few successors, and the predecessor. Done when the thread
 * goes to sleep: waking the watcher is no part of a recovery. */
void spotnik_engine_watch_neighbours(struct spotnik_engine *engine)
{
    if (!engine->watch_due)
        return;
    engine->watch_due = false;
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    uint32_t rank = spotnik_view_rank(view, engine->config.credentials.self.id);
    struct spotnik_id peer[SPOTNIK_DEATH_WATCHED_MAX];
    uint32_t count = 0, warm = engine->config.limits.warm_count;
    if (rank == SPOTNIK_NO_RANK)
        return;
    for (uint32_t ahead = 1; ahead < view->size && count < SPOTNIK_DEATH_WATCHED_MAX; ahead++)
        if (ahead <= warm || ahead == view->size - 1)
            peer[count++] = view->entry[(rank + ahead) % view->size].member.id;
    spotnik_death_watch(engine->death, peer, count);
}

static void view_installed(struct spotnik_engine *engine)
{
    spotnik_past_note(engine);
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    spotnik_death_move_on(engine->death, status.epoch);
    spotnik_death_gathered(engine->death, status.size);
    engine->stand.frozen = false;
    spotnik_carriage_cut(engine->carriage);
    spotnik_carriage_view(engine->carriage);
    spotnik_attend_view(engine);
    engine->parked_ns = 0;
    recovery_begin(engine, &status);
    losses_count(engine, &status);
    engine->watch_due = true;
    if (engine->config.hooks.view_installed != NULL)
        engine->config.hooks.view_installed(engine->config.hooks.context);
}

static void step_begun(struct spotnik_engine *engine, const struct spotnik_action *action)
{
    engine->stand.begun = true;
    engine->handed_out = engine->stand.sealed = false;
    engine->stand.begun_step = action->begun.step;
    engine->replay = action->begun.replay;
    engine->step_epoch = spotnik_core_view(engine->core)->epoch;
}

static void step_committed(struct spotnik_engine *engine, uint64_t step)
{
    engine->stand.committed = step;
    spotnik_death_progress(engine->death, step);
    spotnik_carriage_committed(engine->carriage);
    recovery_commit(engine);
}

/* ---- actions ---- */

static void dial(struct spotnik_engine *engine, const struct spotnik_member *peer)
{
    spotnik_opening_dial(engine->links, peer, SPOTNIK_PURPOSE_CONTROL);
}

static void send(struct spotnik_engine *engine, const struct spotnik_action *action)
{
    const struct spotnik_message *message = action->send.message;
    if (message->kind == SPOTNIK_MESSAGE_ACCEPT || message->kind == SPOTNIK_MESSAGE_ACCEPTED)
        spotnik_death_move_on(engine->death, message->epoch + 1);
    spotnik_link_send(engine->links, &action->send.to, message);
}

static void perform(struct spotnik_engine *engine, const struct spotnik_action *action)
{
    switch (action->kind) {
    case SPOTNIK_ACTION_DIAL:
        dial(engine, &action->peer);
        break;
    case SPOTNIK_ACTION_HANG_UP:
        spotnik_link_hang_up(engine->links, &action->peer, SPOTNIK_GOODBYE_EXCLUDED);
        break;
    case SPOTNIK_ACTION_SEND:
        send(engine, action);
        return; /* nobody waits for it */
    case SPOTNIK_ACTION_VIEW:
        view_installed(engine);
        break;
    case SPOTNIK_ACTION_FROZEN:
        engine->stand.frozen = true;
        spotnik_carriage_cut(engine->carriage);
        break;
    case SPOTNIK_ACTION_PARKED:
        if (engine->parked_ns == 0)
            engine->parked_ns = spotnik_clock_ns();
        break;
    case SPOTNIK_ACTION_WITNESS:
        spotnik_tie_ask(engine, action->epoch);
        break;
    case SPOTNIK_ACTION_STEP_BEGUN:
        step_begun(engine, action);
        break;
    case SPOTNIK_ACTION_SCALE:
    case SPOTNIK_ACTION_COPY_OWN:
    case SPOTNIK_ACTION_OFFER:
    case SPOTNIK_ACTION_SUM:
    case SPOTNIK_ACTION_GATHER:
    case SPOTNIK_ACTION_FLAT:
    case SPOTNIK_ACTION_SPREAD:
        spotnik_carriage_act(engine->carriage, action);
        return;
    case SPOTNIK_ACTION_FLAT_LATE:
        spotnik_carriage_act(engine->carriage, action);
        break;
    case SPOTNIK_ACTION_DEAL:
        engine->deal_due = true;
        return;
    case SPOTNIK_ACTION_COMMITTED:
        step_committed(engine, action->step);
        break;
    case SPOTNIK_ACTION_LINK_EXPECT:
        spotnik_carriage_expect(engine->carriage, &action->peer);
        break;
    case SPOTNIK_ACTION_EXCLUDED:
        engine->excluded = true;
        break;
    case SPOTNIK_ACTION_LEFT:
        engine->left = true;
        spotnik_death_left(engine->death, false);
        break;
    case SPOTNIK_ACTION_FAILED:
        engine->failed = action->error;
        engine->diverged = *spotnik_core_divergence(engine->core);
        if (action->error == SPOTNIK_ERR_MISMATCH)
            spotnik_mismatch_text(spotnik_core_mismatch(engine->core),
                                  spotnik_core_view(engine->core),
                                  engine->config.credentials.self.id, engine->mismatch,
                                  sizeof engine->mismatch);
        break;
    }
    spotnik_engine_changed(engine);
}

/* How the next steps are dealt out, from the results that are about to be committed. */
static void deal(struct spotnik_engine *engine)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_DEAL, .now_ns = spotnik_clock_ns() };
    uint32_t count = spotnik_carriage_result(engine->carriage, engine->stand.begun_step, result);

    engine->deal_due = false;
    event.deal.count =
        hooks->deal(hooks->context, engine->stand.begun_step, count, result, &event.deal.weight_of);
    spotnik_net_look(&event, NULL, false);
    spotnik_recorder_event(engine->recorder, engine->core, &event);
    spotnik_core_step(engine->core, &event);
    spotnik_net_look(&event, NULL, true);
}

/* Everything the core wants done now. Actions may cause events in turn (a refused connection, a
 * clogged link). They are kept for the progress thread: the core must not be entered again before
 * its queue is empty. */
void spotnik_engine_act(struct spotnik_engine *engine)
{
    struct spotnik_action action;
    do {
        if (engine->deal_due)
            deal(engine);
        while (spotnik_core_poll(engine->core, &action)) {
            spotnik_net_look(NULL, &action, false);
            spotnik_recorder_action(engine->recorder, &action);
            spotnik_tracer_action(engine->trace, engine->core, &action);
            perform(engine, &action);
            spotnik_net_look(NULL, &action, true);
            engine->stand.placeable = true;
        }
    } while (engine->deal_due);
}

/* The time does not matter to them, and steps are short: for the core none has passed. */
static bool is_timeless(enum spotnik_event_kind kind)
{
    return (kind >= SPOTNIK_EVENT_STEP_BEGIN && kind <= SPOTNIK_EVENT_BUCKET_START)
           || kind == SPOTNIK_EVENT_RESULT;
}

/* A token may have told us that somebody is a step ahead. The joiner for whose sake all are frozen
 * may be waiting for a step that we have. Our caller waits for the next commit, and comes by no
 * boundary to tell it. */
static void stable_tell(struct spotnik_engine *engine)
{
    const struct spotnik_engine_hooks *hooks = &engine->config.hooks;
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    if (hooks->step_stable != NULL && status.role == SPOTNIK_ROLE_MEMBER)
        hooks->step_stable(hooks->context, status.stable);
}

void spotnik_engine_drive(struct spotnik_engine *engine, struct spotnik_event *event)
{
    SPOTNIK_ASSERT(!engine->driving);
    event->now_ns = is_timeless(event->kind) ? 0 : spotnik_clock_ns();
    engine->driving = true;
    spotnik_awake_check(engine);
    spotnik_net_look(event, NULL, false);
    spotnik_recorder_event(engine->recorder, engine->core, event);
    spotnik_tracer_event(engine->trace, event);
    spotnik_core_step(engine->core, event);
    spotnik_net_look(event, NULL, true);
    spotnik_engine_act(engine);
    engine->driving = false;
    if (engine->stand.frozen && event->kind == SPOTNIK_EVENT_MESSAGE)
        stable_tell(engine);
    if ((event->kind >= SPOTNIK_EVENT_STEP_BEGIN && event->kind <= SPOTNIK_EVENT_ENTER_READY)
        || event->kind == SPOTNIK_EVENT_FLAT_DONE)
        engine->stand.placeable = true;
    if (engine->loop.wake_ns != 0 && spotnik_core_deadline(engine->core) < engine->loop.wake_ns)
        spotnik_engine_kick(engine);
}
