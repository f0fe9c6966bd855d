/* SPDX-License-Identifier: Apache-2.0 */
/* Saves of the job in one place: when the program is asked for a restart file, which one is taken,
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

static void save_begin(struct bag_work *work, struct bag_place *place, uint64_t now_ns)
{
    place->saving = place->restart;
    place->save_begun_ns = now_ns;
    fflush(NULL);
    place->saver = fork();
    if (place->saver == 0)
        _exit(bag_save_make(&work->bag, place->job, place->attempt, place->saves + 1,
                            &place->saving, place->outputs)
                      == 0
                  ? 0
                  : 1);
    if (place->saver < 0)
        place->saver = 0;
}

/* Saves before this one, and the directories of attempts of which none is left. */
static void old_remove(struct bag_work *work, const struct bag_place *place,
                       const struct bag_save *oldest)
{
    bag_saves_remove(&work->bag, place->job, oldest);
    for (uint32_t attempt = 1; attempt < oldest->attempt && oldest->sequence == 1; attempt++)
        bag_attempt_remove(&work->bag, place->job, attempt);
}

/* What a save costs the program. One that was asked stops to write; one that was not writes anyway,
 * and then only the copy counts. The clock of a file server may be ahead: nothing takes longer than
 * it has by ours. */
static double save_cost_s(const struct bag_place *place, uint64_t now_ns)
{
    uint64_t copy_ns = spotnik_time_since(now_ns, place->save_begun_ns),
             wrote_ns = place->saved.changed_ns;
    if (place->asked_ms == 0 || wrote_ns <= place->asked_wall_ns)
        return (double)copy_ns / 1e9;
    return fmin((double)(wrote_ns - place->asked_wall_ns) / 1e9,
                (double)(bag_place_work_ms(place, now_ns) - place->asked_ms) / 1e3);
}

void bag_place_save_done(struct bag_work *work, struct bag_place *place, bool fine, uint64_t now_ns)
{
    struct bag_save newest, before;
    place->saver = 0;
    if (!bag_folder_fine(work, fine || bag_probe(&work->bag, PROBE_BYTES) == 0 ? 0 : -EIO,
                         "save a restart file")
        || !fine)
        return; /* the next look tries again */
    place->saved = place->saving;
    place->saves++;
    place->figures.saved_ms = place->saved.work_ms;
    work->write_s = save_cost_s(place, now_ns);
    if (bag_save_find(&work->bag, place->job, NULL, &newest) > 0
        /* the one before stays, for a resume that fails */
        && bag_save_find(&work->bag, place->job, &newest, &before) > 0)
        old_remove(work, place, &before);
    bag_place_pace(work, place, now_ns, NULL);
}

/* The restart file is another one than at the look before. */
void bag_place_outputs_look(struct bag_work *work, struct bag_place *place,
                            const struct bag_restart *before)
{
    if (bag_restart_same(before, &place->restart))
        return;
    bag_outputs_drop(place->outputs);
    place->outputs = bag_file_watcher_outputs(work, place, place->restart.file);
    if (place->outputs != NULL || place->restart.file[0] == '\0' || place->told_unmarked)
        return;
    place->told_unmarked = true;
    bag_say(work,
            "job %s: %s was written too soon after %s, which is not saved; waiting for the next "
            "(see --loose)",
            place->job->name, place->mark.record >= 0 ? place->mark.disturber : "some output",
            place->restart.file);
}

/* A restart file that is whole, and not saved yet. */
static bool has_news(const struct bag_place *place)
{
    return place->restart.is_whole && place->outputs != NULL
           && !bag_restart_same(&place->restart, &place->saved);
}

/* Nobody of the program listens. At its start that is no wonder. */
static void deaf_tell(struct bag_work *work, struct bag_place *place)
{
    uint64_t start_ms = DEAF_LOOKS * work->options->look_ns / SPOTNIK_MS;
    if (place->told_deaf || bag_place_ran_ms(place, bag_now_ns()) < start_ms)
        return;
    place->told_deaf = true;
    bag_say(work,
            "job %s: no process of it waits for signal %d (%s), which --ask names; it is not asked "
            "for a restart file",
            place->job->name, work->bag.terms.ask, strsignal(work->bag.terms.ask));
}

/* False: nobody of the program listens. */
bool bag_place_ask(struct bag_work *work, struct bag_place *place, uint64_t done_ms)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if (bag_ask(place->pid, work->bag.terms.ask) == 0) {
        place->deaf_ns = bag_now_ns();
        deaf_tell(work, place);
        return false;
    }
    place->asked_wall_ns = (uint64_t)wall.tv_sec * SPOTNIK_S + (uint64_t)wall.tv_nsec;
    place->asked_ms = done_ms;
    return true;
}

/* Is this the one to save? When a program was asked for a restart file, only what it has written
 * since counts. */
static bool is_wanted(const struct bag_work *work, const struct bag_place *place)
{
    return has_news(place)
           && (work->bag.terms.ask == 0 || place->restart.work_ms >= place->asked_ms);
}

/* The file that was asked for was closed just now: a few looks in short succession. One that is
 * opened again is waited for as any other. */
static uint64_t look_span_ns(const struct bag_work *work, const struct bag_place *place,
                             uint64_t now_ns)
{
    uint64_t look_ns = work->options->look_ns;
    bool soon = place->asked_ms != 0 && place->mark.closed_ns != 0 && !is_wanted(work, place)
                && spotnik_time_since(now_ns, place->mark.closed_ns) < look_ns;
    return soon ? look_ns / SETTLE_SHARE : look_ns;
}

static bool is_to_ask(const struct bag_work *work, const struct bag_place *place)
{
    return work->bag.terms.ask != 0 && place->due_ms > 0 && place->asked_ms < place->due_ms;
}

uint64_t bag_place_wake_ns(const struct bag_work *work, const struct bag_place *place)
{
    uint64_t look_ns = work->options->look_ns, now_ns = bag_now_ns(), span_ns;
    if (place->job == NULL || place->pid <= 0 || place->stage > BAG_STAGE_ASKED || place->saver != 0
        || work->bag.terms.restart == NULL || work->bag.terms.ask == 0)
        return UINT64_MAX;
    if ((span_ns = look_span_ns(work, place, now_ns)) < look_ns)
        return place->looked_ns + span_ns;
    if (place->stage != BAG_STAGE_RUNS || !is_to_ask(work, place))
        return UINT64_MAX;
    uint64_t left_ms = place->due_ms - place->figures.base_ms,
             due_ns = place->started_ns + left_ms * SPOTNIK_MS;
    return place->deaf_ns != 0 && due_ns < place->deaf_ns + look_ns ? place->deaf_ns + look_ns
                                                                    : due_ns;
}

void bag_place_save_turn(struct bag_work *work, struct bag_place *place, uint64_t now_ns)
{
    char directory[PATH_MAX];
    uint64_t done_ms = bag_place_work_ms(place, now_ns);
    bool running = place->stage == BAG_STAGE_RUNS;
    if (work->bag.terms.restart == NULL || place->saver != 0 || place->unwanted
        || (place->stage == BAG_STAGE_ENDED && place->figures.status == 0))
        return;
    bag_attempt_path(work, place, "work", directory);
    if (place->stage != BAG_STAGE_ENDED
        && spotnik_time_since(now_ns, place->looked_ns) >= look_span_ns(work, place, now_ns)) {
        struct bag_restart before = place->restart;
        bag_restart_look(directory, work->bag.terms.restart, done_ms, &place->restart);
        bag_place_outputs_look(work, place, &before);
        place->looked_ns = now_ns;
    }
    if (running && done_ms < place->due_ms)
        return;
    if (running && is_to_ask(work, place))
        (void)bag_place_ask(work, place, done_ms); /* the next look tries again */
    else if (place->stage == BAG_STAGE_ENDED ? has_news(place) : is_wanted(work, place))
        save_begin(work, place, now_ns);
}
