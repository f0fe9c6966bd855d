/* SPDX-License-Identifier: Apache-2.0 */
/* The replica that the fuzz target of state frames and its first inputs have in common. Test code
 * only. */
#ifndef SPOTNIK_TESTS_FUZZ_STATE_H
#define SPOTNIK_TESTS_FUZZ_STATE_H

#include "base/assert.h"
#include "spotnik/spotnik.h"
#include "transfer/registry.h"

/* Two tensors; their memory is the caller's and static. */
static inline void spotnik_fuzz_registry(struct spotnik_registry *registry)
{
    static float weights[6];
    static int64_t counter[1];

    spotnik_registry_init(registry);
    SPOTNIK_ASSERT(spotnik_registry_add(registry, "w", weights, 6, SPOTNIK_F32) == 0);
    SPOTNIK_ASSERT(spotnik_registry_add(registry, "counter", counter, 1, SPOTNIK_I64) == 0);
}

#endif
