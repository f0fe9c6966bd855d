/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the group's memory. Every process takes the same ones in the same order, so that
 * offsets agree without a word. */
#include <errno.h>
#include <fcntl.h>

#include "base/descriptor.h"
#include "base/dtype.h"
#include "base/error.h"
#include "group/inside.h"

#define PAGE ((size_t)4096)

/* The first process that takes piece `index` says how long it is. */
static int size_agree(struct spotnik_group *group, uint32_t index, uint64_t bytes)
{
    uint64_t said = 0;

    if (__atomic_compare_exchange_n(&group->control->area_bytes[index], &said, bytes, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
        || said == bytes)
        return 0;
    return spotnik_error_return(SPOTNIK_ERR_MISMATCH,
                                "piece %u of the group's memory: %llu bytes here, %llu in another "
                                "process; all take the same pieces in the same order",
                                (unsigned)index, (unsigned long long)bytes,
                                (unsigned long long)said);
}

/* Of whoever comes first: the file only grows. Memory that is not there is an error here, and no
 * SIGBUS later. */
static int pages_get(const struct spotnik_group *group, size_t offset, size_t bytes)
{
    int rc;
    do
        rc = fallocate(group->memory, 0, (off_t)offset, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc == 0)
        return 0;
    spotnik_descriptor_check(errno);
    return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no %zu bytes of memory for the group: %m",
                                bytes);
}

void *spotnik_group_memory(spotnik_group *group, size_t bytes)
{
    if (spotnik_group_handle_check(group) != 0)
        return NULL;
    size_t size = (bytes > 0 ? bytes : 1) + PAGE - 1, offset = group->used;
    size -= size % PAGE;
    if (group->areas == SPOTNIK_GROUP_AREAS_MAX || size < bytes
        || size > SPOTNIK_GROUP_BYTES_MAX - offset) {
        (void)spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                   "a group has at most %d pieces of memory, and %zu bytes",
                                   SPOTNIK_GROUP_AREAS_MAX, SPOTNIK_GROUP_BYTES_MAX);
        return NULL;
    }
    if (size_agree(group, group->areas, size) != 0 || pages_get(group, offset, size) != 0)
        return NULL;
    group->areas++;
    group->used += size;
    return (uint8_t *)group->control + offset;
}

int spotnik_group_area_of(const struct spotnik_group *group, const void *data, size_t count,
                          enum spotnik_dtype dtype, struct spotnik_group_area *ret_area)
{
    size_t one = spotnik_dtype_bytes((uint64_t)dtype);
    uintptr_t at = (uintptr_t)data, base = (uintptr_t)group->control;

    if (one == 0 || dtype == SPOTNIK_Q8)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "unknown element type %d", (int)dtype);
    if (at < base + sizeof *group->control || at - base > group->used
        || count > (group->used - (at - base)) / one)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the data do not lie in memory of spotnik_group_memory()");
    *ret_area = (struct spotnik_group_area){ .offset = at - base,
                                             .count = count,
                                             .dtype = (uint32_t)dtype };
    return 0;
}
