/* SPDX-License-Identifier: Apache-2.0 */
/* The moment of a restart file: the other files of the directory when it was complete. The kernel
 * queues events of a directory in order. So a worker that lists the outputs, and then finds only
 * restart files touched in the queue, has seen that moment. Two queues: an alarm, which wakes us
 * when files appear or are closed, and the record, which holds every write and is read on
 * demand. */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "bag_run.h"

#define ALARM (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ONLYDIR)
#define RECORD                                                                                     \
    (IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_MODIFY | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR)
#define TRIES 3

void bag_file_watcher_open(struct bag_work *work)
{
    work->alarm = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    work->record = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

void bag_file_watcher_start(struct bag_work *work, struct bag_slot *slot, const char *directory)
{
    struct bag_mark *mark = &slot->mark;
    memset(mark, 0, sizeof *mark);
    mark->alarm = mark->record = -1;
    if (work->bag.terms.restart == NULL || work->alarm < 0 || work->record < 0)
        return;
    mark->record = inotify_add_watch(work->record, directory, RECORD);
    mark->alarm = inotify_add_watch(work->alarm, directory, ALARM);
}

void bag_file_watcher_end(struct bag_work *work, struct bag_slot *slot)
{
    struct bag_mark *mark = &slot->mark;
    if (mark->record >= 0)
        inotify_rm_watch(work->record, mark->record);
    if (mark->alarm >= 0)
        inotify_rm_watch(work->alarm, mark->alarm);
    mark->record = mark->alarm = -1;
    bag_outputs_drop(mark->outputs);
    mark->outputs = NULL;
}

/* ---- what happened ---- */

static bool is_writing(const struct bag_mark *mark)
{
    return mark->file[0] != '\0' && mark->closed_ns == 0;
}

static void restart_note(struct bag_mark *mark, const char *name)
{
    strcpy(mark->file, name);
    mark->fits = mark->clean;
    mark->pending = !mark->clean;
}

static void output_note(struct bag_mark *mark, const char *name)
{
    mark->clean = mark->pending = false;
    mark->disturbed = true;
    mark->mixed |= is_writing(mark);
    strcpy(mark->disturber, name);
}

static void event_note(const struct bag_work *work, struct bag_mark *mark,
                       const struct inotify_event *event)
{
    bool is_restart = fnmatch(work->bag.terms.restart, event->name, FNM_PERIOD) == 0;
    if (is_restart && !is_writing(mark))
        mark->mixed = false;
    if (is_restart)
        mark->closed_ns = (event->mask & (IN_CLOSE_WRITE | IN_MOVED_TO)) != 0 ? bag_now_ns() : 0;
    if (is_restart && (event->mask & (IN_DELETE | IN_MOVED_FROM)) == 0)
        restart_note(mark, event->name);
    else if (!is_restart && (event->mask & IN_CLOSE_WRITE) == 0
             && !bag_output_is_loose(&work->bag, event->name))
        output_note(mark, event->name);
}

/* Events are lost: nothing is known of any directory. */
static void flood_note(struct bag_work *work)
{
    for (uint32_t i = 0; i < work->options->slots; i++) {
        output_note(&work->slot[i].mark, "too many files");
        work->slot[i].mark.fits = false;
    }
}

static void events_read(struct bag_work *work)
{
    _Alignas(struct inotify_event) char block[16384];
    for (ssize_t got; (got = read(work->record, block, sizeof block)) > 0;)
        for (const char *at = block; at < block + got;) {
            const struct inotify_event *event = (const void *)at;
            at += sizeof *event + event->len;
            if ((event->mask & IN_Q_OVERFLOW) != 0)
                flood_note(work);
            for (uint32_t i = 0;
                 event->len > 0 && (event->mask & IN_ISDIR) == 0 && i < work->options->slots; i++)
                if (work->slot[i].job != NULL && work->slot[i].mark.record == event->wd)
                    event_note(work, &work->slot[i].mark, event);
        }
}

/* ---- the mark ---- */

/* The queue holds no write after the restart file. One may be seen before the queue has it: then
 * its time is later. Where outputs were written while the restart file was, their times tell
 * nothing. */
static bool is_too_late(const struct bag_work *work, struct bag_mark *mark, const char *directory)
{
    const char *name =
        mark->mixed ? NULL : bag_outputs_later(&work->bag, mark->outputs, directory, mark->file);
    if (name != NULL)
        output_note(mark, name);
    return name != NULL;
}

static void mark_take(struct bag_work *work, struct bag_slot *slot)
{
    char directory[PATH_MAX];
    struct bag_mark *mark = &slot->mark;
    bag_attempt_path(work, slot, "work", directory);
    for (int i = 0; i < TRIES && mark->pending; i++) {
        mark->disturbed = false;
        bag_outputs_drop(mark->outputs);
        mark->outputs = bag_outputs_take(&work->bag, directory);
        events_read(work);
        if (mark->disturbed || mark->outputs == NULL || is_too_late(work, mark, directory))
            continue;
        mark->fits = mark->clean = true;
        mark->pending = false;
    }
}

void bag_file_watcher_turn(struct bag_work *work)
{
    char block[4096];
    while (work->alarm >= 0 && read(work->alarm, block, sizeof block) > 0)
        continue;
    if (work->record >= 0)
        events_read(work);
    for (uint32_t i = 0; i < work->options->slots; i++)
        if (work->slot[i].job != NULL && work->slot[i].mark.pending)
            mark_take(work, &work->slot[i]);
}

/* Where nobody tells us of writes, a directory without outputs is still certain. */
static struct bag_outputs *outputs_deaf(const struct bag_work *work, const struct bag_slot *slot)
{
    char directory[PATH_MAX];
    bag_attempt_path(work, slot, "work", directory);
    struct bag_outputs *outputs = bag_outputs_take(&work->bag, directory);
    if (outputs == NULL || !bag_outputs_bind(&work->bag, outputs))
        return outputs;
    bag_outputs_drop(outputs);
    return NULL;
}

struct bag_outputs *bag_file_watcher_outputs(struct bag_work *work, struct bag_slot *slot,
                                             const char *file)
{
    struct bag_mark *mark = &slot->mark;
    if (mark->record < 0)
        return outputs_deaf(work, slot);
    bag_file_watcher_turn(work);
    return mark->fits && strcmp(mark->file, file) == 0 ? bag_outputs_share(mark->outputs) : NULL;
}
