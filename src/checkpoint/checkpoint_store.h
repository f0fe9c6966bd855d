/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a job's checkpoints: a directory per checkpoint, files that appear whole or not
 * at all. `dir` is a folder, or a bucket (checkpoint_bucket.h). Knows names and
 * order; never what is in a file.
 *
 *     DIR/step-000000000120-<founding>/part-00001-of-00004-<hash>.safetensors ...
 *                                      blobs-<writer>.safetensors
 *                                      manifest.json                 written last: it is complete
 *     DIR/due-<founding>-<step>                                      the next one is due after this
 *                                                                    step
 *     DIR/skipped-step-...                                           was found damaged, and left
 *                                                                    out
 *     DIR/minority-step-000000000120-<digest>/                       the same files: the state of
 *                                                                    members that were cut off; is
 *                                                                    in no list but its own, and
 *                                                                    never pruned
 *
 * Nothing is overwritten: the founding keeps apart what several lives of a job wrote after the same
 * step. */
#ifndef SPOTNIK_CHECKPOINT_STORE_H
#define SPOTNIK_CHECKPOINT_STORE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

#define SPOTNIK_CHECKPOINT_STORE_NAME_MAX 95

/* One checkpoint, complete or not. */
struct spotnik_checkpoint_store_entry {
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    uint64_t step, founding;
    int64_t written_s; /* when its manifest was written, 0: it has none, so it is not complete */
};

struct spotnik_checkpoint_store_list {
    uint32_t count;
    struct spotnik_checkpoint_store_entry *entry; /* newest first: by step, then by age */
};

/* Make the directory if it is missing; its parent must exist. Errors: SYSTEM (the detail says what
 * to do). */
int spotnik_checkpoint_store_open(const char *dir);

void spotnik_checkpoint_store_entry_name(uint64_t step, uint64_t founding,
                                         char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1]);

/* The digest of the state, as members that were cut off together have the same, and others after
 * the same step may not. */
void spotnik_checkpoint_store_minority_name(uint64_t step, uint64_t digest,
                                            char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1]);

/* Errors: SYSTEM, MEMORY. The caller gives the list back. */
int spotnik_checkpoint_store_list(const char *dir, struct spotnik_checkpoint_store_list *ret);
/* Those of minorities alone: `founding` is the digest. */
int spotnik_checkpoint_store_list_minority(const char *dir,
                                           struct spotnik_checkpoint_store_list *ret);
void spotnik_checkpoint_store_list_done(struct spotnik_checkpoint_store_list *list);

/* Make `dir`/`entry` if it is missing. Errors: SYSTEM. */
int spotnik_checkpoint_store_entry_make(const char *dir, const char *entry);

/* The pieces, one after the other, as a file that appears when it is whole and on the disk.
 * `writer` keeps files of several writers apart. Errors: STATE (it was stopped), SYSTEM, with errno
 * as it was. */
int spotnik_checkpoint_store_write(const char *dir, const char *entry, const char *name,
                                   uint64_t writer, const struct spotnik_objects_pieces *pieces);

/* A whole small file at once. Errors: SYSTEM. */
int spotnik_checkpoint_store_put(const char *dir, const char *entry, const char *name,
                                 uint64_t writer, const void *bytes, size_t size);

/* The same, over a file of that name that may be there: readers see the old one or the new one.
 * Errors: SYSTEM. */
int spotnik_checkpoint_store_replace(const char *dir, const char *entry, const char *name,
                                     uint64_t writer, const void *bytes, size_t size);

/* Best effort. */
void spotnik_checkpoint_store_remove(const char *dir, const char *entry, const char *name);

/* The whole of a file of at most size_max bytes. The caller frees *ret_bytes. Errors: PEERS (no
 * such file, no regular one, or longer), SYSTEM, MEMORY. */
int spotnik_checkpoint_store_get(const char *dir, const char *entry, const char *name,
                                 size_t size_max, uint8_t **ret_bytes, size_t *ret_size);

/* A file from beginning to end. take() returns false for bytes that it does not want. Errors: PEERS
 * (no such file, or unwanted bytes), SYSTEM. */
struct spotnik_checkpoint_store_reader {
    uint8_t *buffer;
    size_t size; /* of the buffer */
    bool (*take)(void *context, const uint8_t *bytes, size_t size);
    void *context;
};
int spotnik_checkpoint_store_read(const char *dir, const char *entry, const char *name,
                                  const struct spotnik_checkpoint_store_reader *reader);

/* Call each() for the names of an entry. size UINT64_MAX: it is no regular file. Errors: SYSTEM, or
 * what each() returned. */
int spotnik_checkpoint_store_files(const char *dir, const char *entry,
                                   int (*each)(void *context, const struct spotnik_object *file),
                                   void *context);

/* False with errno and spotnik_last_error(): ENOENT, ENOTDIR, or it cannot be looked at; EIO: nor
 * will it be in a moment. */
bool spotnik_checkpoint_store_has(const char *dir, const char *entry, const char *name);

/* Keep the newest `keep` complete checkpoints. Goes: older complete ones, and incomplete ones older
 * than the newest complete; of this founding and of those whose root is the same. Other lineages
 * are none of ours; with founding 0 all are. Best effort: what cannot be removed now is
 * tried again with the next. Links are not followed, and what we did not write stays, with its
 * directory. Returns how many are gone. */
uint32_t spotnik_checkpoint_store_prune(const char *dir, uint64_t founding, uint64_t root,
                                        uint32_t keep);

/* "root-<root>-of-<founding>": to what first founding a founding goes back. Best effort. */
void spotnik_checkpoint_store_root_set(const char *dir, uint64_t founding, uint64_t root);
uint64_t spotnik_checkpoint_store_root(const char *dir, uint64_t founding); /* 0: not known */
bool spotnik_checkpoint_store_is_of(const char *dir, uint64_t founding, uint64_t root);

/* From now on this process is one of those that write to `dir`, until it closes *ret_fd (-1: the
 * file system has no such file). `root`: the first founding that its job goes back to. Where
 * members of a job of another root live it waits for their end. Errors: CHECKPOINT (they still
 * live; the detail names both jobs). Blocking. */
int spotnik_checkpoint_store_hold(const char *dir, const char *job, uint64_t root,
                                  uint64_t patience_ns, int *ret_fd);

/* Out of the way, but not deleted: a checkpoint that was found damaged. */
void spotnik_checkpoint_store_set_aside(const char *dir, const char *entry);

/* "due-<founding>-<step>": the next checkpoint is due after `step`. */
int spotnik_checkpoint_store_due_set(const char *dir, uint64_t founding, uint64_t step);
/* The highest such step of this founding, 0: none. */
uint64_t spotnik_checkpoint_store_due(const char *dir, uint64_t founding);

#endif
