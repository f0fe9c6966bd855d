/* SPDX-License-Identifier: Apache-2.0 */
/* The adaptive silence limit; see detector.h. */
#include "member/detector.h"

#include "base/time.h"

void spotnik_detector_start(struct spotnik_detector *detector, uint64_t now_ns)
{
    *detector = (struct spotnik_detector){ .heard_ns = now_ns };
}

#define FORGET 128 /* of the time that passes, the part by which the longest gap shrinks */

static void remember(struct spotnik_detector *detector, uint64_t gap_ns, uint64_t most_ns)
{
    uint64_t kept_ns = spotnik_time_since(detector->longest_ns, gap_ns / FORGET);

    gap_ns = spotnik_time_min(gap_ns, most_ns);
    detector->longest_ns = gap_ns > kept_ns ? gap_ns : kept_ns;
}

void spotnik_detector_hear(struct spotnik_detector *detector, uint64_t now_ns, uint64_t floor_ns)
{
    uint64_t gap = spotnik_time_since(now_ns, detector->heard_ns);
    uint64_t error = gap > detector->mean_ns ? gap - detector->mean_ns : detector->mean_ns - gap;

    detector->mean_ns = detector->mean_ns - detector->mean_ns / 8 + gap / 8;
    detector->deviation_ns = detector->deviation_ns - detector->deviation_ns / 4 + error / 4;
    remember(detector, gap, 2 * floor_ns);
    if (now_ns > detector->heard_ns)
        detector->heard_ns = now_ns;
}

uint64_t spotnik_detector_limit(const struct spotnik_detector *detector, uint64_t floor_ns,
                                uint64_t ceiling_ns)
{
    uint64_t limit = spotnik_time_add(detector->mean_ns, 8 * detector->deviation_ns);
    if (limit < detector->longest_ns / 2 * 5)
        limit = detector->longest_ns / 2 * 5;
    if (limit < floor_ns)
        limit = floor_ns;
    if (limit > ceiling_ns)
        limit = ceiling_ns;
    return spotnik_time_add(detector->heard_ns, limit);
}
