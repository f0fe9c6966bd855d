/* SPDX-License-Identifier: Apache-2.0 */
/* When a job was founded, for people: by the clock of its founder. */
#include <time.h>

#include "discovery/inside.h"

#define CLOCK_SANE_MS UINT64_C(1767225600000) /* 2026: a clock before that has never been set */

uint64_t spotnik_discovery_founded_at_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    return now.tv_sec > 0 && ms >= CLOCK_SANE_MS ? ms : SPOTNIK_BORN_UNKNOWN;
}
