/* SPDX-License-Identifier: Apache-2.0 */
/* A bag of simulations: a folder with jobs that any number of workers, on any machines, take one by
 * one (docs/design/0030-bag.md), or a bucket (bag_bucket.h). The folder's content, the claims of
 * workers, and the end of a job. Nothing here starts a program; cli/bag does. */
#ifndef BAG_BAG_H
#define BAG_BAG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/fault.h"
#include "common/table.h"

#define BAG_FOLDER_MAX (PATH_MAX - 512) /* room for the names of files in it */
#define BAG_JOB_NAME_MAX 100
#define BAG_JOB_NAME_BUCKET_MAX 64 /* names of objects have at most 127 bytes */
#define BAG_PARTS_MAX 4096
#define BAG_LIST_MAX 64

/* How an attempt ended. In the folder it is the end of a claim's name. */
enum bag_end {
    BAG_END_NONE,     /* it runs, or its worker is dead */
    BAG_END_DONE,     /* its directory is the result */
    BAG_END_RETURNED, /* given back: somebody else goes on */
    BAG_END_FAILED,   /* the program did not end well: counts as a try */
    BAG_END_LOST,     /* its worker is dead; somebody else says so */
    /* the job was done, or taken, by others meanwhile: this copy was thrown away */
    BAG_END_LATE,
    BAG_ENDS,
};
extern const char *const bag_end_names[BAG_ENDS];

/* bag.json: what all workers of the bag do alike. */
struct bag_terms {
    char **command; /* words with placeholders */
    char **resume;  /* NULL: the command itself */
    char *restart;  /* pattern of the program's restart files; NULL: it has none */
    /* patterns of files without which a job is not done; NULL at the end */
    char *expect[BAG_LIST_MAX + 1];
    /* patterns of outputs that may be ahead of a restart file, or missing; NULL at the end */
    char *loose[BAG_LIST_MAX + 1];
    char *input[BAG_LIST_MAX + 1]; /* names in inputs/; NULL at the end */
    int ask;                       /* signal that makes the program write a restart file; 0: none */
    uint32_t tries;
};

struct bag_job {
    char name[BAG_JOB_NAME_MAX];
    const struct spotnik_table *table;
    size_t row;
    /* What bag_look() has seen: */
    uint32_t attempt; /* the latest; 0: never taken */
    enum bag_end end; /* of it */
    uint32_t failures;
    uint64_t owner; /* of the latest attempt; 0: not read yet */
    bool done, aside, dropped;
};

struct bag {
    char folder[BAG_FOLDER_MAX];
    char url[576]; /* "": the bag is the folder */
    struct spotnik_objects *bucket;
    int scratch;     /* the folder of a bag in a bucket */
    uint64_t writer; /* ours: names of files before they are in place */
    struct bag_terms terms;
    struct spotnik_table *part[BAG_PARTS_MAX];
    uint32_t part_count;
    struct bag_job *block[BAG_PARTS_MAX]; /* the jobs of each part: they stay where they are */
    struct bag_job **job;                 /* in the order of the files */
    struct bag_job **by_name;
    size_t job_count;
};

/* Make the bag, or find that it is there already with the same jobs and terms. `inputs` are paths,
 * NULL at the end. -1: *fault says what is wrong and what to do; nothing in the folder is lost or
 * changed. */
int bag_make(const char *folder, const char *csv, const struct bag_terms *terms,
             const char *const *inputs, struct spotnik_fault *fault);

/* Read the folder. The caller closes *ret, on failure, too. */
int bag_open(const char *folder, struct bag *ret, struct spotnik_fault *fault);
void bag_close(struct bag *bag);

/* Add the rows of another file with the same columns. *ret_part is its number. */
int bag_add(struct bag *bag, const char *csv, uint32_t *ret_part, struct spotnik_fault *fault);

/* To this machine, where the bag is in a bucket. 0 or -errno. */
int bag_inputs_fetch(const struct bag *bag);

/* Read what parts have been added since. -1: one of them cannot be read. */
int bag_jobs_refresh(struct bag *bag, struct spotnik_fault *fault);

bool bag_is_bucket(const struct bag *bag);
/* As its user names it. */
const char *bag_where(const struct bag *bag);
/* Why the last call failed with `rc`. */
const char *bag_why(const struct bag *bag, int rc);

/* The job of this name, NULL: there is none. */
struct bag_job *bag_job_find(const struct bag *bag, const char *name);

/* What a job's placeholders stand for: bag_lookup of template.h with a struct bag_values. */
struct bag_values {
    const struct bag_job *job;
    const char *restart; /* name of the restart file; NULL: there is none */
    const char *folder;
    char attempt[16];
};
const char *bag_value(const void *values, const char *name);

/* "FOLDER/PART" or "FOLDER/PART/NAME". */
void bag_path(const struct bag *bag, char path[PATH_MAX], const char *part, const char *name);

/* "DIRECTORY/NAME"; what does not fit is cut, and then nothing is found under it. */
void bag_join(char path[PATH_MAX], const char *directory, const char *name);

/* ---- claims ---- */

struct bag_figures {
    uint64_t ran_ms;      /* this attempt, on the clock */
    uint64_t base_ms;     /* the work that its save held when it began */
    uint64_t saved_ms;    /* the work that its newest save holds */
    uint64_t cpu_ms;      /* of the program's processes; 0: not known */
    uint64_t expected_ms; /* what the programme expects the job to take; 0: not asked */
    int status;           /* of the program, as wait() says */
};

/* Read what others have done. 0 or -errno: the folder does not answer, or only in part; what was
 * known stays. */
int bag_look(struct bag *bag);

/* Nobody holds it and it is wanted: anybody may take its next attempt. */
bool bag_job_is_open(const struct bag_job *job);
/* Done, set aside or dropped. */
bool bag_job_is_over(const struct bag_job *job);

/* Take the next attempt for worker `worker`. 0, -EEXIST: somebody else was faster, or -errno. On
 * success *job says it. */
int bag_claim(struct bag *bag, struct bag_job *job, uint64_t worker,
              const struct bag_figures *figures);

/* Say how an attempt ended; once. 0 when it is said, by whomever, or -errno. */
int bag_end_put(struct bag *bag, const struct bag_job *job, uint32_t attempt, enum bag_end end,
                const struct bag_figures *figures);

/* Call each() with the names of claims and their ends. 0 or -errno. */
int bag_claims_each(struct bag *bag, void (*each)(void *context, const char *name), void *context);
bool bag_claim_is(const struct bag *bag, const char *name);

/* What an ending, or with BAG_END_NONE a claim, says. False: it cannot be read. */
bool bag_figures_read(const struct bag *bag, const char *job, uint32_t attempt, enum bag_end end,
                      struct bag_figures *ret, uint64_t *ret_worker);

/* "JOB@N" or "JOB@N.end" taken apart. False: it is no name of a claim. */
bool bag_claim_parse(const char *name, char job[BAG_JOB_NAME_MAX], uint32_t *ret_attempt,
                     enum bag_end *ret_end);
void bag_attempt_name(const struct bag_job *job, uint32_t attempt, char name[NAME_MAX + 1]);

/* ---- the end of a job ---- */

/* Before _put() where the bag is in a bucket: upload the directory of this attempt. Blocking: for a
 * process of its own. 0 or -errno. */
int bag_result_send(struct bag *bag, const struct bag_job *job, uint32_t attempt,
                    const struct bag_figures *figures, const char *host);
/* Rename the directory of this attempt to results/JOB. 0: it is the result; -EEXIST: there is one,
 * from another attempt; or -errno. */
int bag_result_put(struct bag *bag, const struct bag_job *job, uint32_t attempt,
                   const struct bag_figures *figures, const char *host);
/* Is there a result? Asked of the folder, not of what was seen before. */
bool bag_result_is(const struct bag *bag, const struct bag_job *job);

/* Results of a bag in a bucket, as DIRECTORY/JOB; those that are there stay. *ret_count: how many
 * were fetched. 0 or -errno. */
int bag_results_fetch(struct bag *bag, const char *directory, size_t *ret_count);

/* Set a job aside that has failed too often, with the directory and the log of its last attempt. 0
 * or -errno. */
int bag_aside_put(struct bag *bag, const struct bag_job *job);

/* Nobody wants this job any more. 0 or -errno. */
int bag_drop(struct bag *bag, const struct bag_job *job);

/* Try it again: its failures no longer count. 0 or -errno. */
int bag_retry(struct bag *bag, const struct bag_job *job);

/* Take away the saves and unfinished directories of a job that is over. */
void bag_sweep(struct bag *bag, const struct bag_job *job);

/* Can the folder take a file of `bytes`? 0 or -errno (ENOSPC, EDQUOT, ...). */
int bag_probe(struct bag *bag, size_t bytes);

/* Remove a file or a directory with all that is in it. 0 or -errno. Nobody else may use it. */
int bag_remove(const char *path);
/* The same with an entry of a part of the bag ("work", "saves") that others may be using: it goes in
 * one piece. 0, also where it is gone, or -errno. */
int bag_take_away(struct bag *bag, const char *part, const char *name);
/* The directory of an attempt, in that way. */
void bag_attempt_remove(struct bag *bag, const struct bag_job *job, uint32_t attempt);
/* What workers that died had begun to remove. */
void bag_leftovers_remove(const struct bag *bag);

/* Hash of a file's bytes. 0 or -errno. */
int bag_hash(const char *path, uint64_t *ret_hash);

/* Copy a file: `to` must not exist. Keeps the mode; *ret_hash may be NULL. 0 or -errno; then `to`
 * is gone. */
int bag_copy(const char *from, const char *to, uint64_t *ret_hash);
/* The first `bytes` of it; -ENODATA: it is shorter. */
int bag_copy_start(const char *from, const char *to, uint64_t bytes, uint64_t *ret_hash);

#endif
