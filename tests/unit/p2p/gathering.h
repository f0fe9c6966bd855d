/* SPDX-License-Identifier: Apache-2.0 */
/* A job of a few members in this process, each with a runtime of its own, that have made a step
 * together and then stand still, so that one thread may call for all of them in turn. Test code
 * only. */
#ifndef TESTS_UNIT_P2P_GATHERING_H
#define TESTS_UNIT_P2P_GATHERING_H

#include <stdint.h>

#include "place.h"

#define GATHERING_MAX 4

struct gathering {
    struct place place;
    uint32_t count;
    spotnik_job *job[GATHERING_MAX]; /* NULL: gone */
    uint32_t rank[GATHERING_MAX];
};

/* `transport`: "tcp" or "auto". */
void gathering_begin(struct gathering *gathering, uint32_t count, const char *transport);

/* Member i is lost. */
void gathering_lose(struct gathering *gathering, uint32_t i);

/* Which member has this rank. */
uint32_t gathering_of_rank(const struct gathering *gathering, uint32_t rank);

void gathering_end(struct gathering *gathering);

#endif
