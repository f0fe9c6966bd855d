/* SPDX-License-Identifier: Apache-2.0 */
/* Kill points: a worker told to die at one point of the protocol, before or after the act. The test
 * aims by sigqueue(SIGUSR1) with a value of armed_aim(); the worker answers with the event "aim
 * VALUE" when it is so armed, and with "dies VALUE" when it gets there. It also tells "starved
 * TENTHS" when the machine did not let it run for TENTHS tenths of a second. */
#ifndef SPOTNIK_TESTS_ARMED_H
#define SPOTNIK_TESTS_ARMED_H

#include <stdbool.h>

enum armed_phase {
    ARMED_FROZEN,    /* a recovery is noticed */
    ARMED_RECONCILE, /* the token is sent, by its initiator or on its way */
    ARMED_ACCEPT,    /* the same of the proposal */
    ARMED_RESTART,   /* the chosen view is told */
    ARMED_FENCED,    /* "I voted without you" */
    ARMED_VIEW,      /* it is installed */
    ARMED_BEGUN,     /* the caller's step begins */
    ARMED_DATA,      /* the first data of the view have come */
    ARMED_COMMITTED, /* a step commits */
    ARMED_PHASES,
};

/* Tenths of a second. Half of the silence that counts as loss on one host: the other half is for
 * its peers. */
enum { ARMED_STARVED = 3 };

enum { ARMED_AIMS = 2 * ARMED_PHASES + 1 }; /* values are below; 0: disarmed */

static inline int armed_aim(enum armed_phase phase, bool after)
{
    return 1 + 2 * (int)phase + after;
}

/* In the worker: obey from now on, and tell on file descriptor `events`. */
void armed_obey(int events);

#endif
