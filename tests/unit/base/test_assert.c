/* SPDX-License-Identifier: Apache-2.0 */
/* A broken invariant ends the process by SIGABRT, with a line that names the place. Seen from
 * outside, in a child. So does a descriptor that somebody has closed. */
#include "base/assert.h"
#include "base/descriptor.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"

TEST(a_true_expression_goes_on)
{
    int evaluated = 0;
    SPOTNIK_ASSERT(++evaluated == 1);
    assert_int_equal(evaluated, 1);
}

static void child_breaks_an_invariant(int fd)
{
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    dup2(fd, STDERR_FILENO);
    SPOTNIK_ASSERT(1 + 1 == 3);
    _exit(0);
}

/* It must end by SIGABRT. `text`: what it has said. */
static void end_of_child(void (*act)(int fd), char *text, size_t size)
{
    int fds[2], status;
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        act(fds[1]);
    close(fds[1]);
    ssize_t got = read(fds[0], text, size - 1);
    assert_true(got > 0);
    text[got] = '\0';
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

TEST(a_false_one_names_the_place_and_aborts)
{
    char text[512];

    end_of_child(child_breaks_an_invariant, text, sizeof text);
    assert_non_null(strstr(text, "1 + 1 == 3 does not hold\n"));
    assert_non_null(strstr(text, "test_assert.c:"));
}

static void child_loses_a_descriptor(int fd)
{
    struct rlimit none = { 0, 0 };

    setrlimit(RLIMIT_CORE, &none);
    dup2(fd, STDERR_FILENO);
    spotnik_descriptor_check(0);
    if (spotnik_descriptor_waits(EAGAIN) && !spotnik_descriptor_waits(EPIPE))
        spotnik_descriptor_check(EBADF);
    _exit(0);
}

TEST(a_descriptor_that_was_closed_ends_the_process)
{
    char text[512];

    end_of_child(child_loses_a_descriptor, text, sizeof text);
    assert_int_equal(strncmp(text, "spotnik: a descriptor of Spotnik was closed by this process",
                             59),
                     0);
}
