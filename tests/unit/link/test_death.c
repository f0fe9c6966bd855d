/* SPDX-License-Identifier: Apache-2.0 */
/* Death certificates between real processes: they come for a kill and for nothing else, and before
 * the sockets of the dead are closed. */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "link/death.h"
#include "link/slots.h"
#include "spotnik/spotnik.h"
#include "tests.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define SLOTS 8
#define VICTIM_EPOCH 7
#define RESIDENT_BYTES ((size_t)256 << 20)

static struct spotnik_slots *slots;
static int slots_fd;

static const struct spotnik_id watcher_id = { .high = 1, .low = 1 },
                               victim_id = { .high = 1, .low = 2 };

static int table_make(void **state)
{
    char text[16];
    (void)state;
    if (spotnik_slots_new(SLOTS, &slots_fd, &slots) != 0)
        return 1;
    snprintf(text, sizeof text, "%d", slots_fd);
    return setenv("SPOTNIK_SLOTS_FD", text, 1) || setenv("SPOTNIK_SLOT", "0", 1);
}

static int table_drop(void **state)
{
    (void)state;
    spotnik_slots_unmap(slots);
    unsetenv("SPOTNIK_SLOTS_FD");
    unsetenv("SPOTNIK_SLOT");
    return close(slots_fd);
}

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* A member that signs slot 1, tells so on `out`, and lives until it is killed (or, `clean`, until
 * `out` is closed). */
static void victim_main(int out, size_t resident, bool clean)
{
    struct spotnik_death *death;
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    char byte = 0;
    setenv("SPOTNIK_SLOT", "1", 1);
    if (resident > 0) {
        char *memory =
            mmap(NULL, resident, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            _exit(3);
        madvise(memory, resident, MADV_NOHUGEPAGE);
        memset(memory, 1, resident);
    }
    if (spotnik_death_new(wake, &death) != 0 || death == NULL)
        _exit(2);
    spotnik_death_sign(death, victim_id);
    spotnik_death_move_on(death, VICTIM_EPOCH);
    spotnik_death_move_on(death, VICTIM_EPOCH - 1); /* never back */
    if (write(out, &byte, 1) != 1)
        _exit(4);
    if (clean && read(out, &byte, 1) == 1) {
        spotnik_death_unsign(death);
        spotnik_death_free(death);
        _exit(0);
    }
    for (;;)
        pause();
}

static pid_t victim_start(int *ret_socket, size_t resident, bool clean)
{
    int pair[2];
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(pair[0]);
        victim_main(pair[1], resident, clean);
    }
    close(pair[1]);
    assert_int_equal(read(pair[0], &byte, 1), 1);
    *ret_socket = pair[0];
    return pid;
}

static struct spotnik_death *watch(int *ret_wake)
{
    struct spotnik_death *death;
    *ret_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(spotnik_death_new(*ret_wake, &death), 0);
    assert_non_null(death);
    spotnik_death_sign(death, watcher_id);
    spotnik_death_watch(death, &victim_id, 1);
    return death;
}

static void watch_end(struct spotnik_death *death, int wake)
{
    spotnik_death_unsign(death);
    spotnik_death_free(death);
    close(wake);
}

static bool wait_readable(int fd, int timeout_ms)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    return poll(&entry, 1, timeout_ms) == 1;
}

/* The kernel marks the slot of the dead before it frees memory or closes a socket: whoever sees EOF
 * finds the mark, however late it looks. The certificate follows. How much earlier it comes (a
 * quarter of a GiB is resident) is told, not judged: that is for a quiet machine. */
TEST_WITH(certificate_precedes_eof, table_make, table_drop)
{
    int wake, fd;
    struct spotnik_id peer;
    uint64_t epoch;
    pid_t pid = victim_start(&fd, RESIDENT_BYTES, false);
    struct spotnik_death *death = watch(&wake);
    assert_false(spotnik_death_take(death, &peer, &epoch));
    assert_int_equal(slots->slot[1].word & FUTEX_OWNER_DIED, 0);
    double killed = now_ms();
    kill(pid, SIGKILL);
    struct pollfd either[2] = { { .fd = wake, .events = POLLIN }, { .fd = fd, .events = POLLIN } };
    assert_true(poll(either, 2, 10000) > 0);
    double first = now_ms();
    assert_true(wait_readable(fd, 10000));
    uint32_t word = __atomic_load_n(&slots->slot[1].word, __ATOMIC_SEQ_CST);
    double ended = now_ms();
    assert_true((word & FUTEX_OWNER_DIED) != 0);
    assert_true(wait_readable(wake, 10000));
    assert_true(spotnik_death_take(death, &peer, &epoch));
    assert_true(spotnik_id_equal(peer, victim_id));
    print_message("%s after %.2f ms, EOF seen after %.2f ms\n",
                  either[0].revents ? "certificate" : "EOF first", first - killed, ended - killed);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(spotnik_death_take(death, &peer, &epoch));
    watch_end(death, wake);
    close(fd);
}

/* A death before anybody watched is certified when the watch begins, with the latest view the dead
 * had a part in. */
TEST_WITH(late_watch_learns_it, table_make, table_drop)
{
    int wake, fd;
    struct spotnik_id peer;
    uint64_t epoch;
    pid_t pid = victim_start(&fd, 0, false);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct spotnik_death *death = watch(&wake);
    assert_true(wait_readable(wake, 10000));
    assert_true(spotnik_death_take(death, &peer, &epoch));
    assert_int_equal(epoch, VICTIM_EPOCH);
    spotnik_death_move_on(death, 3);
    spotnik_death_renew(death, watcher_id);
    assert_int_equal(slots->slot[0].epoch, 0); /* a new member has voted for nothing yet */
    watch_end(death, wake);
    close(fd);
}

/* A member that ends in good order leaves no certificate. */
TEST_WITH(clean_end_is_no_death, table_make, table_drop)
{
    int wake, fd, status;
    struct spotnik_id peer;
    uint64_t epoch;
    char byte = 0;
    pid_t pid = victim_start(&fd, 0, true);
    struct spotnik_death *death = watch(&wake);
    assert_int_equal(write(fd, &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    spotnik_death_watch(death, NULL, 0);
    spotnik_death_watch(death, &victim_id, 1); /* look once more, now that it has ended */
    assert_false(wait_readable(wake, 200));
    assert_false(spotnik_death_take(death, &peer, &epoch));
    close(fd);
    watch_end(death, wake);
}

/* A slot that has been given to somebody else says nothing about the dead member that had it. */
TEST_WITH(reused_slot_is_no_death, table_make, table_drop)
{
    int wake, fd;
    struct spotnik_id peer;
    uint64_t epoch;
    pid_t pid = victim_start(&fd, 0, false);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_not_equal(slots->slot[1].word, 0);
    spotnik_slots_assign(slots, 1);
    assert_false(spotnik_slots_member(slots, 1, &peer));
    assert_int_equal(slots->slot[1].word, 0);
    struct spotnik_death *death = watch(&wake);
    assert_false(wait_readable(wake, 200));
    assert_false(spotnik_death_take(death, &peer, &epoch));
    watch_end(death, wake);
    close(fd);
}

/* The agent's request to leave reaches the member. */
TEST_WITH(leave_request_arrives, table_make, table_drop)
{
    int wake;
    struct spotnik_death *death = watch(&wake);
    struct spotnik_id id;
    assert_true(spotnik_slots_member(slots, 0, &id));
    assert_true(spotnik_id_equal(id, watcher_id));
    assert_int_equal(spotnik_slots_find(slots, watcher_id), 0);
    assert_false(spotnik_death_leave_requested(death));
    spotnik_slots_leave_request(slots, 0);
    assert_true(wait_readable(wake, 10000));
    assert_true(spotnik_death_leave_requested(death));
    watch_end(death, wake);
}

/* In a process of its own: 0 if the agent's request and then the death of `victim` are seen. */
static int older_kernel_main(int error, pid_t victim)
{
    int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct spotnik_death *death;
    struct spotnik_id peer;
    uint64_t epoch;
    eventfd_t count;
    if (!tests_call_refuse(SYS_futex_waitv, error) || spotnik_death_new(wake, &death) != 0
        || death == NULL)
        return 2;
    spotnik_death_sign(death, watcher_id);
    spotnik_death_watch(death, &victim_id, 1);
    spotnik_death_progress(death, 7);
    spotnik_slots_leave_request(slots, 0);
    if (!wait_readable(wake, 10000) || eventfd_read(wake, &count) != 0)
        return 3;
    kill(victim, SIGKILL);
    if (!wait_readable(wake, 10000) || !spotnik_death_take(death, &peer, &epoch))
        return 4;
    watch_end(death, wake);
    return spotnik_id_equal(peer, victim_id) ? 0 : 5;
}

/* Before Linux 5.16, and in a sandbox, the table serves all the same. */
TEST_WITH(certified_without_futex_waitv, table_make, table_drop)
{
    const int errors[] = { ENOSYS, EPERM };

    for (size_t i = 0; i < 2; i++) {
        int status, fd;
        pid_t victim = victim_start(&fd, 0, false), child = fork();
        if (child == 0)
            _exit(older_kernel_main(errors[i], victim));
        assert_int_equal(waitpid(child, &status, 0), child);
        kill(victim, SIGKILL);
        assert_int_equal(waitpid(victim, NULL, 0), victim);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_int_equal(slots->slot[0].committed, 7);
        close(fd);
        spotnik_slots_assign(slots, 0);
        spotnik_slots_assign(slots, 1);
    }
}

/* Without a table the feature is off and every call is harmless; what is no table is refused. */
TEST_WITH(off_without_table, table_make, table_drop)
{
    struct spotnik_death *death = NULL;
    struct spotnik_id peer;
    uint64_t epoch;
    unsetenv("SPOTNIK_SLOTS_FD");
    assert_int_equal(spotnik_death_new(-1, &death), 0);
    assert_null(death);
    spotnik_death_sign(death, watcher_id);
    spotnik_death_move_on(death, 1);
    spotnik_death_watch(death, &victim_id, 1);
    assert_false(spotnik_death_take(death, &peer, &epoch));
    assert_false(spotnik_death_leave_requested(death));
    spotnik_death_left(death, false);
    spotnik_death_unsign(death);
    spotnik_death_free(death);
}

/* The environment is inherited further than the descriptor: a closed one, another file, a table cut
 * short are no table. */
TEST_WITH(off_where_the_descriptor_is_no_table, table_make, table_drop)
{
    struct spotnik_death *death = NULL;
    char text[16];
    int other = memfd_create("other", MFD_CLOEXEC), closed = dup(other);
    close(closed);
    const int none[] = { closed, other, 0 };
    for (uint32_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(text, sizeof text, "%d", none[i]);
        setenv("SPOTNIK_SLOTS_FD", text, 1);
        assert_int_equal(spotnik_death_new(-1, &death), 0);
        assert_null(death);
    }
    close(other);
    slots->version++;
    snprintf(text, sizeof text, "%d", slots_fd);
    setenv("SPOTNIK_SLOTS_FD", text, 1);
    assert_int_equal(spotnik_death_new(-1, &death), SPOTNIK_ERR_ARGUMENT);
    slots->version--;
}

/* A process that a launcher has started has the environment, and asks the agent for the table;
 * where the agent has none at this place it does without. */
TEST_WITH(found_at_the_agent, table_make, table_drop)
{
    const int places[] = { slots_fd, slots_fd + 1 };
    for (uint32_t i = 0; i < sizeof places / sizeof *places; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            struct spotnik_death *death = NULL;
            char text[16];
            close(slots_fd);
            snprintf(text, sizeof text, "%d", places[i]);
            setenv("SPOTNIK_SLOTS_FD", text, 1);
            snprintf(text, sizeof text, "%d", (int)getppid());
            setenv("SPOTNIK_SLOTS_PID", text, 1);
            if (spotnik_death_new(-1, &death) != 0)
                _exit(2);
            spotnik_death_progress(death, 7);
            _exit(death != NULL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), i == 0);
    }
    assert_int_equal(slots->slot[0].committed, 7);
}

/* What a member tells its agent, and how many the agent wants for the first step. */
TEST_WITH(the_agent_is_told, table_make, table_drop)
{
    struct spotnik_death *death = NULL;
    slots->start = 3;
    assert_int_equal(spotnik_death_new(-1, &death), 0);
    assert_non_null(death);
    spotnik_death_progress(death, 7);
    spotnik_death_waits(death, 2, 3);
    const struct spotnik_slot *own = &slots->slot[0];
    assert_int_equal(own->committed, 7);
    assert_true(own->size == 2 && own->needed == 3 && own->done == 0);
    spotnik_death_waits(death, 3, 0);
    spotnik_death_over(death, false);
    assert_true(own->needed == 0 && own->done == 1 && own->left == 0);
    spotnik_death_left(death, false);
    assert_int_equal(own->left, 1);
    spotnik_death_renew(death, watcher_id); /* it joins again */
    assert_int_equal(own->left, 0);
    assert_int_equal(own->committed, 0); /* and holds no state yet */
    spotnik_death_left(death, true);
    assert_int_equal(spotnik_death_start(death), 3);
    spotnik_death_gathered(death, 2);
    assert_int_equal(spotnik_death_start(death), 3);
    spotnik_death_gathered(death, 3);
    assert_int_equal(spotnik_death_start(death), 0); /* for all, and for good */
    assert_int_equal(spotnik_death_origin(death), 0);
    spotnik_death_origin_set(death, 25);
    assert_int_equal(spotnik_death_origin(death), 25);
    spotnik_death_free(death);
    spotnik_slots_assign(slots, 0);
    assert_true(own->committed == 0 && own->done == 0 && own->left == 0);
}

/* The writer may be writing to the oldest place while the agent reads: that one counts as gone. */
TEST_WITH(an_agent_reads_the_messages_of_a_member, table_make, table_drop)
{
    struct spotnik_slot_line line = { .epoch = 7, .kind = 3 };
    uint32_t next = 0, read = 0;

    assert_false(spotnik_slots_line(slots, 1, &next, &line));
    for (uint32_t i = 0; i < 2 * SPOTNIK_SLOT_LINES; i++) {
        snprintf(line.text, sizeof line.text, "message %u", i);
        spotnik_slots_line_add(slots, 1, &line);
    }
    assert_false(spotnik_slots_line(slots, 0, &read, &line));
    while (spotnik_slots_line(slots, 1, &next, &line))
        read++;
    assert_int_equal(read, SPOTNIK_SLOT_LINES - 1);
    assert_string_equal(line.text, "message 31");
    spotnik_slots_assign(slots, 1);
    next = 0;
    assert_false(spotnik_slots_line(slots, 1, &next, &line));
}
