/* SPDX-License-Identifier: Apache-2.0 */
#include "link/backoff.h"

void spotnik_backoff_note(struct spotnik_backoff *backoff, struct spotnik_id peer,
                          uint64_t until_ns)
{
    uint32_t at = backoff->next++ % SPOTNIK_BACKOFFS;
    backoff->entry[at].peer = peer;
    backoff->entry[at].until_ns = until_ns;
}

uint64_t spotnik_backoff_until(const struct spotnik_backoff *backoff, struct spotnik_id peer)
{
    uint64_t until_ns = 0;
    for (uint32_t i = 0; i < SPOTNIK_BACKOFFS; i++)
        if (spotnik_id_equal(backoff->entry[i].peer, peer) && backoff->entry[i].until_ns > until_ns)
            until_ns = backoff->entry[i].until_ns;
    return until_ns;
}
