/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a worker. Claims: it has ended when the last of them has; its status is that of
 * the process that failed, and not of those that were killed for it; one that ends in good order
 * ends alone; each knows its rank, and all know one name that no other start has. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent_group.h"
#include "tests.h"

#define EXITED(code) ((code) << 8)

/* A process group of this test's own, which a test may kill. */
static pid_t group_process(struct agent_group *group, pid_t leader)
{
    pid_t pid = fork();

    if (pid == 0) {
        setpgid(0, leader);
        while (pause() < 0)
            continue;
    }
    assert_true(pid > 0);
    setpgid(pid, leader ? leader : pid);
    agent_group_add(group, pid);
    return pid;
}

TEST(failure_ends_the_others)
{
    struct agent_group group = { .size = 0 };
    pid_t leader = group_process(&group, 0), sibling = group_process(&group, leader);
    int status;

    assert_false(agent_group_ended(&group, leader, getpid(), 0)); /* none of it */
    agent_group_add(&group, getpid());
    assert_true(agent_group_ended(&group, leader, getpid(), EXITED(9)));
    assert_int_equal(waitpid(leader, &status, 0), leader);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_true(agent_group_ended(&group, leader, leader, status));
    assert_int_equal(waitpid(sibling, &status, 0), sibling);
    assert_true(agent_group_ended(&group, leader, sibling, status));
    assert_int_equal(group.running, 0);
    assert_int_equal(group.status, EXITED(9));
}

TEST(good_order)
{
    struct agent_group group = { .size = 0 };
    pid_t leader = group_process(&group, 0), sibling = group_process(&group, leader);

    assert_true(agent_group_ended(&group, leader, leader, EXITED(75)));
    assert_int_equal(kill(sibling, 0), 0);
    assert_int_equal(waitpid(sibling, NULL, WNOHANG), 0); /* it was not killed */
    assert_true(agent_group_ended(&group, leader, sibling, EXITED(0)));
    assert_int_equal(group.status, EXITED(75));
    kill(-leader, SIGKILL);
    assert_int_equal(waitpid(leader, NULL, 0), leader);
    assert_int_equal(waitpid(sibling, NULL, 0), sibling);
}

/* A process that fails says more than those that are killed for it, whichever is reaped first. */
TEST(which_status)
{
    struct agent_group group = { .size = 0 };

    for (pid_t pid = 1; pid <= 3; pid++)
        agent_group_add(&group, (pid_t)0x3ffffff0 + pid); /* there are no such processes */
    assert_true(agent_group_ended(&group, 0x3ffffff1, 0x3ffffff1, SIGKILL));
    assert_true(agent_group_ended(&group, 0x3ffffff1, 0x3ffffff3, EXITED(0)));
    assert_int_equal(group.status, SIGKILL);
    assert_true(agent_group_ended(&group, 0x3ffffff1, 0x3ffffff2, SIGSEGV));
    assert_int_equal(group.status, SIGSEGV);
}

TEST(environment)
{
    struct agent_group group = { .port = agent_group_port(), .started_ns = 5 };
    char name[96];

    assert_int_not_equal(group.port, 0);
    setenv("MASTER_ADDR", "other", 1);
    agent_group_environment(&group, 7, 0, 4);
    snprintf(name, sizeof(name), "%s", getenv("SPOTNIK_GROUP"));
    assert_non_null(strstr(name, "w7:0:4"));
    agent_group_environment(&group, 7, 3, 4);
    assert_int_equal(strncmp(name, getenv("SPOTNIK_GROUP"), strlen(name) - 4), 0);
    assert_string_equal(getenv("RANK"), "3");
    assert_string_equal(getenv("LOCAL_RANK"), "3");
    assert_string_equal(getenv("WORLD_SIZE"), "4");
    assert_string_equal(getenv("LOCAL_WORLD_SIZE"), "4");
    assert_string_equal(getenv("MASTER_ADDR"), "127.0.0.1");
    assert_int_equal(atoi(getenv("MASTER_PORT")), group.port);
    group.started_ns = 6;
    agent_group_environment(&group, 7, 0, 4);
    assert_string_not_equal(getenv("SPOTNIK_GROUP"), name);
}
