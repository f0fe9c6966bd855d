/* SPDX-License-Identifier: Apache-2.0 */
/* Switching: one step of its own, a function of committed steps alone, and the replicas are the
 * same bits after it. */
#include "adapt/switch.h"

#include <string.h>

#include "cluster.h"
#include "tests.h"

#define S SPOTNIK_SYNC_SYNCHRONOUS
#define A SPOTNIK_SYNC_ASYNCHRONOUS

/* Claim: the story of two switches. */
TEST(story)
{
    struct spotnik_sync_switch sw = { 0 };

    assert_int_equal(spotnik_sync_switch_commit(&sw, 1, S), SPOTNIK_SYNC_ACT_RUN);
    assert_int_equal(spotnik_sync_switch_commit(&sw, 2, A), SPOTNIK_SYNC_ACT_PART);
    assert_true(sw.mode == A && sw.switched_step == 3);
    assert_int_equal(spotnik_sync_switch_commit(&sw, 3, A), SPOTNIK_SYNC_ACT_RUN);
    assert_int_equal(spotnik_sync_switch_commit(&sw, 4, S), SPOTNIK_SYNC_ACT_AVERAGE);
    assert_int_equal(spotnik_sync_switch_commit(&sw, 5, A),
                     SPOTNIK_SYNC_ACT_RUN); /* waits for the switch to be done */
    assert_int_equal(spotnik_sync_switch_commit(&sw, 6, A), SPOTNIK_SYNC_ACT_PART);
    assert_int_equal(sw.switches, 3);
}

/* Claim: a joiner that copies the state at any step goes on exactly like the members. */
TEST(joiner)
{
    struct spotnik_sync_switch member = { 0 }, joiner = { 0 };
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 2);
    for (uint64_t step = 1; step <= 1000; step++) {
        enum spotnik_sync_mode wish = spotnik_prng_chance(&prng, 1, 5) ? A : S;
        if (spotnik_prng_chance(&prng, 1, 10) || step == 1)
            joiner = member;
        assert_int_equal(spotnik_sync_switch_commit(&member, step, wish),
                         spotnik_sync_switch_commit(&joiner, step, wish));
        assert_memory_equal(&member, &joiner, sizeof member);
    }
}

static struct cluster cluster;

static bool same_bits(void)
{
    for (uint32_t r = 1; r < cluster.size; r++)
        if (memcmp(cluster.node[0].model, cluster.node[r].model, sizeof cluster.node[0].model) != 0)
            return false;
    return true;
}

/* The act AVERAGE as a driver performs it: the mean of the models, once, to all. */
static void average_models(void)
{
    for (int i = 0; i < DIMENSIONS; i++) {
        float sum = 0;
        for (uint32_t r = 0; r < cluster.size; r++)
            sum += cluster.node[r].model[i];
        for (uint32_t r = 0; r < cluster.size; r++)
            cluster.node[r].model[i] = sum / (float)cluster.size;
    }
}

static void run(const struct spotnik_sync_strategy *strategy, int steps)
{
    cluster.strategy = strategy;
    cluster_enter(&cluster, strategy);
    for (int n = 0; n < steps; n++) {
        if (strategy->synchronous)
            cluster_step(&cluster);
        for (uint32_t r = 0; r < cluster.size && !strategy->synchronous; r++)
            cluster_turn(&cluster, r);
    }
}

/* Claim: S-SGD, AD-PSGD, average, S-SGD: the same bits before, not in between, again after (P4),
 * and the optimum is reached. */
TEST(there_and_back)
{
    cluster_start(&cluster, &spotnik_sync_ssgd, 5, 4);
    run(&spotnik_sync_ssgd, 100);
    assert_true(same_bits());
    run(&spotnik_sync_adpsgd, 100);
    assert_false(same_bits());
    average_models();
    run(&spotnik_sync_ssgd, 1);
    assert_true(same_bits());
    cluster.rate = 0.01f;
    run(&spotnik_sync_ssgd, 1000);
    assert_true(same_bits() && cluster_error(&cluster) < 0.02);
}
