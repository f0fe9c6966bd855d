/* SPDX-License-Identifier: Apache-2.0 */
/* Saves of the job in one slot: when the program is asked for a restart file, which one is taken,
 * and what a save has cost. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bag_run.h"
#include "base/time.h"

#define PROBE_BYTES 65536
#define DEAF_LOOKS 30   /* a program that does not listen for so long never does */
#define SETTLE_SHARE 10 /* of a look: for how long a file that was asked for stays the same */

static void save_begin(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns)
{
    slot->saving = slot->restart;
    slot->save_begun_ns = now_ns;
    fflush(NULL);
    slot->saver = fork();
    if (slot->saver == 0)
        _exit(bag_save_make(&work->bag, slot->job, slot->attempt, slot->saves + 1, &slot->saving,
                            slot->outputs)
                      == 0
                  ? 0
                  : 1);
    if (slot->saver < 0)
        slot->saver = 0;
}

/* Saves before this one, and the directories of attempts of which none is left. */
static void old_remove(struct bag_work *work, const struct bag_slot *slot,
                       const struct bag_save *oldest)
{
    bag_saves_remove(&work->bag, slot->job, oldest);
    for (uint32_t attempt = 1; attempt < oldest->attempt && oldest->sequence == 1; attempt++)
        bag_attempt_remove(&work->bag, slot->job, attempt);
}

/* What a save costs the program. One that was asked stops to write; one that was not writes anyway,
 * and then only the copy counts. The clock of a file server may be ahead: nothing takes longer than
 * it has by ours. */
static double save_cost_s(const struct bag_slot *slot, uint64_t now_ns)
{
    uint64_t copy_ns = spotnik_time_since(now_ns, slot->save_begun_ns),
             wrote_ns = slot->saved.changed_ns;
    if (slot->asked_ms == 0 || wrote_ns <= slot->asked_wall_ns)
        return (double)copy_ns / 1e9;
    return fmin((double)(wrote_ns - slot->asked_wall_ns) / 1e9,
                (double)(bag_slot_work_ms(slot, now_ns) - slot->asked_ms) / 1e3);
}

void bag_slot_save_done(struct bag_work *work, struct bag_slot *slot, bool fine, uint64_t now_ns)
{
    struct bag_save newest, before;
    slot->saver = 0;
    if (!bag_folder_fine(work, fine || bag_probe(&work->bag, PROBE_BYTES) == 0 ? 0 : -EIO,
                         "save a restart file")
        || !fine)
        return; /* the next look tries again */
    slot->saved = slot->saving;
    slot->saves++;
    slot->figures.saved_ms = slot->saved.work_ms;
    work->write_s = save_cost_s(slot, now_ns);
    if (bag_save_find(&work->bag, slot->job, NULL, &newest) > 0
        /* the one before stays, for a resume that fails */
        && bag_save_find(&work->bag, slot->job, &newest, &before) > 0)
        old_remove(work, slot, &before);
    bag_slot_pace(work, slot, now_ns, NULL);
}

/* The restart file is another one than at the look before. */
void bag_slot_outputs_look(struct bag_work *work, struct bag_slot *slot,
                           const struct bag_restart *before)
{
    if (bag_restart_same(before, &slot->restart))
        return;
    bag_outputs_drop(slot->outputs);
    slot->outputs = bag_file_watcher_outputs(work, slot, slot->restart.file);
    if (slot->outputs != NULL || slot->restart.file[0] == '\0' || slot->told_unmarked)
        return;
    slot->told_unmarked = true;
    bag_say(work,
            "job %s: %s was written too soon after %s, which is not saved; waiting for the next "
            "(see --loose)",
            slot->job->name, slot->mark.record >= 0 ? slot->mark.disturber : "some output",
            slot->restart.file);
}

/* A restart file that is whole, and not saved yet. */
static bool has_news(const struct bag_slot *slot)
{
    return slot->restart.is_whole && slot->outputs != NULL
           && !bag_restart_same(&slot->restart, &slot->saved);
}

/* Nobody of the program listens. At its start that is no wonder. */
static void deaf_tell(struct bag_work *work, struct bag_slot *slot)
{
    uint64_t start_ms = DEAF_LOOKS * work->options->look_ns / SPOTNIK_MS;
    if (slot->told_deaf || bag_slot_ran_ms(slot, bag_now_ns()) < start_ms)
        return;
    slot->told_deaf = true;
    bag_say(work,
            "job %s: no process of it waits for signal %d (%s), which --ask names; it is not asked "
            "for a restart file",
            slot->job->name, work->bag.terms.ask, strsignal(work->bag.terms.ask));
}

/* False: nobody of the program listens. */
bool bag_slot_ask(struct bag_work *work, struct bag_slot *slot, uint64_t done_ms)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if (bag_ask(slot->pid, work->bag.terms.ask) == 0) {
        slot->deaf_ns = bag_now_ns();
        deaf_tell(work, slot);
        return false;
    }
    slot->asked_wall_ns = (uint64_t)wall.tv_sec * SPOTNIK_S + (uint64_t)wall.tv_nsec;
    slot->asked_ms = done_ms;
    return true;
}

/* Is this the one to save? When a program was asked for a restart file, only what it has written
 * since counts. */
static bool is_wanted(const struct bag_work *work, const struct bag_slot *slot)
{
    return has_news(slot) && (work->bag.terms.ask == 0 || slot->restart.work_ms >= slot->asked_ms);
}

/* The file that was asked for was closed just now: a few looks in short succession. One that is
 * opened again is waited for as any other. */
static uint64_t look_span_ns(const struct bag_work *work, const struct bag_slot *slot,
                             uint64_t now_ns)
{
    uint64_t look_ns = work->options->look_ns;
    bool soon = slot->asked_ms != 0 && slot->mark.closed_ns != 0 && !is_wanted(work, slot)
                && spotnik_time_since(now_ns, slot->mark.closed_ns) < look_ns;
    return soon ? look_ns / SETTLE_SHARE : look_ns;
}

static bool is_to_ask(const struct bag_work *work, const struct bag_slot *slot)
{
    return work->bag.terms.ask != 0 && slot->due_ms > 0 && slot->asked_ms < slot->due_ms;
}

uint64_t bag_slot_wake_ns(const struct bag_work *work, const struct bag_slot *slot)
{
    uint64_t look_ns = work->options->look_ns, now_ns = bag_now_ns(), span_ns;
    if (slot->job == NULL || slot->pid <= 0 || slot->stage > BAG_STAGE_ASKED || slot->saver != 0
        || work->bag.terms.restart == NULL || work->bag.terms.ask == 0)
        return UINT64_MAX;
    if ((span_ns = look_span_ns(work, slot, now_ns)) < look_ns)
        return slot->looked_ns + span_ns;
    if (slot->stage != BAG_STAGE_RUNS || !is_to_ask(work, slot))
        return UINT64_MAX;
    uint64_t left_ms = slot->due_ms - slot->figures.base_ms,
             due_ns = slot->started_ns + left_ms * SPOTNIK_MS;
    return slot->deaf_ns != 0 && due_ns < slot->deaf_ns + look_ns ? slot->deaf_ns + look_ns
                                                                  : due_ns;
}

void bag_slot_save_turn(struct bag_work *work, struct bag_slot *slot, uint64_t now_ns)
{
    char directory[PATH_MAX];
    uint64_t done_ms = bag_slot_work_ms(slot, now_ns);
    bool running = slot->stage == BAG_STAGE_RUNS;
    if (work->bag.terms.restart == NULL || slot->saver != 0 || slot->unwanted
        || (slot->stage == BAG_STAGE_ENDED && slot->figures.status == 0))
        return;
    bag_attempt_path(work, slot, "work", directory);
    if (slot->stage != BAG_STAGE_ENDED
        && spotnik_time_since(now_ns, slot->looked_ns) >= look_span_ns(work, slot, now_ns)) {
        struct bag_restart before = slot->restart;
        bag_restart_look(directory, work->bag.terms.restart, done_ms, &slot->restart);
        bag_slot_outputs_look(work, slot, &before);
        slot->looked_ns = now_ns;
    }
    if (running && done_ms < slot->due_ms)
        return;
    if (running && is_to_ask(work, slot))
        (void)bag_slot_ask(work, slot, done_ms); /* the next look tries again */
    else if (slot->stage == BAG_STAGE_ENDED ? has_news(slot) : is_wanted(work, slot))
        save_begin(work, slot, now_ns);
}
