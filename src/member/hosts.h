/* SPDX-License-Identifier: Apache-2.0 */
/* The members of a view that share a host, and the one of them that holds its stream. It is a pure
 * function of the view: all members agree on it without a message (docs/design/0007-data-path.md).
 *
 * Hosts are numbered in ring order of their holders; the holder of a host is its member of lowest
 * rank. When a holder is lost, the next view has another. The core uses this. It says nothing about
 * shared memory. */
#ifndef SPOTNIK_MEMBER_HOSTS_H
#define SPOTNIK_MEMBER_HOSTS_H

#include <stdbool.h>

#include "member/view.h"

struct spotnik_hosts {
    uint32_t count;   /* of the view */
    uint32_t index;   /* of ours */
    uint32_t members; /* of the view on our host, we among them */
    uint32_t place;   /* ours among them, in ring order: 0 holds the stream */
    /* ranks of the holders of the next and of the previous host; one host: of our own */
    uint32_t next, previous;
};

/* The ranks of all holders, by the numbers of their hosts. Returns how many there are: as many as
 * members where no two share a host. `scratch`: four places for each member. */
uint32_t spotnik_hosts_holders(const struct spotnik_view *view, uint32_t *ret_ranks,
                               uint32_t *scratch);

/* `holder`: all holders of the view. */
struct spotnik_hosts spotnik_hosts_of(const struct spotnik_view *view, uint32_t rank,
                                      const uint32_t *holder, uint32_t holders);

/* Without memory, and so in quadratic time: for reports. */
uint32_t spotnik_hosts_count(const struct spotnik_view *view);

static inline bool spotnik_hosts_mate(const struct spotnik_view *view, uint32_t a, uint32_t b)
{
    return view->entry[a].member.host == view->entry[b].member.host;
}

#endif
