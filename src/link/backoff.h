/* SPDX-License-Identifier: Apache-2.0 */
/* Peers of which something is true until a time. Only the last few notes are kept. */
#ifndef SPOTNIK_LINK_BACKOFF_H
#define SPOTNIK_LINK_BACKOFF_H

#include <stdint.h>

#include "base/id.h"

#define SPOTNIK_BACKOFFS 8

struct spotnik_backoff {
    struct {
        struct spotnik_id peer;
        uint64_t until_ns;
    } entry[SPOTNIK_BACKOFFS];
    uint32_t next;
};

void spotnik_backoff_note(struct spotnik_backoff *backoff, struct spotnik_id peer,
                          uint64_t until_ns);

/* 0: there is no note. */
uint64_t spotnik_backoff_until(const struct spotnik_backoff *backoff, struct spotnik_id peer);

#endif
