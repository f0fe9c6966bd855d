/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher as its own files see it. */
#ifndef SPOTNIK_WATCH_INSIDE_H
#define SPOTNIK_WATCH_INSIDE_H

#include <pthread.h>
#include <stdio.h>

#include "base/flag.h"
#include "http/server.h"
#include "metrics/messages.h"
#include "watch/watch.h"

#define EVENTS_KEPT 200
#define EVENTS_TOLD 48 /* of them, to members that ask */
#define EVENT_MAX 1024
#define QUEUE_MAX 64
#define CHANGES_KEPT 16
#define STRIP_MAX 600 /* points of the page's picture, one a second */
#define OTHERS_MAX 512

/* A line of the event log in memory. Two of the same key are the same event, told by two
 * members. */
struct event {
    double date;
    char key[80];
    char *line; /* JSON, no newline */
};

struct point {
    uint64_t at_ns, step;
    float steps_per_s;
    uint32_t size;
    double loss;
    bool has_loss;
};

/* Another member as it answered last. */
struct other {
    struct spotnik_member member;
    char http[SPOTNIK_HTTP_ADDRESS_MAX]; /* "": it serves none, or we do not know */
    bool http_at_member;                 /* that is at its address in the view */
    bool known, in_view, parked, joining;
    uint64_t asked_ns, answered_ns, born_ns, gone_ns;
    /* share: of the next step, where shares follow speed; 0: they are even */
    uint64_t step, samples, share;
    double steps_per_s, dollars_per_hour, goodput, compute_ms, commit_ms;
};

/* Members that went and came with a view. */
struct watch_names {
    char json[96], text[64];
};

struct watch_change {
    uint64_t epoch;
    struct watch_names gone, came;
};

/* What was there at the last look. Watcher's thread only. */
struct before {
    uint64_t epoch, excluded, resumed_step, checkpoint_step, refusals, paths_broken, lineages_told,
        stalled, parked_since_ns;
    uint64_t lost_ended, lost_silent, lost_told; /* troubles that are told */
    uint64_t refused_ns;                         /* until then further strangers are only counted */
    bool parked, noticed, altered;
    uint32_t switches, member_count;
    uint64_t members_epoch;
    struct spotnik_id member[SPOTNIK_WATCHED_MEMBERS];
    struct watch_change change[CHANGES_KEPT];
    char warning[256], checkpoint_message[512];
};

struct spotnik_watch {
    struct spotnik_watch_config config;
    struct spotnik_credentials credentials;
    pthread_t looker, asker;
    bool looking, asking;
    struct spotnik_flag wake, ask;
    bool stopping; /* atomic */

    /* The looker's. */
    struct spotnik_watched *fresh;
    char *fresh_status;
    struct spotnik_watched_sums sums;
    struct before before;
    uint64_t checkpoint_seen_ns, next_sample_ns, sample_pause_ns, next_point_ns;
    struct spotnik_said_rate rate;
    int file;                                /* the event log in a folder; -1: none */
    struct spotnik_watch_uploader *uploader; /* the event log in a bucket; NULL: none */
    bool file_broken;

    /* of what follows; held for copies and for writing text, never while waiting */
    pthread_mutex_t lock;
    struct spotnik_watched *now;
    char *status; /* of the member itself, as JSON without the events, as of the last look */
    size_t status_size;
    struct event event[EVENTS_KEPT];
    uint32_t event_count;
    uint64_t events_total, events_pushed; /* ever added; as the page's readers know */
    struct point strip[STRIP_MAX];
    uint32_t strip_count, strip_next;
    struct other *other[OTHERS_MAX];
    uint32_t other_count;
    double gone_dollars; /* of members that the table has no room for any more */
    uint64_t watched_ns; /* when somebody last asked for the whole job */
    spotnik_log_entry queue[QUEUE_MAX];
    uint32_t queue_first, queue_count;

    pthread_mutex_t log_lock; /* held while the program's callback runs */
    void (*log)(void *context, const spotnik_log_entry *message);
    void *log_context;

    struct spotnik_http *http; /* set before the threads start */
};

/* say.c: one event: to the log file, the page, the queue and the callback. `more` is
 * ",\"key\":value..." or "". */
void spotnik_watch_say(struct spotnik_watch *watch, const spotnik_job_status *of,
                       enum spotnik_said kind, const char *more, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* With the lock. Takes `line` (malloc) over; false: the event is known already. */
bool spotnik_watch_event_add(struct spotnik_watch *watch, double date, const char *key, char *line);

/* event_diff.c: what has happened since the last look. */
void spotnik_watch_compare(struct spotnik_watch *watch, const struct spotnik_watched *of);

/* log_file.c */
int spotnik_watch_log_open(const char *dir, const char *member, int *ret_fd);
bool spotnik_watch_log_write(int fd, const char *line, bool lasting);

/* log_bucket.c: one thread calls; _write() returns false with errno while the bucket takes nothing,
 * and sends the line later. _quit() sends the rest, and waits 10 s at most. Accepts NULL. */
int spotnik_watch_uploader_new(const char *where, const char *member,
                               struct spotnik_watch_uploader **ret);
bool spotnik_watch_uploader_write(struct spotnik_watch_uploader *uploader, const char *line,
                                  bool lasting);
void spotnik_watch_uploader_quit(struct spotnik_watch_uploader *uploader);

/* peer_poller.c: the thread that asks other members. */
void *spotnik_watch_ask(void *watch);

/* job_snapshot.c: the whole job as this member knows it, as JSON for the page; malloc. With the
 * lock. NULL: no memory. */
char *spotnik_watch_job_snapshot(struct spotnik_watch *watch, size_t *ret_size);
char *spotnik_watch_targets(struct spotnik_watch *watch, size_t *ret_size);

/* pages.c */
bool spotnik_watch_get(void *watch, const char *path, bool open, struct spotnik_http_reply *ret);

#endif
