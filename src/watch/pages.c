/* SPDX-License-Identifier: Apache-2.0 */
/* What is under which path. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/time.h"
#include "watch/inside.h"
#include "watch/page.h"

#define METRICS_MAX (64u * 1024)
#define ALIVE_NS (10 * SPOTNIK_S) /* a watcher that has not looked for so long is stuck */

static bool give(struct spotnik_http_reply *ret, unsigned status, const char *type, char *body,
                 size_t size)
{
    ret->status = body ? status : 500;
    ret->type = type;
    ret->body = body ? body : strdup("no memory\n");
    ret->size = body ? size : ret->body ? strlen(ret->body) : 0;
    return true;
}

static bool give_words(struct spotnik_http_reply *ret, unsigned status, const char *words)
{
    return give(ret, status, "text/plain; charset=utf-8", strdup(words), strlen(words));
}

static bool get_page(struct spotnik_http_reply *ret)
{
    char *copy = malloc(spotnik_page_size);

    if (copy)
        memcpy(copy, spotnik_page, spotnik_page_size);
    ret->script = spotnik_page_script;
    return give(ret, 200, "text/html; charset=utf-8", copy, spotnik_page_size);
}

static bool get_metrics(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    char *text = malloc(METRICS_MAX);

    pthread_mutex_lock(&watch->lock);
    size_t size = text ? spotnik_exposition_text(watch->now, text, METRICS_MAX) : 0;
    pthread_mutex_unlock(&watch->lock);
    return give(ret, size ? 200 : 500, "text/plain; version=0.0.4; charset=utf-8", text, size);
}

/* Not by way of the runtime's status: that takes its lock. As of the last look, which is a quarter
 * of a second ago at most. */
static bool get_status(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    char *text = NULL;
    size_t size = 0;

    pthread_mutex_lock(&watch->lock);
    if (watch->status_size && (text = malloc(watch->status_size))) {
        size = watch->status_size;
        memcpy(text, watch->status, size);
    }
    pthread_mutex_unlock(&watch->lock);
    return text ? give(ret, 200, "application/json", text, size)
                : give_words(ret, 503, "no status yet\n");
}

static bool get_story(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    size_t size = 0;

    pthread_mutex_lock(&watch->lock);
    watch->watched_ns = watch->now->now_ns;
    char *text = spotnik_watch_job_snapshot(watch, &size);
    pthread_mutex_unlock(&watch->lock);
    return give(ret, 200, "application/json", text, size);
}

static bool get_targets(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    size_t size = 0;

    pthread_mutex_lock(&watch->lock);
    char *text = spotnik_watch_targets(watch, &size);
    pthread_mutex_unlock(&watch->lock);
    return give(ret, 200, "application/json", text, size);
}

static bool get_stream(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    ret->type = "text/event-stream";
    ret->stream = true;
    spotnik_watch_wake(watch);
    return true;
}

static bool get_health(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    pthread_mutex_lock(&watch->lock);
    uint64_t since_ns = spotnik_time_since(spotnik_clock_ns(), watch->now->now_ns);
    pthread_mutex_unlock(&watch->lock);
    return since_ns < ALIVE_NS ? give_words(ret, 200, "ok\n")
                               : give_words(ret, 503, "the watcher is stuck\n");
}

/* Ready: in the view, and in the majority. */
static bool get_readiness(struct spotnik_watch *watch, struct spotnik_http_reply *ret)
{
    pthread_mutex_lock(&watch->lock);
    const struct spotnik_watched *now = watch->now;
    const char *why = now->outside || now->status.joining ? "joining\n"
                      : now->status.parked                ? "parked\n"
                      : now->noticed                      ? "leaving\n"
                                                          : NULL;
    pthread_mutex_unlock(&watch->lock);
    return why ? give_words(ret, 503, why) : give_words(ret, 200, "ready\n");
}

static bool get_open(struct spotnik_watch *watch, const char *path, struct spotnik_http_reply *ret,
                     bool *ret_known)
{
    *ret_known = true;
    if (!strcmp(path, "/"))
        return get_page(ret);
    if (!strcmp(path, "/healthz"))
        return get_health(watch, ret);
    if (!strcmp(path, "/readyz"))
        return get_readiness(watch, ret);
    *ret_known = false;
    return false;
}

bool spotnik_watch_get(void *context, const char *path, bool open, struct spotnik_http_reply *ret)
{
    struct spotnik_watch *watch = context;
    bool known;
    bool given = get_open(watch, path, ret, &known);

    if (known || open)
        return given;
    if (!strcmp(path, "/metrics"))
        return get_metrics(watch, ret);
    if (!strcmp(path, "/status.json"))
        return get_status(watch, ret);
    if (!strcmp(path, "/job.json"))
        return get_story(watch, ret);
    if (!strcmp(path, "/events"))
        return get_stream(watch, ret);
    if (!strcmp(path, "/targets.json"))
        return get_targets(watch, ret);
    return false;
}
