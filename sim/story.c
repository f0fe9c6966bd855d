/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a run as a story: one line per event with its time and the process it happens to, one
 * indented line per action that follows. Decides nothing; formats nothing unless a trace is wanted. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "sim/check.h"
#include "sim/world.h"

void spotnik_sim_story(struct sim_world *world, const char *format, ...)
{
    va_list list;

    if (!world->options.trace)
        return;
    fprintf(world->options.trace, "[%11.3f ms] ", (double)world->now_ns / 1e6);
    va_start(list, format);
    vfprintf(world->options.trace, format, list);
    va_end(list);
    fputc('\n', world->options.trace);
}

static unsigned index_of(struct sim_world *world, const struct spotnik_member *member)
{
    return spotnik_id_is_none(member->id) ? 0 : sim_process_of(world, member)->index;
}

static unsigned index_of_id(struct sim_world *world, struct spotnik_id id)
{
    for (uint32_t i = 0; i < world->process_count; i++)
        if (spotnik_id_equal(world->process[i]->member.id, id))
            return i;
    return 0;
}

static void ballot_text(struct sim_world *world, struct spotnik_ballot ballot)
{
    fprintf(world->options.trace, "ballot %" PRIu64 ".%u", ballot.round,
            index_of_id(world, ballot.initiator));
}

static void proposal_text(struct sim_world *world, const struct spotnik_proposal *proposal)
{
    FILE *out = world->options.trace;

    fprintf(out, "view %" PRIu64 " settled %" PRIu64 " [", proposal->epoch, proposal->settled_step);
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        fprintf(out, "%s%u", i ? " " : "", index_of(world, &entry->member));
        fprintf(out, "%s%s%s%s", entry->flags & SPOTNIK_ENTRY_MEMBER ? "" : "-",
                entry->flags & SPOTNIK_ENTRY_VOTER ? "" : "'",
                entry->flags & SPOTNIK_ENTRY_LAGGARD ? "<" : "",
                entry->flags & SPOTNIK_ENTRY_JOINER ? "+" : "");
    }
    fputs("] by ", out);
    ballot_text(world, proposal->ballot);
}

static void token_text(struct sim_world *world, const struct spotnik_token *token)
{
    static const char letter[] = ".stG";
    FILE *out = world->options.trace;

    ballot_text(world, token->ballot);
    fputs(" reports", out);
    for (uint32_t i = 0; i < token->report_count; i++) {
        const struct spotnik_report *report = &token->report[i];
        fprintf(out, " %c", letter[report->evidence < 4 ? report->evidence : 0]);
        if (report->promised)
            fprintf(out, "%" PRIu64 "%s", report->committed, report->begun ? "+" : "");
        if (report->leaving)
            fputc('L', out);
    }
    for (uint32_t i = 0; i < token->joiner_count; i++)
        fprintf(out, " joiner %u@%" PRIu64, index_of(world, &token->joiner[i].member),
                token->joiner[i].committed);
    if (token->parked)
        fputs(" parked", out);
    if (token->accepted_ballot.round) {
        fputs(" accepted ", out);
        proposal_text(world, &token->accepted);
    }
}

static void message_text(struct sim_world *world, const struct spotnik_message *message)
{
    fprintf(world->options.trace, "%s epoch %" PRIu64 " ", spotnik_sim_message_name(message->kind),
            message->epoch);
    if (message->kind == SPOTNIK_MESSAGE_RECONCILE)
        token_text(world, message->token);
    else if (message->kind == SPOTNIK_MESSAGE_ACCEPT || message->kind == SPOTNIK_MESSAGE_RESTART)
        proposal_text(world, message->proposal);
    else if (message->kind == SPOTNIK_MESSAGE_ENTER)
        fprintf(world->options.trace, "at %" PRIu64, message->enter.committed);
}

static bool is_dull(const struct sim_world *world, const struct spotnik_event *event)
{
    return !world->options.trace_data
           && (event->kind == SPOTNIK_EVENT_TICK || event->kind == SPOTNIK_EVENT_CHUNK_DONE
               || (event->kind == SPOTNIK_EVENT_MESSAGE
                   && event->message->kind == SPOTNIK_MESSAGE_HEARTBEAT));
}

void spotnik_sim_story_event(struct sim_world *world, const struct sim_process *process,
                             const struct spotnik_event *event)
{
    FILE *out = world->options.trace;

    if (!out || is_dull(world, event))
        return;
    fprintf(out, "[%11.3f ms] %u > %s", (double)world->now_ns / 1e6, process->index,
            spotnik_event_name(event->kind));
    if (!spotnik_id_is_none(event->peer.id))
        fprintf(out, " of %u", index_of(world, &event->peer));
    if (event->proof == SPOTNIK_PROOF_GONE)
        fputs(" (gone)", out);
    if (event->kind == SPOTNIK_EVENT_MESSAGE) {
        fputs(": ", out);
        message_text(world, event->message);
    } else if (event->kind == SPOTNIK_EVENT_BUCKET_START) {
        fprintf(out, " %u of %" PRIu64, event->bucket, event->count);
    } else if (event->kind == SPOTNIK_EVENT_CHUNK_DONE) {
        fprintf(out, " step %" PRIu64 " bucket %u number %" PRIu64 "%s", event->header.step,
                event->header.bucket, event->header.sequence, event->header.handover ? " handover" : "");
    }
    fputc('\n', out);
}

void spotnik_sim_story_action(struct sim_world *world, const struct sim_process *process,
                              const struct spotnik_action *action)
{
    FILE *out = world->options.trace;

    if (!out
        || (!world->options.trace_data
            && (action->kind == SPOTNIK_ACTION_SCALE || action->kind == SPOTNIK_ACTION_COPY_OWN
                || (action->kind == SPOTNIK_ACTION_SEND
                    && action->message->kind == SPOTNIK_MESSAGE_HEARTBEAT))))
        return;
    fprintf(out, "                 %u - %s", process->index, spotnik_action_name(action->kind));
    if (!spotnik_id_is_none(action->peer.id))
        fprintf(out, " %u", index_of(world, &action->peer));
    if (action->kind == SPOTNIK_ACTION_SEND) {
        fputs(": ", out);
        message_text(world, action->message);
    } else if (action->kind == SPOTNIK_ACTION_VIEW
               && action->step == spotnik_core_view(process->core)->epoch) {
        const struct spotnik_view *view = spotnik_core_view(process->core);
        fprintf(out, " %" PRIu64 " settled %" PRIu64 " [", view->epoch, view->settled_step);
        for (uint32_t i = 0; i < view->size; i++)
            fprintf(out, "%s%u", i ? " " : "", index_of(world, &view->entry[i].member));
        fputc(']', out);
    } else if (action->kind == SPOTNIK_ACTION_VIEW) {
        fprintf(out, " %" PRIu64 " alone", action->step);
    } else if (action->step) {
        fprintf(out, " step %" PRIu64, action->step);
    }
    fputc('\n', out);
}
