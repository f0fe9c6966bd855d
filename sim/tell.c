/* SPDX-License-Identifier: Apache-2.0 */
/* What spotnik_tell_event() and spotnik_tell_action() say. Decides nothing. */
#include "sim/tell.h"

#include <inttypes.h>

#include "sim/check.h"

static unsigned number_of(const struct spotnik_teller *teller, struct spotnik_id id)
{
    return teller->number(teller->context, id);
}

static void ballot_text(const struct spotnik_teller *teller, struct spotnik_ballot ballot)
{
    fprintf(teller->out, "ballot %" PRIu64 ".%u", ballot.round,
            number_of(teller, ballot.initiator));
}

static void proposal_text(const struct spotnik_teller *teller,
                          const struct spotnik_proposal *proposal)
{
    FILE *out = teller->out;

    fprintf(out, "view %" PRIu64 " settled %" PRIu64 " [", proposal->epoch, proposal->settled_step);
    for (uint32_t i = 0; i < proposal->brief.run_count && proposal->packed; i++)
        fprintf(out, "%s%u of %d", i ? " " : "", proposal->brief.run[i].count,
                (int)proposal->brief.run[i].rank);
    for (uint32_t i = 0; i < proposal->entry_count && !proposal->packed; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        fprintf(out, "%s%u", i ? " " : "", number_of(teller, entry->member.id));
        fprintf(out, "%s%s%s%s", entry->flags & SPOTNIK_ENTRY_MEMBER ? "" : "-",
                entry->flags & SPOTNIK_ENTRY_VOTER ? "" : "'",
                entry->flags & SPOTNIK_ENTRY_LAGGARD ? "<" : "",
                entry->flags & SPOTNIK_ENTRY_JOINER ? "+" : "");
    }
    fputs("] by ", out);
    ballot_text(teller, proposal->ballot);
}

static void prepare_text(const struct spotnik_teller *teller, const struct spotnik_prepare *prepare)
{
    static const char letter[] = ".stG";
    FILE *out = teller->out;

    ballot_text(teller, prepare->ballot);
    fputs(" reports", out);
    for (uint32_t i = 0; i < prepare->report_count; i++) {
        const struct spotnik_report *report = &prepare->report[i];
        fprintf(out, " %c", letter[report->evidence < 4 ? report->evidence : 0]);
        if (report->promised)
            fprintf(out, "%" PRIu64 "%s", report->committed, report->begun ? "+" : "");
        if (report->leaving)
            fputc('L', out);
    }
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        fprintf(out, " joiner %u@%" PRIu64, number_of(teller, prepare->joiner[i].member.id),
                prepare->joiner[i].committed);
    if (prepare->parked)
        fputs(" parked", out);
    if (prepare->accepted_ballot.round) {
        fputs(" accepted ", out);
        proposal_text(teller, &prepare->accepted);
    }
}

static void message_text(const struct spotnik_teller *teller, const struct spotnik_message *message)
{
    fprintf(teller->out, "%s epoch %" PRIu64 " ", spotnik_sim_message_name(message->kind),
            message->epoch);
    if (message->kind == SPOTNIK_MESSAGE_PREPARE || message->kind == SPOTNIK_MESSAGE_PROMISE)
        prepare_text(teller, message->prepare);
    else if (message->kind == SPOTNIK_MESSAGE_ACCEPT || message->kind == SPOTNIK_MESSAGE_RESTART)
        proposal_text(teller, message->proposal);
    else if (message->kind == SPOTNIK_MESSAGE_ASK || message->kind == SPOTNIK_MESSAGE_ACCEPTED)
        ballot_text(teller, message->ballot);
    else if (message->kind == SPOTNIK_MESSAGE_ENTER)
        fprintf(teller->out, "at %" PRIu64, message->enter.committed);
}

static bool is_end(enum spotnik_event_kind kind)
{
    return kind == SPOTNIK_EVENT_LINK_DOWN || kind == SPOTNIK_EVENT_DIAL_FAILED;
}

static bool is_dull(const struct spotnik_teller *teller, const struct spotnik_event *event)
{
    return !teller->data
           && (event->kind == SPOTNIK_EVENT_TICK || event->kind == SPOTNIK_EVENT_CHUNK_DONE
               || (event->kind == SPOTNIK_EVENT_MESSAGE
                   && event->message.body->kind == SPOTNIK_MESSAGE_HEARTBEAT));
}

void spotnik_tell_event(const struct spotnik_teller *teller, uint64_t now_ns, unsigned process,
                        const struct spotnik_event *event)
{
    const struct spotnik_member *peer = spotnik_event_peer(event);
    FILE *out = teller->out;

    if (is_dull(teller, event))
        return;
    fprintf(out, "[%11.3f ms] %u > %s", (double)now_ns / 1e6, process,
            spotnik_event_name(event->kind));
    if (peer && !spotnik_id_is_none(peer->id))
        fprintf(out, " of %u", number_of(teller, peer->id));
    if (is_end(event->kind) && event->ended.proof == SPOTNIK_PROOF_GONE)
        fputs(" (gone)", out);
    if (event->kind == SPOTNIK_EVENT_MESSAGE) {
        fputs(": ", out);
        message_text(teller, event->message.body);
    } else if (event->kind == SPOTNIK_EVENT_BUCKET_START) {
        fprintf(out, " %u of %" PRIu64, event->start.bucket, event->start.count);
    } else if (event->kind == SPOTNIK_EVENT_CHUNK_DONE) {
        fprintf(out, " step %" PRIu64 " bucket %u number %" PRIu64 "%s", event->chunk.header.step,
                event->chunk.header.bucket, event->chunk.header.sequence,
                event->chunk.header.handover ? " handover" : "");
    }
    fputc('\n', out);
}

void spotnik_tell_move(const struct spotnik_teller *teller, unsigned process,
                       const struct spotnik_move *move)
{
    fprintf(teller->out, "                 %u ~ %s %s -> %s\n", process, move->of, move->from,
            move->to);
}

void spotnik_tell_action(const struct spotnik_teller *teller, unsigned process,
                         const struct spotnik_core *core, const struct spotnik_action *action)
{
    const struct spotnik_member *peer = spotnik_action_peer(action);
    uint64_t number = spotnik_action_number(action);
    FILE *out = teller->out;

    if ((!teller->data
         && (action->kind == SPOTNIK_ACTION_SCALE || action->kind == SPOTNIK_ACTION_COPY_OWN
             || (action->kind == SPOTNIK_ACTION_SEND
                 && action->send.message->kind == SPOTNIK_MESSAGE_HEARTBEAT))))
        return;
    fprintf(out, "                 %u - %s", process, spotnik_action_name(action->kind));
    if (peer)
        fprintf(out, " %u", number_of(teller, peer->id));
    if (action->kind == SPOTNIK_ACTION_SEND) {
        fputs(": ", out);
        message_text(teller, action->send.message);
    } else if (action->kind == SPOTNIK_ACTION_VIEW
               && action->epoch == spotnik_core_view(core)->epoch) {
        const struct spotnik_view *view = spotnik_core_view(core);
        fprintf(out, " %" PRIu64 " settled %" PRIu64 " [", view->epoch, view->settled_step);
        for (uint32_t i = 0; i < view->size; i++)
            fprintf(out, "%s%u", i ? " " : "", number_of(teller, view->entry[i].member.id));
        fputc(']', out);
    } else if (action->kind == SPOTNIK_ACTION_VIEW) {
        fprintf(out, " %" PRIu64 " alone", action->epoch);
    } else if (number) {
        fprintf(out, " step %" PRIu64, number);
    }
    fputc('\n', out);
}
