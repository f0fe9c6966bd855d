/* SPDX-License-Identifier: Apache-2.0 */
/* Who keeps the processors busy: work of our own and of children (running and reaped) is not
 * somebody else's. */
#include "hostload.h"

#include <math.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests.h"

static double used_s(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void work(double seconds)
{
    double until = used_s() + seconds;

    while (used_s() < until)
        ;
}

static double gained_s(const struct spotnik_host_look *from)
{
    struct spotnik_host_look to;

    assert_true(spotnik_host_look(&to));
    return to.ours_s - from->ours_s;
}

/* /proc counts in ticks of 10 ms; each of the processes may be off by two of them. */
TEST(own_work_is_ours)
{
    struct spotnik_host_look from;

    assert_true(spotnik_host_look(&from));
    work(0.2);
    double gained = gained_s(&from);
    assert_true(gained > 0.15 && gained < 0.3);
}

TEST(reaped_child_is_ours)
{
    struct spotnik_host_look from;

    assert_true(spotnik_host_look(&from));
    pid_t child = fork();
    if (!child) {
        work(0.2);
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    double gained = gained_s(&from);
    assert_true(gained > 0.15 && gained < 0.3);
}

TEST(running_grandchild_is_ours)
{
    struct spotnik_host_look from;
    int done[2], go[2];
    char byte;

    assert_int_equal(pipe(done) | pipe(go), 0);
    assert_true(spotnik_host_look(&from));
    pid_t child = fork();
    if (!child) {
        if (!fork()) {
            work(0.2);
            _exit(write(done[1], "x", 1) != 1 || read(go[0], &byte, 1) < 0);
        }
        wait(NULL);
        _exit(0);
    }
    assert_int_equal(read(done[0], &byte, 1), 1);
    double gained = gained_s(&from);
    assert_true(gained > 0.15 && gained < 0.3);
    assert_int_equal(write(go[1], "x", 1), 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(done[0]);
    close(done[1]);
    close(go[0]);
    close(go[1]);
}

/* Not below zero when ticks are counted late, and nothing when no time has passed. */
TEST(others_are_the_rest)
{
    struct spotnik_host_look from = { .at_s = 10, .busy_s = 100, .ours_s = 40 };
    struct spotnik_host_look to = { .at_s = 12, .busy_s = 103, .ours_s = 42 };

    assert_true(fabs(spotnik_host_others(&from, &to) - 0.5) < 1e-12);
    to.ours_s = 44;
    assert_true(spotnik_host_others(&from, &to) == 0);
    assert_true(spotnik_host_others(&from, &from) == 0);
    assert_true(spotnik_host_processors() >= 1);
}
