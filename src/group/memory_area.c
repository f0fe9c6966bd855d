/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of the group's memory. */
#include <errno.h>
#include <fcntl.h>

#include "base/descriptor.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/time.h"
#include "group/futex_word.h"
#include "group/inside.h"

#define PAGE ((size_t)4096)

enum spotnik_group_piece_state { NONE, BUSY, TAKEN };

/* Memory that is not there is an error here, and no SIGBUS later. */
static int pages_get(const struct spotnik_group *group, uint64_t offset, size_t bytes)
{
    int rc;
    do
        rc = fallocate(group->memory, 0, (off_t)offset, (off_t)bytes);
    while (rc != 0 && errno == EINTR);
    if (rc != 0)
        spotnik_descriptor_check(errno);
    return rc == 0 ? 0 : SPOTNIK_ERR_MEMORY;
}

static void piece_make(const struct spotnik_group *group, struct spotnik_group_piece *piece,
                       size_t bytes)
{
    size_t size = bytes + PAGE - 1 - (bytes + PAGE - 1) % PAGE;

    piece->bytes = bytes;
    piece->offset = __atomic_fetch_add(&group->control->used, size, __ATOMIC_SEQ_CST);
    piece->code = size > SPOTNIK_GROUP_BYTES_MAX - piece->offset
                      ? SPOTNIK_ERR_LIMIT
                      : pages_get(group, piece->offset, size);
    if (piece->code != 0) /* for others, which may ask for less */
        __atomic_sub_fetch(&group->control->used, size, __ATOMIC_SEQ_CST);
    __atomic_store_n(&piece->state, TAKEN, __ATOMIC_SEQ_CST);
    spotnik_futex_word_wake(&piece->state);
}

int spotnik_group_piece_take(struct spotnik_group *group, struct spotnik_group_piece *piece,
                             size_t bytes, bool grows, uint64_t *ret_offset)
{
    for (;;) {
        uint32_t state = __atomic_load_n(&piece->state, __ATOMIC_SEQ_CST);
        if (state == TAKEN && (!grows || piece->bytes >= bytes))
            break;
        if (state == BUSY)
            spotnik_futex_word_wait(&piece->state, BUSY, SPOTNIK_NEVER);
        else if (__atomic_compare_exchange_n(&piece->state, &state, BUSY, false, __ATOMIC_SEQ_CST,
                                             __ATOMIC_SEQ_CST))
            piece_make(group, piece, bytes);
    }
    if (piece->code != 0)
        return spotnik_error_return(piece->code, "no %zu bytes of memory for the group", bytes);
    if (!grows && piece->bytes != bytes)
        return spotnik_error_return(
            SPOTNIK_ERR_MISMATCH,
            "a piece of the group's memory: %zu bytes here, %llu in another "
            "process; all take the same pieces in the same order",
            bytes, (unsigned long long)piece->bytes);
    *ret_offset = piece->offset;
    return 0;
}

void *spotnik_group_memory(spotnik_group *group, size_t bytes)
{
    uint64_t offset;

    if (spotnik_group_handle_check(group) != 0)
        return NULL;
    if (group->pieces == SPOTNIK_GROUP_AREAS_MAX || bytes > SPOTNIK_GROUP_BYTES_MAX / 2) {
        (void)spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                   "a group takes at most %d pieces of memory, of %zu bytes each",
                                   SPOTNIK_GROUP_AREAS_MAX, SPOTNIK_GROUP_BYTES_MAX / 2);
        return NULL;
    }
    if (spotnik_group_piece_take(group, &group->control->piece[group->pieces],
                                 bytes > 0 ? bytes : 1, false, &offset)
        != 0)
        return NULL;
    group->pieces++;
    return (uint8_t *)group->control + offset;
}

int spotnik_group_area_of(const struct spotnik_group *group, const void *data, size_t count,
                          enum spotnik_dtype dtype, struct spotnik_group_area *ret_area)
{
    size_t one = spotnik_dtype_bytes((uint64_t)dtype);
    uintptr_t at = (uintptr_t)data, base = (uintptr_t)group->control;
    uint64_t used = __atomic_load_n(&group->control->used, __ATOMIC_SEQ_CST);

    if (one == 0 || dtype == SPOTNIK_Q8)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "unknown element type %d", (int)dtype);
    if (at < base + sizeof *group->control || at - base > used
        || count > (used - (at - base)) / one)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "the data do not lie in memory of spotnik_group_memory()");
    *ret_area = (struct spotnik_group_area){ .offset = at - base,
                                             .count = count,
                                             .dtype = (uint32_t)dtype };
    return 0;
}
