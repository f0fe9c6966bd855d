/* SPDX-License-Identifier: Apache-2.0 */
/* Claims of workers and their ends, all in the names of files, so that one listing of a folder
 * shows the bag. */
#include "bag/bag.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bag/bag_bucket.h"
#include "base/file.h"

#define TEXT_MAX 512

const char *const bag_end_names[BAG_ENDS] = { "", "done", "returned", "failed", "lost", "late" };

bool bag_job_is_over(const struct bag_job *job)
{
    return job->done || job->aside || job->dropped;
}

bool bag_job_is_open(const struct bag_job *job)
{
    return !bag_job_is_over(job) && (job->attempt == 0 || job->end != BAG_END_NONE);
}

/* ---- names ---- */

void bag_attempt_name(const struct bag_job *job, uint32_t attempt, char name[NAME_MAX + 1])
{
    snprintf(name, NAME_MAX + 1, "%s@%u", job->name, attempt);
}

static bool end_parse(const char *text, enum bag_end *ret)
{
    if (*text == '\0') {
        *ret = BAG_END_NONE;
        return true;
    }
    for (int i = BAG_END_NONE + 1; i < BAG_ENDS; i++)
        if (*text == '.' && strcmp(text + 1, bag_end_names[i]) == 0) {
            *ret = (enum bag_end)i;
            return true;
        }
    return false;
}

bool bag_claim_parse(const char *name, char job[BAG_JOB_NAME_MAX], uint32_t *ret_attempt,
                     enum bag_end *ret_end)
{
    const char *at = strrchr(name, '@');
    char *rest;
    if (name[0] == '.' || at == NULL || at == name || at - name >= BAG_JOB_NAME_MAX || at[1] < '1'
        || at[1] > '9')
        return false;
    unsigned long attempt = strtoul(at + 1, &rest, 10);
    if (attempt > 1000000000 || !end_parse(rest, ret_end))
        return false;
    memcpy(job, name, (size_t)(at - name));
    job[at - name] = '\0';
    *ret_attempt = (uint32_t)attempt;
    return true;
}

/* ---- looking ---- */

typedef void seen(struct bag *bag, const char *name);

static int names_read(struct bag *bag, const char *part, seen *see)
{
    char path[PATH_MAX];
    bag_path(bag, path, part, NULL);
    DIR *directory = opendir(path);
    if (directory == NULL)
        return -errno;
    errno = 0;
    for (const struct dirent *at; (at = readdir(directory)) != NULL; errno = 0)
        if (at->d_name[0] != '.')
            see(bag, at->d_name);
    int rc = -errno;
    closedir(directory);
    return rc;
}

static void see_claim(struct bag *bag, const char *name)
{
    char job_name[BAG_JOB_NAME_MAX];
    uint32_t attempt;
    enum bag_end end;
    struct bag_job *job =
        bag_claim_parse(name, job_name, &attempt, &end) ? bag_job_find(bag, job_name) : NULL;
    if (job == NULL)
        return;
    if (attempt > job->attempt) {
        job->attempt = attempt;
        job->end = BAG_END_NONE;
        job->owner = 0;
    }
    if (attempt == job->attempt && end != BAG_END_NONE)
        job->end = end;
    job->failures += end == BAG_END_FAILED;
    job->done = job->done || end == BAG_END_DONE;
}

static void see_result(struct bag *bag, const char *name)
{
    struct bag_job *job = bag_job_find(bag, name);
    if (job != NULL)
        job->done = true;
}

static void see_aside(struct bag *bag, const char *name)
{
    struct bag_job *job = bag_job_find(bag, name);
    if (job != NULL)
        job->aside = true;
}

static void see_dropped(struct bag *bag, const char *name)
{
    struct bag_job *job = bag_job_find(bag, name);
    if (job != NULL)
        job->dropped = true;
}

/* The parts of a bucket come in this order, too. */
static void see_mark(void *context, const char *mark, int64_t written_s)
{
    static const struct {
        const char *part;
        seen *see;
    } parts[] = { { "aside.", see_aside },
                  { "claims.", see_claim },
                  { "dropped.", see_dropped },
                  { "results.", see_result } };
    (void)written_s;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strncmp(mark, parts[i].part, strlen(parts[i].part)) == 0)
            parts[i].see(context, mark + strlen(parts[i].part));
}

/* A result comes before the word "done" among the claims, so read claims first: a reader that finds
 * an ended attempt finds its result, too. (The word alone counts as well, should the listing of the
 * results be older.) */
int bag_look(struct bag *bag)
{
    for (size_t i = 0; i < bag->job_count; i++)
        bag->job[i]->failures = 0;
    for (size_t i = 0; i < bag->job_count; i++)
        bag->job[i]->aside = bag->job[i]->dropped = false;
    if (bag_is_bucket(bag))
        return bag_bucket_walk(bag, "marks/", see_mark, bag);
    int rc = names_read(bag, "claims", see_claim);
    rc = rc != 0 ? rc : names_read(bag, "results", see_result);
    rc = rc != 0 ? rc : names_read(bag, "aside", see_aside);
    return rc != 0 ? rc : names_read(bag, "dropped", see_dropped);
}

/* ---- taking and ending ---- */

/* -EEXIST: there is one. */
static int put(struct bag *bag, const char *part, const char *name, const char *text)
{
    char path[PATH_MAX], object[BAG_OBJECT_MAX];
    bag_path(bag, path, part, NULL);
    bag_mark_name(object, part, name);
    return bag_is_bucket(bag) ? bag_bucket_put(bag, object, text, true)
                              : spotnik_file_put(path, name, bag->writer, text, strlen(text), true);
}

static void figures_format(const struct bag_figures *figures, uint64_t worker, char text[TEXT_MAX])
{
    snprintf(text, TEXT_MAX,
             "worker %016" PRIx64 "\nran_ms %" PRIu64 "\nbase_ms %" PRIu64 "\nsaved_ms %" PRIu64
             "\ncpu_ms %" PRIu64 "\nexpected_ms %" PRIu64 "\nstatus %d\n",
             worker, figures->ran_ms, figures->base_ms, figures->saved_ms, figures->cpu_ms,
             figures->expected_ms, figures->status);
}

int bag_claim(struct bag *bag, struct bag_job *job, uint64_t worker,
              const struct bag_figures *figures)
{
    char name[NAME_MAX + 1], text[TEXT_MAX];
    bag_attempt_name(job, job->attempt + 1, name);
    figures_format(figures, worker, text);
    int rc = put(bag, "claims", name, text);
    if (rc == 0) {
        job->attempt++;
        job->end = BAG_END_NONE;
        job->owner = worker;
    }
    return rc;
}

int bag_end_put(struct bag *bag, const struct bag_job *job, uint32_t attempt, enum bag_end end,
                const struct bag_figures *figures)
{
    char name[NAME_MAX + 1], text[TEXT_MAX];
    snprintf(name, sizeof name, "%s@%u.%s", job->name, attempt, bag_end_names[end]);
    figures_format(figures, job->owner, text);
    int rc = put(bag, "claims", name, text);
    return rc == -EEXIST ? 0 : rc;
}

struct names {
    void (*each)(void *context, const char *name);
    void *context;
};

static void claim_pass(void *context, const char *name, int64_t written_s)
{
    const struct names *names = context;
    (void)written_s;
    names->each(names->context, name);
}

int bag_claims_each(struct bag *bag, void (*each)(void *context, const char *name), void *context)
{
    char path[PATH_MAX];
    if (bag_is_bucket(bag))
        return bag_bucket_walk(bag, "marks/claims.", claim_pass,
                               &(struct names){ .each = each, .context = context });
    bag_path(bag, path, "claims", NULL);
    DIR *list = opendir(path);
    if (list == NULL)
        return -errno;
    for (const struct dirent *at; (at = readdir(list)) != NULL;)
        each(context, at->d_name);
    closedir(list);
    return 0;
}

/* "" where there is none. */
static void claim_read(const struct bag *bag, const char *name, char text[TEXT_MAX + 1])
{
    char path[PATH_MAX], object[BAG_OBJECT_MAX];
    size_t got;
    if (bag_is_bucket(bag)) {
        bag_mark_name(object, "claims", name);
        (void)bag_bucket_get(bag, object, text, TEXT_MAX, &got);
        return;
    }
    bag_path(bag, path, "claims", name);
    int fd = spotnik_file_open(path);
    ssize_t size = fd >= 0 ? read(fd, text, TEXT_MAX) : -1;
    if (fd >= 0)
        close(fd);
    text[size > 0 ? size : 0] = '\0';
}

bool bag_claim_is(const struct bag *bag, const char *name)
{
    char path[PATH_MAX], text[TEXT_MAX + 1];
    bag_path(bag, path, "claims", name);
    if (!bag_is_bucket(bag))
        return access(path, F_OK) == 0;
    claim_read(bag, name, text);
    return text[0] != '\0';
}

bool bag_figures_read(const struct bag *bag, const char *job, uint32_t attempt, enum bag_end end,
                      struct bag_figures *ret, uint64_t *ret_worker)
{
    char name[NAME_MAX + 1], text[TEXT_MAX + 1];
    snprintf(name, sizeof name, "%s@%u%s%s", job, attempt, end != BAG_END_NONE ? "." : "",
             bag_end_names[end]);
    claim_read(bag, name, text);
    memset(ret, 0, sizeof *ret);
    return sscanf(text,
                  "worker %" SCNx64 " ran_ms %" SCNu64 " base_ms %" SCNu64 " saved_ms %" SCNu64
                  " cpu_ms %" SCNu64 " expected_ms %" SCNu64 " status %d",
                  ret_worker, &ret->ran_ms, &ret->base_ms, &ret->saved_ms, &ret->cpu_ms,
                  &ret->expected_ms, &ret->status)
           == 7;
}

int bag_probe(struct bag *bag, size_t bytes)
{
    char path[PATH_MAX], *block = calloc(1, bytes);
    bag_path(bag, path, "workers", NULL);
    int rc = block != NULL ? spotnik_file_put(path, ".probe", bag->writer, block, bytes, false)
                           : -ENOMEM;
    free(block);
    bag_path(bag, path, "workers", ".probe");
    unlink(path);
    return rc;
}

int bag_drop(struct bag *bag, const struct bag_job *job)
{
    int rc = put(bag, "dropped", job->name, "");
    return rc == -EEXIST ? 0 : rc;
}
