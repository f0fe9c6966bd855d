/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a calibration table tells a chance that is a probability from one that is not. */
#include "plan/draw.h"
#include "tables/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "tests.h"

/* One right forecaster in twenty is called wrong by its worst decile; by single deciles it would be
 * four in ten. */
TEST(right_forecasters_are_called_right)
{
    enum { STARTS = 2000, TABLES = 60 };
    struct spotnik_forecast *f = calloc(STARTS, sizeof(*f));
    struct spotnik_reliability r;
    struct spotnik_prng prng;
    unsigned wrong = 0, some = 0;

    spotnik_prng_seed(&prng, 7);
    for (unsigned table = 0; table < TABLES; table++) {
        for (unsigned i = 0; i < STARTS; i++) {
            double chance = spotnik_draw_uniform(&prng);
            f[i] = (struct spotnik_forecast){ .chance = chance,
                                              .came_true = spotnik_draw_uniform(&prng) < chance,
                                              .block = i / 20 };
        }
        assert_int_equal(spotnik_calibration_judge(f, STARTS, 200, 1, &r), 0);
        wrong += r.worse_by_chance < 0.05;
        some += r.held < r.judged;
    }
    assert_true(wrong <= 9);
    assert_true(some >= 12 && some > 2 * wrong);
    /* too few to tell: then it says so */
    assert_int_equal(spotnik_calibration_judge(f, 100, 200, 1, &r), 0);
    assert_true(r.wide == r.judged);
    free(f);
}

/* Chances that are what comes true, and such that claim too much. */
TEST(tables_tell_good_from_bad)
{
    enum { STARTS = 4000 };
    struct spotnik_forecast *f = calloc(STARTS, sizeof(*f));
    struct spotnik_reliability r;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 5);
    for (unsigned i = 0; i < STARTS; i++) {
        double chance = spotnik_draw_uniform(&prng);
        f[i] = (struct spotnik_forecast){ .chance = chance,
                                          .came_true = spotnik_draw_uniform(&prng) < chance,
                                          .block = i / 20 };
    }
    assert_int_equal(spotnik_calibration_judge(f, STARTS, 500, 1, &r), 0);
    assert_int_equal(r.judged, 10);
    assert_true(r.held >= 9 && r.brier < 0.18 && r.wide == 0);
    assert_true(r.deciles[3].low < r.deciles[3].came_true
                && r.deciles[3].came_true < r.deciles[3].high);
    for (unsigned i = 0; i < STARTS; i++)
        f[i].chance = sqrt(f[i].chance); /* boasts */
    assert_int_equal(spotnik_calibration_judge(f, STARTS, 500, 1, &r), 0);
    assert_true(r.held <= 3 && r.worse_by_chance < 0.01);
    /* blocks that go together say less: the interval of a decile is wider */
    double width[2];
    for (unsigned together = 0; together < 2; together++) {
        spotnik_prng_seed(&prng, 6);
        for (unsigned i = 0; i < STARTS; i++) {
            bool came = spotnik_draw_uniform(&prng) < 0.5;
            f[i] = (struct spotnik_forecast){ .chance = 0.55,
                                              .came_true =
                                                  together && i % 20 ? f[i - 1].came_true : came,
                                              .block = i / 20 };
        }
        spotnik_calibration_judge(f, STARTS, 500, 1, &r);
        width[together] = r.deciles[5].high - r.deciles[5].low;
    }
    assert_true(width[1] > 2.5 * width[0]);
    free(f);
}
