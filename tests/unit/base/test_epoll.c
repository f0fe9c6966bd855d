/* SPDX-License-Identifier: Apache-2.0 */
#include "tests.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/epoll.h"
#include "base/time.h"

/* True: it waits for its time and no shorter, and sees an event at once, even with no limit. */
static bool waits(void)
{
    int epoll = epoll_create1(0), fd = eventfd(0, EFD_NONBLOCK);
    struct epoll_event event = { .events = EPOLLIN }, got;
    uint64_t begin_ns = spotnik_clock_ns();
    bool right = epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0
                 && spotnik_epoll_wait(epoll, &got, 1, 3 * SPOTNIK_MS / 2) == 0
                 && spotnik_clock_ns() - begin_ns >= 3 * SPOTNIK_MS / 2;

    right = right && eventfd_write(fd, 1) == 0
            && spotnik_epoll_wait(epoll, &got, 1, SPOTNIK_NEVER) == 1;
    close(epoll);
    close(fd);
    return right;
}

/* From here on the kernel answers epoll_pwait2() with this error. */
static bool refuse(int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
           && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(it_waits)
{
    assert_true(waits());
}

TEST(it_waits_on_a_kernel_without_the_call_and_in_a_container_that_forbids_it)
{
    const int errors[] = { ENOSYS, EPERM };

    for (size_t i = 0; i < 2; i++) {
        int status;
        pid_t child = fork();

        if (child == 0)
            _exit(!refuse(errors[i]) ? 2 : waits() ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}
