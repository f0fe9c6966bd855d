/* SPDX-License-Identifier: Apache-2.0 */
/* The flight recorder keeps everything that entered the core lately in memory, without allocation
 * and without a lock of its own. It is written to a file when something is wrong. `spotnik replay`
 * runs it through the core again.
 *
 * Two halves. When one is full the core is saved at the head of the other, which is written over.
 * So a dump begins with a core that is known, whatever has been forgotten.
 *
 * Everything under the runtime's lock unless said so; a NULL recorder does nothing. */
#ifndef SPOTNIK_RECORD_RECORDER_H
#define SPOTNIK_RECORD_RECORDER_H

#include "core/core.h"

struct spotnik_recorder;

struct spotnik_recorder_config {
    const struct spotnik_limits *limits;
    /* where dumps go; NULL: none without a request, and requested ones to the temporary folder */
    const char *dir;
    uint64_t stall_ns; /* a sealed step that is not committed for so long is dumped; 0: never */
};

/* SPOTNIK_ERR_MEMORY. */
int spotnik_recorder_new(const struct spotnik_recorder_config *config,
                         struct spotnik_recorder **ret);

/* Waits for a dump that is being written, for some seconds. */
void spotnik_recorder_free(struct spotnik_recorder *recorder);

/* The core is a new one: a half begins with it. */
void spotnik_recorder_begin(struct spotnik_recorder *recorder, const struct spotnik_core *core,
                            const struct spotnik_member *self);

/* Each before the call of the core that it is named for, but _placed and _sent after it. */
void spotnik_recorder_event(struct spotnik_recorder *recorder, const struct spotnik_core *core,
                            const struct spotnik_event *event);
void spotnik_recorder_action(struct spotnik_recorder *recorder,
                             const struct spotnik_action *action);
void spotnik_recorder_placed(struct spotnik_recorder *recorder, struct spotnik_id from,
                             const struct spotnik_chunk_header *header,
                             enum spotnik_verdict verdict);
void spotnik_recorder_sent(struct spotnik_recorder *recorder, struct spotnik_id to);
void spotnik_recorder_minimum(struct spotnik_recorder *recorder, uint32_t members_min);
void spotnik_recorder_bar(struct spotnik_recorder *recorder, bool barred);

/* Copies what there is, and has a thread of its own write it. `asked`: on request; else at most
 * SPOTNIK_DUMPS_MAX files come of one process, and none where no folder was named. False with the
 * reason, else the path, in `ret_line`. */
#define SPOTNIK_DUMPS_MAX 8
bool spotnik_recorder_dump(struct spotnik_recorder *recorder, const char *reason, bool asked,
                           char *ret_line, size_t size);

/* How often a step stalled. */
uint64_t spotnik_recorder_stalls(const struct spotnik_recorder *recorder);

#endif
