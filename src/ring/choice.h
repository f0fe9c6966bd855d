/* SPDX-License-Identifier: Apache-2.0 */
/* How the members of a view that share no memory move a bucket: round the ring, or up a tree and
 * down again. A small one may go in one or two hops (docs/design/0007-data-path.md). The table was
 * measured (docs/results/allreduce.md); all members of a view must hold the same one. */
#ifndef SPOTNIK_RING_CHOICE_H
#define SPOTNIK_RING_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum spotnik_schedule {
    SPOTNIK_SCHEDULE_RING,   /* segments go round: 2(N-1) hops, every link evenly used */
    SPOTNIK_SCHEDULE_DIRECT, /* everybody sends everybody its input: one hop, N(N-1) messages */
    /* everybody sends rank 0 its input and gets the result: two hops, 2(N-1) messages */
    SPOTNIK_SCHEDULE_HUB,
    /* sums go up a tree (tree.h), and the result down: 2(N-1) messages in some logarithm of N
     * hops */
    SPOTNIK_SCHEDULE_TREE,
};

/* in a view that knows DIRECT and HUB: its members have data connections to all others */
#define SPOTNIK_SMALL_MEMBERS_MAX 16

#define SPOTNIK_CHOICE_ALL UINT32_MAX /* views of any size; of TREE only */

/* The first row that fits counts; RING where none does. The last row has members_max 0. */
struct spotnik_choice {
    uint32_t members_max;
    uint64_t bytes_max;
    enum spotnik_schedule schedule;
    /* only where all members have one address: bytes cost processor time then, and no link is
     * narrow */
    bool near;
};

extern const struct spotnik_choice spotnik_choice_measured[];

/* `table` NULL: always RING. */
enum spotnik_schedule spotnik_choice_take(const struct spotnik_choice *table, uint32_t members,
                                          bool near, uint64_t bytes);

/* The largest view in which a bucket of `bytes` goes from everybody to everybody, or to and from
 * rank 0; 0: none. */
uint32_t spotnik_choice_members(const struct spotnik_choice *table, uint64_t bytes);

/* How many places for what others send a bucket of `bytes` needs, whatever the view; 0: it always
 * goes round the ring. */
uint32_t spotnik_choice_places(const struct spotnik_choice *table, uint64_t bytes);

const char *spotnik_schedule_name(enum spotnik_schedule schedule);

#endif
