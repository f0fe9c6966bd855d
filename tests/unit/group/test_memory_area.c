/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a group's memory, in a group of one. Claims: whole zeroed pages that do not overlap;
 * data outside of them, or of no known type, are refused; so is a piece of another size than
 * another process took. Processes that let a piece grow at one moment find it at one place, and
 * find room beside a process that wants more than there is. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "group/inside.h"
#include "processes.h"
#include "tests.h"

/* Instructions between two looks: all of them, but where a sanitizer has made many more. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
#define STRIDE 97
#else
#define STRIDE 1
#endif

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

static int grow(void *context, uint32_t bytes)
{
    spotnik_group *group = context;
    uint64_t offset;

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
        return 2;
    int rc = spotnik_group_piece_take(group, &group->control->rows[0], bytes, true, &offset);
    return rc != 0 || offset != group->control->rows[0].offset;
}

/* All there is, and more than is left. */
static int grow_in_vain(void *context, uint32_t bytes)
{
    spotnik_group *group = context;
    uint64_t offset;

    (void)bytes;
    group->control->rows[1].state = 0;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
        return 2;
    return spotnik_group_piece_take(group, &group->control->rows[1], SPOTNIK_GROUP_BYTES_MAX, true,
                                    &offset)
           != SPOTNIK_ERR_LIMIT;
}

/* Another process after that number of instructions of `run`; 0: it has ended before. */
static pid_t process_in(int (*run)(void *context, uint32_t bytes), spotnik_group *group,
                        uint32_t bytes, uint32_t instructions)
{
    pid_t pid = process_start(run, group, bytes);
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSTOPPED(status))
        skip(); /* no process may trace another one here */
    for (uint32_t i = 0; i < instructions && WIFSTOPPED(status); i++) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    return WIFSTOPPED(status) ? pid : 0;
}

static void process_go_on(pid_t pid)
{
    assert_int_equal(ptrace(PTRACE_DETACH, pid, NULL, NULL), 0);
    assert_int_equal(process_end(pid), 0);
}

/* We let it grow, too, after each instruction of theirs. */
TEST_WITH(all_find_what_grows_at_one_place, open_one, close_one)
{
    spotnik_group *group = *state;
    struct spotnik_group_piece *piece = &group->control->rows[0];
    uint32_t bytes = 1;
    pid_t pid;

    for (uint32_t i = 0; (pid = process_in(grow, group, bytes, i)) != 0;
         i += STRIDE, bytes += 4096) {
        uint64_t offset;
        bool is_free = piece->state % 2 == 0; /* else we would wait for it */
        if (is_free)
            assert_int_equal(spotnik_group_piece_take(group, piece, bytes, true, &offset), 0);
        process_go_on(pid);
        assert_true(!is_free || piece->offset == offset);
    }
}

/* What we take while another process finds that there is no room for what it wants. */
TEST_WITH(others_find_room_beside_one_that_finds_none, open_one, close_one)
{
    spotnik_group *group = *state;
    const struct spotnik_group_piece *theirs = &group->control->rows[1];
    uint32_t bytes = 1;
    uint64_t offset;

    bool over = false; /* what follows is the text of an error */

    for (uint32_t i = 0; !over; i += STRIDE, bytes += 4096) {
        pid_t pid = process_in(grow_in_vain, group, bytes, i);
        over = pid == 0 || (theirs->state != 0 && theirs->state % 2 == 0);
        assert_int_equal(spotnik_group_piece_take(group, &group->control->rows[0], bytes, true,
                                                  &offset),
                         0);
        assert_true(offset + bytes <= SPOTNIK_GROUP_BYTES_MAX);
        if (pid != 0)
            process_go_on(pid);
    }
}
