/* SPDX-License-Identifier: Apache-2.0 */
/* The congestion control of a lane: the system's usual one, or another. No rule fits every line.
 * BBR empties its window every ten seconds to measure the round trip. That costs a full line some
 * percent, and several flows in turn much more. Reno and CUBIC back off at each loss, and a line
 * that drops packets above a cap loses many. So a trial of the other one lasts long enough to see
 * BBR's pauses, and the better one stays; the next trial comes ever later. If the pauses of several
 * members coincide, none of them sees its own, since no member has anything to send. On a tie, keep
 * the algorithm that does not pause.
 *
 * Only time under pressure counts (width.h). Decides; sets and measures nothing. */
#ifndef SPOTNIK_CARRY_CONGESTION_H
#define SPOTNIK_CARRY_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_congestion {
    bool other;           /* not the usual one is in use, */
    bool trying;          /* and what is in use is on trial */
    bool fixed;           /* nothing is to be tried */
    bool pauses;          /* the usual one does, the other does not */
    uint64_t rate;        /* bytes/s of the one that is not on trial; 0: not measured yet */
    uint64_t bytes, ns;   /* of the running measurement */
    uint64_t settle_ns;   /* pressed time not to be counted: what is in use has just come */
    uint64_t rest_ns;     /* pressed time until the next try */
    uint64_t patience_ns; /* how long that is after the next failure */
};

/* `other`: begin with that one, which was better for another lane. */
struct spotnik_congestion spotnik_congestion_make(bool fixed, bool pauses, bool other);

/* The lane is another: it has more connections, or fewer. What is on trial is in use still, and
 * measured from the start. */
void spotnik_congestion_anew(struct spotnik_congestion *congestion);

/* The lane was pressed for `ns` and took `bytes` meanwhile. True: `other` has changed. */
bool spotnik_congestion_pressed(struct spotnik_congestion *congestion, uint64_t bytes, uint64_t ns);

#endif
