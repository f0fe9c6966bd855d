/* SPDX-License-Identifier: Apache-2.0 */
/* Emulation of a slower processor, for tests and demonstrations (SPOTNIK_THROTTLE): a duty cycle on
 * the processor time that a program takes from step_begin to step_commit. With the time of a sample
 * ("@30us") a step takes exactly that long for its samples, whatever the load of the real
 * processor. Only the caller's thread sleeps, so the member still answers. Decides how long. */
#ifndef SPOTNIK_API_THROTTLE_H
#define SPOTNIK_API_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

#define SPOTNIK_THROTTLE_MAX 64

struct spotnik_throttle {
    double speed;     /* in (0, 1]: of this processor; 0: as it is */
    double sample_ns; /* of a sample at speed 1; 0: what it takes */
    double jitter;    /* part by which a step takes more or less, at most */
    struct spotnik_prng prng;
    uint64_t samples; /* of the begun step */
    uint64_t begun_ns, begun_cpu_ns;
    bool due;
};

/* "0.25": a quarter of the processor. "9:12:18": relative speeds of workers by place
 * (SPOTNIK_SLOT), the largest as fast as `cpus` processors can make them all at once. "...@30us" or
 * "...@0.4ms": the time of a sample at speed 1, which is that of the fastest then. "...@30us~2%"
 * varies every step at random by up to 2 %. Into speed, sample_ns, jitter. False: not such a
 * text. */
bool spotnik_throttle_parse(const char *text, uint32_t place, uint32_t cpus,
                            struct spotnik_throttle *ret);

/* From the environment; NULL or empty: none. 0 or ARGUMENT. */
int spotnik_throttle_open(struct spotnik_throttle *throttle);

/* `samples` of the step that begins now. */
void spotnik_throttle_begin(struct spotnik_throttle *throttle, uint64_t samples);

/* Sleeps until the step has taken as long as it would at that speed. Once for a step. */
void spotnik_throttle_end(struct spotnik_throttle *throttle);

#endif
