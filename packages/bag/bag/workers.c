/* SPDX-License-Identifier: Apache-2.0 */
/* Records of workers, and how long they have stayed the same. See workers.h. */
#include "bag/workers.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bag/bag_bucket.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/still.h"

#define TEXT_MAX (1024 + BAG_SLOTS_MAX * (BAG_JOB_NAME_MAX + 80))
#define NOBODY 1 /* owner of a claim that cannot be read */

/* ---- text ---- */

static void name_make(uint64_t id, char name[32])
{
    snprintf(name, 32, "%016" PRIx64, id);
}

static void object_name(uint64_t id, char object[BAG_OBJECT_MAX])
{
    snprintf(object, BAG_OBJECT_MAX, "workers/%016" PRIx64, id);
}

static size_t format(const struct bag_worker *worker, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size,
                                 "spotnik bag 1\nhost %s\nprocess %016" PRIx64 " %" PRIu64
                                 " %" PRIu64 " %016" PRIx64 "\ncounter %" PRIu64 "\nup_ms %" PRIu64
                                 "\nmachine_ms %" PRIu64 "\nbusy_ms %" PRIu64 "\nslots %" PRIu32
                                 " %" PRIu32 "\nusd_per_h %.6f\nleft %d\n",
                                 worker->host, worker->process.boot, worker->process.pid,
                                 worker->process.start, worker->process.space, worker->counter,
                                 worker->up_ms, worker->machine_ms, worker->busy_ms, worker->slots,
                                 worker->cores, worker->usd_per_h, worker->left);
    for (uint32_t i = 0; i < worker->run_count; i++)
        at += (size_t)snprintf(text + at, size - at,
                               "run %s %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                               worker->run[i].job, worker->run[i].attempt, worker->run[i].ran_ms,
                               worker->run[i].base_ms, worker->run[i].saved_ms);
    return at
           + (size_t)snprintf(text + at, size - at, "write_ms %" PRIu64 "\nend\n",
                              worker->write_ms);
}

/* Returns what comes behind them. */
static const char *runs_parse(const char *at, struct bag_worker *ret)
{
    int end = 0;
    for (ret->run_count = 0; ret->run_count < BAG_SLOTS_MAX; at += end) {
        struct bag_run *run = &ret->run[ret->run_count];
        if (sscanf(at, " run %99s %" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", run->job,
                   &run->attempt, &run->ran_ms, &run->base_ms, &run->saved_ms, &end)
            != 5)
            break;
        ret->run_count++;
    }
    return at;
}

/* The last line shows that the record is whole. */
static bool parse(const char *text, struct bag_worker *ret)
{
    int end = 0, left = 0;
    size_t length = strlen(text);
    if (length < 4 || strcmp(text + length - 4, "end\n") != 0
        || sscanf(text,
                  "spotnik bag 1 host %63s process %" SCNx64 " %" SCNu64 " %" SCNu64 " %" SCNx64
                  " counter %" SCNu64 " up_ms %" SCNu64 " machine_ms %" SCNu64 " busy_ms %" SCNu64
                  " slots %" SCNu32 " %" SCNu32 " usd_per_h %lf left %d%n",
                  ret->host, &ret->process.boot, &ret->process.pid, &ret->process.start,
                  &ret->process.space, &ret->counter, &ret->up_ms, &ret->machine_ms, &ret->busy_ms,
                  &ret->slots, &ret->cores, &ret->usd_per_h, &left, &end)
               != 13)
        return false;
    ret->left = left != 0;
    const char *rest = runs_parse(text + end, ret);
    if (sscanf(rest, " write_ms %" SCNu64, &ret->write_ms) != 1)
        ret->write_ms = 0; /* of an older worker */
    return true;
}

int bag_worker_put(const struct bag *bag, const struct bag_worker *worker)
{
    char path[PATH_MAX], name[32], object[BAG_OBJECT_MAX], *text = malloc(TEXT_MAX);
    if (text == NULL)
        return -ENOMEM;
    size_t size = format(worker, text, TEXT_MAX);
    name_make(worker->id, name);
    object_name(worker->id, object);
    bag_path(bag, path, "workers", NULL);
    int rc = bag_is_bucket(bag) ? bag_bucket_put(bag, object, text, false)
                                : spotnik_file_put(path, name, bag->writer, text, size, false);
    free(text);
    return rc;
}

/* How many bytes; -ENOENT: there is none; or -errno. */
static ssize_t text_read(const struct bag *bag, uint64_t id, char text[TEXT_MAX + 1])
{
    char path[PATH_MAX], name[32], object[BAG_OBJECT_MAX];
    size_t got;
    if (bag_is_bucket(bag)) {
        object_name(id, object);
        int rc = bag_bucket_get(bag, object, text, TEXT_MAX, &got);
        return rc == 0 ? (ssize_t)got : rc;
    }
    name_make(id, name);
    bag_path(bag, path, "workers", name);
    int fd = spotnik_file_open(path);
    ssize_t size = fd >= 0 ? read(fd, text, TEXT_MAX) : fd;
    size = fd >= 0 && size < 0 ? -EIO : size;
    if (fd >= 0)
        close(fd);
    return size;
}

bool bag_worker_read(const struct bag *bag, uint64_t id, struct bag_worker *ret,
                     uint64_t *ret_print)
{
    static char text[TEXT_MAX + 1];
    ssize_t size = text_read(bag, id, text);
    *ret_print = 0;
    if (size < 0 && size != -ENOENT)
        return false;
    text[size > 0 ? size : 0] = '\0';
    /* a missing record has a print, too */
    *ret_print = spotnik_hash_bytes(text, size > 0 ? (size_t)size : 0) | 1;
    memset(ret, 0, sizeof *ret);
    bool whole = size > 0 && parse(text, ret);
    ret->id = id;
    return whole;
}

struct workers {
    const struct bag *bag;
    struct bag_worker *list;
    size_t count;
};

static void workers_see(void *context, const char *name, int64_t written_s)
{
    struct workers *workers = context;
    struct bag_worker worker;
    char *rest;
    uint64_t id = strtoull(name, &rest, 16), print;
    (void)written_s;
    if (strlen(name) != 16 || *rest != '\0' || !bag_worker_read(workers->bag, id, &worker, &print))
        return;
    struct bag_worker *grown = realloc(workers->list, (workers->count + 1) * sizeof *grown);
    if (grown == NULL)
        return;
    workers->list = grown;
    grown[workers->count++] = worker;
}

int bag_workers_list(const struct bag *bag, struct bag_worker **ret, size_t *ret_count)
{
    char path[PATH_MAX];
    struct workers workers = { .bag = bag };
    bag_path(bag, path, "workers", NULL);
    DIR *directory = bag_is_bucket(bag) ? NULL : opendir(path);
    int rc = bag_is_bucket(bag)  ? bag_bucket_walk(bag, "workers/", workers_see, &workers)
             : directory == NULL ? -errno
                                 : 0;
    for (const struct dirent *at; directory != NULL && (at = readdir(directory)) != NULL;)
        workers_see(&workers, at->d_name, 0);
    if (directory != NULL)
        closedir(directory);
    *ret = workers.list;
    *ret_count = workers.count;
    return rc;
}

/* ---- watching ---- */

static struct bag_watched *find(const struct bag_watch *watch, uint64_t id)
{
    for (size_t i = 0; i < watch->count; i++)
        if (watch->entry[i].id == id)
            return &watch->entry[i];
    return NULL;
}

static bool want(struct bag_watch *watch, uint64_t id)
{
    struct bag_watched *entry = find(watch, id);
    if (entry == NULL && watch->count == watch->capacity) {
        size_t capacity = watch->capacity > 0 ? 2 * watch->capacity : 16;
        struct bag_watched *grown = realloc(watch->entry, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        watch->entry = grown;
        watch->capacity = capacity;
    }
    if (entry == NULL) {
        entry = &watch->entry[watch->count++];
        memset(entry, 0, sizeof *entry);
        entry->id = id;
    }
    entry->wanted = true;
    return true;
}

static int owners_want(struct bag_watch *watch, struct bag *bag, uint64_t own)
{
    struct bag_figures figures;
    for (size_t i = 0; i < bag->job_count; i++) {
        struct bag_job *job = bag->job[i];
        if (bag_job_is_over(job) || job->attempt == 0 || job->end != BAG_END_NONE)
            continue;
        if (job->owner == 0
            && !bag_figures_read(bag, job->name, job->attempt, BAG_END_NONE, &figures, &job->owner))
            job->owner = NOBODY;
        if (job->owner != own && !want(watch, job->owner))
            return -ENOMEM;
    }
    return 0;
}

static void read_again(struct bag_watched *entry, const struct bag *bag, uint64_t spent_ns)
{
    struct bag_worker now;
    uint64_t print;
    if (bag_worker_read(bag, entry->id, &now, &print))
        entry->worker = now;
    entry->unchanged_ns = spotnik_still_unchanged_ns(entry->unchanged_ns, entry->known,
                                                     entry->print, print, spent_ns);
    entry->print = print;
    entry->known = true;
}

int bag_watch_look(struct bag_watch *watch, struct bag *bag, uint64_t own, uint64_t now_ns,
                   uint64_t gap_max_ns)
{
    uint64_t spent_ns = spotnik_still_spent_ns(watch->looked_ns, now_ns, gap_max_ns);
    size_t kept = 0;
    for (size_t i = 0; i < watch->count; i++)
        watch->entry[i].wanted = false;
    int rc = owners_want(watch, bag, own);
    for (size_t i = 0; i < watch->count; i++) {
        if (!watch->entry[i].wanted)
            continue;
        read_again(&watch->entry[i], bag, spent_ns);
        watch->entry[kept++] = watch->entry[i];
    }
    watch->count = kept;
    watch->looked_ns = rc == 0 ? now_ns : 0;
    return rc;
}

bool bag_watch_is_dead(const struct bag_watch *watch, uint64_t id, uint64_t stale_ns)
{
    const struct bag_watched *entry = find(watch, id);
    if (entry == NULL)
        return false;
    enum spotnik_liveness life = spotnik_process_life(&entry->worker.process);
    if (life != SPOTNIK_LIFE_UNKNOWN)
        return life == SPOTNIK_LIFE_ENDED;
    return entry->worker.left || entry->unchanged_ns >= stale_ns;
}

bool bag_watch_figures(const struct bag_watch *watch, uint64_t id, const char *job,
                       uint32_t attempt, struct bag_figures *ret)
{
    const struct bag_watched *entry = find(watch, id);
    memset(ret, 0, sizeof *ret);
    for (uint32_t i = 0; entry != NULL && i < entry->worker.run_count; i++) {
        const struct bag_run *run = &entry->worker.run[i];
        if (run->attempt == attempt && strcmp(run->job, job) == 0) {
            ret->ran_ms = run->ran_ms;
            ret->base_ms = run->base_ms;
            ret->saved_ms = run->saved_ms;
            return true;
        }
    }
    return false;
}

void bag_watch_done(struct bag_watch *watch)
{
    free(watch->entry);
    memset(watch, 0, sizeof *watch);
}
