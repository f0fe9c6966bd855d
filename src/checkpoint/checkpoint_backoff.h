/* SPDX-License-Identifier: Apache-2.0 */
/* The due checkpoints that a member takes part in. Members that got out of step, or write more
 * slowly than checkpoints fall due, soon take the same ones (docs/design/0005-checkpoint.md). Pure.
 * Decides nothing about what is copied, or when a checkpoint is complete. */
#ifndef SPOTNIK_CHECKPOINT_CHECKPOINT_BACKOFF_H
#define SPOTNIK_CHECKPOINT_CHECKPOINT_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

/* Boundaries of 64 intervals at most: a checkpoint that takes longer to write is not for this
 * backoff. */
#define SPOTNIK_CHECKPOINT_BACKOFF_MAX 6

struct spotnik_checkpoint_backoff {
    uint32_t coarse; /* the last one was taken as a multiple of 2^coarse */
};

/* `settled`: the last one taken here is known to be complete, or there is none. The next must be a
 * multiple of 2 to the power returned. */
uint32_t spotnik_checkpoint_backoff_coarse(const struct spotnik_checkpoint_backoff *backoff,
                                           bool settled);

/* Is the number-th due boundary of the job ours? */
bool spotnik_checkpoint_backoff_is_turn(const struct spotnik_checkpoint_backoff *backoff,
                                        uint64_t number, bool settled);

/* It is taken. */
void spotnik_checkpoint_backoff_take(struct spotnik_checkpoint_backoff *backoff, bool settled);

#endif
