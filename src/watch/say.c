/* SPDX-License-Identifier: Apache-2.0 */
/* Telling of one event to all that want to know. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "metrics/text.h"
#include "watch/inside.h"

/* Every member tells of a change of the view: they tell of the same thing. */
static bool is_of_the_view(enum spotnik_said kind)
{
    return kind == SPOTNIK_SAID_LOST || kind == SPOTNIK_SAID_JOINED || kind == SPOTNIK_SAID_LEFT;
}

/* The log has it from a few members, for those may be lost too; not from all of a thousand. */
static bool is_for_the_file(enum spotnik_said kind, const spotnik_job_status *of)
{
    return !is_of_the_view(kind) || of->rank < 3;
}

static bool write_line(const spotnik_job_status *of, enum spotnik_said kind, double date,
                       const char *more, const char *text, char line[EVENT_MAX])
{
    const struct spotnik_said_info *info = spotnik_said_info(kind);
    struct spotnik_text out = { line, EVENT_MAX - 1, false };

    spotnik_text_add(&out, "{\"t\":%.3f,\"id\":\"%s\",\"event\":\"%s\",\"member\":\"%s\"", date,
                     info->id, info->name, of->member);
    spotnik_text_add(&out,
                     ",\"step\":%" PRIu64 ",\"epoch\":%" PRIu64 ",\"size\":%" PRIu32 "%s,\"text\":",
                     of->step_committed, of->view_epoch, of->size, more);
    spotnik_text_quote(&out, text);
    spotnik_text_add(&out, "}");
    return !out.full;
}

/* By date; of too many the oldest goes. */
bool spotnik_watch_event_add(struct spotnik_watch *watch, double date, const char *key, char *line)
{
    uint32_t at = watch->event_count;

    for (uint32_t i = 0; i < watch->event_count; i++)
        if (!strcmp(watch->event[i].key, key))
            return false;
    while (at > 0 && watch->event[at - 1].date > date)
        at--;
    if (watch->event_count == EVENTS_KEPT) {
        if (at == 0)
            return false;
        free(watch->event[0].line);
        memmove(watch->event, watch->event + 1, (EVENTS_KEPT - 1) * sizeof *watch->event);
        watch->event_count--;
        at--;
    }
    memmove(watch->event + at + 1, watch->event + at,
            (watch->event_count - at) * sizeof *watch->event);
    watch->event[at] = (struct event){ .date = date, .line = line };
    snprintf(watch->event[at].key, sizeof watch->event[at].key, "%s", key);
    watch->event_count++;
    watch->events_total++;
    return true;
}

static void remember(struct spotnik_watch *watch, const spotnik_job_status *of,
                     enum spotnik_said kind, double date, const char *line)
{
    const struct spotnik_said_info *info = spotnik_said_info(kind);
    char key[80], *copy = strdup(line);

    if (!copy)
        return;
    if (is_of_the_view(kind))
        snprintf(key, sizeof key, "%s %" PRIu64, info->id, of->view_epoch);
    else
        snprintf(key, sizeof key, "%s %s %.3f", info->id, of->member, date);
    pthread_mutex_lock(&watch->lock);
    if (!spotnik_watch_event_add(watch, date, key, copy))
        free(copy);
    pthread_mutex_unlock(&watch->lock);
}

static void enqueue(struct spotnik_watch *watch, const spotnik_log_entry *message)
{
    pthread_mutex_lock(&watch->lock);
    if (watch->queue_count == QUEUE_MAX) {
        watch->queue_first = (watch->queue_first + 1) % QUEUE_MAX;
        watch->queue_count--;
    }
    watch->queue[(watch->queue_first + watch->queue_count++) % QUEUE_MAX] = *message;
    pthread_mutex_unlock(&watch->lock);
}

static void tell_program(struct spotnik_watch *watch, const spotnik_job_status *of,
                         enum spotnik_said kind, const char *text)
{
    const struct spotnik_said_info *info = spotnik_said_info(kind);
    spotnik_log_entry message = { .size = sizeof message,
                                  .level = info->level,
                                  .step = of->step_committed };

    if (!spotnik_said_pass(&watch->rate, kind, watch->fresh->now_ns, &message.held_back))
        return;
    snprintf(message.id, sizeof message.id, "%s", info->id);
    snprintf(message.name, sizeof message.name, "%s", info->name);
    snprintf(message.text, sizeof message.text, "%s", text);
    enqueue(watch, &message);
    pthread_mutex_lock(&watch->log_lock);
    if (watch->log)
        watch->log(watch->log_context, &message);
    pthread_mutex_unlock(&watch->log_lock);
}

/* That the log cannot be written is said once, and again when it was well in between. */
static void to_file(struct spotnik_watch *watch, const spotnik_job_status *of,
                    enum spotnik_said kind, const char *line)
{
    bool has_log = watch->file >= 0 || watch->uploader, lasting = kind != SPOTNIK_SAID_SAMPLE;

    if (!has_log || kind == SPOTNIK_SAID_EVENTS_TROUBLE || !is_for_the_file(kind, of))
        return;
    bool was_broken = watch->file_broken;

    watch->file_broken = watch->uploader
                             ? !spotnik_watch_uploader_write(watch->uploader, line, lasting)
                             : !spotnik_watch_log_write(watch->file, line, lasting);
    if (watch->file_broken && !was_broken)
        spotnik_watch_say(watch, of, SPOTNIK_SAID_EVENTS_TROUBLE, "",
                          "the event log cannot be written: %m");
}

void spotnik_watch_say(struct spotnik_watch *watch, const spotnik_job_status *of,
                       enum spotnik_said kind, const char *more, const char *format, ...)
{
    char text[400], line[EVENT_MAX];
    double date = spotnik_watch_date();
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (!write_line(of, kind, date, more, text, line)
        && !write_line(of, kind, date, "", text, line))
        return;
    if (watch->config.say)
        watch->config.say(watch->config.context, kind, of->view_epoch, text);
    to_file(watch, of, kind, line);
    if (kind == SPOTNIK_SAID_SAMPLE)
        return;
    remember(watch, of, kind, date, line);
    tell_program(watch, of, kind, text);
}

int spotnik_watch_log_next(struct spotnik_watch *watch, spotnik_log_entry *ret)
{
    int had = 0;

    pthread_mutex_lock(&watch->lock);
    if (watch->queue_count) {
        size_t size = ret->size < sizeof *ret ? ret->size : sizeof *ret;
        memcpy(ret, &watch->queue[watch->queue_first], size);
        ret->size = size;
        watch->queue_first = (watch->queue_first + 1) % QUEUE_MAX;
        watch->queue_count--;
        had = 1;
    }
    pthread_mutex_unlock(&watch->lock);
    return had;
}

void spotnik_watch_log_set(struct spotnik_watch *watch,
                           void (*log)(void *, const spotnik_log_entry *), void *context)
{
    pthread_mutex_lock(&watch->log_lock);
    watch->log = log;
    watch->log_context = context;
    pthread_mutex_unlock(&watch->log_lock);
}
