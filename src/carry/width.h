/* SPDX-License-Identifier: Apache-2.0 */
/* The number of connections of a lane, from its measured rate. A cloud may cap each flow, and on a
 * long line with losses each flow is slow by itself. Then several flows carry more than one. Only a
 * trial can tell. Double the connections; keep as many as the gain in rate pays for; put the others
 * aside. After a trial without gain the next one comes ever later.
 *
 * Only time under pressure counts: every connection had more to send than its socket took. A lane
 * that waits for data from others needs no more connections. Decides; opens and measures
 * nothing. */
#ifndef SPOTNIK_CARRY_WIDTH_H
#define SPOTNIK_CARRY_WIDTH_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_WIDTH_MAX 8

struct spotnik_width {
    uint32_t wanted; /* connections to send on: 1 to SPOTNIK_WIDTH_MAX */
    bool fixed;      /* nothing is to be tried */
    uint32_t trying; /* of them, connections on trial */
    /* bytes/s that were measured with those that are not on trial; 0: not yet */
    uint64_t rate;
    uint64_t bytes, ns;   /* of the running measurement */
    uint64_t settle_ns;   /* pressed time not to be counted: the newest are still starting slowly */
    uint64_t rest_ns;     /* pressed time until the next try */
    uint64_t patience_ns; /* how long that is after the next failure */
};

/* `fixed`: this number; 0: find it by trials, from `first`, which suited another lane (0: not
 * known). */
struct spotnik_width spotnik_width_make(uint32_t fixed, uint32_t first);

/* All that were wanted are open now, over a round trip of so long. */
void spotnik_width_opened(struct spotnik_width *width, uint64_t round_trip_ns);

/* One that is wanted could not be opened. */
void spotnik_width_failed(struct spotnik_width *width);

/* The lane, with all that were wanted, was pressed for `ns` and took `bytes` meanwhile. True:
 * `wanted` is another now. */
bool spotnik_width_pressed(struct spotnik_width *width, uint64_t bytes, uint64_t ns);

#endif
