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

bool bag_result_is(const struct bag *bag, const struct bag_job *job)
{
    char path[PATH_MAX];
    bag_path(bag, path, "results", job->name);
    return access(path, F_OK) == 0;
}

int bag_result_put(struct bag *bag, const struct bag_job *job, uint32_t attempt,
                   const struct bag_figures *figures, const char *host)
{
    char name[NAME_MAX + 1], from[PATH_MAX], to[PATH_MAX];
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
    return 0;
}

/* The failures become returns, so that a worker which dies in between leaves the job as it was or
 * as it shall be. */
int bag_retry(struct bag *bag, const struct bag_job *job)
{
    char from[PATH_MAX], to[PATH_MAX], name[NAME_MAX + 1];
    for (uint32_t attempt = 1; attempt <= job->attempt; attempt++) {
        snprintf(name, sizeof name, "%s@%u.failed", job->name, attempt);
        bag_path(bag, from, "claims", name);
        snprintf(name, sizeof name, "%s@%u.returned", job->name, attempt);
        bag_path(bag, to, "claims", name);
        if (rename(from, to) != 0 && errno != ENOENT)
            return -errno;
    }
    bag_path(bag, from, "dropped", job->name);
    if (unlink(from) != 0 && errno != ENOENT)
        return -errno;
    bag_path(bag, from, "aside", job->name);
    return bag_remove(from);
}

void bag_sweep(struct bag *bag, const struct bag_job *job)
{
    for (uint32_t attempt = 1; attempt <= job->attempt; attempt++)
        bag_attempt_remove(bag, job, attempt);
    bag_saves_remove(bag, job, NULL);
}
