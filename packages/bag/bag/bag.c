/* SPDX-License-Identifier: Apache-2.0 */
/* Making a bag and opening it. Any number of processes may make the same bag at once: link() puts
 * every file in place, and a process that finds one there compares. */
#include "bag/bag.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bag/bag_bucket.h"
#include "bag/terms.h"
#include "bag/template.h"
#include "base/file.h"
#include "base/hash.h"
#include "store/store.h"

static const char *const parts[] = { "jobs",  "inputs",  "workers", "claims",  "work",
                                     "saves", "results", "aside",   "dropped", "logs" };
#define PARTS (sizeof parts / sizeof *parts)

void bag_path(const struct bag *bag, char path[PATH_MAX], const char *part, const char *name)
{
    bag_join(path, bag->folder, part);
    if (name != NULL)
        bag_join(path, path, name);
}

void bag_join(char path[PATH_MAX], const char *directory, const char *name)
{
    size_t at = strlen(directory), length = strnlen(name, PATH_MAX - 2 - at);
    memmove(path, directory, at);
    path[at] = '/';
    memcpy(path + at + 1, name, length);
    path[at + 1 + length] = '\0';
}

const char *bag_where(const struct bag *bag)
{
    return bag_is_bucket(bag) ? bag->url : bag->folder;
}

static uint64_t number_draw(void)
{
    uint64_t number = 0;
    while (number == 0 && getrandom(&number, sizeof number, 0) != sizeof number)
        continue;
    return number;
}

/* ---- jobs ---- */

/* Letter case counts where two columns differ in nothing else: T is a temperature, t a time. */
static int column_find(const struct spotnik_table *table, const char *name)
{
    for (size_t i = 0; i < spotnik_table_columns(table); i++)
        if (strcmp(spotnik_table_column_name(table, i), name) == 0)
            return (int)i;
    return spotnik_table_find(table, name);
}

static const char *cell(const struct bag_job *job, const char *column)
{
    int found = column_find(job->table, column);
    return found >= 0 ? spotnik_table_text(job->table, job->row, found) : NULL;
}

const char *bag_value(const void *context, const char *name)
{
    const struct bag_values *values = context;
    if (strcmp(name, "job") == 0)
        return values->job->name;
    if (strcmp(name, "attempt") == 0)
        return values->attempt;
    if (strcmp(name, "bag") == 0)
        return values->folder;
    if (strcmp(name, "restart") == 0)
        return values->restart;
    return cell(values->job, name);
}

static bool is_job_name(const char *name)
{
    static const char fine[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+=,";
    return *name != '\0' && *name != '.' && *name != '-' && strlen(name) < BAG_JOB_NAME_MAX
           && strspn(name, fine) == strlen(name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct bag_job *const *)a)->name, (*(struct bag_job *const *)b)->name);
}

struct bag_job *bag_job_find(const struct bag *bag, const char *name)
{
    struct bag_job key, *at = &key;
    if (strlen(name) >= sizeof key.name || bag->job_count == 0)
        return NULL;
    strcpy(key.name, name);
    struct bag_job **found =
        bsearch(&at, bag->by_name, bag->job_count, sizeof(struct bag_job *), by_name);
    return found != NULL ? *found : NULL;
}

/* A job is called by its column "job", else by its number in the whole bag. */
static int job_name(struct bag_job *job, size_t number, struct spotnik_fault *fault)
{
    const char *name = cell(job, "job");
    if (name == NULL)
        snprintf(job->name, sizeof job->name, "%zu", number);
    else if (is_job_name(name))
        strcpy(job->name, name);
    else
        return spotnik_fault_set(fault,
                                 "%s:%zu: the job's name is \"%.80s\": a name has letters, digits "
                                 "and _-.+=, and does not begin with - or .",
                                 spotnik_table_name(job->table),
                                 spotnik_table_line(job->table, job->row), name);
    return 0;
}

static int names_sort(struct bag *bag, struct spotnik_fault *fault)
{
    memcpy(bag->by_name, bag->job, bag->job_count * sizeof(struct bag_job *));
    qsort(bag->by_name, bag->job_count, sizeof(struct bag_job *), by_name);
    for (size_t i = 1; i < bag->job_count; i++)
        if (strcmp(bag->by_name[i - 1]->name, bag->by_name[i]->name) == 0)
            return spotnik_fault_set(
                fault, "two jobs are called \"%s\": give each row another name in the column job",
                bag->by_name[i]->name);
    return 0;
}

static bool lists_grow(struct bag *bag, size_t count)
{
    struct bag_job **jobs = realloc(bag->job, count * sizeof(struct bag_job *));
    bag->job = jobs != NULL ? jobs : bag->job;
    struct bag_job **names = realloc(bag->by_name, count * sizeof(struct bag_job *));
    bag->by_name = names != NULL ? names : bag->by_name;
    return jobs != NULL && names != NULL;
}

/* Each column has one meaning. */
static int columns_check(const struct spotnik_table *table, struct spotnik_fault *fault)
{
    static const char *const taken[] = { "attempt", "bag", "restart" };
    for (size_t i = 0; i < spotnik_table_columns(table); i++) {
        const char *name = spotnik_table_column_name(table, i);
        if (column_find(table, name) != (int)i)
            return spotnik_fault_set(fault, "%s: two columns are called %.60s",
                                     spotnik_table_name(table), name);
        for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++)
            if (strcmp(name, taken[k]) == 0)
                return spotnik_fault_set(
                    fault, "%s: {%s} is a word of the bag; give the column another name",
                    spotnik_table_name(table), name);
    }
    return 0;
}

/* The table is the bag's from here on. */
static int jobs_append(struct bag *bag, struct spotnik_table *table, struct spotnik_fault *fault)
{
    size_t rows = spotnik_table_rows(table);
    struct bag_job *block = calloc(rows, sizeof *block);
    bag->part[bag->part_count] = table;
    bag->block[bag->part_count++] = block;
    if (block == NULL || !lists_grow(bag, bag->job_count + rows))
        return spotnik_fault_set(fault, "no memory for %zu jobs", rows);
    if (columns_check(table, fault) != 0)
        return -1;
    for (size_t row = 0; row < rows; row++) {
        struct bag_job *job = &block[row];
        job->table = table;
        job->row = row;
        if (job_name(job, bag->job_count + 1, fault) != 0)
            return -1;
        bag->job[bag->job_count++] = job;
    }
    return names_sort(bag, fault);
}

/* Do all jobs have what the command names? Asked of one row: all rows of a table have the same
 * columns. */
static int command_check(char *const *command, const struct bag_job *job, bool may_restart,
                         struct spotnik_fault *fault)
{
    struct bag_values values = {
        .job = job, .folder = "", .attempt = "1", .restart = may_restart ? "" : NULL
    };
    char unknown[BAG_NAME_MAX], columns[400] = "";
    char **filled = bag_template_fill(command, bag_value, &values, unknown);
    bag_template_free(filled);
    if (filled != NULL)
        return 0;
    for (size_t i = 0, at = 0; i < spotnik_table_columns(job->table) && at < sizeof columns - 80;
         i++)
        at += (size_t)snprintf(columns + at, sizeof columns - at, "%s%.60s", i > 0 ? ", " : "",
                               spotnik_table_column_name(job->table, i));
    if (strcmp(unknown, "restart") == 0)
        return spotnik_fault_set(
            fault, "{restart} stands in the command; it belongs into --resume, with --restart");
    return spotnik_fault_set(
        fault,
        "the command names {%s}, and %s has the columns %s. For the braces themselves write {{%s}}",
        unknown, spotnik_table_name(job->table), columns, unknown);
}

static int commands_check(const struct bag_terms *terms, const struct bag_job *job,
                          struct spotnik_fault *fault)
{
    int rc = command_check(terms->command, job, false, fault);
    return rc == 0 && terms->resume != NULL ? command_check(terms->resume, job, true, fault) : rc;
}

static int part_load(struct bag *bag, uint32_t number, struct spotnik_fault *fault)
{
    char path[PATH_MAX], name[16];
    snprintf(name, sizeof name, "%u.csv", number);
    bag_path(bag, path, "jobs", name);
    if (bag->part_count == BAG_PARTS_MAX)
        return spotnik_fault_set(fault, "the bag has more than %d files of jobs", BAG_PARTS_MAX);
    struct spotnik_table *table;
    if (spotnik_table_load(path, &table, fault) != 0)
        return -1;
    size_t before = bag->job_count;
    return jobs_append(bag, table, fault) != 0
               ? -1
               : commands_check(&bag->terms, bag->job[before], fault);
}

int bag_jobs_refresh(struct bag *bag, struct spotnik_fault *fault)
{
    char path[PATH_MAX], name[24];
    for (;;) {
        snprintf(name, sizeof name, "jobs/%u.csv", bag->part_count + 1);
        bag_path(bag, path, name, NULL);
        int rc = bag_is_bucket(bag) ? bag_bucket_fetch(bag, name) : 0;
        if (rc != 0 && rc != -ENOENT)
            return spotnik_fault_set(fault, "%s", bag_why(bag, rc));
        if (access(path, F_OK) != 0)
            return 0;
        if (part_load(bag, bag->part_count + 1, fault) != 0)
            return -1;
    }
}

int bag_inputs_fetch(const struct bag *bag)
{
    char object[BAG_OBJECT_MAX];
    int rc = 0;
    for (char *const *name = bag->terms.input; bag_is_bucket(bag) && rc == 0 && *name != NULL;
         name++) {
        snprintf(object, sizeof object, "inputs/%s", *name);
        rc = bag_bucket_fetch(bag, object);
    }
    return rc;
}

/* ---- opening ---- */

static json_t *json_load(const struct bag *bag, struct spotnik_fault *fault)
{
    char path[PATH_MAX];
    json_error_t error;
    bag_path(bag, path, "bag.json", NULL);
    int rc = bag_is_bucket(bag)        ? bag_bucket_fetch(bag, "bag.json")
             : access(path, F_OK) != 0 ? -errno
                                       : 0;
    if (rc != 0) {
        spotnik_fault_fill(fault, "%s is no bag: %s. Make one with spotnik bag JOBS.csv -- COMMAND",
                           bag_where(bag), rc == -ENOENT ? "it has no bag.json" : bag_why(bag, rc));
        return NULL;
    }
    json_t *root = json_load_file(path, 0, &error);
    if (root == NULL)
        spotnik_fault_fill(fault, "%s/bag.json is damaged: %s", bag_where(bag), error.text);
    return root;
}

/* "file:" may stand before the folder. */
static int folder_parse(const char **folder, struct spotnik_fault *fault)
{
    if (spotnik_objects_is_foreign(*folder))
        return spotnik_fault_set(fault, "%s is neither a folder nor " SPOTNIK_OBJECTS_URLS,
                                 *folder);
    *folder += strncmp(*folder, "file:", 5) == 0 ? 5 : 0;
    return 0;
}

static int parts_make(struct bag *bag)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < PARTS; i++) {
        bag_path(bag, path, parts[i], NULL);
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

static int bucket_open(struct bag *bag, const char *url, struct spotnik_fault *fault)
{
    int rc = bag_bucket_open(bag, url, fault);
    if (rc == 0 && (rc = parts_make(bag)) != 0)
        return spotnik_fault_set(fault, "cannot write to %s: %s", bag->folder, strerror(-rc));
    return rc;
}

static int folder_open(struct bag *bag, const char *folder, struct spotnik_fault *fault)
{
    char path[PATH_MAX];
    if (realpath(folder, path) == NULL)
        return spotnik_fault_set(fault, "cannot use the folder %s: %s", folder, strerror(errno));
    if (strlen(path) >= sizeof bag->folder)
        return spotnik_fault_set(fault, "the path of the folder is too long: %.200s...", path);
    strcpy(bag->folder, path);
    return 0;
}

int bag_open(const char *folder, struct bag *ret, struct spotnik_fault *fault)
{
    memset(ret, 0, sizeof *ret);
    if (folder_parse(&folder, fault) != 0)
        return -1;
    int rc = spotnik_objects_is_bucket(folder) ? bucket_open(ret, folder, fault)
                                               : folder_open(ret, folder, fault);
    ret->writer = number_draw();
    json_t *root = rc == 0 ? json_load(ret, fault) : NULL;
    if (root == NULL)
        return -1;
    rc = bag_terms_read(root, &ret->terms, fault);
    json_decref(root);
    if (rc == 0)
        rc = bag_jobs_refresh(ret, fault);
    if (rc == 0 && ret->job_count == 0)
        rc = spotnik_fault_set(fault, "%s/jobs/1.csv is missing", bag_where(ret));
    return rc;
}

void bag_close(struct bag *bag)
{
    bag_terms_free(&bag->terms);
    for (uint32_t i = 0; i < bag->part_count; i++) {
        spotnik_table_free(bag->part[i]);
        free(bag->block[i]);
    }
    free(bag->job);
    free(bag->by_name);
    if (bag_is_bucket(bag))
        bag_bucket_close(bag);
    memset(bag, 0, sizeof *bag);
}

/* ---- making ---- */

static int folder_fault(const char *folder, int error, struct spotnik_fault *fault)
{
    return spotnik_fault_set(fault, "cannot write to the folder %s: %s%s", folder, strerror(error),
                             error == ENOSPC || error == EDQUOT
                                 ? ". Free some space and start again; nothing is lost"
                                 : "");
}

/* A folder with other things in it is somebody's. */
static int is_ours(const char *folder, struct spotnik_fault *fault)
{
    DIR *directory = opendir(folder);
    const char *stranger = NULL;
    if (directory == NULL)
        return spotnik_fault_set(fault, "cannot read the folder %s: %s", folder, strerror(errno));
    for (const struct dirent *at; stranger == NULL && (at = readdir(directory)) != NULL;) {
        bool known = at->d_name[0] == '.' || strcmp(at->d_name, "bag.json") == 0;
        for (size_t i = 0; i < PARTS; i++)
            known = known || strcmp(at->d_name, parts[i]) == 0;
        stranger = known ? NULL : at->d_name;
    }
    if (stranger != NULL)
        spotnik_fault_fill(fault, "%s holds other things (%.100s): name a new folder with --folder",
                           folder, stranger);
    closedir(directory);
    return stranger == NULL ? 0 : -1;
}

static int folders_make(struct bag *bag, const char *folder, struct spotnik_fault *fault)
{
    char path[PATH_MAX];
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return spotnik_fault_set(fault, "cannot make the folder %s: %s", folder, strerror(errno));
    if (realpath(folder, path) == NULL || strlen(path) >= sizeof bag->folder)
        return spotnik_fault_set(fault, "cannot use the folder %s: %s", folder, strerror(errno));
    strcpy(bag->folder, path);
    if (is_ours(bag->folder, fault) != 0)
        return -1;
    int rc = parts_make(bag);
    return rc == 0 ? 0 : folder_fault(bag->folder, -rc, fault);
}

static int another_bag(const struct bag *bag, const char *from, const char *part, const char *name,
                       struct spotnik_fault *fault)
{
    return spotnik_fault_set(fault,
                             "%s holds another bag: its %s/%s is not your %s. Name another folder "
                             "with --folder; to work on that bag say spotnik bag join %s%s",
                             bag_where(bag), part, name, from, bag_where(bag),
                             strcmp(part, "jobs") == 0
                                 ? "; more jobs are added by spotnik bag add, from a file of their "
                                   "own"
                                 : "");
}

static int object_put(struct bag *bag, const char *from, const char *part, const char *name,
                      struct spotnik_fault *fault)
{
    char object[BAG_OBJECT_MAX];
    if ((size_t)snprintf(object, sizeof object, "%s/%s", part, name) >= sizeof object)
        return spotnik_fault_set(fault, "the name %s is too long for a bucket", name);
    int rc = bag_bucket_file_put(bag, from, object);
    return rc == 0         ? 0
           : rc == -EEXIST ? another_bag(bag, from, part, name, fault)
                           : spotnik_fault_set(fault, "cannot copy %s into %s: %s", from,
                                               bag_where(bag), bag_why(bag, rc));
}

/* Copy a file into the bag, or find the same one there. */
static int file_put(struct bag *bag, const char *from, const char *part, const char *name,
                    struct spotnik_fault *fault)
{
    if (bag_is_bucket(bag))
        return object_put(bag, from, part, name, fault);
    char temporary[PATH_MAX], path[PATH_MAX], hidden[NAME_MAX + 32];
    uint64_t ours, theirs = 0;
    snprintf(hidden, sizeof hidden, ".%.200s.%016llx", name, (unsigned long long)bag->writer);
    bag_path(bag, temporary, part, hidden);
    bag_path(bag, path, part, name);
    int rc = bag_copy(from, temporary, &ours);
    if (rc != 0)
        return spotnik_fault_set(fault, "cannot copy %s into %s: %s", from, bag->folder,
                                 spotnik_file_why(rc));
    bool is_new = link(temporary, path) == 0;
    int error = errno;
    unlink(temporary);
    if (is_new)
        return 0;
    if (error != EEXIST)
        return folder_fault(bag->folder, error, fault);
    if (bag_hash(path, &theirs) == 0 && bag_hash(from, &ours) == 0 && ours == theirs)
        return 0;
    return another_bag(bag, from, part, name, fault);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int terms_put(struct bag *bag, const struct bag_terms *terms, struct spotnik_fault *fault)
{
    json_t *root = bag_terms_write(terms), *theirs = NULL;
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    int rc = text == NULL ? -ENOMEM
             : bag_is_bucket(bag)
                 ? bag_bucket_put(bag, "bag.json", text, true)
                 : spotnik_file_put(bag->folder, "bag.json", bag->writer, text, strlen(text), true);
    if (rc == -EEXIST) {
        theirs = json_load(bag, fault);
        const char *key = theirs != NULL ? bag_terms_differ(root, theirs) : NULL;
        rc = theirs == NULL ? -1 : 0;
        if (key != NULL)
            rc = spotnik_fault_set(
                fault,
                "%s holds another bag: its \"%s\" is not the same (see %s/bag.json). Name another "
                "folder with --folder; to work on that bag say spotnik bag join %s",
                bag_where(bag), key, bag_where(bag), bag_where(bag));
    } else if (rc != 0) {
        rc = bag_is_bucket(bag) ? spotnik_fault_set(fault, "%s", bag_why(bag, rc))
                                : folder_fault(bag->folder, -rc, fault);
    }
    json_decref(root);
    json_decref(theirs);
    free(text);
    return rc;
}

/* What is wrong with the jobs is found before the folder is touched. `bag`: the one they come into,
 * NULL: a new one. */
static int jobs_check(const char *csv, const struct bag_terms *terms, const struct bag *bag,
                      struct spotnik_fault *fault)
{
    struct bag *trial = calloc(1, sizeof *trial);
    struct spotnik_table *table;
    if (trial == NULL)
        return spotnik_fault_set(fault, "no memory");
    int rc = spotnik_table_load(csv, &table, fault);
    if (rc == 0 && (rc = jobs_append(trial, table, fault)) == 0)
        rc = commands_check(terms, trial->job[0], fault);
    bool named = rc == 0 && spotnik_table_find(table, "job") >= 0;
    for (size_t i = 0; named && rc == 0 && bag != NULL && i < trial->job_count; i++)
        if (bag_job_find(bag, trial->job[i]->name) != NULL)
            rc = spotnik_fault_set(fault,
                                   "%s: the bag has a job \"%s\" already: give it another name",
                                   csv, trial->job[i]->name);
    bag_close(trial);
    free(trial);
    return rc;
}

/* It holds no more than the store, for bag_make() and bag_add(). */
static int place_make(struct bag *bag, const char *where, const char *csv,
                      struct spotnik_fault *fault)
{
    if (!spotnik_objects_is_bucket(where))
        return folders_make(bag, where, fault);
    return bag_bucket_names_check(csv, fault) == 0 ? bag_bucket_open(bag, where, fault) : -1;
}

int bag_make(const char *folder, const char *csv, const struct bag_terms *terms,
             const char *const *inputs, struct spotnik_fault *fault)
{
    static struct bag bag;
    struct bag_terms named = *terms;
    int count = 0, rc = folder_parse(&folder, fault);
    if (rc == 0)
        rc = jobs_check(csv, terms, NULL, fault);
    bag.writer = number_draw();
    if (rc == 0)
        rc = place_make(&bag, folder, csv, fault);
    for (; rc == 0 && inputs[count] != NULL; count++) {
        named.input[count] = (char *)(uintptr_t)base_name(inputs[count]);
        rc = file_put(&bag, inputs[count], "inputs", named.input[count], fault);
    }
    if (rc == 0)
        rc = file_put(&bag, csv, "jobs", "1.csv", fault);
    if (rc == 0)
        rc = terms_put(&bag, &named, fault);
    if (bag_is_bucket(&bag))
        bag_bucket_close(&bag);
    memset(&bag, 0, sizeof bag);
    return rc;
}

int bag_add(struct bag *bag, const char *csv, uint32_t *ret_part, struct spotnik_fault *fault)
{
    char temporary[PATH_MAX], path[PATH_MAX], name[48];
    if (jobs_check(csv, &bag->terms, bag, fault) != 0)
        return -1;
    if (bag_is_bucket(bag))
        return bag_bucket_add(bag, csv, ret_part, fault);
    snprintf(name, sizeof name, ".add.%016llx", (unsigned long long)bag->writer);
    bag_path(bag, temporary, "jobs", name);
    int rc = bag_copy(csv, temporary, NULL), error = -rc;
    for (uint32_t part = bag->part_count + 1; rc == 0 && part <= BAG_PARTS_MAX; part++) {
        snprintf(name, sizeof name, "%u.csv", part);
        bag_path(bag, path, "jobs", name);
        *ret_part = part;
        if (link(temporary, path) == 0)
            break;
        error = errno;
        rc = error == EEXIST ? 0 : -1;
    }
    unlink(temporary);
    return rc == 0 ? bag_jobs_refresh(bag, fault) : folder_fault(bag->folder, error, fault);
}
