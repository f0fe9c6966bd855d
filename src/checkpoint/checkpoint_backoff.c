/* SPDX-License-Identifier: Apache-2.0 */
/* Coarser until it works.
 *
 * A member whose last checkpoint is not complete takes the next multiple of twice as many
 * boundaries. One whose last checkpoint is complete begins again with every boundary. Why they
 * meet, whatever they did before, if no checkpoint is complete for a while:
 *
 *   - Each member's power only grows. So before long 2^coarse intervals are longer than the slowest
 *     member's writing, and every member has a buffer free when its turn comes.
 *   - Let c be the largest power that any member waits for. To wait for a larger one it must first
 *     take a multiple of 2^c. So at the next multiple of 2^c all members take part, and no next
 *     turn comes before that is written.
 *   - Waiting for 2^c took 2^(c-1) boundaries at least: in all it lasts no longer than about three
 *     times what had gone wrong. */
#include "checkpoint/checkpoint_backoff.h"

uint32_t spotnik_checkpoint_backoff_coarse(const struct spotnik_checkpoint_backoff *backoff,
                                           bool settled)
{
    if (settled)
        return 0;
    return backoff->coarse < SPOTNIK_CHECKPOINT_BACKOFF_MAX ? backoff->coarse + 1 : backoff->coarse;
}

bool spotnik_checkpoint_backoff_is_turn(const struct spotnik_checkpoint_backoff *backoff,
                                        uint64_t number, bool settled)
{
    return (number & ((UINT64_C(1) << spotnik_checkpoint_backoff_coarse(backoff, settled)) - 1))
           == 0;
}

void spotnik_checkpoint_backoff_take(struct spotnik_checkpoint_backoff *backoff, bool settled)
{
    backoff->coarse = spotnik_checkpoint_backoff_coarse(backoff, settled);
}
