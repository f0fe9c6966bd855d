/* SPDX-License-Identifier: Apache-2.0 */
/* Time is an argument: nanoseconds of a monotonic clock, read by drivers only. Arithmetic saturates
 * at NEVER. */
#ifndef SPOTNIK_BASE_TIME_H
#define SPOTNIK_BASE_TIME_H

#include <stdint.h>

#define SPOTNIK_NEVER UINT64_MAX
#define SPOTNIK_US UINT64_C(1000)
#define SPOTNIK_MS UINT64_C(1000000)
#define SPOTNIK_S UINT64_C(1000000000)

static inline uint64_t spotnik_time_add(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns > SPOTNIK_NEVER - b_ns ? SPOTNIK_NEVER : a_ns + b_ns;
}

static inline uint64_t spotnik_time_since(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

static inline uint64_t spotnik_time_min(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

#endif
