/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: the kernel of a host proves the death of its own processes, and of nobody else. */
#include "meeting.h"

#include <sched.h>
#include <sys/mount.h>

#include "tests.h"

/* A process of this host that the kernel knows: no time proves that it is dead. */
TEST_WITH(a_stopped_process_is_alive, directory_make, directory_clear)
{
    struct seeker newcomer;
    struct spotnik_record record = stranger_make(50);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        spotnik_process_self(&record.process);
        (void)!write(ends[1], &record.process, sizeof record.process);
        pause();
    }
    assert_int_equal(read(ends[0], &record.process, sizeof record.process), sizeof record.process);
    kill(pid, SIGSTOP);
    record_put(&record);
    founding_record_put(&record);
    seek(&newcomer, 1, 2 * STALE_NS);
    assert_int_equal(newcomer.rc, SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "of this host lives"));
    seeker_close(&newcomer);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    seek_without_time(&newcomer, 2);
    seeker_close(&newcomer);
    close(ends[0]);
    close(ends[1]);
}

/* Whoever leaves without a word, and comes again from the same process, waits for nobody. */
TEST_WITH(a_process_comes_again, directory_make, directory_clear)
{
    struct seeker first, again;
    founder_start(&first, 1);
    seeker_close(&first);
    seek_without_time(&again, 2);
    assert_true(is_there("genesis-2"));
    seeker_close(&again);
}

/* Two machines that were resumed from one snapshot of memory have one boot id, and our kernel has
 * no process of that number: whoever answers in its name lives all the same. */
TEST_WITH(whoever_answers_has_not_ended, directory_make, directory_clear)
{
    struct seeker member, newcomer;
    struct spotnik_record record = stranger_make(1);
    seeker_open(&member, 1, 0);
    spotnik_runtime_found(member.runtime, NULL, NULL);
    record.member = spotnik_runtime_credentials(member.runtime)->self;
    spotnik_process_self(&record.process);
    record.process.start++;
    assert_int_equal(spotnik_process_life(&record.process), SPOTNIK_LIFE_ENDED);
    record_put(&record);
    founding_record_put(&record);
    seek(&newcomer, 2, 10 * SECOND);
    assert_true(newcomer.rc == 0 && !newcomer.found);
    assert_true(spotnik_id_equal(newcomer.sponsor.id, cluster_id(1)));
    seeker_close(&newcomer);
    spotnik_runtime_free(member.runtime, true);
    seek_without_time(&newcomer, 3); /* it does not answer any more */
    seeker_close(&newcomer);
}

/* Its number alone is no proof of life: another process may have it by now. */
TEST(a_number_used_again_is_another_process)
{
    struct spotnik_process process;
    spotnik_process_self(&process);
    assert_int_equal(spotnik_process_life(&process), SPOTNIK_LIFE_ALIVE);
    process.start++;
    assert_int_equal(spotnik_process_life(&process), SPOTNIK_LIFE_ENDED);
    spotnik_process_self(&process);
    process.space++;
    assert_int_equal(spotnik_process_life(&process), SPOTNIK_LIFE_UNKNOWN);
    spotnik_process_self(&process);
    process.boot++;
    assert_int_equal(spotnik_process_life(&process), SPOTNIK_LIFE_UNKNOWN);
    pid_t pid = fork();
    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        pause();
        _exit(0);
    }
    spotnik_process_self(&process);
    process.pid = (uint64_t)pid;
    process.start = 0;
    /* it began earlier than that one */
    assert_int_equal(spotnik_process_life(&process), SPOTNIK_LIFE_ENDED);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(spotnik_process_life(&process), SPOTNIK_LIFE_ENDED);
}

/* In a PID namespace of its own, first with a /proc of that namespace, then with one of another. */
static int life_with_another_proc(void)
{
    struct spotnik_process process;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
        || mount("proc", "/proc", "proc", 0, NULL) != 0)
        return 77;
    spotnik_process_self(&process);
    if (process.boot == 0 || spotnik_process_life(&process) != SPOTNIK_LIFE_ALIVE)
        return 1;
    process.start++; /* so says the /proc of another namespace of the process of this number */
    if (umount("/proc") != 0 || spotnik_process_life(&process) != SPOTNIK_LIFE_UNKNOWN)
        return 2;
    spotnik_process_self(&process);
    return process.boot == 0 ? 0 : 3;
}

/* Who is entered into a PID namespace (nsenter), and still sees the /proc of another one, reads of
 * other processes there: it proves no death by them. */
TEST(the_proc_of_another_namespace_proves_nothing)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0
            && unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS) != 0)
            _exit(77);
        pid = fork();
        if (pid == 0)
            _exit(life_with_another_proc());
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 4);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("skipped: no PID namespace can be made here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    char stale_ms[16];
    snprintf(stale_ms, sizeof stale_ms, "%d", STALE_MS);
    setenv("SPOTNIK_STALE_MS", stale_ms, 1);
    return tests_run(NULL, NULL);
}
