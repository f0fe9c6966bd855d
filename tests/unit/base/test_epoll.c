/* SPDX-License-Identifier: Apache-2.0 */
#include "tests.h"

#include <errno.h>
#include <sys/eventfd.h>
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
            _exit(!tests_call_refuse(SYS_epoll_pwait2, errors[i]) ? 2 : waits() ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}
