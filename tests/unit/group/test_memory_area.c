/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a group's memory, in a group of one. Claims: whole zeroed pages that do not overlap;
 * data outside of them, or of no known type, are refused; so is a piece of another size than
 * another process took. */
#include <stdlib.h>
#include <string.h>

#include "group/inside.h"
#include "tests.h"

static int open_one(void **state)
{
    return spotnik_group_open("test", 0, 1, (spotnik_group **)state);
}

static int close_one(void **state)
{
    return spotnik_group_leave(*state);
}

TEST_WITH(pieces, open_one, close_one)
{
    uint8_t *a = spotnik_group_memory(*state, 5000), *b = spotnik_group_memory(*state, 1);

    assert_non_null(a);
    assert_int_equal((uintptr_t)a % 4096, 0);
    assert_ptr_equal(b, a + 8192);
    assert_int_equal(a[8191] | b[4095], 0);
    a[8191] = 1;
    assert_int_equal(b[0], 0);
    assert_null(spotnik_group_memory(*state, SIZE_MAX));
    assert_null(spotnik_group_memory(*state, (size_t)1 << 39));
}

TEST_WITH(where_data_lie, open_one, close_one)
{
    struct spotnik_group_area area;
    float *a = spotnik_group_memory(*state, 4096);

    assert_int_equal(spotnik_group_area_of(*state, a + 3, 1021, SPOTNIK_F32, &area), 0);
    assert_ptr_equal((uint8_t *)((spotnik_group *)*state)->control + area.offset, a + 3);
    assert_int_equal(area.count, 1021);
    assert_int_equal(spotnik_group_area_of(*state, a + 3, 1022, SPOTNIK_F32, &area),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_group_area_of(*state, a, SIZE_MAX / 2, SPOTNIK_F64, &area),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_group_area_of(*state, &area, 1, SPOTNIK_U8, &area),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_group_area_of(*state, ((spotnik_group *)*state)->control, 1,
                                           SPOTNIK_U8, &area),
                     SPOTNIK_ERR_ARGUMENT); /* what the group itself needs */
    assert_int_equal(spotnik_group_area_of(*state, a, 1, SPOTNIK_Q8, &area), SPOTNIK_ERR_ARGUMENT);
}

TEST_WITH(another_process_took_another_size, open_one, close_one)
{
    spotnik_group *group = *state;

    assert_non_null(spotnik_group_memory(group, 4096));
    group->pieces = 0; /* another process, which begins */
    assert_null(spotnik_group_memory(group, 8192));
    assert_non_null(strstr(spotnik_last_error(), "8192 bytes here, 4096 in another"));
    assert_non_null(spotnik_group_memory(group, 4096));
}
