/* SPDX-License-Identifier: Apache-2.0 */
/* A slower processor than there is, for tests and demonstrations (SPOTNIK_THROTTLE): a duty cycle on the processor time that a
 * program takes from step_begin to step_commit. It sleeps on the caller's thread alone, so the member answers as ever. Decides how long. */
#ifndef SPOTNIK_API_THROTTLE_H
#define SPOTNIK_API_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_THROTTLE_MAX 64

struct spotnik_throttle {
    double speed; /* in (0, 1): of this processor; 0: as it is */
    uint64_t begun_ns, begun_cpu_ns;
    bool due;
};

/* "0.25": a quarter of the processor. "9:12:18": relative speeds of workers by place (SPOTNIK_SLOT), the largest as fast as `cpus`
 * processors can make them all at once. False: not such a text. */
bool spotnik_throttle_parse(const char *text, uint32_t place, uint32_t cpus, double *ret_speed);

/* From the environment; NULL or empty: none. 0 or ARGUMENT. */
int spotnik_throttle_open(struct spotnik_throttle *throttle);

void spotnik_throttle_begin(struct spotnik_throttle *throttle);

/* Sleeps until the step has taken as long as it would at that speed. Once for a step. */
void spotnik_throttle_end(struct spotnik_throttle *throttle);

#endif
