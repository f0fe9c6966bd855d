/* SPDX-License-Identifier: Apache-2.0 */
/* The program's own numbers. */
#include "metrics/observed.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static bool is_name(const char *name)
{
    size_t length = name ? strlen(name) : 0;

    return length && length < SPOTNIK_OBSERVED_NAME && strspn(name, LETTERS) == length;
}

int spotnik_observed_put(struct spotnik_observed *observed, const char *name, double value)
{
    uint32_t at = 0;
    uint64_t bits;

    if (!is_name(name))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "the name of an observed number has 1 to %d letters, digits or underscores",
            SPOTNIK_OBSERVED_NAME - 1);
    while (at < observed->count && strcmp(observed->entry[at].name, name))
        at++;
    if (at == SPOTNIK_OBSERVED_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "%d numbers are observed already; \"%s\" is one too many",
                                    SPOTNIK_OBSERVED_MAX, name);
    memcpy(&bits, &value, sizeof bits);
    __atomic_store_n(&observed->entry[at].bits, bits, __ATOMIC_RELAXED);
    if (at < observed->count)
        return 0;
    memcpy(observed->entry[at].name, name, strlen(name) + 1);
    __atomic_store_n(&observed->count, at + 1, __ATOMIC_RELEASE);
    return 0;
}

uint32_t spotnik_observed_read(const struct spotnik_observed *observed,
                               struct spotnik_observed_value ret[SPOTNIK_OBSERVED_MAX])
{
    uint32_t count = __atomic_load_n(&observed->count, __ATOMIC_ACQUIRE);

    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = __atomic_load_n(&observed->entry[i].bits, __ATOMIC_RELAXED);

        memcpy(ret[i].name, observed->entry[i].name, sizeof ret[i].name);
        memcpy(&ret[i].value, &bits, sizeof bits);
    }
    return count;
}
