/* SPDX-License-Identifier: Apache-2.0 */
/* The one place in the library that reads the wall clock: events of several hosts are put side by
 * side by it. It may step, so nothing is decided by it. */
#include <time.h>

#include "watch/inside.h"

double spotnik_watch_date(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now); /* a date, not an instant */
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
