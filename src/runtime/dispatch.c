/* SPDX-License-Identifier: Apache-2.0 */
/* From an event to the core and from the core's actions to sockets, memory and the waiting caller.
 * The one place that calls the core; its callers hold the lock. */
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/time.h"
#include "runtime/inside.h"
#include "runtime/mismatch.h"
#include "runtime/probe.h"
#include "record/recorder.h"

spotnik_net_probe_function *spotnik_net_probe;

void spotnik_runtime_changed(struct spotnik_runtime *runtime)
{
    pthread_cond_broadcast(&runtime->changed);
    spotnik_data_poller_changed(runtime);
    spotnik_transport_changed(runtime->transport);
}

/* ---- what the caller waits for ---- */

static void recovery_begin(struct spotnik_runtime *runtime,
                           const struct spotnik_core_status *status)
{
    if (status->epoch <= 1 || status->detected_ns == 0)
        return;
    if (runtime->recovery_count == SPOTNIK_RECOVERIES_KEPT) {
        memmove(runtime->recovery, runtime->recovery + 1,
                (SPOTNIK_RECOVERIES_KEPT - 1) * sizeof *runtime->recovery);
        runtime->recovery_count--;
    }
    runtime->recovery[runtime->recovery_count++] = (spotnik_recovery){
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

static void losses_count(struct spotnik_runtime *runtime, const struct spotnik_core_status *status)
{
    if (status->epoch == runtime->counted_epoch)
        return; /* a member alone may go on to a later view before the first was told */
    runtime->counted_epoch = status->epoch;
    runtime->troubles.lost_ended += status->last_ended;
    runtime->troubles.lost_silent += status->last_silent;
    runtime->troubles.lost_told += status->last_lost - status->last_ended - status->last_silent;
}

static void recovery_commit(struct spotnik_runtime *runtime)
{
    spotnik_recovery *last =
        runtime->recovery_count > 0 ? &runtime->recovery[runtime->recovery_count - 1] : NULL;
    if (last != NULL && last->committed_ns == 0)
        last->committed_ns = spotnik_clock_ns();
}

/* Watch the members whose certificates matter: the next few successors, and the predecessor. The
 * thread calls it before it sleeps: waking the watcher is no part of a recovery. */
void spotnik_runtime_watch_neighbours(struct spotnik_runtime *runtime)
{
    if (!runtime->watch_due)
        return;
    runtime->watch_due = false;
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    uint32_t rank = spotnik_view_rank(view, runtime->config.credentials.self.id);
    struct spotnik_id peer[SPOTNIK_DEATH_WATCHED_MAX];
    uint32_t count = 0, warm = runtime->config.limits.warm_count;
    if (rank == SPOTNIK_NO_RANK)
        return;
    for (uint32_t ahead = 1; ahead < view->size && count < SPOTNIK_DEATH_WATCHED_MAX; ahead++)
        if (ahead <= warm || ahead == view->size - 1)
            peer[count++] = view->entry[(rank + ahead) % view->size].member.id;
    spotnik_death_watch(runtime->death, peer, count);
}

static void view_installed(struct spotnik_runtime *runtime)
{
    spotnik_past_note(runtime);
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    spotnik_death_move_on(runtime->death, status.epoch);
    spotnik_death_gathered(runtime->death, status.size);
    runtime->stand.frozen = false;
    spotnik_transport_cut(runtime->transport);
    spotnik_transport_view(runtime->transport);
    spotnik_data_poller_view(runtime);
    runtime->parked_ns = 0;
    recovery_begin(runtime, &status);
    losses_count(runtime, &status);
    runtime->watch_due = true;
    if (runtime->config.hooks.view_installed != NULL)
        runtime->config.hooks.view_installed(runtime->config.hooks.context);
}

static void step_begun(struct spotnik_runtime *runtime, const struct spotnik_action *action)
{
    runtime->stand.begun = true;
    runtime->handed_out = runtime->stand.sealed = false;
    runtime->stand.begun_step = action->begun.step;
    runtime->replay = action->begun.replay;
    runtime->step_epoch = spotnik_core_view(runtime->core)->epoch;
}

static void step_committed(struct spotnik_runtime *runtime, uint64_t step)
{
    runtime->stand.committed = step;
    spotnik_death_progress(runtime->death, step);
    spotnik_transport_committed(runtime->transport);
    recovery_commit(runtime);
}

/* ---- actions ---- */

static void dial(struct spotnik_runtime *runtime, const struct spotnik_member *peer)
{
    spotnik_pending_dial(runtime->links, peer, SPOTNIK_PURPOSE_CONTROL);
}

static void send(struct spotnik_runtime *runtime, const struct spotnik_action *action)
{
    const struct spotnik_message *message = action->send.message;
    if (message->kind == SPOTNIK_MESSAGE_ACCEPT || message->kind == SPOTNIK_MESSAGE_ACCEPTED)
        spotnik_death_move_on(runtime->death, message->epoch + 1);
    spotnik_link_send(runtime->links, &action->send.to, message);
}

static void perform(struct spotnik_runtime *runtime, const struct spotnik_action *action)
{
    switch (action->kind) {
    case SPOTNIK_ACTION_DIAL:
        dial(runtime, &action->peer);
        break;
    case SPOTNIK_ACTION_HANG_UP:
        spotnik_link_hang_up(runtime->links, &action->peer, SPOTNIK_GOODBYE_EXCLUDED);
        break;
    case SPOTNIK_ACTION_SEND:
        send(runtime, action);
        return; /* no caller waits for it */
    case SPOTNIK_ACTION_VIEW:
        view_installed(runtime);
        break;
    case SPOTNIK_ACTION_FROZEN:
        runtime->stand.frozen = true;
        spotnik_transport_cut(runtime->transport);
        break;
    case SPOTNIK_ACTION_PARKED:
        if (runtime->parked_ns == 0)
            runtime->parked_ns = spotnik_clock_ns();
        break;
    case SPOTNIK_ACTION_WITNESS:
        spotnik_tie_ask(runtime, action->epoch);
        break;
    case SPOTNIK_ACTION_STEP_BEGUN:
        step_begun(runtime, action);
        break;
    case SPOTNIK_ACTION_SCALE:
    case SPOTNIK_ACTION_COPY_OWN:
    case SPOTNIK_ACTION_OFFER:
    case SPOTNIK_ACTION_SUM:
    case SPOTNIK_ACTION_GATHER:
    case SPOTNIK_ACTION_FLAT:
    case SPOTNIK_ACTION_SPREAD:
        spotnik_transport_act(runtime->transport, action);
        return;
    case SPOTNIK_ACTION_FLAT_LATE:
        spotnik_transport_act(runtime->transport, action);
        break;
    case SPOTNIK_ACTION_DEAL:
        runtime->deal_due = true;
        return;
    case SPOTNIK_ACTION_COMMITTED:
        step_committed(runtime, action->step);
        break;
    case SPOTNIK_ACTION_LINK_EXPECT:
        spotnik_transport_expect(runtime->transport, &action->peer);
        break;
    case SPOTNIK_ACTION_EXCLUDED:
        runtime->excluded = true;
        break;
    case SPOTNIK_ACTION_LEFT:
        runtime->left = true;
        spotnik_death_left(runtime->death, false);
        break;
    case SPOTNIK_ACTION_FAILED:
        runtime->failed = action->error;
        runtime->diverged = *spotnik_core_divergence(runtime->core);
        if (action->error == SPOTNIK_ERR_MISMATCH)
            spotnik_mismatch_text(spotnik_core_mismatch(runtime->core),
                                  spotnik_core_view(runtime->core),
                                  runtime->config.credentials.self.id, runtime->mismatch,
                                  sizeof runtime->mismatch);
        break;
    }
    spotnik_runtime_changed(runtime);
}

/* How the next steps are dealt out, from the results that are about to be committed. */
static void deal(struct spotnik_runtime *runtime)
{
    struct spotnik_bucket_result result[SPOTNIK_BUCKETS_MAX];
    const struct spotnik_runtime_hooks *hooks = &runtime->config.hooks;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_DEAL, .now_ns = spotnik_clock_ns() };
    uint32_t count =
        spotnik_transport_result(runtime->transport, runtime->stand.begun_step, result);

    runtime->deal_due = false;
    event.deal.count = hooks->deal(hooks->context, runtime->stand.begun_step, count, result,
                                   &event.deal.weight_of);
    spotnik_net_look(&event, NULL, false);
    spotnik_recorder_event(runtime->recorder, runtime->core, &event);
    spotnik_core_step(runtime->core, &event);
    spotnik_net_look(&event, NULL, true);
}

/* Everything the core wants done now. Actions may cause events in turn (a refused connection, a
 * clogged link). They are kept for the progress thread: the core must not be entered again before
 * its queue is empty. */
void spotnik_runtime_act(struct spotnik_runtime *runtime)
{
    struct spotnik_action action;
    do {
        if (runtime->deal_due)
            deal(runtime);
        while (spotnik_core_poll(runtime->core, &action)) {
            spotnik_net_look(NULL, &action, false);
            spotnik_recorder_action(runtime->recorder, &action);
            spotnik_tracer_action(runtime->trace, runtime->core, &action);
            perform(runtime, &action);
            spotnik_net_look(NULL, &action, true);
            runtime->stand.placeable = true;
        }
    } while (runtime->deal_due);
}

/* The time does not matter to them, and steps are short: for the core none has passed. */
static bool is_timeless(enum spotnik_event_kind kind)
{
    return (kind >= SPOTNIK_EVENT_STEP_BEGIN && kind <= SPOTNIK_EVENT_BUCKET_START)
           || kind == SPOTNIK_EVENT_RESULT;
}

/* A PREPARE may have told us that somebody is a step ahead. The joiner for whose sake all are
 * frozen may be waiting for a step that we have. Our caller waits for the next commit, and comes by
 * no boundary to tell it. */
static void stable_tell(struct spotnik_runtime *runtime)
{
    const struct spotnik_runtime_hooks *hooks = &runtime->config.hooks;
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    if (hooks->step_stable != NULL && status.role == SPOTNIK_ROLE_MEMBER)
        hooks->step_stable(hooks->context, status.stable);
}

void spotnik_runtime_dispatch(struct spotnik_runtime *runtime, struct spotnik_event *event)
{
    SPOTNIK_ASSERT(!runtime->driving);
    event->now_ns = is_timeless(event->kind) ? 0 : spotnik_clock_ns();
    runtime->driving = true;
    spotnik_awake_check(runtime);
    spotnik_net_look(event, NULL, false);
    spotnik_recorder_event(runtime->recorder, runtime->core, event);
    spotnik_tracer_event(runtime->trace, event);
    spotnik_core_step(runtime->core, event);
    spotnik_net_look(event, NULL, true);
    spotnik_runtime_act(runtime);
    runtime->driving = false;
    if (runtime->stand.frozen && event->kind == SPOTNIK_EVENT_MESSAGE)
        stable_tell(runtime);
    if ((event->kind >= SPOTNIK_EVENT_STEP_BEGIN && event->kind <= SPOTNIK_EVENT_ENTER_READY)
        || event->kind == SPOTNIK_EVENT_FLAT_DONE)
        runtime->stand.placeable = true;
    if (runtime->loop.wake_ns != 0 && spotnik_core_deadline(runtime->core) < runtime->loop.wake_ns)
        spotnik_runtime_kick(runtime);
}
