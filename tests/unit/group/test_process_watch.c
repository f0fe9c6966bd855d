/* SPDX-License-Identifier: Apache-2.0 */
/* Claims: when one process ends, by a signal or by exit(), all others end by SIGKILL; one that has
 * stopped watching ends alone; a notice reaches the one that listens for it, once. */
#include "group/process_watch.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/time.h"
#include "group/futex_word.h"
#include "processes.h"
#include "tests.h"

enum { SIZE = 3 };

static struct spotnik_group_control *control_new(void)
{
    struct spotnik_group_control *control =
        mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(control, MAP_FAILED);
    control->size = SIZE;
    return control;
}

static void here_await(struct spotnik_group_control *control)
{
    uint32_t count;

    while ((count = __atomic_load_n(&control->here, __ATOMIC_SEQ_CST)) < SIZE)
        spotnik_futex_word_wait(&control->here, count, SPOTNIK_NEVER);
}

static struct spotnik_process_watch *watch_start(struct spotnik_group_control *control,
                                                 uint32_t rank)
{
    struct spotnik_process_watch *watch;

    if (spotnik_process_watch_start(control, rank, NULL, NULL, &watch) != 0)
        _exit(99);
    spotnik_futex_word_ring(&control->here);
    return watch;
}

/* Until it is ended. */
static int stay(void *control, uint32_t rank)
{
    watch_start(control, rank);
    while (pause() < 0)
        continue;
    return 0;
}

/* Where `bell` is rung it ends by itself. */
static int stay_or_exit(void *context, uint32_t rank)
{
    struct spotnik_group_control *control = context;

    watch_start(control, rank);
    while (__atomic_load_n(&control->bell, __ATOMIC_SEQ_CST) == 0)
        spotnik_futex_word_wait(&control->bell, 0, SPOTNIK_NEVER);
    return 7;
}

/* Where `bell` is rung it takes its leave; and ends when it is rung again. */
static int stay_and_leave(void *context, uint32_t rank)
{
    struct spotnik_group_control *control = context;
    struct spotnik_process_watch *watch = watch_start(control, rank);

    while (__atomic_load_n(&control->bell, __ATOMIC_SEQ_CST) == 0)
        spotnik_futex_word_wait(&control->bell, 0, SPOTNIK_NEVER);
    spotnik_process_watch_stop(watch);
    spotnik_futex_word_ring(&control->told);
    while (__atomic_load_n(&control->bell, __ATOMIC_SEQ_CST) == 1)
        spotnik_futex_word_wait(&control->bell, 1, SPOTNIK_NEVER);
    return 7;
}

TEST(killed_together)
{
    for (uint32_t victim = 0; victim < SIZE; victim++) {
        struct spotnik_group_control *control = control_new();
        pid_t pid[SIZE];

        for (uint32_t rank = 0; rank < SIZE; rank++)
            pid[rank] = process_start(stay, control, rank);
        here_await(control);
        kill(pid[victim], SIGKILL);
        for (uint32_t rank = 0; rank < SIZE; rank++)
            assert_int_equal(process_end(pid[rank]), -SIGKILL);
        munmap(control, sizeof *control);
    }
}

TEST(exit_without_leave)
{
    struct spotnik_group_control *control = control_new();
    pid_t others[] = { process_start(stay, control, 0), process_start(stay, control, 1) };
    pid_t one = process_start(stay_or_exit, control, 2);

    here_await(control);
    spotnik_futex_word_ring(&control->bell);
    assert_int_equal(process_end(one), 7);
    assert_int_equal(process_end(others[0]), -SIGKILL);
    assert_int_equal(process_end(others[1]), -SIGKILL);
    munmap(control, sizeof *control);
}

TEST(who_has_left_ends_alone)
{
    struct spotnik_group_control *control = control_new();
    pid_t stays = process_start(stay_or_exit, control, 0);
    pid_t leaves[] = { process_start(stay_and_leave, control, 1),
                       process_start(stay_and_leave, control, 2) };

    here_await(control);
    kill(stays, SIGSTOP); /* it must not end first, of itself */
    spotnik_futex_word_ring(&control->bell);
    for (uint32_t told; (told = __atomic_load_n(&control->told, __ATOMIC_SEQ_CST)) < 2;)
        spotnik_futex_word_wait(&control->told, told, SPOTNIK_NEVER);
    spotnik_futex_word_ring(&control->bell);
    assert_int_equal(process_end(leaves[0]), 7);
    assert_int_equal(process_end(leaves[1]), 7);
    kill(stays, SIGCONT);
    assert_int_equal(process_end(stays), 7);
    munmap(control, sizeof *control);
}

static void note(void *context)
{
    spotnik_futex_word_ring(context);
}

TEST(notice)
{
    struct spotnik_group_control *control = control_new();
    struct spotnik_process_watch *watch;
    uint32_t heard = 0;

    assert_int_equal(spotnik_process_watch_start(control, 0, note, &heard, &watch), 0);
    __atomic_store_n(&control->noticed, 1, __ATOMIC_SEQ_CST);
    spotnik_futex_word_wake(&control->noticed);
    while (__atomic_load_n(&heard, __ATOMIC_SEQ_CST) == 0)
        spotnik_futex_word_wait(&heard, 0, SPOTNIK_NEVER);
    spotnik_process_watch_stop(watch);
    assert_int_equal(heard, 1);
    munmap(control, sizeof *control);
}
