/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that the program tells: the latest of each name. One thread writes, any reads; no
 * lock. */
#ifndef SPOTNIK_METRICS_OBSERVED_H
#define SPOTNIK_METRICS_OBSERVED_H

#include <stdint.h>

#define SPOTNIK_OBSERVED_MAX 16
#define SPOTNIK_OBSERVED_NAME 32

struct spotnik_observed_value {
    char name[SPOTNIK_OBSERVED_NAME];
    double value;
};

struct spotnik_observed {
    uint32_t count; /* grows after the name is there, and never shrinks */
    struct {
        char name[SPOTNIK_OBSERVED_NAME];
        uint64_t bits;
    } entry[SPOTNIK_OBSERVED_MAX];
};

/* 0, SPOTNIK_ERR_ARGUMENT (not a name), SPOTNIK_ERR_LIMIT (too many). */
int spotnik_observed_put(struct spotnik_observed *observed, const char *name, double value);

/* Returns how many. */
uint32_t spotnik_observed_read(const struct spotnik_observed *observed,
                               struct spotnik_observed_value ret[SPOTNIK_OBSERVED_MAX]);

#endif
