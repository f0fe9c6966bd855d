/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster in memory for strategies: replicas of a small model, the primitives without a network,
 * and a quadratic to minimise. Members have data of their own: f_k(x) = sum_i a_i (x_i - c_ki)^2 /
 * 2, gradients carry noise; the mean of the c_k is the optimum. */
#ifndef SPOTNIK_TESTS_SYNC_CLUSTER_H
#define SPOTNIK_TESTS_SYNC_CLUSTER_H

#include "adapt/strategy.h"

#define CLUSTER_MAX 8
#define DIMENSIONS 16

struct cluster;

struct asked {
    /* what the running step has started; NULL: not */
    float *average, *pulled, *pushed, *fetched;
    uint32_t peer;
};

struct node {
    struct cluster *cluster;
    struct spotnik_sync_replica replica;
    struct spotnik_sync_primitives use;
    struct asked asked;
    bool deaf; /* nothing it starts from single members arrives */
    float model[DIMENSIONS], gradient[DIMENSIONS], scratch[DIMENSIONS], centre[DIMENSIONS],
        slow[DIMENSIONS];
    float published[DIMENSIONS];
};

struct cluster {
    uint32_t size;
    const struct spotnik_sync_strategy *strategy;
    struct node node[CLUSTER_MAX];
    float store[DIMENSIONS];
    float rate;    /* of plain SGD */
    double noise;  /* of gradients */
    double spread; /* of the members' own optima around the common one */
    struct spotnik_prng prng;
};

/* All at the same starting point, far from the optimum. */
void cluster_start(struct cluster *cluster, const struct spotnik_sync_strategy *strategy,
                   uint32_t size, uint64_t seed);

/* All run this strategy from the next step on; their models are equal. */
void cluster_enter(struct cluster *cluster, const struct spotnik_sync_strategy *strategy);

/* One step of everybody together. */
void cluster_step(struct cluster *cluster);

/* One step of one member, alone: the strategy must be asynchronous. */
void cluster_turn(struct cluster *cluster, uint32_t rank);

/* Compute a member's gradient at its model. */
void cluster_gradient(struct cluster *cluster, uint32_t rank);

/* Largest distance of an element of the mean model from the optimum; and of any replica from the
 * mean model. */
double cluster_error(const struct cluster *cluster);
double cluster_disagreement(const struct cluster *cluster);

#endif
