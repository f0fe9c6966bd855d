/* SPDX-License-Identifier: Apache-2.0 */
/* Which congestion controls of TCP this process may use for its lanes. The first is the system's,
 * or one that SPOTNIK_CONGESTION names. Another is there to be tried beside it (congestion.h). Asks
 * the kernel with a socket of its own; decides nothing about when. */
#ifndef SPOTNIK_CARRY_CONGESTION_CHOICE_H
#define SPOTNIK_CARRY_CONGESTION_CHOICE_H

#include <stdbool.h>

#define SPOTNIK_CONGESTION_NAME 16 /* TCP_CA_NAME_MAX */

struct spotnik_congestion_choice {
    bool fixed;  /* by SPOTNIK_CONGESTION: `usual` is for all lanes, those on one host as well */
    bool pauses; /* the usual one does, to measure the round trip (BBR) */
    char usual[SPOTNIK_CONGESTION_NAME];
    char other[SPOTNIK_CONGESTION_NAME]; /* "": none */
};

/* "auto" (also NULL and ""): the system's, and another to try; "system"; or a name. ARGUMENT: no
 * such, or none for us. */
int spotnik_congestion_choice_init(const char *text, struct spotnik_congestion_choice *ret);

/* For one connection. */
void spotnik_congestion_set(int fd, const char *name);
#endif
