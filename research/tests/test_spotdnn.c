/* SPDX-License-Identifier: Apache-2.0 */
/* spotDNN: the published example, the convergence coefficients, and the exact search against brute
 * force. */
#include "tables/model_spotdnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests.h"

TEST(example)
{
    const struct spotnik_spotdnn_type types[] = {
        { "p3.2xlarge", 1, 0.918, 1885, 1024, 2 }, { "g4dn.4xlarge", 1, 0.3612, 750, 1024, 5 },
        { "g3.8xlarge", 2, 0.684, 1018, 1024, 5 }, { "g3.16xlarge", 4, 1.5676, 1995, 2048, 8 },
        { "p2.8xlarge", 8, 2.16, 2115, 8192, 5 },
    };
    const struct spotnik_spotdnn_goal goal = { 0.9, 1900, 0 };
    const unsigned wanted[] = { 2, 0, 2, 0, 0 };
    struct spotnik_spotdnn_search search;
    unsigned count[5];

    assert_int_equal(spotnik_spotdnn_upper(&spotnik_spotdnn_resnet110), 13);
    assert_int_equal(spotnik_spotdnn_window(&spotnik_spotdnn_resnet110, types, 5, &goal, count,
                                            &search, NULL),
                     0);
    assert_true(search.found);
    assert_memory_equal(count, wanted, sizeof(wanted));
    assert_true(fabs(search.result.time_s / 1876 - 1) < 0.01);
    assert_int_equal(spotnik_spotdnn_exact(&spotnik_spotdnn_resnet110, types, 5, &goal, count,
                                           &search, NULL),
                     0);
    assert_true(search.proved);
    assert_memory_equal(count, wanted, sizeof(wanted));
}

TEST(coefficients)
{
    const double fig2[] = { 3, 1 }, vgg[] = { 0.64, 0.36 }, g3[] = { 1, 2 };
    const struct {
        const double *speed;
        unsigned count[2];
        double printed;
    } cases[] = {
        { fig2, { 7, 3 }, 0.93 }, { fig2, { 5, 5 }, 0.90 }, { fig2, { 3, 7 }, 0.87 },
        { vgg, { 0, 2 }, 0.71 },  { vgg, { 0, 3 }, 0.82 },  { vgg, { 0, 4 }, 0.87 },
        { vgg, { 1, 1 }, 0.51 },  { vgg, { 2, 1 }, 0.75 },  { g3, { 1, 3 }, 0.83 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        double r = spotnik_convergence_coefficient(cases[i].speed, cases[i].count, 2);
        if (fabs(r - cases[i].printed) >= 0.01)
            fail_msg("case %zu: %.4f, printed %.2f", i, r, cases[i].printed);
    }
    /* the printed .59 for [0,0,1,2,0]: two equal fastest workers cannot be below sqrt(1/2) */
    const unsigned impossible[] = { 1, 2 };
    assert_true(spotnik_convergence_coefficient(g3, impossible, 2) > 0.707);
}

struct brute {
    const struct spotnik_spotdnn_model *model;
    const struct spotnik_spotdnn_type *types;
    const struct spotnik_spotdnn_goal *goal;
    size_t type_count;
    unsigned count[8], left;
    double best;
};

static void brute_force(struct brute *b, size_t type)
{
    if (type == b->type_count) {
        struct spotnik_spotdnn_result r =
            spotnik_spotdnn_evaluate(b->model, b->types, b->count, b->type_count, b->goal);
        if (r.workers && r.time_s <= b->goal->deadline_s)
            b->best = fmin(b->best, r.cost_usd);
        return;
    }
    for (unsigned n = 0; n <= b->types[type].quota && n <= b->left; n++) {
        b->count[type] = n;
        b->left -= n;
        brute_force(b, type + 1);
        b->left += n;
    }
    b->count[type] = 0;
}

/* A type from a seeded generator: speed, batch and price vary independently, so that no type
 * dominates. */
static struct spotnik_spotdnn_type random_type(unsigned quota)
{
    double speed = 300 + random() % 2700, batch = 256 << (random() % 5);

    return (struct spotnik_spotdnn_type){
        "t", 1, speed / 1500 * (0.4 + (double)(random() % 1000) / 700), speed, batch, quota
    };
}

TEST(exact_is_exact)
{
    struct spotnik_spotdnn_model paper = spotnik_spotdnn_resnet110;
    unsigned found = 0;

    paper.gamma4 = 0.2;
    for (unsigned seed = 1; seed <= 60; seed++) {
        struct spotnik_spotdnn_type types[5];
        srandom(seed);
        for (size_t i = 0; i < 5; i++)
            types[i] = random_type(1 + (unsigned)random() % 4);
        struct spotnik_spotdnn_goal goal = { 0.8 + 0.01 * (double)(random() % 100),
                                             700 + (double)(random() % 2000), 0 };
        struct brute brute = { .model = seed % 2 ? &paper : &spotnik_spotdnn_resnet110,
                               .types = types,
                               .goal = &goal,
                               .type_count = 5,
                               .left = 13,
                               .best = INFINITY };
        struct spotnik_spotdnn_search window, exact;
        unsigned count[5];
        brute_force(&brute, 0);
        assert_int_equal(spotnik_spotdnn_window(brute.model, types, 5, &goal, count, &window, NULL),
                         0);
        assert_int_equal(spotnik_spotdnn_exact(brute.model, types, 5, &goal, count, &exact, NULL),
                         0);
        assert_int_equal(exact.found, isfinite(brute.best));
        if (!exact.found)
            continue;
        found++;
        if (fabs(exact.result.cost_usd - brute.best) > 1e-9 * brute.best)
            fail_msg("seed %u: %.9f, brute force %.9f", seed, exact.result.cost_usd, brute.best);
        assert_true(!window.found || exact.result.cost_usd <= window.result.cost_usd);
    }
    assert_true(found > 20);
}

TEST(exact_is_fast)
{
    const struct {
        size_t types;
        unsigned quota;
        double seconds;
    } sizes[] = { { 7, 10, 1 }, { 70, 1, 1 }, { 100, 10, 10 }, { 1000, 1, 10 } };
    const double deadlines_s[] = { 1500, 450, 250 };
    static struct spotnik_spotdnn_type types[1000];
    static unsigned count[1000];
    struct spotnik_spotdnn_search search;

    for (size_t i = 0; i < 4; i++) {
        srandom(7);
        for (size_t j = 0; j < sizes[i].types; j++)
            types[j] = random_type(sizes[i].quota);
        for (int hard = 0; hard < 3; hard++) {
            const struct spotnik_spotdnn_goal goal = { 0.9, deadlines_s[hard], 0 };
            clock_t start = clock();
            assert_int_equal(spotnik_spotdnn_exact(&spotnik_spotdnn_resnet110, types,
                                                   sizes[i].types, &goal, count, &search, NULL),
                             0);
            double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
            print_message("%zu types x %u, deadline %.0f s: %.3f s, %s%s, $%.4f, %u workers\n",
                          sizes[i].types, sizes[i].quota, goal.deadline_s, seconds,
                          search.found ? "found" : "none", search.proved ? ", proved" : "",
                          search.result.cost_usd, search.result.workers);
            assert_true(search.proved);
            assert_true(seconds < sizes[i].seconds);
        }
    }
}

TEST(explains)
{
    const struct spotnik_spotdnn_type type = { "p", 1, 1, 1885, 1024, 13 };
    const struct spotnik_spotdnn_goal goal = { 0.9, 100, 0 };
    struct spotnik_spotdnn_type none = type;
    struct spotnik_fault fault;

    assert_int_equal(spotnik_spotdnn_explain(&spotnik_spotdnn_resnet110, &type, 1, &goal, &fault),
                     -1);
    assert_non_null(strstr(fault.text, "the deadline binds"));
    none.quota = 0;
    spotnik_spotdnn_explain(&spotnik_spotdnn_resnet110, &none, 1, &goal, &fault);
    assert_non_null(strstr(fault.text, "the quota binds"));
}
