/* SPDX-License-Identifier: Apache-2.0 */
/* Results on their way to the caller before the commit, so that little is left to copy after it.
 *
 * The input must outlive the reduction, since a recovery reduces it again (P5). So we save each
 * piece of it before the piece of the result takes its place. We put it back if the step does not
 * commit or is reduced again. Only the caller's thread moves pieces, inside spotnik_step_commit(),
 * and only when it would otherwise sleep: on a wire that is slower than memory.
 *
 *     found in `data`      not final: input        moved: result
 *     found in `saved`                             moved: input
 *
 * Where members of a host add in shared memory, a copy of the input lies there until the step is
 * over. It is then `lent`, and nothing need be saved.
 *
 * Plain memory and plain counters: no lock, no clock. caller.c decides which thread calls when. */
#ifndef SPOTNIK_TRANSPORT_EARLY_H
#define SPOTNIK_TRANSPORT_EARLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_EARLY_RANGES 64
#define SPOTNIK_EARLY_LEAST (256u * 1024) /* bytes: a smaller bucket is copied in no time */

/* Bytes of the result that will not change any more: [begin, end); the caller has [begin,
 * moved). */
struct spotnik_early_range {
    size_t begin, end, moved;
};

struct spotnik_early {
    uint64_t step;
    uint8_t *saved; /* the input, where the caller's memory holds the result */
    size_t saved_bytes;
    /* a copy of the input, complete where the result is final, that takes the place of `saved`;
     * NULL: none */
    const uint8_t *lent;
    /* lent: chunks of the result in another's memory that are among the ranges */
    uint64_t shown;
    bool refused; /* no memory, or another bucket's input lies in the same place */
    uint32_t count;
    struct spotnik_early_range range[SPOTNIK_EARLY_RANGES];
};

/* A copy of the input of `step` that lasts until it is undone or finished. Nothing of the step is
 * final yet. */
void spotnik_early_lend(struct spotnik_early *early, uint64_t step, const void *input);

/* [begin, end) of the result of `step` is final. More ranges than there is room for are left to the
 * end. */
void spotnik_early_add(struct spotnik_early *early, uint64_t step, size_t begin, size_t end);

/* Is there a piece of `step` to move? */
bool spotnik_early_is_due(struct spotnik_early *early, uint64_t step);

/* Move one piece of at most `most` bytes. `bytes`: of the bucket. Refuses from then on when there
 * is no memory to save to. */
void spotnik_early_move(struct spotnik_early *early, uint8_t *data, const uint8_t *result,
                        size_t bytes, size_t most);

/* `data` holds the input again, nothing is final, and nothing lent. */
void spotnik_early_undo(struct spotnik_early *early, uint8_t *data);

/* The step is committed: copy what was not moved. */
void spotnik_early_finish(struct spotnik_early *early, uint8_t *data, const uint8_t *result,
                          size_t bytes);

void spotnik_early_free(struct spotnik_early *early);

#endif
