/* SPDX-License-Identifier: Apache-2.0 */
/* Spans of one member for Chrome's trace viewer and Perfetto: SPOTNIK_TRACE
 * (docs/design/0023-observability.md). A mark is a store of 16 or 48 bytes into a ring; a
 * thread writes the rings to a file. A NULL trace does nothing. */
#ifndef SPOTNIK_RECORD_TRACER_H
#define SPOTNIK_RECORD_TRACER_H

#include "core/core.h"

struct spotnik_tracer;

/* What a caller's thread does, in the order of metrics/pace.h. */
enum spotnik_tracer_part {
    SPOTNIK_TRACER_APPLY,
    SPOTNIK_TRACER_BEGIN,
    SPOTNIK_TRACER_COMPUTE,
    SPOTNIK_TRACER_COMMIT,
    SPOTNIK_TRACER_PARTS
};

/* A file of its own in `dir`. epoch_us: what the date was, in microseconds since 1970, when the
 * clock was at 0. Errors: MEMORY; SYSTEM: the file cannot be made. */
int spotnik_tracer_new(const char *dir, const struct spotnik_member *self, uint64_t epoch_us,
                       struct spotnik_tracer **ret);

/* Writes all there is. */
void spotnik_tracer_free(struct spotnik_tracer *trace);

/* The process is this member from now on. */
void spotnik_tracer_name(struct spotnik_tracer *trace, struct spotnik_id id, uint64_t now_ns);

/* [caller's thread] The part that ran ends, of step `step`; `next` runs from now on. */
void spotnik_tracer_turn(struct spotnik_tracer *trace, enum spotnik_tracer_part next, uint64_t step,
                         uint64_t now_ns);

/* Under the runtime's lock: what enters the core and comes out of it. */
void spotnik_tracer_event(struct spotnik_tracer *trace, const struct spotnik_event *event);
void spotnik_tracer_action(struct spotnik_tracer *trace, const struct spotnik_core *core,
                           const struct spotnik_action *action);

#endif
