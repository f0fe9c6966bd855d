/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the watcher, and its looking. */
#include "watch/watch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/time.h"
#include "metrics/text.h"
#include "store/store.h"
#include "transfer/thread.h"
#include "watch/inside.h"

#define LOOK_NS (250 * SPOTNIK_MS)
#define POINT_NS SPOTNIK_S
#define STATUS_MAX (256u * 1024)

static bool is_stopping(const struct spotnik_watch *watch)
{
    return __atomic_load_n(&watch->stopping, __ATOMIC_ACQUIRE);
}

static const double *loss_of(const struct spotnik_watched *of)
{
    for (uint32_t i = 0; i < of->observed_count; i++)
        if (!strcmp(of->observed[i].name, "loss"))
            return &of->observed[i].value;
    return NULL;
}

/* With the lock. */
static void add_point(struct spotnik_watch *watch, const struct spotnik_watched *of)
{
    const double *loss = loss_of(of);

    watch->strip[watch->strip_next] = (struct point){ .at_ns = of->now_ns,
                                                      .step = of->status.step_committed,
                                                      .steps_per_s = (float)of->steps_per_s,
                                                      .size = of->status.size,
                                                      .loss = loss ? *loss : 0,
                                                      .has_loss = loss != NULL };
    watch->strip_next = (watch->strip_next + 1) % STRIP_MAX;
    if (watch->strip_count < STRIP_MAX)
        watch->strip_count++;
}

static void look(struct spotnik_watch *watch)
{
    struct spotnik_watched *fresh = watch->fresh;

    watch->config.look(watch->config.context, fresh);
    size_t size = watch->fresh_status ? watch->config.status_text(watch->config.context,
                                                                  watch->fresh_status, STATUS_MAX)
                                      : 0;
    spotnik_watch_compare(watch, fresh);
    fresh->sums = watch->sums;
    fresh->checkpoint_seen_ns = watch->checkpoint_seen_ns;
    pthread_mutex_lock(&watch->lock);
    memcpy(watch->now, fresh, sizeof *fresh);
    if (size)
        memcpy(watch->status, watch->fresh_status, size);
    watch->status_size = size;
    bool due = fresh->now_ns >= watch->next_point_ns;
    if (due)
        add_point(watch, fresh);
    pthread_mutex_unlock(&watch->lock);
    if (due)
        watch->next_point_ns = fresh->now_ns + POINT_NS;
}

/* The page's readers get the story once a second, and at once when something has happened. */
static void push(struct spotnik_watch *watch, uint64_t *next_ns)
{
    size_t size = 0;
    char *story = NULL;

    if (!watch->http || !spotnik_http_readers(watch->http))
        return;
    pthread_mutex_lock(&watch->lock);
    if (watch->fresh->now_ns >= *next_ns || watch->events_total != watch->events_pushed) {
        watch->events_pushed = watch->events_total;
        watch->watched_ns = watch->fresh->now_ns;
        story = spotnik_watch_job_snapshot(watch, &size);
    }
    pthread_mutex_unlock(&watch->lock);
    if (!story)
        return;
    *next_ns = watch->fresh->now_ns + POINT_NS - LOOK_NS / 2;
    char *message = malloc(size + 16);
    if (message) {
        int length = snprintf(message, size + 16, "data: %s\n\n", story);
        spotnik_http_push(watch->http, message, (size_t)length);
    }
    free(message);
    free(story);
}

static void *run(void *context)
{
    struct spotnik_watch *watch = context;
    uint64_t next_push_ns = 0, asked_epoch = 0;

    pthread_setname_np(pthread_self(), "spotnik-watch");
    while (!is_stopping(watch)) {
        look(watch);
        push(watch, &next_push_ns);
        if (watch->asking && watch->before.members_epoch != asked_epoch)
            spotnik_flag_raise(&watch->ask); /* newcomers */
        asked_epoch = watch->before.members_epoch;
        spotnik_flag_wait(&watch->wake, LOOK_NS);
    }
    return NULL;
}

void spotnik_watch_wake(struct spotnik_watch *watch)
{
    if (watch)
        spotnik_flag_raise(&watch->wake);
}

const char *spotnik_watch_where(const struct spotnik_watch *watch)
{
    return watch->http ? spotnik_http_where(watch->http) : "";
}

/* As a stranger with the key, like `spotnik status`: it is no member that asks. */
static void take_credentials(struct spotnik_watch *watch, const struct spotnik_credentials *from)
{
    watch->credentials = *from;
    watch->credentials.self.id.low ^= UINT64_C(0x57a7c4);
    watch->credentials.self.port = 1;
}

static int serve(struct spotnik_watch *watch, const struct spotnik_watch_config *config)
{
    struct spotnik_http_config http = {
        .where = config->http, .token = config->token, .context = watch, .get = spotnik_watch_get
    };
    watch->fresh_status = malloc(STATUS_MAX);
    watch->status = malloc(STATUS_MAX);
    if (!watch->fresh_status || !watch->status)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to watch the job");
    watch->status_size =
        /* a question at once has an answer */
        config->status_text(config->context, watch->status, STATUS_MAX);
    struct spotnik_http *made = NULL;
    int rc = spotnik_http_new(&http, &made);

    if (rc)
        return rc;
    pthread_mutex_lock(&watch->lock); /* it answers already */
    watch->http = made;
    pthread_mutex_unlock(&watch->lock);
    rc = spotnik_thread_start(spotnik_watch_ask, watch, &watch->asker);
    watch->asking = !rc;
    return rc;
}

static void say_start(struct spotnik_watch *watch)
{
    const struct spotnik_watched *of = watch->fresh;
    char more[EVENT_MAX / 2];
    struct spotnik_text out = { more, sizeof more, false };

    spotnik_text_add(&out,
                     ",\"version\":\"" SPOTNIK_VERSION
                     "\",\"dollars_per_hour\":%.6g,\"batch\":%llu,\"data\":%llu,\"steps_max\":%llu",
                     of->dollars_per_hour, (unsigned long long)of->batch,
                     (unsigned long long)of->samples, (unsigned long long)of->steps_max);
    struct spotnik_text without_job = out;

    spotnik_text_add(&out, ",\"job\":");
    spotnik_text_quote(&out, of->job);
    if (out.full)
        *without_job.at = 0;
    spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_STARTED, more,
                      "a member of job %.100s started%s%s", of->job,
                      watch->http ? "; its page is http://" : "", spotnik_watch_where(watch));
}

static int open_log(struct spotnik_watch *watch, const char *where)
{
    const char *member = watch->fresh->status.member;

    return spotnik_objects_is_bucket(where)
               ? spotnik_watch_uploader_new(where, member, &watch->uploader)
               : spotnik_watch_log_open(where, member, &watch->file);
}

static int start(struct spotnik_watch *watch, const struct spotnik_watch_config *config)
{
    int rc = 0;

    take_credentials(watch, config->credentials);
    watch->fresh = calloc(1, sizeof *watch->fresh);
    watch->now = calloc(1, sizeof *watch->now);
    if (!watch->fresh || !watch->now)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to watch the job");
    config->look(config->context, watch->fresh);
    memcpy(watch->now, watch->fresh, sizeof *watch->now);
    if (config->events_dir)
        rc = open_log(watch, config->events_dir);
    bool without_log = rc && !config->events_asked_for;
    char why[400] = "";

    if (without_log) {
        snprintf(why, sizeof why, "%s", spotnik_last_error());
        rc = 0;
    }
    if (!rc && config->http)
        rc = serve(watch, config);
    if (rc)
        return rc;
    say_start(watch);
    if (without_log)
        spotnik_watch_say(watch, &watch->fresh->status, SPOTNIK_SAID_EVENTS_TROUBLE, "",
                          "the job has no event log: %s", why);
    rc = spotnik_thread_start(run, watch, &watch->looker);
    watch->looking = !rc;
    return rc;
}

int spotnik_watch_new(const struct spotnik_watch_config *config, struct spotnik_watch **ret)
{
    struct spotnik_watch *watch = calloc(1, sizeof *watch);

    if (!watch)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to watch the job");
    watch->config = *config;
    watch->file = -1;
    pthread_mutex_init(&watch->lock, NULL);
    pthread_mutex_init(&watch->log_lock, NULL);
    spotnik_flag_init(&watch->wake);
    spotnik_flag_init(&watch->ask);
    int rc = start(watch, config);

    if (rc) {
        spotnik_watch_quit(watch, NULL);
        spotnik_watch_free(watch);
        return rc;
    }
    watch->config.http = watch->config.token = watch->config.events_dir = NULL; /* were borrowed */
    *ret = watch;
    return 0;
}

static void say_end(struct spotnik_watch *watch, const char *how)
{
    const struct spotnik_watched *of = watch->fresh;
    char more[160];

    look(watch);
    snprintf(more, sizeof more,
             ",\"uptime_s\":%.3f,\"samples\":%llu,\"steps\":%llu,\"goodput\":%.4f,\"lost_s\":%.3f",
             (double)(of->now_ns - of->born_ns) / 1e9, (unsigned long long)of->counters.samples,
             (unsigned long long)of->counters.steps, spotnik_watched_goodput(of),
             (double)spotnik_watched_lost_ns(of) / 1e9);
    spotnik_watch_say(watch, &of->status, SPOTNIK_SAID_ENDED, more, "%s", how);
}

void spotnik_watch_quit(struct spotnik_watch *watch, const char *how)
{
    __atomic_store_n(&watch->stopping, true, __ATOMIC_RELEASE);
    spotnik_flag_raise(&watch->wake);
    spotnik_flag_raise(&watch->ask);
    if (watch->looking)
        pthread_join(watch->looker, NULL);
    if (watch->asking)
        pthread_join(watch->asker, NULL);
    if (watch->looking && how)
        say_end(watch, how);
    struct spotnik_http *http = watch->http;

    pthread_mutex_lock(&watch->lock);
    watch->http = NULL;
    pthread_mutex_unlock(&watch->lock);
    spotnik_http_free(http);
    if (watch->file >= 0)
        close(watch->file);
    watch->file = -1;
    spotnik_watch_uploader_quit(watch->uploader);
    watch->uploader = NULL;
}

void spotnik_watch_free(struct spotnik_watch *watch)
{
    if (!watch)
        return;
    for (uint32_t i = 0; i < watch->event_count; i++)
        free(watch->event[i].line);
    for (uint32_t i = 0; i < watch->other_count; i++)
        free(watch->other[i]);
    spotnik_flag_destroy(&watch->wake);
    spotnik_flag_destroy(&watch->ask);
    pthread_mutex_destroy(&watch->lock);
    pthread_mutex_destroy(&watch->log_lock);
    free(watch->fresh);
    free(watch->now);
    free(watch->fresh_status);
    free(watch->status);
    memset(&watch->credentials, 0, sizeof watch->credentials);
    free(watch);
}
