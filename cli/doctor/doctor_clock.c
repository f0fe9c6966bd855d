/* SPDX-License-Identifier: Apache-2.0 */
/* How far the clock of another host is from ours. An answer was made at some instant between its
 * question and its arrival: of several round trips the fastest says it most exactly. */
#include "doctor.h"

int64_t doctor_clock_apart_ms(const struct doctor_ping *ping, uint32_t count, int64_t *ret_doubt_ms)
{
    const struct doctor_ping *best = ping;

    for (uint32_t i = 1; i < count; i++)
        if (ping[i].took_ns < best->took_ns)
            best = &ping[i];
    *ret_doubt_ms = (int64_t)(best->took_ns / 2 / 1000000);
    return best->theirs_ms + *ret_doubt_ms - best->ours_ms;
}
