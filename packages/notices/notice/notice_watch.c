/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the watcher, and what all sources have in common. See notice_watch.h. */
#include "notice_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "source.h"

/* Pauses between looks for a cloud. The first look decides nearly always; a machine that is busy
 * booting gets more. */
static const uint64_t seek_pauses_ns[] = { 2 * NOTICE_S, 10 * NOTICE_S, 60 * NOTICE_S };
#define SEEKS (sizeof(seek_pauses_ns) / sizeof(*seek_pauses_ns))

uint64_t notice_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NOTICE_S + (uint64_t)now.tv_nsec;
}

/* Deadlines come as dates. */
int64_t notice_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- what a source does ---- */

static void tell(struct notice_source *source, const struct notice *notice)
{
    struct notice told = *notice;

    memcpy(told.source, source->name, sizeof(told.source));
    source->watch->tell(source->watch->context, &told);
}

static void over(struct notice_source *source)
{
    struct notice notice = { .kind = NOTICE_OVER };

    snprintf(notice.text, sizeof(notice.text), "%s", source->told);
    tell(source, &notice);
    source->standing = false;
    source->told[0] = 0;
}

void notice_source_say(struct notice_source *source, const struct notice *seen)
{
    source->answered = true;
    source->failures = 0;
    if (seen->kind == NOTICE_LEAVE) {
        if (source->standing && !strcmp(source->told, seen->text))
            return;
        source->standing = true;
        snprintf(source->told, sizeof(source->told), "%s", seen->text);
        tell(source, seen);
        return;
    }
    if (source->standing)
        over(source);
    if (seen->kind == NOTICE_RISK && strcmp(source->risk, seen->text))
        tell(source, seen);
    snprintf(source->risk, sizeof(source->risk), "%s", seen->kind == NOTICE_RISK ? seen->text : "");
}

void notice_source_again(struct notice_source *source, uint64_t after_ns)
{
    uint64_t jitter = after_ns / 5;

    source->due_ns =
        notice_clock_ns() + after_ns - jitter / 2 + (jitter ? (uint64_t)random() % jitter : 0);
}

static bool another_is_present(const struct notice_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->source[i].presence == NOTICE_PRESENT && watch->source[i].base[0])
            return true;
    return false;
}

void notice_source_missing(struct notice_source *source)
{
    source->failures++;
    if (source->presence
        /* was there: it will be again; a notice that stands goes on standing */
        == NOTICE_PRESENT) {
        notice_source_again(source,
                            source->interval_ns < NOTICE_S ? NOTICE_S : source->interval_ns);
        return;
    }
    uint32_t seek = source->seeks++;

    if (source->wanted)
        notice_source_again(source, seek_pauses_ns[seek < SEEKS ? seek : SEEKS - 1]);
    else if (seek < SEEKS && !another_is_present(source->watch))
        notice_source_again(source, seek_pauses_ns[seek]);
    else
        source->presence = NOTICE_ABSENT;
}

void notice_source_found(struct notice_source *source)
{
    source->presence = NOTICE_PRESENT;
}

static struct notice_http *http_of(struct notice_watch *watch)
{
    if (!watch->http)
        watch->http = notice_http_new();
    return watch->http;
}

void notice_source_ask(struct notice_source *source, const struct notice_question *question,
                       notice_answered *answered)
{
    source->due_ns = NOTICE_NEVER;
    if (!http_of(source->watch)
        || !notice_http_ask(source->watch->http, question, answered, source))
        notice_source_missing(source);
}

void notice_source_listen(struct notice_source *source, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };
    epoll_ctl(source->watch->epoll, EPOLL_CTL_ADD, fd, &event);
}

void notice_source_unlisten(struct notice_source *source, int fd)
{
    epoll_ctl(source->watch->epoll, EPOLL_CTL_DEL, fd, NULL);
}

/* ---- making it ---- */

static struct notice_source *add(struct notice_watch *watch, const char *name, uint64_t interval_ns,
                                 bool wanted)
{
    if (watch->count == NOTICE_SOURCES_MAX)
        return NULL;
    struct notice_source *source = &watch->source[watch->count++];
    uint32_t same = 1;

    *source =
        (struct notice_source){ .watch = watch, .wanted = wanted, .due_ns = notice_clock_ns() };
    for (const struct notice_source *other = watch->source; other < source; other++)
        same += strncmp(other->name, name, strlen(name)) == 0;
    snprintf(source->name, sizeof(source->name), same > 1 ? "%.10s-%u" : "%.10s", name, same);
    source->interval_ns = watch->interval_ns ? watch->interval_ns : interval_ns;
    return source;
}

/* SPOTNIK_IMDS_ENDPOINT is the tests' cloud; `variable` names the endpoint as tools of that cloud
 * do. */
static void cloud_set(struct notice_source *source, const char *variable, const char *prefix)
{
    const char *all = getenv("SPOTNIK_IMDS_ENDPOINT"), *own = variable ? getenv(variable) : NULL;
    bool has_all = all && *all, has_own = own && *own;

    snprintf(source->base, sizeof(source->base), "%s%s", !has_all && has_own ? prefix : "",
             has_all   ? all
             : has_own ? own
                       : "http://169.254.169.254");
    for (size_t length = strlen(source->base); length && source->base[length - 1] == '/';)
        source->base[--length] = 0;
}

static bool add_aws(struct notice_watch *watch, bool wanted)
{
    const char *disabled = getenv("AWS_EC2_METADATA_DISABLED");
    if (!wanted && disabled && !strcasecmp(disabled, "true"))
        return true;
    struct notice_source *source = add(watch, "aws", 5 * NOTICE_S, wanted);

    if (!source)
        return false;
    cloud_set(source, "AWS_EC2_METADATA_SERVICE_ENDPOINT", "");
    return notice_aws_open(source);
}

/* Two questions that both wait for a change: two sources. */
static bool add_gcp(struct notice_watch *watch, bool wanted)
{
    for (int maintenance = 0; maintenance < 2; maintenance++) {
        struct notice_source *source = add(watch, "gcp", NOTICE_S, wanted);
        if (!source)
            return false;
        cloud_set(source, "GCE_METADATA_HOST", "http://");
        if (!notice_gcp_open(source, maintenance))
            return false;
    }
    return true;
}

static bool add_azure(struct notice_watch *watch, bool wanted)
{
    struct notice_source *source = add(watch, "azure", NOTICE_S, wanted);

    if (!source)
        return false;
    cloud_set(source, NULL, "");
    return notice_azure_open(source);
}

static bool add_own(struct notice_watch *watch, const char *from)
{
    bool is_exec = !strncmp(from, "exec:", 5);
    struct notice_source *source =
        add(watch, is_exec ? "exec" : "file", is_exec ? 5 * NOTICE_S : NOTICE_S / 4, true);

    if (!source)
        return false;
    source->presence = NOTICE_PRESENT;
    return is_exec ? notice_exec_open(source, from + 5) : notice_file_open(source, from + 5);
}

static const char *add_named(struct notice_watch *watch, const char *from)
{
    bool is_auto = !strcmp(from, "auto"), fine = true;

    if (!strncmp(from, "exec:", 5) || !strncmp(from, "file:", 5))
        return !from[5]               ? "exec: needs a command behind it, and file: a path"
               : add_own(watch, from) ? NULL
                                      : "too many sources";
    if (!is_auto && strcmp(from, "aws") && strcmp(from, "gcp") && strcmp(from, "azure"))
        return "a source is auto, aws, gcp, azure, exec:COMMAND or file:PATH";
    if (!is_auto && !http_of(watch))
        return "libcurl.so.4 is not there, or spotnik was built without its headers: no metadata "
               "service can be asked; exec: and file: work";
    if (is_auto || !strcmp(from, "aws"))
        fine = add_aws(watch, !is_auto);
    if (fine && (is_auto || !strcmp(from, "gcp")))
        fine = add_gcp(watch, !is_auto);
    if (fine && (is_auto || !strcmp(from, "azure")))
        fine = add_azure(watch, !is_auto);
    return fine ? NULL : "too many sources";
}

struct notice_watch *notice_watch_new(const char *const *from, uint32_t count, uint64_t interval_ns,
                                      notice_teller *teller, void *context, const char **ret_error)
{
    struct notice_watch *watch = calloc(1, sizeof(*watch));

    *ret_error = "no memory";
    if (!watch)
        return NULL;
    *watch = (struct notice_watch){ .epoll = epoll_create1(EPOLL_CLOEXEC),
                                    .interval_ns = interval_ns,
                                    .tell = teller,
                                    .context = context };
    srandom((unsigned)getpid() ^ (unsigned)notice_clock_ns());
    *ret_error = watch->epoll < 0 ? "no descriptor" : NULL;
    for (uint32_t i = 0; i < count && !*ret_error; i++)
        *ret_error = add_named(watch, from[i]);
    if (!*ret_error)
        return watch;
    notice_watch_free(watch);
    return NULL;
}

void notice_watch_free(struct notice_watch *watch)
{
    if (!watch)
        return;
    for (uint32_t i = 0; i < watch->count; i++) {
        if (watch->source[i].free)
            watch->source[i].free(&watch->source[i]);
    }
    notice_http_free(watch->http);
    close(watch->epoll);
    free(watch);
}

/* ---- the loop ---- */

static void do_due(struct notice_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        struct notice_source *source = &watch->source[i];
        if (source->presence == NOTICE_ABSENT || source->due_ns > notice_clock_ns())
            continue;
        source->due_ns = NOTICE_NEVER;
        source->due(source);
    }
}

static int wait_ms(const struct notice_watch *watch, int timeout_ms)
{
    uint64_t now_ns = notice_clock_ns(), least_ns = now_ns + (uint64_t)timeout_ms * NOTICE_MS;

    for (uint32_t i = 0; i < watch->count; i++)
        if (watch->source[i].presence != NOTICE_ABSENT && watch->source[i].due_ns < least_ns)
            least_ns = watch->source[i].due_ns;
    return least_ns <= now_ns ? 0 : (int)((least_ns - now_ns) / NOTICE_MS + 1);
}

static void read_pipes(struct notice_watch *watch, int timeout_ms)
{
    struct epoll_event event[NOTICE_SOURCES_MAX];
    int count = epoll_wait(watch->epoll, event, NOTICE_SOURCES_MAX, timeout_ms);

    for (int i = 0; i < count; i++) {
        struct notice_source *source = event[i].data.ptr;
        source->readable(source);
    }
}

bool notice_watch_turn(struct notice_watch *watch, int timeout_ms)
{
    bool any = false;

    do_due(watch);
    int wait = wait_ms(watch, timeout_ms);
    if (watch->http) {
        notice_http_turn(watch->http, watch->epoll, wait);
        wait = 0;
    }
    read_pipes(watch, wait);
    do_due(watch); /* a look that has lasted long enough ends here, not after the next wait */
    for (uint32_t i = 0; i < watch->count; i++)
        any |= watch->source[i].presence != NOTICE_ABSENT;
    return any;
}

bool notice_watch_has_looked(const struct notice_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct notice_source *source = &watch->source[i];
        if (!source->answered && source->presence != NOTICE_ABSENT && !source->failures)
            return false;
    }
    return true;
}

void notice_watch_present(const struct notice_watch *watch, char *text, uint32_t size)
{
    text[0] = 0;
    for (uint32_t i = 0; i < watch->count; i++) {
        const struct notice_source *source = &watch->source[i];
        size_t used = strlen(text);
        if (source->presence == NOTICE_PRESENT && !strstr(text, source->name))
            snprintf(text + used, size - used, "%s%s", used ? ", " : "", source->name);
    }
}
