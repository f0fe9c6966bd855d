/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job: its directory becomes the result, or is set aside; what unfinished attempts
 * left is taken away. */
#include "bag/bag.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bag/bag_bucket.h"
#include "bag/saves.h"
#include "base/file.h"

#define EVIDENCE "spotnik.json"

/* Never empty: a directory cannot be renamed onto one that holds a file. */
static int evidence_put(struct bag *bag, const struct bag_job *job, uint32_t attempt,
                        const struct bag_figures *figures, const char *host, const char *directory)
{
    json_t *root = json_pack("{ss si ss si sf sf}", "job", job->name, "attempt", (int)attempt,
                             "host", host, "status", figures->status, "seconds",
                             (double)(figures->base_ms + figures->ran_ms) / 1e3, "cpu_seconds",
                             (double)figures->cpu_ms / 1e3);
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    int rc = text != NULL
                 ? spotnik_file_put(directory, EVIDENCE, bag->writer, text, strlen(text), false)
                 : -ENOMEM;
    json_decref(root);
    free(text);
    return rc;
}

/* Inputs are links into the bag; a result shall hold what the program made. */
static void inputs_unlink(const struct bag *bag, const char *directory)
{
    char path[PATH_MAX];
    struct stat facts;
    for (char *const *name = bag->terms.input; *name != NULL; name++) {
        bag_join(path, directory, *name);
        if (lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode))
            unlink(path);
    }
}

/* The attempt whose directory is the result; 0: there is none, or it cannot be read. */
static uint32_t result_attempt(const struct bag *bag, const char *job)
{
    char object[BAG_OBJECT_MAX], text[16];
    size_t size;
    bag_mark_name(object, "results", job);
    return bag_bucket_get(bag, object, text, sizeof text - 1, &size) == 0
               ? (uint32_t)strtoul(text, NULL, 10)
               : 0;
}

bool bag_result_is(const struct bag *bag, const struct bag_job *job)
{
    char path[PATH_MAX];
    bag_path(bag, path, "results", job->name);
    return bag_is_bucket(bag) ? result_attempt(bag, job->name) != 0 : access(path, F_OK) == 0;
}

static void result_name(char object[BAG_OBJECT_MAX], const struct bag_job *job, uint32_t attempt)
{
    char name[NAME_MAX + 1];
    bag_attempt_name(job, attempt, name);
    bag_tree_name(object, "results", name);
}

static const char *const whole[] = { ".", NULL };

int bag_result_send(struct bag *bag, const struct bag_job *job, uint32_t attempt,
                    const struct bag_figures *figures, const char *host)
{
    char name[NAME_MAX + 1], from[PATH_MAX], object[BAG_OBJECT_MAX];
    bag_attempt_name(job, attempt, name);
    bag_path(bag, from, "work", name);
    result_name(object, job, attempt);
    int rc = bag_bucket_reopen(bag);
    rc = rc == 0 ? evidence_put(bag, job, attempt, figures, host, from) : rc;
    if (rc != 0)
        return rc;
    inputs_unlink(bag, from);
    return bag_bucket_tree_put(bag, object, from, whole);
}

/* The first mark counts. What other attempts have sent goes. One that cannot be read may be
 * ours. */
static int result_mark(struct bag *bag, const struct bag_job *job, uint32_t attempt)
{
    char object[BAG_OBJECT_MAX], text[16];
    bag_mark_name(object, "results", job->name);
    snprintf(text, sizeof text, "%u\n", attempt);
    int rc = bag_bucket_put(bag, object, text, true);
    uint32_t first = rc == 0 ? attempt : rc == -EEXIST ? result_attempt(bag, job->name) : 0;
    if (first == 0)
        return rc == -EEXIST ? -EIO : rc;
    for (uint32_t i = 1; i <= attempt; i++)
        if (i != first) {
            result_name(object, job, i);
            (void)bag_bucket_delete(bag, object);
        }
    return first == attempt ? 0 : -EEXIST;
}

int bag_result_put(struct bag *bag, const struct bag_job *job, uint32_t attempt,
                   const struct bag_figures *figures, const char *host)
{
    char name[NAME_MAX + 1], from[PATH_MAX], to[PATH_MAX];
    if (bag_is_bucket(bag))
        return result_mark(bag, job, attempt);
    bag_attempt_name(job, attempt, name);
    bag_path(bag, from, "work", name);
    bag_path(bag, to, "results", job->name);
    int rc = evidence_put(bag, job, attempt, figures, host, from);
    if (rc != 0)
        return rc;
    inputs_unlink(bag, from);
    if (rename(from, to) == 0)
        return 0;
    return errno == ENOTEMPTY ? -EEXIST : -errno;
}

/* 1: fetched; 0: it is there; or -errno. */
static int result_fetch(struct bag *bag, const struct bag_job *job, const char *directory)
{
    char object[BAG_OBJECT_MAX], hidden[PATH_MAX], to[PATH_MAX], name[BAG_JOB_NAME_MAX + 8];
    bag_join(to, directory, job->name);
    if (access(to, F_OK) == 0)
        return 0;
    snprintf(name, sizeof name, ".%s", job->name);
    bag_join(hidden, directory, name);
    (void)bag_remove(hidden); /* of a call that was killed */
    if (mkdir(hidden, 0700) != 0)
        return -errno;
    result_name(object, job, result_attempt(bag, job->name));
    int rc = bag_bucket_tree_get(bag, object, hidden);
    if (rc == 0 && rename(hidden, to) != 0)
        rc = -errno;
    if (rc != 0)
        (void)bag_remove(hidden);
    return rc == 0 ? 1 : rc;
}

int bag_results_fetch(struct bag *bag, const char *directory, size_t *ret_count)
{
    int rc = bag_look(bag);
    *ret_count = 0;
    for (size_t i = 0; rc >= 0 && i < bag->job_count; i++) {
        rc = bag->job[i]->done ? result_fetch(bag, bag->job[i], directory) : 0;
        *ret_count += rc == 1;
    }
    return rc < 0 ? rc : 0;
}

static int aside_mark(struct bag *bag, const struct bag_job *job, const char *directory)
{
    char object[BAG_OBJECT_MAX];
    bag_tree_name(object, "aside", job->name);
    int rc = bag_bucket_tree_put(bag, object, directory, whole);
    bag_mark_name(object, "aside", job->name);
    return rc == 0 ? bag_bucket_put(bag, object, "set aside\n", false) : rc;
}

int bag_aside_put(struct bag *bag, const struct bag_job *job)
{
    char name[NAME_MAX + 1], from[PATH_MAX], to[PATH_MAX], log[PATH_MAX];
    bag_attempt_name(job, job->attempt, name);
    bag_path(bag, from, "work", name);
    bag_path(bag, to, "aside", job->name);
    if (rename(from, to) != 0 && mkdir(to, 0700) != 0 && errno != EEXIST)
        return -errno;
    bag_path(bag, from, "logs", name);
    bag_join(log, to, "log");
    if (link(from, log) != 0 && errno != EEXIST && errno != ENOENT)
        return -errno;
    return bag_is_bucket(bag) ? aside_mark(bag, job, to) : 0;
}

static int object_retry(struct bag *bag, const char *from, const char *to)
{
    char old[BAG_OBJECT_MAX], new[BAG_OBJECT_MAX], text[512];
    size_t size;
    bag_mark_name(old, "claims", from);
    bag_mark_name(new, "claims", to);
    int rc = bag_bucket_get(bag, old, text, sizeof text - 1, &size);
    if (rc == 0)
        rc = bag_bucket_put(bag, new, text, false);
    return rc == 0 ? bag_bucket_delete(bag, old) : rc == -ENOENT ? 0 : rc;
}

static int file_retry(struct bag *bag, const char *from, const char *to)
{
    char old[PATH_MAX], new[PATH_MAX];
    bag_path(bag, old, "claims", from);
    bag_path(bag, new, "claims", to);
    return rename(old, new) == 0 || errno == ENOENT ? 0 : -errno;
}

static int want_again(struct bag *bag, const struct bag_job *job)
{
    char path[PATH_MAX], object[BAG_OBJECT_MAX];
    bag_path(bag, path, "dropped", job->name);
    bag_mark_name(object, "dropped", job->name);
    int rc = bag_is_bucket(bag) ? bag_bucket_delete(bag, object) : unlink(path) != 0 ? -errno : 0;
    if (rc != 0 && rc != -ENOENT)
        return rc;
    bag_path(bag, path, "aside", job->name);
    bag_mark_name(object, "aside", job->name);
    return bag_is_bucket(bag) ? bag_bucket_delete(bag, object) : bag_remove(path);
}

/* The failures become returns, so that a worker which dies in between leaves the job as it was or
 * as it shall be. */
int bag_retry(struct bag *bag, const struct bag_job *job)
{
    char from[NAME_MAX + 1], to[NAME_MAX + 1];
    for (uint32_t attempt = 1; attempt <= job->attempt; attempt++) {
        snprintf(from, sizeof from, "%s@%u.failed", job->name, attempt);
        snprintf(to, sizeof to, "%s@%u.returned", job->name, attempt);
        int rc = bag_is_bucket(bag) ? object_retry(bag, from, to) : file_retry(bag, from, to);
        if (rc != 0)
            return rc;
    }
    return want_again(bag, job);
}

void bag_sweep(struct bag *bag, const struct bag_job *job)
{
    for (uint32_t attempt = 1; attempt <= job->attempt; attempt++)
        bag_attempt_remove(bag, job, attempt);
    bag_saves_remove(bag, job, NULL);
}
