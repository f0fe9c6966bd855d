/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher of one member: a thread that looks at the member a few times a second and finds out
 * what has happened since. It tells this as messages to the program, as lines of the event log, as
 * metrics, and as a live page over HTTP. It is off the path of the step: the caller's and the
 * progress thread never wait for it. However many readers ask, it looks at the runtime no more
 * often. Decides what is worth telling; changes nothing in the job. */
#ifndef SPOTNIK_WATCH_WATCH_H
#define SPOTNIK_WATCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "metrics/watched.h"
#include "spotnik/watch.h"

struct spotnik_watch_config {
    void *context;
    /* Watcher's threads. Fill all but `sums`, `checkpoint_seen_ns`. */
    void (*look)(void *context, struct spotnik_watched *ret);
    /* without spotnik_watch_extra() */
    size_t (*status_text)(void *context, char *text, size_t size);
    /* For the log of the agent; one thread at a time. NULL: it wants no message. */
    void (*say)(void *context, uint32_t kind, uint64_t epoch, const char *text);
    const struct spotnik_credentials *credentials; /* of the job; copied */
    /* SPOTNIK_HTTP; NULL: no server */
    const char *http;
    const char *token;      /* NULL: none */
    const char *events_dir; /* where the event log is; NULL: none. A folder is made */
    bool events_asked_for;  /* else a log that cannot be opened is a message, and no error */
};

/* The event log in a bucket (log_bucket.c): these names, by member and number, each of at most so
 * many bytes. */
#define SPOTNIK_WATCH_PART_NAME "%s.%06u.jsonl"
#define SPOTNIK_WATCH_PART_MAX ((size_t)1 << 20)

struct spotnik_watch;

/* Errors: ARGUMENT, SYSTEM, MEMORY. The member must live until spotnik_watch_quit(). */
int spotnik_watch_new(const struct spotnik_watch_config *config, struct spotnik_watch **ret);

/* Tell that it ended, and how ("left after step 12"; NULL: say nothing); stop. The other calls do
 * no harm after it. */
void spotnik_watch_quit(struct spotnik_watch *watch, const char *how);

/* After spotnik_watch_quit(). Accepts NULL. */
void spotnik_watch_free(struct spotnik_watch *watch);

/* Any thread, any lock held: something has happened, look soon. Accepts NULL. */
void spotnik_watch_wake(struct spotnik_watch *watch);

/* See spotnik_log_set() and spotnik_log_next(). */
void spotnik_watch_log_set(struct spotnik_watch *watch,
                           void (*log)(void *, const spotnik_log_entry *), void *context);
int spotnik_watch_log_next(struct spotnik_watch *watch, spotnik_log_entry *ret);

/* Any thread: what the status says beside the member's own numbers, as ",\"key\":value..."; 0 bytes
 * when that would mean to wait. */
size_t spotnik_watch_extra(struct spotnik_watch *watch, char *text, size_t size);

/* "127.0.0.1:9640"; "": no server. */
const char *spotnik_watch_where(const struct spotnik_watch *watch);

/* Seconds since 1970. For the eyes of people; nothing may be decided by it. Any thread. */
double spotnik_watch_date(void);

#endif
