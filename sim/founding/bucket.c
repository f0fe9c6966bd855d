/* SPDX-License-Identifier: Apache-2.0 */
/* A bucket. src/store is as it is, down to its requests, which come here. Objects are files of the
 * world's folder. A request may be lost, or its answer, and one that was given up may be carried
 * out half a minute later. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/time.h"
#include "store/bucket.h"
#include "task.h"
#include "world.h"

#define OBJECT_MAX 4096
#define DEADLINE_NS (10 * SPOTNIK_S)
#define SILENCE_NS (5 * SPOTNIK_S)
#define LATE_NS (30 * SPOTNIK_S)
#define TROUBLE 25 /* every 25th request goes wrong */

/* What a server sees. */
struct ask {
    char method[8], name[SPOTNIK_OBJECTS_NAME_MAX + 1], condition[128];
    char bytes[OBJECT_MAX];
    size_t size;
};

DIR *__real_opendir(const char *path);
int __real_unlink(const char *path);
int __wrap_spotnik_bucket_request(struct bucket *bucket, struct bucket_request *request);

static void path_make(const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", world.folder, name);
}

/* Its size, -1: there is none. */
static long object_read(const char *name, char bytes[OBJECT_MAX], char etag[32])
{
    char path[PATH_MAX];
    path_make(name, path);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    size_t size = fread(bytes, 1, OBJECT_MAX, file);
    fclose(file);
    snprintf(etag, 32, "\"%016llx\"", (unsigned long long)spotnik_hash_bytes(bytes, size));
    return (long)size;
}

static bool holds(const char *condition, const char *name)
{
    char bytes[OBJECT_MAX], etag[32];
    bool is_there = object_read(name, bytes, etag) >= 0;
    if (strcmp(condition, "If-None-Match: *") == 0)
        return !is_there;
    return condition[0] == '\0'
           || (is_there && strcmp(condition + strlen("If-Match: "), etag) == 0);
}

/* PUT and DELETE, at one moment. Returns the status of HTTP. */
static long write_now(const struct ask *ask)
{
    char path[PATH_MAX];
    path_make(ask->name, path);
    if (!holds(ask->condition, ask->name))
        return 412;
    if (strcmp(ask->method, "DELETE") == 0) {
        (void)__real_unlink(path);
        return 204;
    }
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return 500;
    (void)fwrite(ask->bytes, 1, ask->size, file);
    fclose(file);
    return 200;
}

static void *late_main(void *context)
{
    struct ask *ask = context;
    task_sleep(task_below(LATE_NS));
    world_tell("late: %s %s: %ld", ask->method, ask->name, write_now(ask));
    free(ask);
    return NULL;
}

static void write_later(const struct ask *ask)
{
    struct ask *copy = malloc(sizeof *copy);
    if (copy == NULL)
        return;
    *copy = *ask;
    task_detach(task_new(NULL, late_main, copy));
}

static void list_now(struct bucket_request *request)
{
    DIR *folder = __real_opendir(world.folder);
    size_t used = (size_t)snprintf(request->answer, request->answer_max, "<ListBucketResult>");
    for (const struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
        if (entry->d_name[0] != '.')
            used += (size_t)snprintf(request->answer + used, request->answer_max - used,
                                     "<Contents><Key>job/%s</Key></Contents>", entry->d_name);
    if (folder != NULL)
        closedir(folder);
    used +=
        (size_t)snprintf(request->answer + used, request->answer_max - used, "</ListBucketResult>");
    request->answer_size = used;
}

static long get_now(struct bucket_request *request, const struct ask *ask)
{
    char bytes[OBJECT_MAX], etag[32];
    if (request->name == NULL) {
        list_now(request);
        return 200;
    }
    long size = object_read(ask->name, bytes, etag);
    if (size < 0)
        return 404;
    request->answer_size = (size_t)size < request->answer_max ? (size_t)size : request->answer_max;
    memcpy(request->answer, bytes, request->answer_size);
    snprintf(request->version, sizeof request->version, "%s", etag);
    return 200;
}

/* A member that wrote its record is not stale before three times the interval that it names. */
static void refresh_note(const struct ask *ask, uint64_t begun_ns)
{
    struct spotnik_runtime *process = task_process();
    unsigned long long counter, every_ms = 0;
    const char *at = memmem(ask->bytes, ask->size, "\ncounter ", 9);
    if (strncmp(ask->name, "member-", 7) != 0 || at == NULL
        || sscanf(at, "\ncounter %llu %llu", &counter, &every_ms) != 2)
        return;
    process->refreshed_ns = begun_ns;
    process->every_ns = every_ms * SPOTNIK_MS;
    process->stale_ns =
        3 * process->every_ns > world.stale_ns ? 3 * process->every_ns : world.stale_ns;
}

/* The status of HTTP, 0: no answer came. */
static long attempt(struct bucket_request *request, const struct ask *ask, uint64_t begun_ns)
{
    enum folder way = world.host[task_process()->host].folder;
    bool is_write = strcmp(ask->method, "GET") != 0;
    uint64_t trouble = world.healed ? 3 : task_below(TROUBLE);
    task_sleep(task_below(10) == 0 ? task_below(300 * SPOTNIK_MS) : task_below(20 * SPOTNIK_MS));
    if (way == FOLDER_HANGS || trouble == 0)
        task_sleep(SILENCE_NS);
    if (trouble == 1 && is_write)
        write_later(ask);
    if (way != FOLDER_GOOD || trouble <= 1)
        return way == FOLDER_FAILS ? 503 : 0;
    long status = is_write ? write_now(ask) : get_now(request, ask);
    if (status == 200 && is_write) {
        refresh_note(ask, begun_ns);
        snprintf(request->version, sizeof request->version, "\"%016llx\"",
                 (unsigned long long)spotnik_hash_bytes(ask->bytes, ask->size));
    }
    return trouble == 2 ? 0 : status; /* its answer is lost */
}

static void ask_make(const struct bucket_request *request, struct ask *ret)
{
    *ret = (struct ask){ .size = request->size < OBJECT_MAX ? request->size : OBJECT_MAX };
    snprintf(ret->method, sizeof ret->method, "%s", request->method);
    snprintf(ret->name, sizeof ret->name, "%s", request->name != NULL ? request->name : "");
    snprintf(ret->condition, sizeof ret->condition, "%s",
             request->condition != NULL ? request->condition : "");
    if (ret->size > 0)
        memcpy(ret->bytes, request->bytes, ret->size);
}

int __wrap_spotnik_bucket_request(struct bucket *bucket, struct bucket_request *request)
{
    struct ask ask;
    uint64_t begun_ns = task_now_ns(), until_ns = begun_ns + DEADLINE_NS,
             pause_ns = 100 * SPOTNIK_MS;
    ask_make(request, &ask);
    for (;; pause_ns *= 2) {
        request->status = attempt(request, &ask, begun_ns);
        if (request->status >= 200 && request->status < 300)
            return 0;
        if (request->status == 404 || request->status == 412)
            return request->status == 404 ? -ENOENT : -EEXIST;
        if (task_now_ns() + pause_ns >= until_ns)
            return spotnik_objects_fail(-ETIMEDOUT, "%s %s: no answer from %s", ask.method,
                                        ask.name, bucket->base);
        task_sleep(pause_ns);
    }
}
