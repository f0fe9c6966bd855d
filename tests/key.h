/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for the keys of a test's credentials, which a job keeps in a page of its own. */
#ifndef SPOTNIK_TESTS_KEY_H
#define SPOTNIK_TESTS_KEY_H

#include <stdint.h>
#include <string.h>

#define KEYS 4096 /* more than any test has members */

static inline uint8_t *key_new(uint8_t fill)
{
    static uint8_t key[KEYS][32];
    static uint32_t next;
    uint8_t *made = key[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % KEYS];

    memset(made, fill, sizeof key[0]);
    return made;
}

static inline uint8_t *key_copy(const uint8_t *of)
{
    return memcpy(key_new(0), of, 32);
}

#endif
