/* SPDX-License-Identifier: Apache-2.0 */
/* A bag in a bucket. What is a small file of the bag is an object of that name, and what is a
 * directory is a tar file, which appears whole or not at all:
 *
 *     bag.json, jobs/1.csv, inputs/NAME, workers/ID
 *     marks/PART.NAME         what are names in claims/, results/, aside/ and dropped/: one listing
 *                             shows the bag
 *     saves/NAME.tar          with the outputs of that moment, short and long
 *     results/JOB@N.tar       of attempt N; the mark results.JOB holds the N that counts
 *     aside/JOB.tar
 *
 * bag->folder is scratch of this process alone. Programs run there. All calls block for 10 s at
 * most, and a second more for each 256 KiB. They return 0 or -errno; see bag_why(). */
#ifndef BAG_BAG_BUCKET_H
#define BAG_BAG_BUCKET_H

#include "bag/bag.h"

#define BAG_OBJECT_MAX 128

/* Open it, and make the scratch folder. -1 with *fault. */
int bag_bucket_open(struct bag *bag, const char *url, struct spotnik_fault *fault);
void bag_bucket_close(struct bag *bag);

/* After a fork(): connections of its own for the child. */
int bag_bucket_reopen(struct bag *bag);

/* The object, as the file of that name in bag->folder. */
int bag_bucket_fetch(const struct bag *bag, const char *object);
/* A file as an object. -EEXIST: there is one that holds something else. */
int bag_bucket_file_put(const struct bag *bag, const char *path, const char *object);

int bag_bucket_put(const struct bag *bag, const char *object, const char *text, bool exclusive);
/* *ret_size at most text_max; the text ends with a zero behind it. */
int bag_bucket_get(const struct bag *bag, const char *object, char *text, size_t text_max,
                   size_t *ret_size);
int bag_bucket_delete(const struct bag *bag, const char *object);

/* Call each() for what begins with `prefix`, without it. */
int bag_bucket_walk(const struct bag *bag, const char *prefix,
                    void (*each)(void *context, const char *name, int64_t written_s),
                    void *context);

/* These names in `directory`, which end with NULL, with all that is in them. */
int bag_bucket_tree_put(const struct bag *bag, const char *object, const char *directory,
                        const char *const *names);
int bag_bucket_tree_get(const struct bag *bag, const char *object, const char *directory);

/* -1: a name of a job is too long for a bucket. */
int bag_bucket_names_check(const char *csv, struct spotnik_fault *fault);
/* bag_add() under the next number that is free. */
int bag_bucket_add(struct bag *bag, const char *csv, uint32_t *ret_part,
                   struct spotnik_fault *fault);

/* "marks/PART.NAME" */
void bag_mark_name(char object[BAG_OBJECT_MAX], const char *part, const char *name);
/* "PART/NAME.tar" */
void bag_tree_name(char object[BAG_OBJECT_MAX], const char *part, const char *name);

#endif
