/* SPDX-License-Identifier: Apache-2.0 */
/* The switch between synchronous and asynchronous. At the commit of step s all members get the same
 * wish from the same numbers; step s + 1 is the switch. A switch to synchronous averages the
 * models, so that from its commit on replicas have the same bits (P4). It depends on committed
 * steps only, so losses in its middle need no rule of their own. A member that is handed step s
 * (P3), or copies this state as a joiner, does the same. Plain data, part of the registered
 * state. */
#ifndef SPOTNIK_ADAPT_SWITCH_H
#define SPOTNIK_ADAPT_SWITCH_H

#include <stdint.h>

#include "adapt/policy.h"

enum spotnik_sync_act {
    SPOTNIK_SYNC_ACT_RUN,     /* an ordinary step of the strategy of `mode` */
    SPOTNIK_SYNC_ACT_PART,    /* publish the model, then run the asynchronous strategy */
    SPOTNIK_SYNC_ACT_AVERAGE, /* no more pulls; average model and centre, nothing else */
};

struct spotnik_sync_switch {
    enum spotnik_sync_mode mode;
    enum spotnik_sync_act act; /* of the step after `committed` */
    uint64_t committed;        /* the last step this has seen */
    uint64_t switched_step;    /* of the last switch; 0: none */
    uint32_t switches;
};

/* Step `committed` + 1 has committed and the policy wishes for `wanted`. Returns the act of the
 * next one. Call once for each step, in order. */
enum spotnik_sync_act spotnik_sync_switch_commit(struct spotnik_sync_switch *sw, uint64_t step,
                                                 enum spotnik_sync_mode wanted);

#endif
