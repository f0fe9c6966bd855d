/* SPDX-License-Identifier: Apache-2.0 */
/* What the library has to say: one table of everything that can happen to a job as a member sees
 * it. A message has an id that never changes; docs/reference/messages.md has a section for each.
 * Decides how often a message may be repeated; the words about one occurrence are the caller's. No
 * I/O, no clock. */
#ifndef SPOTNIK_METRICS_MESSAGES_H
#define SPOTNIK_METRICS_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "spotnik/watch.h"

enum spotnik_said {
    SPOTNIK_SAID_STARTED,
    SPOTNIK_SAID_ENDED,
    SPOTNIK_SAID_RESUMED,
    SPOTNIK_SAID_JOINED,
    SPOTNIK_SAID_LEFT,
    SPOTNIK_SAID_LOST,
    SPOTNIK_SAID_PARKED,
    SPOTNIK_SAID_HEALED,
    SPOTNIK_SAID_EXCLUDED,
    SPOTNIK_SAID_LINEAGE,
    SPOTNIK_SAID_STALLED,
    SPOTNIK_SAID_WAITING, /* this and the next: of the agent alone */
    SPOTNIK_SAID_ENOUGH,
    SPOTNIK_SAID_NOTICE,
    SPOTNIK_SAID_STRATEGY,
    SPOTNIK_SAID_CHECKPOINT,
    SPOTNIK_SAID_CHECKPOINT_TROUBLE,
    SPOTNIK_SAID_UNSAVED, /* of the agent alone */
    SPOTNIK_SAID_REFUSED,
    SPOTNIK_SAID_PEERS,
    SPOTNIK_SAID_PATH,
    SPOTNIK_SAID_ALTERED,
    SPOTNIK_SAID_EVENTS_TROUBLE,
    SPOTNIK_SAID_SAMPLE, /* of the event log alone: how far the job is, every half minute */
    SPOTNIK_SAID_KINDS,
};

struct spotnik_said_info {
    const char *id, *name;
    enum spotnik_level level;
};

const struct spotnik_said_info *spotnik_said_info(enum spotnik_said kind);

/* At most one message of a kind in SPOTNIK_SAID_EVERY_NS reaches callback and queue; the next one
 * that does says how many were held back. The event log has them all. */
#define SPOTNIK_SAID_EVERY_NS UINT64_C(5000000000)

struct spotnik_said_rate {
    struct {
        uint64_t last_ns, held_back;
    } kind[SPOTNIK_SAID_KINDS];
};

/* Shall this one go out? *ret_held_back: how many did not since the last that did. */
bool spotnik_said_pass(struct spotnik_said_rate *rate, enum spotnik_said kind, uint64_t now_ns,
                       uint64_t *ret_held_back);

#endif
