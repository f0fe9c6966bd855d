/* SPDX-License-Identifier: Apache-2.0 */
/* Two sides of a cut network: those that go on, and the others. What network.c waits for. */
#ifndef SPOTNIK_E2E_SIDES_H
#define SPOTNIK_E2E_SIDES_H

#include "cluster.h"
#include "netns.h"

extern struct sides {
    uint64_t step; /* those that go on pass it */
    uint32_t size; /* of their view */
    bool among[NETNS_HOSTS];
    uint64_t told_step[NETNS_HOSTS]; /* what a member had committed when it said: parked */
} sides;

/* All but a and b go on. */
void sides_set(struct cluster *cluster, uint32_t a, uint32_t b);

/* For cluster_until(). */
bool sides_those_go_on(struct cluster *cluster);
bool sides_one_half_goes_on(struct cluster *cluster);
bool sides_all_go_on(struct cluster *cluster);
bool sides_others_are_parked(struct cluster *cluster);

void sides_parked_made_none(struct cluster *cluster);

#endif
