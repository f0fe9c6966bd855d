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

/* States of a piece: 0 before it is made, odd while a process makes it, else even. Numbers do not
 * come again: a process that has looked at a piece sees by its state that another replaced it. */
static bool is_being_made(uint32_t state)
{
    return state % 2 != 0;
}

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

/* 0: there is no room. */
static uint64_t room_take(struct spotnik_group_control *control, size_t size)
{
    uint64_t used = __atomic_load_n(&control->used, __ATOMIC_SEQ_CST);
    do
        if (size > SPOTNIK_GROUP_BYTES_MAX - used)
            return 0;
    while (!__atomic_compare_exchange_n(&control->used, &used, used + size, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST));
    return used;
}

/* For others, which may ask for less; not where one has taken what lies behind. */
static void room_give_back(struct spotnik_group_control *control, uint64_t offset, size_t size)
{
    uint64_t end = offset + size;
    (void)__atomic_compare_exchange_n(&control->used, &end, offset, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST);
}

static void piece_make(const struct spotnik_group *group, struct spotnik_group_piece *piece,
                       size_t bytes)
{
    size_t size = bytes + PAGE - 1 - (bytes + PAGE - 1) % PAGE;

    piece->bytes = bytes;
    piece->offset = room_take(group->control, size);
    piece->code = piece->offset == 0 ? SPOTNIK_ERR_LIMIT : pages_get(group, piece->offset, size);
    if (piece->code == SPOTNIK_ERR_MEMORY)
        room_give_back(group->control, piece->offset, size);
    spotnik_futex_word_ring(&piece->state);
}

/* What another process has made, or we. */
static struct spotnik_group_piece piece_find(const struct spotnik_group *group,
                                             struct spotnik_group_piece *piece, size_t bytes,
                                             bool grows)
{
    for (;;) {
        uint32_t state = __atomic_load_n(&piece->state, __ATOMIC_SEQ_CST);
        struct spotnik_group_piece found = *piece;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (is_being_made(state))
            spotnik_futex_word_wait(&piece->state, state, SPOTNIK_NEVER);
        else if (state != 0 && (!grows || found.bytes >= bytes)) {
            if (__atomic_load_n(&piece->state, __ATOMIC_SEQ_CST) == state)
                return found;
        } else if (__atomic_compare_exchange_n(&piece->state, &state, state + 1, false,
                                               __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            piece_make(group, piece, bytes);
    }
}

int spotnik_group_piece_take(struct spotnik_group *group, struct spotnik_group_piece *piece,
                             size_t bytes, bool grows, uint64_t *ret_offset)
{
    struct spotnik_group_piece found = piece_find(group, piece, bytes, grows);

    if (found.code != 0)
        return spotnik_error_return(found.code, "no %zu bytes of memory for the group", bytes);
    if (!grows && found.bytes != bytes)
        return spotnik_error_return(
            SPOTNIK_ERR_MISMATCH,
            "a piece of the group's memory: %zu bytes here, %llu in another "
            "process; all take the same pieces in the same order",
            bytes, (unsigned long long)found.bytes);
    *ret_offset = found.offset;
    return 0;
}

void *spotnik_group_memory(spotnik_group *group, size_t bytes)
{
    uint64_t offset = 0;

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
