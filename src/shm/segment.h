/* SPDX-License-Identifier: Apache-2.0 */
/* A member's segment: memory of its own that others may read. It has no name: the owner passes the
 * file descriptor to processes that have proved the job key. It vanishes with the last process that
 * has it open or mapped. Seals keep all others from writing to it, and its owner from shrinking it
 * under a reader.
 *
 * The owner maps a large range once and the file grows into it, so that addresses last. Others
 * decide what areas are for. */
#ifndef SPOTNIK_SHM_SEGMENT_H
#define SPOTNIK_SHM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_SEGMENT_PAGE 4096u

struct spotnik_segment_hole;

struct spotnik_segment {
    int fd; /* -1: none */
    uint8_t *base;
    size_t reserved, used;
    struct spotnik_segment_hole *holes; /* areas given back */
};

/* Empty. 0 or SPOTNIK_ERR_SYSTEM (a kernel without memfd, or a limit on address space). */
int spotnik_segment_new(struct spotnik_segment *segment);

/* An area of whole pages, with memory behind it, zero when it has not been used before. NULL: there
 * is none. */
void *spotnik_segment_take(struct spotnik_segment *segment, size_t bytes);

/* The same in two: a place, which takes no time; then memory behind it, which takes a second for
 * some GiB. The second may run without the lock that guards the segment. False: there is no memory;
 * give the place back. */
void *spotnik_segment_reserve(struct spotnik_segment *segment, size_t bytes);
bool spotnik_segment_fill(const struct spotnik_segment *segment, void *area, size_t bytes);

/* Give an area back that no member reads any more. */
void spotnik_segment_give(struct spotnik_segment *segment, void *area, size_t bytes);

/* Does [data, data + bytes) lie in it? */
bool spotnik_segment_holds(const struct spotnik_segment *segment, const void *data, size_t bytes);

void spotnik_segment_free(struct spotnik_segment *segment);

/* Map a segment that came from its owner, for reading. *ret_bytes: how much of it can be looked at,
 * now or later; what is not there yet must not be. 0, SPOTNIK_ERR_PEERS when it is no sealed
 * segment, or SPOTNIK_ERR_SYSTEM. */
int spotnik_segment_map(int fd, void **ret_base, size_t *ret_bytes);
void spotnik_segment_unmap(void *base);

/* Have [data, data + bytes) of mapped memory at hand before it is read: one call instead of a fault
 * for every few pages. A hint; what is not there is left alone. */
void spotnik_segment_touch(const void *data, size_t bytes);

/* Bytes of memory behind a segment that came from its owner, at this moment. */
size_t spotnik_segment_size(int fd);

#endif
