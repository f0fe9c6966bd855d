/* SPDX-License-Identifier: Apache-2.0 */
/* A trace's marks as lines of Chrome's JSON array format, which Perfetto and Chrome read. No
 * bracket at the end is needed. */
#ifndef SPOTNIK_RECORD_TRACER_TEXT_H
#define SPOTNIK_RECORD_TRACER_TEXT_H

#include <stdint.h>

#include "member/view.h"

enum spotnik_trace_kind {
    SPOTNIK_TRACE_PART, /* arg: which */
    /* arg: which; more: bytes; peer: the epoch, 0 where the step was begun in another one, or
     * replayed */
    SPOTNIK_TRACE_BUCKET,
    /* of a view change. arg: which; step: the epoch; more: lost, joined and left */
    SPOTNIK_TRACE_PHASE,
    SPOTNIK_TRACE_PEER, /* an instant that concerns `peer`. arg: which event of the core */
    SPOTNIK_TRACE_NAME, /* our identity: `peer` */
    SPOTNIK_TRACE_SELF, /* an instant of our own. arg: which action of the core */
    SPOTNIK_TRACE_LOST, /* an instant. more: marks that found their ring full */
};

struct spotnik_trace_mark {
    uint64_t from_ns, to_ns, step, more, peer;
    uint32_t kind, arg;
};

#define SPOTNIK_TRACE_TEXT_MAX 512 /* bytes of one mark's text, at most */

/* Both write text to `at`, without a NUL, and return its end. The head takes twice
 * SPOTNIK_TRACE_TEXT_MAX at most. `pid`: the member's row. `epoch_us`: what the wall clock shows
 * when the clock of the marks shows 0; `now_ns`: what that clock shows. */
char *spotnik_trace_text(char *at, uint32_t pid, const struct spotnik_trace_mark *mark);
char *spotnik_trace_text_head(char *at, uint32_t pid, const struct spotnik_member *self,
                              uint64_t epoch_us, uint64_t now_ns);

#endif
