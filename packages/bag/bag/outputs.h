/* SPDX-License-Identifier: Apache-2.0 */
/* What else a program has in its directory, beside restart files, at the moment at which a restart
 * file was complete. A save holds the content of short files. Of long ones it holds the length:
 * their bytes stay in the directory of the attempt, so a save of a large trajectory costs
 * nothing. */
#ifndef BAG_OUTPUTS_H
#define BAG_OUTPUTS_H

#include "bag/bag.h"

struct bag_output {
    char name[NAME_MAX + 1];
    uint64_t bytes, hash; /* of the whole file, or of the end of a long one */
    char *whole;          /* NULL: a long one */
    unsigned mode;
    uint64_t changed_ns; /* by the clock of the file system */
};

struct bag_outputs {
    struct bag_output *file;
    size_t count, capacity;
    unsigned owners;
};

/* What is in the directory now, but for restart files. It belongs to the caller, as one of its
 * owners; NULL: it cannot be read. */
struct bag_outputs *bag_outputs_take(const struct bag *bag, const char *directory);
struct bag_outputs *bag_outputs_share(struct bag_outputs *outputs);
/* One owner less; the last one frees it. NULL is fine. */
void bag_outputs_drop(struct bag_outputs *outputs);

/* May this file be ahead of the restart file, or be missing? (--loose) */
bool bag_output_is_loose(const struct bag *bag, const char *name);
/* Are there files that may not? */
bool bag_outputs_bind(const struct bag *bag, const struct bag_outputs *outputs);

/* One that may not be ahead and was changed after the restart file of this name, or that file where
 * it cannot be looked at; NULL: none was. The kernel tells of a write when it is done, and what is
 * written may be seen before. */
const char *bag_outputs_later(const struct bag *bag, const struct bag_outputs *outputs,
                              const char *directory, const char *restart);

/* Write it into the directory of a save, and see to it that the long files are on the disk of the
 * bag. 0 or -errno; -EAGAIN: one of them was written anew, and what it held is gone. */
int bag_outputs_put(const struct bag *bag, const struct bag_outputs *outputs, const char *work,
                    const char *save);

/* Put the files of a save into `directory`; `work` is that of the attempt that made it. 0 or
 * -errno; -EILSEQ: one of them was written anew. Then none is left in `directory`. */
int bag_outputs_restore(const struct bag *bag, const char *save, const char *work,
                        const char *directory);

/* Remove all files there but inputs, which are links. */
void bag_outputs_clear(const char *directory);

#endif
