/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster of cluster.h. Operations are noted when they are started and done at once when the
 * step is complete; what is averaged is added in the order of ranks, once, and copied to all. */
#include "cluster.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

static double optimum(int i)
{
    return 3 - 0.5 * i;
}

static double curvature(int i)
{
    return 0.5 + i / (double)DIMENSIONS;
}

static double normal(struct spotnik_prng *prng)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += (double)(spotnik_prng_next(prng) >> 11) / 9007199254740992.0;
    return sum;
}

static void average(void *context, float *data, uint64_t count)
{
    (void)count;
    ((struct node *)context)->asked.average = data;
}

static void pull(void *context, uint32_t rank, float *ret, uint64_t count)
{
    struct node *node = context;

    (void)count;
    SPOTNIK_ASSERT(rank < node->cluster->size && rank != node->replica.rank);
    node->asked.pulled = ret;
    node->asked.peer = rank;
}

static void publish(void *context, const float *model, uint64_t count)
{
    spotnik_sync_copy(((struct node *)context)->published, model, count);
}

static void push(void *context, const float *update, uint64_t count)
{
    struct cluster *cluster = ((struct node *)context)->cluster;

    for (uint64_t i = 0; i < count; i++)
        cluster->store[i] += update[i];
}

static void fetch(void *context, float *ret, uint64_t count)
{
    (void)count;
    ((struct node *)context)->asked.fetched = ret;
}

static float *common(void *context, const float *initial, uint64_t count)
{
    struct node *node = context;

    (void)initial;
    (void)count;
    return node->deaf ? NULL : node->cluster->store;
}

static void apply(void *context, float *model, const float *gradient, uint64_t count)
{
    float rate = ((struct node *)context)->cluster->rate;

    for (uint64_t i = 0; i < count; i++)
        model[i] -= rate * gradient[i];
}

static void node_start(struct cluster *cluster, uint32_t rank, uint64_t seed)
{
    struct node *node = &cluster->node[rank];

    node->cluster = cluster;
    node->use = (struct spotnik_sync_primitives){ node, average, pull,   publish,
                                                  push, fetch,   common, apply };
    node->replica = (struct spotnik_sync_replica){
        .count = DIMENSIONS,
        .model = node->model,
        .gradient = node->gradient,
        .scratch = node->scratch,
        .centre = node->centre,
        .slow = node->slow,
        .rank = rank,
        .size = cluster->size,
    };
    spotnik_prng_seed(&node->replica.prng, seed * 1000 + rank);
    for (int i = 0; i < DIMENSIONS; i++)
        node->model[i] = -10;
}

void cluster_enter(struct cluster *cluster, const struct spotnik_sync_strategy *strategy)
{
    for (uint32_t r = 0; r < cluster->size; r++) {
        struct node *node = &cluster->node[r];
        node->replica.options = strategy->options;
        spotnik_sync_copy(node->centre, node->model, DIMENSIONS);
        if (strategy->enter)
            strategy->enter(&node->replica, &node->use);
    }
}

void cluster_start(struct cluster *cluster, const struct spotnik_sync_strategy *strategy,
                   uint32_t size, uint64_t seed)
{
    SPOTNIK_ASSERT(size <= CLUSTER_MAX);
    *cluster = (struct cluster){
        .size = size, .strategy = strategy, .rate = 0.1f, .noise = 0.1, .spread = 0.2
    };
    spotnik_prng_seed(&cluster->prng, seed);
    for (int i = 0; i < DIMENSIONS; i++)
        cluster->store[i] = -10;
    for (uint32_t r = 0; r < size; r++)
        node_start(cluster, r, seed);
    cluster_enter(cluster, strategy);
}

/* Member k's own optimum: +spread, -spread, ..., and none for the last of an odd number. */
static double shift(const struct cluster *cluster, uint32_t rank)
{
    if (rank + 1 == cluster->size && cluster->size % 2)
        return 0;
    return rank % 2 ? -cluster->spread : cluster->spread;
}

void cluster_gradient(struct cluster *cluster, uint32_t rank)
{
    struct node *node = &cluster->node[rank];

    for (int i = 0; i < DIMENSIONS; i++) {
        double from = node->model[i] - optimum(i) - shift(cluster, rank);
        node->gradient[i] = (float)(curvature(i) * from + cluster->noise * normal(&cluster->prng));
    }
}

static void complete_average(struct cluster *cluster)
{
    float sum[DIMENSIONS] = { 0 };

    if (cluster->node[0].asked.average == NULL)
        return;
    for (uint32_t r = 0; r < cluster->size; r++)
        for (int i = 0; i < DIMENSIONS; i++)
            sum[i] += cluster->node[r].asked.average[i];
    for (uint32_t r = 0; r < cluster->size; r++)
        for (int i = 0; i < DIMENSIONS; i++)
            cluster->node[r].asked.average[i] = sum[i] / (float)cluster->size;
}

/* What a member has started with single members. */
static void complete_own(struct cluster *cluster, struct node *node)
{
    node->replica.arrived = !node->deaf;
    if (node->deaf)
        return;
    if (node->asked.pulled)
        spotnik_sync_copy(node->asked.pulled, cluster->node[node->asked.peer].published,
                          DIMENSIONS);
    if (node->asked.fetched)
        spotnik_sync_copy(node->asked.fetched, cluster->store, DIMENSIONS);
}

static void begin(struct cluster *cluster, uint32_t rank)
{
    struct node *node = &cluster->node[rank];

    node->replica.step++;
    cluster_gradient(cluster, rank);
    node->asked = (struct asked){ 0 };
    cluster->strategy->begin(&node->replica, &node->use);
}

void cluster_step(struct cluster *cluster)
{
    for (uint32_t r = 0; r < cluster->size; r++)
        begin(cluster, r);
    complete_average(cluster);
    for (uint32_t r = 0; r < cluster->size; r++) {
        complete_own(cluster, &cluster->node[r]);
        cluster->strategy->finish(&cluster->node[r].replica, &cluster->node[r].use);
    }
}

void cluster_turn(struct cluster *cluster, uint32_t rank)
{
    SPOTNIK_ASSERT(!cluster->strategy->synchronous);
    begin(cluster, rank);
    complete_own(cluster, &cluster->node[rank]);
    cluster->strategy->finish(&cluster->node[rank].replica, &cluster->node[rank].use);
}

static double mean_of(const struct cluster *cluster, int i)
{
    double sum = 0;

    for (uint32_t r = 0; r < cluster->size; r++)
        sum += cluster->node[r].model[i];
    return sum / cluster->size;
}

double cluster_error(const struct cluster *cluster)
{
    double most = 0;

    for (int i = 0; i < DIMENSIONS; i++)
        most = fmax(most, fabs(mean_of(cluster, i) - optimum(i)));
    return most;
}

double cluster_disagreement(const struct cluster *cluster)
{
    double most = 0;

    for (uint32_t r = 0; r < cluster->size; r++)
        for (int i = 0; i < DIMENSIONS; i++)
            most = fmax(most, fabs(cluster->node[r].model[i] - mean_of(cluster, i)));
    return most;
}
