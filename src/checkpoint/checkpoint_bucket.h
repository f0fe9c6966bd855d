/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoint_store.h does where `dir` is a bucket. The names are those of
 * a folder. There are no folders to make, no locks and no renames. Not for others than the files
 * checkpoint_store*.c. */
#ifndef SPOTNIK_CHECKPOINT_CHECKPOINT_BUCKET_H
#define SPOTNIK_CHECKPOINT_CHECKPOINT_BUCKET_H

#include "checkpoint/checkpoint_store.h"

/* In a bucket an entry that was set aside has this in place of its manifest. */
#define SPOTNIK_CHECKPOINT_BUCKET_ASIDE "skipped.json"

int spotnik_checkpoint_bucket_open(const char *dir);

/* Names that begin with `prefix`, without it; "name/" for a folder. */
int spotnik_checkpoint_bucket_walk(const char *dir, const char *prefix,
                                   int (*each)(void *context, const struct spotnik_object *object),
                                   void *context);

int spotnik_checkpoint_bucket_write(const char *dir, const char *entry, const char *name,
                                    const struct spotnik_objects_pieces *pieces);
int spotnik_checkpoint_bucket_replace(const char *dir, const char *entry, const char *name,
                                      const void *bytes, size_t size);
int spotnik_checkpoint_bucket_read(const char *dir, const char *entry, const char *name,
                                   const struct spotnik_checkpoint_store_reader *reader);
int spotnik_checkpoint_bucket_get(const char *dir, const char *entry, const char *name,
                                  size_t size_max, uint8_t **ret_bytes, size_t *ret_size);

/* `entry` NULL: of the folder itself. False with errno: ENOENT, or EIO. */
bool spotnik_checkpoint_bucket_has(const char *dir, const char *entry, const char *name);

/* When the manifest of `entry` was written, 0: it has none. *ret_aside: it was set aside, or holds
 * nothing. */
int spotnik_checkpoint_bucket_written(const char *dir, const char *entry, int64_t *ret_written_s,
                                      bool *ret_aside);

/* An empty object, of the folder itself. */
int spotnik_checkpoint_bucket_mark(const char *dir, const char *name);

/* `entry` NULL: of the folder itself. Best effort. */
void spotnik_checkpoint_bucket_delete(const char *dir, const char *entry, const char *name);
void spotnik_checkpoint_bucket_set_aside(const char *dir, const char *entry);

#endif
