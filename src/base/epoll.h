/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for an epoll with a limit in nanoseconds, on kernels and with C libraries that lack
 * epoll_pwait2() (RHEL 8: Linux 4.18, glibc 2.28). */
#ifndef SPOTNIK_BASE_EPOLL_H
#define SPOTNIK_BASE_EPOLL_H

#include <stdint.h>
#include <sys/epoll.h>

/* As epoll_wait(). An old kernel rounds the limit up to milliseconds. */
int spotnik_epoll_wait(int fd, struct epoll_event *event, int count, uint64_t timeout_ns);

#endif
