/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of published snapshots in memory that other processes of the host may read. It also
 * has the way to read a whole one while its owner goes on writing. The owner never waits and knows
 * of no reader. A reader that dies halfway leaves nothing behind. No system calls, no locks.
 * export.c owns our memory; import.c maps another's.
 *
 * The table, at the beginning of the segment, has a row for each name; a row says where the newest
 * copy lies. Each copy counts its turns: odd while it is being written. A reader that finds the
 * same even number before and after has read one whole publication.
 *
 * The reader does not trust another's segment: it reads offsets and sizes once, and checks them
 * against the memory that is there. */
#ifndef SPOTNIK_P2P_PUBLISHED_H
#define SPOTNIK_P2P_PUBLISHED_H

#include <stddef.h>
#include <stdint.h>

#include "wire/p2p_frame.h"

/* "PPublished1" and what follows: no other layout has it */
#define SPOTNIK_PUBLISHED_MAGIC UINT64_C(0x31666c6568735350)
#define SPOTNIK_PUBLISHED_ROWS 256
#define SPOTNIK_PUBLISHED_LINE 64     /* bytes; copies lie on multiples of it */
#define SPOTNIK_PUBLISHED_NOTHING 0   /* in place of an offset: nothing is published */
#define SPOTNIK_PUBLISHED_ELSEWHERE 1 /* it is, but not here: ask */

struct spotnik_published_row {
    char name[SPOTNIK_P2P_NAME_MAX + 1]; /* zeros after its end */
    uint64_t dtype, bytes;
    uint64_t newest; /* offset of a copy in the segment, or one of the two words above */
    uint64_t rest[5];
};

struct spotnik_published {
    uint64_t magic;
    uint64_t count; /* of rows; they only get more */
    uint64_t rest[6];
    struct spotnik_published_row row[SPOTNIK_PUBLISHED_ROWS];
};

/* In front of its data. */
struct spotnik_published_copy {
    uint64_t turn; /* odd: it is being written */
    uint64_t version;
    uint64_t bytes;
    uint64_t rest[5];
};

/* ---- the owner; calls for one table do not overlap, but for those of _write for different copies
 * ---- */

void spotnik_published_init(struct spotnik_published *published);

/* NULL: the table is full. */
struct spotnik_published_row *spotnik_published_add(struct spotnik_published *published,
                                                    const char *name, uint64_t dtype,
                                                    uint64_t bytes);

/* `data` into the memory behind `copy`, past the caches where there is much of it: another process
 * reads it next. */
void spotnik_published_write(struct spotnik_published_copy *copy, const void *data, uint64_t bytes,
                             uint64_t version);

/* From now on it is the newest: an offset, or one of the two words. */
void spotnik_published_show(struct spotnik_published_row *row, uint64_t newest);

/* ---- a reader ---- */

enum spotnik_published_sight {
    SPOTNIK_PUBLISHED_READ,  /* a whole copy, and its version */
    SPOTNIK_PUBLISHED_NONE,  /* nothing of that name, or nothing that is new enough */
    SPOTNIK_PUBLISHED_OTHER, /* it is of another size or type */
    SPOTNIK_PUBLISHED_TORN,  /* it was written over meanwhile, again and again: ask its owner */
    /* not to be found here: ask its owner. Also for bytes that are no such table */
    SPOTNIK_PUBLISHED_WRONG,
    SPOTNIK_PUBLISHED_SHORT, /* it lies beyond `size`: look how large the segment is by now */
};

/* What is looked for; name as in a row. */
struct spotnik_published_wanted {
    char name[SPOTNIK_P2P_NAME_MAX + 1];
    uint64_t dtype, bytes, version_min;
};

/* `base`: `size` bytes that can be read. `data`: of unspecified content unless it returns READ. */
enum spotnik_published_sight spotnik_published_look(const void *base, size_t size,
                                                    const struct spotnik_published_wanted *wanted,
                                                    void *data, uint64_t *ret_version);

#endif
