/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections a lane should have, from what it was measured to carry. A cloud may cap each flow, and on a long line with
 * losses each flow is slow by itself; then several carry more than one. Nothing but a try can tell. As many again as there are are
 * tried; of those so many are kept as the rise of the rate is worth flows of the old rate, and the rest is put aside. When none is
 * worth it, the next try comes ever later.
 *
 * Counted is only the time in which the lane was pressed: every connection had more to send than its socket took. A lane that
 * waits for data from others is not the one that needs more. Decides; opens and measures nothing. */
#ifndef SPOTNIK_NET_WIDTH_H
#define SPOTNIK_NET_WIDTH_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_WIDTH_MAX 8

struct spotnik_width {
    uint32_t wanted;      /* connections to send on: 1 to SPOTNIK_WIDTH_MAX */
    bool fixed;           /* nothing is to be tried */
    uint32_t trying;      /* so many of them are on trial */
    uint64_t rate;        /* bytes/s that were measured with those that are not on trial; 0: not yet */
    uint64_t bytes, ns;   /* of the running measurement */
    uint64_t settle_ns;   /* pressed time not to be counted: the newest are still starting slowly */
    uint64_t rest_ns;     /* pressed time until the next try */
    uint64_t patience_ns; /* how long that is after the next failure */
};

/* `fixed`: so many; 0: to be found out, beginning with `first`, which was right for another lane (0: nobody knows). */
struct spotnik_width spotnik_width_make(uint32_t fixed, uint32_t first);

/* All that were wanted are open now, over a round trip of so long. */
void spotnik_width_opened(struct spotnik_width *width, uint64_t round_trip_ns);

/* One that is wanted could not be opened. */
void spotnik_width_failed(struct spotnik_width *width);

/* The lane, with all that were wanted, was pressed for `ns` and took `bytes` meanwhile. True: `wanted` is another now. */
bool spotnik_width_pressed(struct spotnik_width *width, uint64_t bytes, uint64_t ns);

#endif
