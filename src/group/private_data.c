/* SPDX-License-Identifier: Apache-2.0 */
/* Data that each process has for itself: what it contributes to a bucket, and its copy of
 * registered state. Each bucket has a piece of the group's memory with a row for every process; the
 * leader's thread reduces the rows into the first one, which then travels. Registered state has a
 * piece of its own; the leader's copy goes in, and all copy it out. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "group/inside.h"

#define ROW_ALIGN ((size_t)64)

static int element_check(size_t count, enum spotnik_dtype dtype)
{
    size_t one = spotnik_dtype_bytes((uint64_t)dtype);

    if (one == 0 || dtype == SPOTNIK_Q8 || count > SPOTNIK_GROUP_BYTES_MAX / one)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "unknown element type %d, or too many elements", (int)dtype);
    return 0;
}

/* Where this process's row begins. The piece has room for rows of `bytes`. */
static int row_take(struct spotnik_group *group, uint32_t bucket, size_t bytes,
                    struct spotnik_group_area *ret_area)
{
    size_t row = (bytes + ROW_ALIGN) & ~(ROW_ALIGN - 1); /* never 0 */
    uint64_t offset;
    int rc = spotnik_group_piece_take(group, &group->control->rows[bucket], row * group->size, true,
                                      &offset);

    ret_area->offset = offset;
    ret_area->row_bytes = row;
    return rc;
}

int spotnik_group_combine(spotnik_group *group, uint32_t bucket, void *data, size_t count,
                          enum spotnik_dtype dtype, enum spotnik_op op)
{
    struct spotnik_group_area area = { .count = count,
                                       .dtype = (uint32_t)dtype,
                                       .op = (uint32_t)op };
    int rc = spotnik_group_handle_check(group);

    if (rc == 0)
        rc = spotnik_group_bucket_check(group, bucket, op);
    if (rc == 0)
        rc = element_check(count, dtype);
    size_t bytes = rc == 0 ? count * spotnik_dtype_bytes((uint64_t)dtype) : 0;
    if (rc == 0)
        rc = row_take(group, bucket, bytes, &area);
    if (rc != 0)
        return rc;
    uint8_t *rows = (uint8_t *)group->control + area.offset;
    memcpy(rows + group->rank * area.row_bytes, data, bytes);
    group->bucket[bucket] =
        (struct spotnik_group_private){ .data = data, .shared = rows, .bytes = bytes };
    spotnik_group_hand_over(group, bucket, &area);
    return 0;
}

void spotnik_group_results_copy(struct spotnik_group *group)
{
    for (uint32_t bucket = 0; bucket < SPOTNIK_GROUP_BUCKETS; bucket++) {
        const struct spotnik_group_private *one = &group->bucket[bucket];
        if (group->handed[bucket] && one->data != NULL)
            memcpy(one->data, one->shared, one->bytes);
    }
}

static int private_state_note(struct spotnik_group *group, void *data, void *shared, size_t bytes)
{
    uint32_t count = group->state_count;
    struct spotnik_group_private *more = realloc(group->state, (count + 1) * sizeof *group->state);

    if (more == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a group");
    more[count] = (struct spotnik_group_private){ .data = data, .shared = shared, .bytes = bytes };
    group->state = more;
    group->state_count = count + 1;
    return 0;
}

int spotnik_group_state_copy_add(spotnik_group *group, const char *name, void *data, size_t count,
                                 enum spotnik_dtype dtype)
{
    int rc = spotnik_group_handle_check(group);

    if (rc == 0)
        rc = element_check(count, dtype);
    if (rc != 0)
        return rc;
    size_t bytes = count * spotnik_dtype_bytes((uint64_t)dtype);
    void *shared = spotnik_group_memory(group, bytes);
    if (shared == NULL)
        return SPOTNIK_ERR_MEMORY;
    if (group->rank == 0)
        memcpy(shared, data, bytes);
    rc = spotnik_group_state_add(group, name, shared, count, dtype);
    return rc != 0 ? rc : private_state_note(group, data, shared, bytes);
}

void spotnik_group_state_in(struct spotnik_group *group)
{
    for (uint32_t i = 0; group->rank == 0 && i < group->state_count; i++) {
        const struct spotnik_group_private *one = &group->state[i];
        memcpy(one->shared, one->data, one->bytes);
    }
}

void spotnik_group_state_out(struct spotnik_group *group)
{
    for (uint32_t i = 0; i < group->state_count; i++) {
        const struct spotnik_group_private *one = &group->state[i];
        memcpy(one->data, one->shared, one->bytes);
    }
}
