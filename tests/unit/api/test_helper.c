/* SPDX-License-Identifier: Apache-2.0 */
/* A shielded helper: signals of unauthenticated peers do not end it, its parent's SIGTERM does what
 * it did before, and a program that it executes has the default actions. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "tests.h"

static int told[2]; /* the helper's words */

static void say(char word)
{
    if (write(told[1], &word, 1) != 1)
        _exit(9);
}

static char heard(void)
{
    char word = 0;
    assert_int_equal(read(told[0], &word, 1), 1);
    return word;
}

static void own_end(int number)
{
    (void)number;
    _exit(7);
}

/* Says 'r' when it is shielded, then a '.' for each SIGUSR2, which the test sends after what must
 * not have ended it. */
static void helper(void (*term)(int))
{
    sigset_t wait;
    int number;

    sigemptyset(&wait);
    sigaddset(&wait, SIGUSR2);
    sigprocmask(SIG_BLOCK, &wait, NULL);
    signal(SIGTERM, term);
    spotnik_helper_shield();
    spotnik_helper_shield(); /* a second time changes nothing */
    for (say('r'); !sigwait(&wait, &number);)
        say('.');
}

static pid_t helper_start(void (*term)(int))
{
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0)
        helper(term);
    assert_int_equal(heard(), 'r');
    return pid;
}

static void stranger_signals(pid_t pid, int number)
{
    int status;
    pid_t stranger = fork();
    if (stranger == 0)
        _exit(kill(pid, number) != 0);
    waitpid(stranger, &status, 0);
    assert_int_equal(status, 0);
}

static void is_alive(pid_t pid)
{
    kill(pid, SIGUSR2);
    assert_int_equal(heard(), '.');
}

static int end_of(pid_t pid)
{
    int status;
    kill(pid, SIGTERM);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(told[0]);
    close(told[1]);
    return status;
}

TEST(a_stranger_does_not_end_it)
{
    pid_t pid = helper_start(SIG_DFL);

    stranger_signals(pid, SIGTERM);
    is_alive(pid);
    stranger_signals(pid, SIGUSR1);
    is_alive(pid);
    kill(pid, SIGUSR1); /* nor does its parent by that */
    is_alive(pid);
    int status = end_of(pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(its_parent_calls_its_own_handler)
{
    pid_t pid = helper_start(own_end);

    stranger_signals(pid, SIGTERM);
    is_alive(pid);
    int status = end_of(pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* A converter that a loader calls must end by SIGTERM and SIGUSR1, whoever sends them. */
TEST(a_program_that_it_executes_has_the_defaults)
{
    char line[64], text[512] = "";
    assert_int_equal(pipe(told), 0);
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGUSR1, SIG_DFL);
        spotnik_helper_shield();
        dup2(told[1], STDOUT_FILENO);
        execlp("grep", "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", (char *)NULL);
        _exit(9);
    }
    close(told[1]);
    FILE *from = fdopen(told[0], "r");
    while (fgets(line, sizeof(line), from))
        strncat(text, line, sizeof(text) - strlen(text) - 1);
    fclose(from);
    waitpid(pid, NULL, 0);
    for (const char *at = text; (at = strchr(at, '\t')); at++) {
        unsigned long long set = strtoull(at + 1, NULL, 16);
        assert_int_equal(set & (1ULL << (SIGTERM - 1) | 1ULL << (SIGUSR1 - 1)), 0);
    }
    assert_non_null(strstr(text, "SigCgt"));
}
