/* SPDX-License-Identifier: Apache-2.0 */
/* A broken invariant ends the process by SIGABRT, with a line that names the place. Seen from
 * outside, in a child. */
#include "base/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void a_true_expression_goes_on(void **state)
{
    (void)state;
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

static void a_false_one_names_the_place_and_aborts(void **state)
{
    (void)state;
    int fds[2], status;
    char text[256] = "";
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        child_breaks_an_invariant(fds[1]);
    close(fds[1]);
    assert_true(read(fds[0], text, sizeof text - 1) > 0);
    close(fds[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_non_null(strstr(text, "1 + 1 == 3 does not hold\n"));
    assert_non_null(strstr(text, "test_assert.c:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_true_expression_goes_on),
        cmocka_unit_test(a_false_one_names_the_place_and_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
