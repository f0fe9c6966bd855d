/* SPDX-License-Identifier: Apache-2.0 */
/* One holder's part of the shared parameter store of ASP. Updates are numbered by their sender, 1,
 * 2, 3, ...; each counts once however often it is repeated after a loss. The primary feeds the
 * copies in its order, so they hold its bits. After a fail-over, updates of different senders may
 * come in another order, and sums differ in rounding: asynchronous SGD needs no more. Decides
 * whether an update is new. The driver repeats updates. */
#ifndef SPOTNIK_ADAPT_STORE_H
#define SPOTNIK_ADAPT_STORE_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_STORE_SENDERS_MAX 1024

struct spotnik_store {
    uint64_t count; /* elements */
    float *data;    /* the driver's memory */
    /* by sender: number of its last update in `data` */
    uint64_t applied[SPOTNIK_STORE_SENDERS_MAX];
};

void spotnik_store_init(struct spotnik_store *store, float *data, uint64_t count);

/* Add the update, unless it is in already. Returns whether it was added. Numbers follow each other:
 * one that comes too early is refused (false) as well, *ret_expected is then what is wanted; it may
 * be NULL. */
bool spotnik_store_add(struct spotnik_store *store, uint32_t sender, uint64_t number,
                       const float *update, uint64_t *ret_expected);

#endif
