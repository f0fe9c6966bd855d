/* SPDX-License-Identifier: Apache-2.0 */
/* The silence limit of a link, after which its peer counts as lost. It adapts to jitter, in
 * integers.
 *
 * limit = clamp(floor, mean + 8 * deviation, ceiling) of the gaps between signs of life (Jacobson's
 * estimator, as TCP's RTO). It is at least 5/2 of the longest gap that the estimator remembers. 32
 * busy processes on two cores widen it; a quiet network narrows it to the floor. The estimator
 * forgets within a second. A network that loses packets has one long gap in some hundred short
 * ones. The kernel retransmits after 200 ms, and all later data wait. The longest gap covers
 * that. */
#ifndef SPOTNIK_MEMBER_DETECTOR_H
#define SPOTNIK_MEMBER_DETECTOR_H

#include <stdint.h>

struct spotnik_detector {
    uint64_t heard_ns; /* last sign of life */
    uint64_t mean_ns, deviation_ns;
    /* remembered gap: it shrinks by 1/128 of the time that passes, 250 ms in 32 s */
    uint64_t longest_ns;
};

void spotnik_detector_start(struct spotnik_detector *detector, uint64_t now_ns);
/* A gap longer than two floors is remembered as two floors: it proves no more than that. */
void spotnik_detector_hear(struct spotnik_detector *detector, uint64_t now_ns, uint64_t floor_ns);

/* The instant from which silence counts as loss. */
uint64_t spotnik_detector_limit(const struct spotnik_detector *detector, uint64_t floor_ns,
                                uint64_t ceiling_ns);

#endif
