/* SPDX-License-Identifier: Apache-2.0 */
/* memfd, seals and areas. */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "spotnik/spotnik.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Address space that every member reserves for every other on its host. */
#define RESERVED ((size_t)1 << 36)

/* Otherwise identical areas would begin at equal offsets from a power of two, in all members. They
 * would then compete for the same few cache lines. */
#define GAP SPOTNIK_SEGMENT_PAGE

/* Memory that is asked for at once. */
#define PIECE ((size_t)4 << 20)

struct spotnik_segment_hole {
    struct spotnik_segment_hole *next;
    uint8_t *base;
    size_t bytes;
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + SPOTNIK_SEGMENT_PAGE - 1) & ~(size_t)(SPOTNIK_SEGMENT_PAGE - 1);
}

static int seal(int fd)
{
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        return -1;
    /* Linux before 5.1 has none: then good manners must do */
    fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
}

int spotnik_segment_new(struct spotnik_segment *segment)
{
    *segment =
        (struct spotnik_segment){ .fd = memfd_create("spotnik", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    if (segment->fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make shared memory: %m");
    void *base =
        mmap(NULL, RESERVED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment->fd, 0);
    if (base == MAP_FAILED || seal(segment->fd) != 0) {
        int rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map or seal shared memory: %m");
        if (base != MAP_FAILED)
            munmap(base, RESERVED);
        close(segment->fd);
        segment->fd = -1;
        return rc;
    }
    madvise(base, RESERVED, MADV_DONTDUMP);
    segment->base = base;
    segment->reserved = RESERVED;
    return 0;
}

static void *hole_take(struct spotnik_segment *segment, size_t bytes)
{
    for (struct spotnik_segment_hole **at = &segment->holes; *at != NULL; at = &(*at)->next) {
        struct spotnik_segment_hole *hole = *at;
        if (hole->bytes < bytes)
            continue;
        uint8_t *base = hole->base;
        hole->base += bytes;
        hole->bytes -= bytes;
        if (hole->bytes == 0) {
            *at = hole->next;
            free(hole);
        }
        return base;
    }
    return NULL;
}

void *spotnik_segment_reserve(struct spotnik_segment *segment, size_t bytes)
{
    size_t size = whole_pages(bytes > 0 ? bytes : 1), at = segment->used;
    if (size < bytes || size + GAP > segment->reserved - at)
        return NULL;
    void *hole = hole_take(segment, size);
    if (hole != NULL)
        return hole;
    segment->used = at + size + GAP;
    return segment->base + at;
}

/* A signal ends a large request unfulfilled: a program with a timer would never get it whole. */
static bool pages_get(int fd, off_t at, off_t size)
{
    int rc;
    do
        rc = fallocate(fd, 0, at, size);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        spotnik_descriptor_check(errno);
    return rc == 0;
}

bool spotnik_segment_fill(const struct spotnik_segment *segment, void *area, size_t bytes)
{
    size_t size = whole_pages(bytes > 0 ? bytes : 1),
           begin = (size_t)((uint8_t *)area - segment->base);
    for (size_t at = 0; at < size; at += PIECE) {
        size_t some = size - at < PIECE ? size - at : PIECE;
        if (!pages_get(segment->fd, (off_t)(begin + at), (off_t)some))
            return false;
        /* one call, not a fault a page; Linux before 5.14 has none */
        madvise((uint8_t *)area + at, some, MADV_POPULATE_WRITE);
    }
    return true;
}

void *spotnik_segment_take(struct spotnik_segment *segment, size_t bytes)
{
    void *area = spotnik_segment_reserve(segment, bytes);
    if (area == NULL || spotnik_segment_fill(segment, area, bytes))
        return area;
    spotnik_segment_give(segment, area, bytes);
    return NULL;
}

void spotnik_segment_give(struct spotnik_segment *segment, void *area, size_t bytes)
{
    struct spotnik_segment_hole *hole = malloc(sizeof *hole);
    if (hole == NULL)
        return; /* lost until the segment goes */
    *hole =
        (struct spotnik_segment_hole){ segment->holes, area, whole_pages(bytes > 0 ? bytes : 1) };
    segment->holes = hole;
}

bool spotnik_segment_holds(const struct spotnik_segment *segment, const void *data, size_t bytes)
{
    uintptr_t at = (uintptr_t)data, base = (uintptr_t)segment->base;
    return segment->base != NULL && at >= base && at - base <= segment->used
           && bytes <= segment->used - (at - base);
}

void spotnik_segment_free(struct spotnik_segment *segment)
{
    while (segment->holes != NULL) {
        struct spotnik_segment_hole *hole = segment->holes;
        segment->holes = hole->next;
        free(hole);
    }
    if (segment->base != NULL)
        munmap(segment->base, segment->reserved);
    if (segment->fd >= 0)
        close(segment->fd);
    *segment = (struct spotnik_segment){ .fd = -1 };
}

int spotnik_segment_map(int fd, void **ret_base, size_t *ret_bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a member offered memory that it could take away again");
    void *base = mmap(NULL, RESERVED, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map shared memory: %m");
    madvise(base, RESERVED, MADV_DONTDUMP);
    madvise(base, RESERVED, MADV_DONTFORK);
    *ret_base = base;
    *ret_bytes = RESERVED;
    return 0;
}

void spotnik_segment_touch(const void *data, size_t bytes)
{
    uintptr_t page = SPOTNIK_SEGMENT_PAGE, begin = (uintptr_t)data & ~(page - 1);
    uintptr_t end = ((uintptr_t)data + bytes + page - 1) & ~(page - 1);
    madvise((void *)begin, end - begin, MADV_POPULATE_READ);
}

void spotnik_segment_unmap(void *base)
{
    if (base != NULL)
        munmap(base, RESERVED);
}

size_t spotnik_segment_size(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && status.st_size > 0 ? (size_t)status.st_size : 0;
}
