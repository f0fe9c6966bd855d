/* SPDX-License-Identifier: Apache-2.0 */
/* Restart files: which one is whole, and copies of them that outlive the machine. A save is a
 * directory with one file in it, beside what outputs.h puts there; its name says of which job and
 * attempt it is, how much work it holds, and the hash of the file. */
#ifndef BAG_SAVES_H
#define BAG_SAVES_H

#include "bag/outputs.h"

struct bag_save {
    char name[NAME_MAX + 1]; /* in saves/; "": there is none */
    char file[NAME_MAX + 1]; /* in it */
    uint32_t attempt, sequence;
    uint64_t work_ms, hash;
};

/* A restart file in a directory, and for how many looks it has been the same. */
struct bag_restart {
    char file[NAME_MAX + 1]; /* "": none was seen */
    uint64_t inode, size, changed_ns;
    uint64_t work_ms; /* the work that had been done when this one was first seen */
    /* it was the same at two looks, and nobody has it open for writing, as far as can be known */
    bool is_whole;
};

/* Look at the files in `directory` that match `pattern`; *restart is from the look before. Two
 * looks shall be a second or so apart. One that is the same as at the look before is whole, though
 * there may be newer ones; else the newest. */
void bag_restart_look(const char *directory, const char *pattern, uint64_t work_ms,
                      struct bag_restart *restart);

bool bag_restart_same(const struct bag_restart *a, const struct bag_restart *b);

/* The program has ended by itself: what it wrote is whole. */
void bag_restart_settle(const char *directory, const char *pattern, uint64_t work_ms,
                        struct bag_restart *restart);

/* Copy a restart file into the bag, with the outputs of that moment. Blocking: for a process of its
 * own. 0 or -errno; -EAGAIN: it changed meanwhile. */
int bag_save_make(struct bag *bag, const struct bag_job *job, uint32_t attempt, uint32_t sequence,
                  const struct bag_restart *restart, const struct bag_outputs *outputs);

/* The newest save of a job that is older than `before` (NULL: of all). 1; 0: there is none; or
 * -errno: the saves cannot be read, so the job must not begin anew. ret->file is "" where the bag is
 * in a bucket: _restore() sets it. */
int bag_save_find(const struct bag *bag, const struct bag_job *job, const struct bag_save *before,
                  struct bag_save *ret);

/* Put it into a directory, under its own name, with the outputs of that moment. 0 or -errno;
 * -EILSEQ: it is damaged; -ENOENT: it is gone. */
int bag_save_restore(const struct bag *bag, const struct bag_job *job, struct bag_save *save,
                     const char *directory);

/* It does not work: it is kept under another name, and not found any more. */
void bag_save_spoil(const struct bag *bag, const struct bag_save *save);

/* Remove the saves of a job before `before`; all of them with NULL. */
void bag_saves_remove(struct bag *bag, const struct bag_job *job, const struct bag_save *before);

#endif
