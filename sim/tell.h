/* SPDX-License-Identifier: Apache-2.0 */
/* Events, actions and messages of the core in words, for the traces of the simulator and for dumps
 * of the flight recorder. */
#ifndef SPOTNIK_SIM_TELL_H
#define SPOTNIK_SIM_TELL_H

#include <stdio.h>

#include "core/core.h"

struct spotnik_teller {
    FILE *out;
    bool data; /* also what happens with every chunk, tick and heartbeat */
    unsigned (*number)(void *context, struct spotnik_id id); /* a short name of a process */
    void *context;
};

/* One line: "[ time] process > event". Nothing for one that is dull. */
void spotnik_tell_event(const struct spotnik_teller *teller, uint64_t now_ns, unsigned process,
                        const struct spotnik_event *event);

/* One indented line. */
void spotnik_tell_move(const struct spotnik_teller *teller, unsigned process,
                       const struct spotnik_move *move);

/* One indented line; `core`: whose action it is, for the view it has installed. */
void spotnik_tell_action(const struct spotnik_teller *teller, unsigned process,
                         const struct spotnik_core *core, const struct spotnik_action *action);

#endif
