/* SPDX-License-Identifier: Apache-2.0 */
/* Exactly-once additions; the rules are in store.h. */
#include "adapt/store.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "adapt/same_bits.h"

void spotnik_store_init(struct spotnik_store *store, float *data, uint64_t count)
{
    memset(store, 0, sizeof *store);
    store->data = data;
    store->count = count;
}

bool spotnik_store_add(struct spotnik_store *store, uint32_t sender, uint64_t number,
                       const float *update, uint64_t *ret_expected)
{
    SPOTNIK_ASSERT(sender < SPOTNIK_STORE_SENDERS_MAX);
    if (ret_expected != NULL)
        *ret_expected = store->applied[sender] + 1;
    if (number != store->applied[sender] + 1)
        return false;
    for (uint64_t i = 0; i < store->count; i++)
        store->data[i] += update[i];
    store->applied[sender] = number;
    return true;
}
