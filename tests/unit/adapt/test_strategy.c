/* SPDX-License-Identifier: Apache-2.0 */
/* Every strategy on a quadratic with noisy gradients and data that differ between members: the mean
 * of the replicas comes to the optimum within a stated tolerance; which bits are equal; and each
 * one's rule, on numbers computed by hand. */
#include <math.h>
#include <string.h>

#include "cluster.h"
#include "tests.h"

static struct cluster cluster;

struct expectation {
    const struct spotnik_sync_strategy *strategy;
    double error;        /* of the mean model, from 13 at the start */
    double disagreement; /* between replicas and their mean */
};

/* Members' own optima are 0.2 away from the common one, so replicas that are pulled together weakly
 * stand apart; and who happens to take more turns of late (ASP) pulls the model to its own optimum.
 * Noise alone leaves 0.02 with one member. */
static const struct expectation expected[] = {
    { &spotnik_sync_ssgd, 0.03, 0 },     { &spotnik_sync_lookahead, 0.03, 0 },
    { &spotnik_sync_sma, 0.03, 0.05 },   { &spotnik_sync_easgd, 0.03, 0.12 },
    { &spotnik_sync_localsgd, 0.03, 0 }, { &spotnik_sync_adpsgd, 0.04, 0.03 },
    { &spotnik_sync_asp, 0.09, 0.07 },   { &spotnik_sync_hogwild, 0.09, 0.07 },
};
#define EXPECTED (sizeof expected / sizeof *expected)

/* Asynchronous members take turns at random. */
static void one_step(struct cluster *c)
{
    if (c->strategy->synchronous) {
        cluster_step(c);
        return;
    }
    for (uint32_t n = 0; n < c->size; n++) {
        uint32_t rank = (uint32_t)spotnik_prng_below(&c->prng, c->size);
        cluster_turn(c, rank);
    }
}

static void train(struct cluster *c, int steps)
{
    for (int n = 0; n < steps; n++) {
        c->rate = n < steps / 2 ? 0.1f : 0.01f;
        one_step(c);
    }
}

/* Claim: 4000 steps, sizes 1 to 8, three seeds: the mean of the replicas is within its tolerance of
 * the optimum. */
TEST(converges)
{
    for (size_t s = 0; s < EXPECTED; s++)
        for (uint32_t size = 1; size <= CLUSTER_MAX; size++)
            for (uint64_t seed = 1; seed <= 3; seed++) {
                cluster_start(&cluster, expected[s].strategy, size, seed);
                train(&cluster, 4000);
                double error = cluster_error(&cluster), apart = cluster_disagreement(&cluster);
                if (error > expected[s].error || apart > expected[s].disagreement + 1e-9)
                    print_error("%s, size %u: %g from the optimum, %g apart\n",
                                expected[s].strategy->name, size, error, apart);
                assert_true(error <= expected[s].error);
                assert_true(apart <= expected[s].disagreement + 1e-9);
            }
}

static bool all_equal(const float *first, size_t stride)
{
    for (uint32_t r = 1; r < cluster.size; r++)
        if (memcmp(first, (const char *)first + r * stride, DIMENSIONS * sizeof(float)) != 0)
            return false;
    return true;
}

/* Claim: where it says same_bits, replicas are bit-identical after every step; in all other
 * synchronous strategies the centre is, and the replicas are not (else the claim about the centre
 * would say nothing). */
TEST(bits)
{
    for (size_t s = 0; s < EXPECTED; s++) {
        const struct spotnik_sync_strategy *strategy = expected[s].strategy;
        bool models_differed = false;
        if (!strategy->synchronous)
            continue;
        cluster_start(&cluster, strategy, 5, 7);
        for (int n = 0; n < 500; n++) {
            cluster_step(&cluster);
            bool models = all_equal(cluster.node[0].model, sizeof cluster.node[0]);
            models_differed = models_differed || !models;
            assert_true(models || !strategy->same_bits);
            assert_true(strategy->same_bits
                        || all_equal(cluster.node[0].centre, sizeof cluster.node[0]));
        }
        assert_true(models_differed == !strategy->same_bits);
    }
}

/* Two members, first element only; no noise, rate 1, gradients as given. */
static void by_hand(const struct spotnik_sync_strategy *strategy, float x0, float x1)
{
    cluster_start(&cluster, strategy, 2, 1);
    cluster.node[0].model[0] = x0;
    cluster.node[1].model[0] = x1;
    cluster.rate = 0;
}

/* Claim: S-MA moves each replica a tenth of the way to the mean. */
TEST(sma_rule)
{
    by_hand(&spotnik_sync_sma, 10, 20);
    cluster_step(&cluster);
    assert_true(fabs(cluster.node[0].model[0] - 10.5) < 1e-5);
    assert_true(fabs(cluster.node[1].model[0] - 19.5) < 1e-5);
    assert_true(cluster.node[0].centre[0] == 15);
}

/* Claim: EA-SGD with beta 0.9 and two members: alpha 0.45, both from the centre before the step;
 * nothing in between. */
TEST(easgd_rule)
{
    by_hand(&spotnik_sync_easgd, 10, 20);
    cluster.node[0].centre[0] = cluster.node[1].centre[0] = 12;
    for (int n = 0; n < 3; n++)
        cluster_step(&cluster);
    assert_true(cluster.node[0].model[0] == 10 && cluster.node[0].centre[0] == 12);
    cluster_step(&cluster);
    assert_true(fabs(cluster.node[0].model[0] - (10 - 0.45 * (10 - 12))) < 1e-5);
    assert_true(fabs(cluster.node[1].model[0] - (20 - 0.45 * (20 - 12))) < 1e-5);
    assert_true(fabs(cluster.node[1].centre[0] - (12 + 0.9 * (15 - 12))) < 1e-5);
}

/* Claim: Local SGD leaves replicas alone for period - 1 steps, then all take the mean. */
TEST(localsgd_rule)
{
    by_hand(&spotnik_sync_localsgd, 10, 20);
    for (int n = 0; n < 7; n++)
        cluster_step(&cluster);
    assert_true(cluster.node[0].model[0] == 10 && cluster.node[1].model[0] == 20);
    cluster_step(&cluster);
    assert_true(cluster.node[0].model[0] == 15 && cluster.node[1].model[0] == 15);
}

/* Claim: Lookahead goes back half the way it has come in five steps. */
TEST(lookahead_rule)
{
    cluster_start(&cluster, &spotnik_sync_lookahead, 2, 1);
    float before = cluster.node[0].model[0], fast;
    for (int n = 0; n < 4; n++)
        cluster_step(&cluster);
    struct cluster plain = cluster; /* the fifth step without the way back */
    plain.strategy = &spotnik_sync_ssgd;
    for (uint32_t r = 0; r < 2; r++) {
        struct node *node = &plain.node[r];
        struct spotnik_sync_replica *replica = &node->replica;
        node->cluster = &plain;
        node->use.context = node;
        replica->model = node->model;
        replica->gradient = node->gradient;
        replica->scratch = node->scratch;
    }
    cluster_step(&plain);
    fast = plain.node[0].model[0];
    cluster_step(&cluster);
    assert_true(fast != before && fabs(cluster.node[0].model[0] - (before + fast) / 2) < 1e-5);
}

/* Claim: one-sided AD-PSGD takes the mean with what the peer has published, and leaves the peer
 * alone. */
TEST(adpsgd_rule)
{
    by_hand(&spotnik_sync_adpsgd, 10, 20);
    cluster.node[1].published[0] = 18;
    cluster_turn(&cluster, 0);
    assert_true(cluster.node[0].model[0] == 14 && cluster.node[0].published[0] == 14);
    assert_true(cluster.node[1].model[0] == 20 && cluster.node[1].published[0] == 18);
}

/* Claim: peers are chosen from all others alike, and never oneself (the driver asserts that); in
 * the same step no two members choose the same. */
TEST(peers)
{
    uint32_t chosen[4] = { 0 };

    cluster_start(&cluster, &spotnik_sync_adpsgd, 4, 3);
    for (int n = 0; n < 4000; n++) {
        bool asked[4] = { false };
        for (uint32_t rank = 0; rank < 4; rank++) {
            cluster_turn(&cluster, rank);
            assert_false(asked[cluster.node[rank].asked.peer]);
            asked[cluster.node[rank].asked.peer] = true;
        }
        chosen[cluster.node[2].asked.peer]++;
    }
    assert_int_equal(chosen[2], 0);
    assert_in_range(chosen[3], 1230, 1440);
    assert_in_range(chosen[0], 1230, 1440);
    assert_in_range(chosen[1], 1230, 1440);
}

/* Claim: a member that nobody answers goes on by itself, to its own optimum, in every asynchronous
 * strategy. */
TEST(nobody_answers)
{
    for (size_t s = 0; s < EXPECTED; s++) {
        if (expected[s].strategy->synchronous)
            continue;
        cluster_start(&cluster, expected[s].strategy, 2, 9);
        cluster.node[0].deaf = true;
        for (int n = 0; n < 2000; n++) {
            cluster.rate = n < 1000 ? 0.1f : 0.01f;
            cluster_turn(&cluster, 0);
        }
        assert_true(fabs(cluster.node[0].model[0] - 3.2) < 0.05);
    }
}

/* Claim: strategies are found by their names, and only by them. */
TEST(names)
{
    for (size_t s = 0; s < EXPECTED; s++)
        assert_ptr_equal(spotnik_sync_find(expected[s].strategy->name), expected[s].strategy);
    assert_null(spotnik_sync_find("adps"));
    assert_null(spotnik_sync_find(""));
}
