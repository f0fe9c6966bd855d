/* SPDX-License-Identifier: Apache-2.0 */
/* A trace's marks on their way to its file, which holds them as they are: `spotnik trace` makes
 * Chrome's format of it (docs/design/0023-observability.md). A line of JSON, then marks, each
 * of one cell or of three, in the order of bytes that the line names. */
#ifndef SPOTNIK_RECORD_TRACER_FILE_H
#define SPOTNIK_RECORD_TRACER_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "member/view.h"

struct spotnik_trace_file;

enum spotnik_trace_kind {
    /* one cell */
    /* a part of the caller's begins: the first, or the first after lost ones */
    SPOTNIK_TRACE_START,
    SPOTNIK_TRACE_TURN, /* a part ends, and the next one begins. arg: which ended */

    /* three cells */
    SPOTNIK_TRACE_BUCKET, /* arg: which; more: bytes; peer: the epoch, 0 where the step was begun in
                             another one, or replayed */
    /* of a view change. arg: which; step: the epoch; more: lost, joined, left */
    SPOTNIK_TRACE_PHASE,
    SPOTNIK_TRACE_EVENT, /* an instant with a name. peer: whom it concerns; 0: us */
    SPOTNIK_TRACE_NAME,  /* our identity: `peer` */
    SPOTNIK_TRACE_LOST,  /* an instant. more: marks that found their ring full; arg 1: no disk */
};

struct spotnik_trace_cell {
    uint64_t at_ns;
    uint64_t what; /* bits 0 to 3: the kind; 4 to 15: arg; the others: the step, in one cell */
};

struct spotnik_trace_mark {
    struct spotnik_trace_cell cell;
    union {
        struct {
            uint64_t to_ns, step, more;
        };
        char name[24]; /* of an event, padded with NUL */
    };
    uint64_t peer;
};

#define SPOTNIK_TRACE_CELLS 65536u /* of a ring; a power of two */
#define SPOTNIK_TRACE_MARK_CELLS                                                                   \
    (sizeof(struct spotnik_trace_mark) / sizeof(struct spotnik_trace_cell))

/* Each ring has one thread at a time that puts marks in. */
enum spotnik_trace_ring { SPOTNIK_TRACE_CALLER, SPOTNIK_TRACE_RUNTIME, SPOTNIK_TRACE_RINGS };

static inline uint64_t spotnik_trace_what(enum spotnik_trace_kind kind, uint32_t arg, uint64_t step)
{
    return step << 16 | (uint64_t)(arg & 0xfff) << 4 | kind;
}

/* A new file in `dir`, and the thread that writes it. epoch_us: as in spotnik_tracer_new(). Errors:
 * MEMORY, SYSTEM. */
int spotnik_trace_file_new(const char *dir, const struct spotnik_member *self, uint64_t epoch_us,
                           struct spotnik_trace_file **ret);

/* Writes all there is. */
void spotnik_trace_file_free(struct spotnik_trace_file *file);

/* False where the ring is full: then the mark is counted as lost, and the file will tell so. */
bool spotnik_trace_put(struct spotnik_trace_file *file, enum spotnik_trace_ring which,
                       const struct spotnik_trace_cell *cell);
bool spotnik_trace_put_mark(struct spotnik_trace_file *file, enum spotnik_trace_ring which,
                            const struct spotnik_trace_mark *mark);

#endif
