/* SPDX-License-Identifier: Apache-2.0 */
/* The result of an all-reduce, computed one element after the other as docs/design says the members
 * do it: docs/design/0007-data-path.md. Shares no
 * code with src/. */
#ifndef TESTS_MATRIX_ORDER_H
#define TESTS_MATRIX_ORDER_H

#include <stdbool.h>

#include "numbers.h"

#define ORDER_MEMBERS_MAX 64
#define ORDER_BLOCK 256 /* elements */

enum order_way {
    ORDER_ANY, /* the order does not matter: one after the other, rounded once */
    ORDER_ALONE,
    ORDER_RING,
    ORDER_DIRECT,
    ORDER_HUB,
    ORDER_TREE,
    ORDER_FLAT,       /* in the memory of one host */
    ORDER_HOSTS_RING, /* in the memory of each, then round a ring of hosts */
    ORDER_HOSTS_TREE,
    ORDER_WAYS
};

struct order_member {
    uint32_t who, host;
    uint64_t weight; /* of MEAN; 0: contributes nothing */
};

/* Who adds up, in order of rank, and how. */
struct order {
    enum order_way way;
    uint32_t fan;
    uint32_t members;
    struct order_member member[ORDER_MEMBERS_MAX];
};

const char *order_name(enum order_way way);

/* Elements [from, from + count) of `total`. `wide`: halves were narrowed from F32. Not for Q8. */
void order_result(const struct order *order, const struct numbers *numbers, bool wide,
                  uint64_t total, uint64_t from, size_t count, void *out);

#endif
